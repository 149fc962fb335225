"""Cooperative launches on `sim`: blocks that wait for each other, more of them than the machine has cores."""

import numpy as np
import pytest
from persistent import IN_TURN, ROTATE, SMOOTH, TEXT, begin, counter, on, run

import minigrad as mg
from minigrad.devices import get
from minigrad.errors import KernelError, LaunchError
from minigrad.source import CUDA


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("blocks", [1, 2, 8, 33, 64])
def test_blocks_wait_for_each_other_at_every_step(blocks, workers, monkeypatch):
    monkeypatch.setattr(get("sim"), "workers", workers)
    run(SMOOTH, blocks, 32, 20)
    run(SMOOTH, blocks, 7, 3, dtype=np.float64)


def test_many_threads_wake_all_workers_at_once(monkeypatch):
    monkeypatch.setattr(get("sim"), "workers", 3)
    run(SMOOTH, 33, 128, 10)


@pytest.mark.parametrize("workers", [1, 3])
def test_blocks_may_wait_in_any_pattern(workers, monkeypatch):
    monkeypatch.setattr(get("sim"), "workers", workers)
    x = np.arange(1000, dtype=np.float64)
    total = mg.tensor(np.zeros(1), device="sim")
    IN_TURN(mg.tensor(x, device="sim"), total, counter(), 1000, grid=40, block=1)
    assert total.item() == x.sum()


def test_each_block_has_its_own_shared_memory(monkeypatch):
    monkeypatch.setattr(get("sim"), "workers", 2)
    y = mg.tensor(np.zeros(8 * 40, np.int32), device="sim")
    ROTATE(y, counter(), 3, grid=40, block=8, shared=32)
    np.testing.assert_array_equal(y.numpy().reshape(-1, 8), np.roll(np.arange(320).reshape(-1, 8), -3, axis=1))


def test_an_own_kernel_is_cooperative_if_it_says_so():
    kernel = mg.kernel(TEXT, "smooth", cooperative=True)
    run(kernel, 6, 32, 4)
    assert kernel.using().cooperative and not mg.kernel(TEXT, "smooth").cooperative
    with pytest.raises(TypeError, match=r"mg.kernel smooth: cooperative .*True or False"):
        mg.kernel(TEXT, "smooth", cooperative="no")


@pytest.mark.parametrize(("threads", "most"), [(1, 132), (124, 132), (128, 128), (1024, 16)])
def test_more_blocks_than_run_at_once_are_rejected_with_the_number(threads, most):
    y, arrived = on(get("sim"), begin(8)), counter()
    match = (
        rf"smooth: {most + 1} blocks are to wait for each other; 'sim' runs {most} at once. Choose a grid of at most"
    )
    with pytest.raises(LaunchError, match=match):
        SMOOTH(y, arrived, 8, 1, grid=most + 1, block=threads)
    SMOOTH(y, arrived, 8, 1, grid=most, block=threads)
    assert arrived.item() == most


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 1.0)


def test_a_barrier_that_expects_too_many_is_stopped_and_explained(impatient):
    text = TEXT.replace("gridDim.x, t)", "gridDim.x + 1, t)")
    y, arrived = on(get("sim"), begin(96)), counter()
    with pytest.raises(KernelError, match=r"3 of 3 blocks wait for memory to change.* arrive as often as") as caught:
        mg.kernel(text, "smooth", cooperative=True)(y, arrived, 96, 2, grid=3, block=32)
    assert caught.value.kind == "timeout" and "while (atomicAdd(counter, 0)" in line(caught.value.line)
    run(SMOOTH, 12, 32, 5)  # the blocks that were left are used again


def line(number: int) -> str:
    return (CUDA / "grid_barrier.cuh").read_text().splitlines()[number - 1]


def test_a_wait_that_lets_no_other_block_begin_is_stopped_and_explained(impatient, monkeypatch):
    monkeypatch.setattr(get("sim"), "workers", 1)
    text = """extern "C" __global__ void k(unsigned* counter) {
    atomicAdd(counter, 1);
    while (*(volatile unsigned*)counter < gridDim.x) {}
}"""
    with pytest.raises(KernelError, match=r"1 of 3 blocks have begun, and the others wait for their turn") as caught:
        mg.kernel(text, "k", cooperative=True)(counter(), grid=3, block=1)
    assert "__nanosleep()" in str(caught.value)


def test_without_it_the_way_out_is_named(impatient):
    y, arrived = on(get("sim"), begin(4096)), counter()
    with pytest.raises(KernelError, match=r"mg.kernel\(..., cooperative=True\)"):
        mg.kernel(TEXT, "smooth")(y, arrived, 4096, 2, grid=128, block=32)


def test_a_fault_in_one_block_ends_all_and_names_it():
    text = TEXT.replace("[t % 2 * n + i] = (", "[t % 2 * n + i + (blockIdx.x == 5 && t == 3) * 1000000] = (")
    y, arrived = on(get("sim"), begin(320)), counter()
    with pytest.raises(KernelError, match="past the end of y") as caught:
        mg.kernel(text, "smooth", cooperative=True)(y, arrived, 320, 4, grid=10, block=32)
    assert caught.value.block == (5, 0, 0)
    run(SMOOTH, 20, 32, 5)
