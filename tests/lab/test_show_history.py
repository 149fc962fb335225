"""The accesses of one thread in the order of time, against what the kernel's text says."""

from functools import cache

import numpy as np
import pytest
from show_pictures import fits

import minigrad as mg
from minigrad.lab.show.history import _spans

WALK = """
extern "C" __global__ void walk(const float* x, float* y, float* z, int n) {
    for (int j = 0; j < n; ++j) y[threadIdx.x * n + n - 1 - j] = x[j];
    atomicAdd(&z[0], x[0]);
}
"""


@cache
def walked(n=5):
    return mg.inspect(WALK, np.ones(n, np.float32), np.zeros(2 * n, np.float32), np.zeros(1, np.float32), n,
                      grid=1, block=2)  # fmt: skip


def rows(picture):
    return [tuple(line.split(maxsplit=3)) for line in picture.numbers.splitlines()[1:]]


def test_a_thread_is_followed_forwards_and_backwards():
    assert rows(mg.show.timeline(walked())) == [
        ("x", "read", "6", "0..4, 0"), ("y", "write", "5", "4..0"), ("z", "atomic", "1", "0"),
    ]  # fmt: skip
    assert rows(mg.show.timeline(walked(), thread=1, only=["y"])) == [("y", "write", "5", "9..5")]


@pytest.mark.parametrize("n", [1, 40])
def test_the_picture_fits_and_shows_each_access_at_its_time(n):
    picture = mg.show.timeline(walked(n), only=["z", "x"])
    fits(picture)
    below, above = picture.figure.axes
    assert (below.get_ylabel(), above.get_ylabel()) == ("z", "x")
    marks = [line for line in above.lines if line.get_marker() == "o"]
    assert [*marks[0].get_ydata()] == [*range(n), 0] and [*marks[0].get_xdata()] == [*range(n), n]
    assert f"{n + 2} accesses" in picture.title


def test_what_was_not_touched_is_named():
    with pytest.raises(ValueError, match=r"only='w' must be among x, y, z"):
        mg.show.timeline(walked(), only="w")
    with pytest.raises(ValueError, match="thread 2 of the first block of walk touches no array"):
        mg.show.timeline(walked(), thread=2)
    with pytest.raises(TypeError, match=r"timeline takes a record of mg\.inspect"):
        mg.show.timeline("walk")


@pytest.mark.parametrize(
    ("elements", "told"),
    [([], ""), ([7], "7"), ([0, 1, 2, 2, 1, 0], "0..2, 2..0"), ([0, 2, 4], "0..4 by 2"), ([3, 3, 3], "3 x3"),
     ([4, 9], "4, 9"), ([0, 9, 18, 9, 18, 18, 9], "0..18 by 9, 9, 18, 18, 9"), ([8, 4, 5, 6], "8, 4..6"),
     ([0, 1, 0, 1], "0..1, 0..1"), ([1, 0, 5, 5, 6], "1..0, 5, 5..6"),
     ([6, 7, 7, 7, 7, 6], "6..7, 7 x3, 6"), ([1, 2, 2, 2, 1, 0], "1..2, 2, 2..0")],
)  # fmt: skip
def test_runs_of_neighbors(elements, told):
    assert _spans(elements) == told


@pytest.mark.parametrize("m", [1, 8, 20])
def test_a_tape_is_filled_forwards_and_read_backwards(m):
    """Every eighth round of the loop is stored; each part of eight is run again, and then reversed."""
    x = np.linspace(1, 2, m, dtype=np.float32)
    made = mg.adjoint(mg.adjoint.ladder("product"))
    (record,) = made.inspect(x, np.zeros(1, np.float32), 1, m, dy=[np.ones(1, np.float32)], grid=1, block=1)
    spans = {row[:2]: row[3] for row in rows(mg.show.timeline(record))}
    one = "0" if m == 1 else f"{m - 1}..0"
    assert spans["d_x", "write"] == one
    parts = (m + 7) // 8
    assert spans["p_tape", "write"] == (f"0..{parts - 1}" if parts > 1 else "0")
    assert spans["p_tape", "read"] == (f"{parts - 1}..0" if parts > 1 else "0")
