"""Requests, sectors and wavefronts of rows of accesses."""

import numpy as np
import pytest

from minigrad.lab.show import accesses as pictures
from minigrad.microscope.counts import group, sectors, wavefronts


def rows(offset, size=4, thread=None):
    made = np.zeros(
        len(offset),
        [
            ("thread", "u2"),
            ("bytes", "u4"),
            ("offset", "i8"),
            *((n, "u4") for n in ("block", "phase", "warp_ops", "iteration")),
        ],
    )
    made["offset"], made["bytes"], made["thread"] = offset, size, np.arange(len(offset)) if thread is None else thread
    return made


@pytest.mark.parametrize(
    "words, passes",
    [
        (range(32), 1),
        (range(0, 64, 2), 2),
        ([7] * 32, 1),
        (range(0, 32 * 33, 33), 1),
        (range(0, 1024, 32), 32),
        ([0, 32] * 16, 2),
    ],
)
def test_passes_over_the_banks(words, passes):
    made = rows(4 * np.array(words))
    requests = group(made, np.zeros(32, np.int64))
    every, none = np.ones(32, bool), np.zeros(32, bool)
    assert [part.tolist() for part in wavefronts(requests, made, every, none)] == [[passes], [1]]


def test_atomics_of_one_word_take_turns():
    made = rows(np.zeros(32, int))
    requests = group(made, np.zeros(32, np.int64))
    every = np.ones(32, bool)
    assert wavefronts(requests, made, every, every)[0].tolist() == [32]


@pytest.mark.parametrize(
    "size, atomic", [(1, False), (2, False), (4, False), (4, True), (8, False), (8, True), (16, False)]
)
def test_the_picture_of_the_banks_has_as_many_wavefronts(size, atomic):
    rng = np.random.default_rng(0)
    for extent in (4, 40, 400):
        for lanes in (1, 17, 32):
            made = rows(size * rng.integers(0, extent, lanes), size, np.sort(rng.choice(32, lanes, replace=False)))
            requests, every = group(made, np.zeros(lanes, np.int64)), np.ones(lanes, bool)
            drawn = pictures.wavefronts(made, atomic)
            passes, _ = wavefronts(requests, made, every, every & atomic)
            assert passes.tolist() == [1 + max(row for row, _ in drawn)]


def test_a_sector_that_two_lanes_touch_counts_once_and_an_access_may_touch_two():
    made = rows(np.array([0, 4, 28, 30, 64]))
    requests = group(made, np.zeros(5, np.int64))
    assert [part.tolist() for part in sectors(requests, made, np.ones(5, bool))] == [[3], [1]]


def test_lanes_of_different_warps_and_different_rounds_are_different_requests():
    made = rows(np.zeros(128, int), thread=np.tile(np.arange(64), 2))
    requests = group(made, np.zeros(128, np.int64))
    assert requests.count == 4 and requests.lanes().tolist() == [32] * 4
