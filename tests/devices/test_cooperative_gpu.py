"""Cooperative launches on `cuda`, over a fake driver: the launch's attribute, and the number of blocks that fit."""

import numpy as np
import pytest
from persistent import SMOOTH, begin, counter, on, run, smoothed

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import spec_of
from minigrad.errors import LaunchError
from minigrad.replay.launches import Program

MOST = 114 * (256 // 64)  # blocks of 64 threads on the multiprocessors of the fake GPU


def test_a_launch_has_the_attribute(driver, gpu):
    run(SMOOTH, 20, 64, 3, gpu)  # on fewer cores than blocks: without the attribute it would not end
    assert driver.calls["occupancy"] == 1


def test_so_has_a_replayed_launch(driver, gpu):
    n, start = 123, begin(123)

    def steps(arrays):
        gpu_or_recording = arrays[1].device
        gpu_or_recording.zero(arrays[1].address, arrays[1].nbytes)
        SMOOTH(arrays[0], arrays[1], n, 2, grid=4, block=32)
        return [arrays[0]]

    specs = [spec_of(gpu, (2 * n,), np.dtype(np.float32)), spec_of(gpu, (1,), np.dtype(np.uint32))]
    program = Program(steps, specs)
    y, arrived = on(gpu, start).array, counter(gpu).array
    for replays in (1, 2, 3):
        program([y, arrived])
        np.testing.assert_array_equal(y.numpy()[:n], smoothed(start[:n], 2 * replays))
    assert (driver.calls["occupancy"], driver.calls["launch"]) == (1, 3)


def test_so_has_a_captured_launch(driver, gpu):
    n, arrived = 123, counter(gpu)

    def step(x):
        y = x * 1
        gpu.zero(arrived.array.address, 4)
        SMOOTH(y, arrived, n, 2, grid=4, block=32)
        return y

    fast = mg.graph(step)
    for seed in range(4):
        start = begin(n) + seed
        np.testing.assert_array_equal(fast(on(gpu, start)).numpy()[:n], smoothed(start[:n], 2))
    assert fast.replays > 1


@pytest.mark.parametrize("grid", [MOST, MOST + 1])
def test_more_blocks_than_the_multiprocessors_hold_are_rejected(driver, gpu, grid, monkeypatch):
    monkeypatch.setattr(type(get("sim")), "launch", lambda *args: None)  # which stands for the GPU and holds fewer
    y, arrived = on(gpu, begin(8)), counter(gpu)
    if grid == MOST:
        SMOOTH(y, arrived, 8, 1, grid=grid, block=64)
    else:
        with pytest.raises(LaunchError, match=rf"smooth: {grid} blocks are to .*; Fake runs {MOST} at once"):
            SMOOTH(y, arrived, 8, 1, grid=grid, block=64)
    assert driver.calls.get("launch", 0) == (grid == MOST)


def test_a_block_that_does_not_fit_at_all_is_rejected(driver, gpu):
    with pytest.raises(LaunchError, match=r"Fake runs 0 at once\. Choose a smaller block"):
        SMOOTH(on(gpu, begin(8)), counter(gpu), 8, 1, grid=1, block=512)
