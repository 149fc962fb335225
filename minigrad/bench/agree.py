"""How far a result on a device is from NumPy's, worked out on the device: a benchmark's arrays are large."""

from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.kernel import Kernel
from minigrad.source import CUDA, Source

TEXT = """
// thread -> every so many elements. The largest distance, as the bits of a float of at least 0, which are ordered as
// whole numbers are; what is no number is infinitely far.
extern "C" __global__ void furthest(const float* got, const float* wanted, int* bits, long long n) {
    float most = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        float off = fabsf(got[i] - wanted[i]);
        most = off <= most ? most : off == off ? off : 1.0f / 0.0f;
    }
    atomicMax(bits, __float_as_int(most));
}
"""
furthest = Kernel(Source(TEXT, "furthest.cu", CUDA), "furthest")


class Reference:
    """NumPy's result, on the host and, once it is compared with, on the device too."""

    def __init__(self, device: Any, host: np.ndarray):
        self.device, self.host = device, host
        self.size = max(1e-30, float(np.abs(host.astype(np.float32, copy=False)).max(initial=0)))
        self._array: Array | None = None

    def error(self, got: Array) -> float:
        """The largest distance of an element, as a share of the largest element; infinite for NaN or another shape."""
        if got.shape != self.host.shape or got.dtype != self.host.dtype:
            return np.inf
        if got.dtype != np.float32:
            if np.array_equal(host := got.numpy(), self.host):
                return 0.0
            off = np.abs(host.astype(np.float64) - self.host.astype(np.float64))
            return float(off.max(initial=0)) / self.size if np.isfinite(off).all() else np.inf
        self._array = self._array or Array.upload(self.device, self.host)
        bits = Array.zeros(self.device, (1,), np.dtype(np.int32))
        furthest(got, self._array, bits, got.size, grid=1024, block=256)
        return float(bits.numpy().view(np.float32)[0]) / self.size
