"""The device `cuda` over a driver that is played: what it makes of the driver's errors can be tested without a GPU."""

import numpy as np
import pytest
from played import CONTEXT

from minigrad.devices.array import Array
from minigrad.devices.cuda.memory import piece_size
from minigrad.errors import KernelError, LaunchError
from minigrad.kernels.arguments import bind
from minigrad.kernels.kernel import Kernel

RELU = Kernel("relu.cu", "relu_forward")


def launch(gpu):
    x, y = (Array.empty(gpu, (4,), np.dtype(np.float32)) for _ in range(2))
    arguments = bind("relu_forward", RELU.signature.params, (x, y, 4)).arguments
    gpu.launch(gpu.build(RELU.source, {}), "relu_forward", (1, 1, 1), (32, 1, 1), 0, arguments)


def test_a_refused_launch_names_its_registers_and_harms_nothing(driver, gpu):
    driver.refuses = "launch"
    with pytest.raises(
        LaunchError, match=r"relu_forward: the GPU refused grid=\(1, 1, 1\).* 255 registers.* 1024 bytes"
    ):
        launch(gpu)
    driver.refuses = ""
    launch(gpu)
    gpu.synchronize()


@pytest.mark.parametrize("call", ["get_function", "mem_alloc"])
def test_a_refused_call_harms_nothing(driver, gpu, call):
    driver.refuses = call
    with pytest.raises(LaunchError, match=f"Played refused: .*{call} failed"):
        launch(gpu)
    driver.refuses = ""
    launch(gpu)


def test_after_a_fault_every_call_says_so_and_names_the_kernel(driver, gpu):
    launch(gpu)
    driver.lost = True
    for _ in range(2):
        with pytest.raises(KernelError, match=r"relu_forward: .*restart the Jupyter kernel"):
            gpu.allocate(1 << 20)
    with pytest.raises(KernelError, match="relu_forward"):
        gpu.synchronize()


def test_no_context_is_left_behind(driver, gpu):
    launch(gpu)
    assert driver.current == 0
    driver.lost = True
    with pytest.raises(KernelError):
        gpu.synchronize()
    assert driver.current == 0


def test_a_launch_leaves_the_context_of_others_as_it_is(driver, gpu):
    other = driver.thread = 5
    launch(gpu)
    assert driver.thread == other and driver.current == 0
    driver.thread = None
    launch(gpu)
    assert driver.thread == CONTEXT


def test_the_pool_hands_out_what_came_back(driver, gpu):
    first = gpu.allocate(1000)
    address = first.address
    del first
    again, other = gpu.allocate(600), gpu.allocate(1024)
    assert again.address == address != other.address and len(driver.taken) == 2
    assert (gpu.memory.pool.held, gpu.memory.pool.free) == (2048, 0)
    del again, other
    assert (gpu.memory.pool.held, gpu.memory.pool.free) == (2048, 2048)


def test_a_full_gpu_gets_back_what_the_pool_holds(driver, gpu):
    del_me = gpu.allocate(5000)
    del del_me
    assert len(driver.taken) == 1
    failing = iter([True, False])

    def mem_alloc(nbytes):
        if next(failing):
            raise driver.MemoryError("full")
        return type(driver).mem_alloc(driver, nbytes)

    driver.mem_alloc = mem_alloc
    gpu.allocate(1 << 20)
    assert [memory.whole._length_ - 512 for memory in driver.taken] == [(1 << 20) + 1]


@pytest.mark.parametrize("nbytes", [1, 511, 512, 513, 5000, 2**20, 2**20 + 1, 3 * 10**9])
def test_a_piece_wastes_an_eighth_at_most(nbytes):
    size = piece_size(nbytes)
    assert size % 512 == 0 and nbytes <= size <= max(512, nbytes * 9 / 8 + 512)


def test_what_is_in_use_at_the_end_is_given_back_too(driver, gpu):
    kept = gpu.allocate(100)
    gpu.close()
    assert not driver.taken and kept.nbytes == 100
