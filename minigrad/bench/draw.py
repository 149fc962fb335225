"""Draw: arrays of random numbers, made on the device where they are needed."""

from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.kernel import Kernel
from minigrad.launch import ceil_div
from minigrad.source import CUDA, Source

TEXT = """
#include "common.cuh"

// A hash of a number: all of its bits change when one of them does.
__device__ unsigned mixed(unsigned h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

// x[i] = a number from low to high.
extern "C" __global__ void spread(real* x, real low, real high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (high - low) * ((mixed(i + 77777u * seed) >> 8) * real(0x1p-24));
}

// x[i] = a whole number from low up to high, which is left out.
extern "C" __global__ void spread_whole(int* x, int low, int high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (int)(mixed(i + 77777u * seed) % (unsigned)(high - low));
}
"""
SOURCE = Source(TEXT, "spread.cu", CUDA)
SPREAD, SPREAD_WHOLE = Kernel(SOURCE, "spread"), Kernel(SOURCE, "spread_whole")


class Draw:
    """Numbers drawn on a device: uploading as many would take longer than measuring."""

    def __init__(self, device: Any, dtype: str = "float32"):
        self.device, self.dtype, self._seed = device, np.dtype(dtype), 0

    def _drawn(self, kernel: Kernel, dtype: np.dtype, count: int, low: float, high: float) -> Array:
        x = Array.empty(self.device, (count,), dtype)
        self._seed += 1
        kernel(x, low, high, self._seed, count, grid=ceil_div(count, 256), block=256)
        return x

    def real(self, count: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Numbers spread evenly from low to high."""
        return self._drawn(SPREAD, self.dtype, count, low, high)

    def whole(self, count: int, low: int, high: int) -> Array:
        """Whole numbers from low up to high, which is left out."""
        return self._drawn(SPREAD_WHOLE, np.dtype(np.int32), count, low, high)

    def given(self, host: np.ndarray) -> Array:
        """An array of the host, as floats of this dtype or as whole numbers."""
        return Array.upload(self.device, host.astype(self.dtype if host.dtype.kind == "f" else np.int32))
