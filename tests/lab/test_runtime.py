"""The CUDA runtime's calls in Python: what they copy, and what they refuse."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import KernelError
from minigrad.lab.runtime import CudaError

TRIPLE = """
extern "C" __global__ void triple(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i];
}
"""
N = 300


@pytest.fixture
def triple():
    return mg.kernel(TRIPLE, "triple")


@pytest.fixture
def cuda():
    return mg.Runtime()


def test_a_program_copies_launches_and_frees(cuda, triple):
    x, result = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    dx, dy = cuda.cudaMalloc(x.nbytes), cuda.cudaMalloc(x.nbytes)
    cuda.cudaMemcpy(dx, x, x.nbytes, cuda.cudaMemcpyHostToDevice)
    cuda.launch(triple, 2, 256, dx, dy, N)
    cuda.cudaMemcpy(result, dy, x.nbytes, cuda.cudaMemcpyDeviceToHost)
    assert np.array_equal(result, 3 * x)
    assert (cuda.copied(), cuda.copied("cudaMemcpyDeviceToHost"), len(cuda.live)) == (2400, 1200, 2)
    cuda.cudaFree(dx)
    cuda.cudaFree(dy)
    assert not cuda.live
    assert "triple                  <<<2, 256>>>" in repr(cuda) and "2400 bytes between host and device" in repr(cuda)


def test_a_part_of_an_array_is_copied(cuda):
    x, back = np.arange(N, dtype=np.float32), np.full(N, -1, np.float32)
    first, second = cuda.cudaMalloc(x.nbytes), cuda.cudaMalloc(x.nbytes)
    cuda.cudaMemcpy(first, x, N, cuda.cudaMemcpyHostToDevice)  # as many bytes as there are elements
    cuda.cudaMemcpy(second, first, x.nbytes, cuda.cudaMemcpyDeviceToDevice)
    cuda.cudaMemcpy(back, second, x.nbytes, cuda.cudaMemcpyDeviceToHost)
    assert np.array_equal(back[: N // 4], x[: N // 4]) and np.isnan(back[N // 4 :]).all()
    assert cuda.copied() == 5 * N, "a copy within the device does not count"


def test_memory_has_room_for_each_of_its_bytes(cuda):
    host, back = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    memory = cuda.cudaMalloc(6)
    assert memory.array.nbytes >= 6
    cuda.cudaMemcpy(memory, host, 6, cuda.cudaMemcpyHostToDevice)
    cuda.cudaMemcpy(back, memory, 6, cuda.cudaMemcpyDeviceToHost)
    assert back.tobytes()[:6] == host.tobytes()[:6]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c, k, x, d: c.cudaMemcpy(x, d, 4, c.cudaMemcpyHostToDevice), "`to` has to be memory of the device"),
        (lambda c, k, x, d: c.cudaMemcpy(x, x, 4, c.cudaMemcpyDeviceToHost), "`source` has to be memory of the device"),
        (lambda c, k, x, d: c.cudaMemcpy(d, d, 4, c.cudaMemcpyHostToDevice), "`source` has to be memory of the host"),
        (lambda c, k, x, d: c.cudaMemcpy(d, x, 1204, c.cudaMemcpyHostToDevice), "1204 bytes, and `to` has 1200"),
        (lambda c, k, x, d: c.cudaMemcpy(d, x, 4, "there"), "cudaErrorInvalidMemcpyDirection"),
        (lambda c, k, x, d: c.cudaMemcpy(x[::2], d, 4, c.cudaMemcpyDeviceToHost), "`to` has its elements apart"),
        (lambda c, k, x, d: c.cudaMemcpy(x.reshape(20, 15).T, d, 4, c.cudaMemcpyDeviceToHost), "`to` has its elements"),
        (lambda c, k, x, d: c.cudaMemcpy(d, x[::2], 4, c.cudaMemcpyHostToDevice), "`source` has its elements apart"),
        (lambda c, k, x, d: c.launch(k, 2, 256, x, d, N), "array of the host"),
        (lambda c, k, x, d: c.launch(k, 0, 256, d, d, N), "cudaErrorInvalidConfiguration: triple: grid.x=0"),
        (lambda c, k, x, d: c.launch(k, 1, 2048, d, d, N), "cudaErrorInvalidConfiguration: triple: block.x=2048"),
        (lambda c, k, x, d: [c.cudaFree(d), c.cudaFree(d)], "memory that is freed"),
    ],
)
def test_a_wrong_call_is_refused(cuda, triple, call, words):
    x = np.zeros(N, np.float32)
    with pytest.raises(CudaError, match=r"^cudaError") as found:
        call(cuda, triple, x, cuda.cudaMalloc(x.nbytes))
    assert words in str(found.value)


def test_elements_in_place_of_bytes_are_too_little_memory(cuda, triple):
    dx, dy = cuda.cudaMalloc(4 * N), cuda.cudaMalloc(N)
    with pytest.raises(KernelError, match="past the end of y"):
        cuda.launch(triple, 2, 256, dx, dy, N)
