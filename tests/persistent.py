"""Persistent kernels, whose blocks meet at a barrier of the grid, and the same steps by NumPy."""

import numpy as np

from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.source import CUDA, Source
from minigrad.tensor import Tensor

TEXT = """#include "grid_barrier.cuh"
// y[t][i] = (y[t-1][i-1] + 2 y[t-1][i] + y[t-1][i+1]) / 4 on a ring; y holds two steps. thread -> one element.
extern "C" __global__ void smooth(real* y, unsigned* counter, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int t = 1; t <= steps; ++t) {
        const real* from = y + (t - 1) % 2 * n;
        if (i < n) y[t % 2 * n + i] = (from[(i + n - 1) % n] + 2 * from[i] + from[(i + 1) % n]) / 4;
        grid_barrier(counter, gridDim.x, t);
    }
}

// total[0] = the sum of x, by blocks that add their parts in turn: block b waits for block b - 1. One thread a block.
extern "C" __global__ void in_turn(const real* x, real* total, unsigned* turn, int n) {
    real part = 0;
    for (int i = blockIdx.x; i < n; i += gridDim.x) part += x[i];
    while (atomicAdd(turn, 0) != blockIdx.x) {}
    __threadfence();
    total[0] += part;
    __threadfence();
    atomicAdd(turn, 1);
}

// Shared memory is each block's own, although blocks of one core take turns.
extern "C" __global__ void rotate(int* y, unsigned* counter, int steps) {
    __shared__ int mine[8];
    extern __shared__ int more[];
    int t = threadIdx.x;
    mine[t] = more[7 - t] = 8 * blockIdx.x + t;
    for (int step = 1; step <= steps; ++step) {
        grid_barrier(counter, gridDim.x, step);
        int next = mine[(t + 1) % 8], other = more[7 - (t + 1) % 8];
        __syncthreads();
        mine[t] = next, more[7 - t] = other;
    }
    y[8 * blockIdx.x + t] = mine[t] == more[7 - t] ? mine[t] : -1;
}
"""
FILE = Source(TEXT, "persistent.cu", CUDA)
SMOOTH, IN_TURN, ROTATE = (Kernel(FILE, name, cooperative=True) for name in ("smooth", "in_turn", "rotate"))


def smoothed(y: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        y = (np.roll(y, 1) + 2 * y + np.roll(y, -1)) / 4
    return y


def begin(n: int, dtype=np.float32) -> np.ndarray:
    """Random numbers, and room for a second step."""
    start = np.zeros(2 * n, dtype)
    start[:n] = np.random.default_rng(n).random(n)
    return start


def on(device, host: np.ndarray) -> Tensor:
    return Tensor(Array.upload(device, host))


def counter(device=None) -> Tensor:
    return on(device or get("sim"), np.zeros(1, np.uint32))


def run(kernel: Kernel, blocks: int, threads: int, steps: int, device=None, dtype=np.float32) -> None:
    """The kernel's last step is NumPy's to the last bit."""
    n = max(blocks * threads - 5, 1)
    start, device = begin(n, dtype), device or get("sim")
    y, arrived = on(device, start), counter(device)
    kernel(y, arrived, n, steps, grid=blocks, block=threads)
    np.testing.assert_array_equal(y.numpy()[steps % 2 * n :][:n], smoothed(start[:n], steps))
    assert arrived.item() == blocks * steps
