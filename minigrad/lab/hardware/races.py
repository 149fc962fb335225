"""Kernels with a race in shared memory, and the same without: for the microscope and for compute-sanitizer."""

import numpy as np

from minigrad.create import tensor
from minigrad.kernels.source_kernel import kernel

_SUM = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    for (int half = 128; half > 0; half /= 2) {
        BARRIER
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[0] = s[0];
}"""
_TURN = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    for (int round = 0; round < 4; ++round) {
        s[threadIdx.x] = x[threadIdx.x] + round;
        FIRST
        y[threadIdx.x] += s[255 - threadIdx.x];
        SECOND
    }
}"""
_SAME = """extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[1];
    WHO s[0] = 1;
    __syncthreads();
    y[threadIdx.x] = s[0];
}"""
_BARRIER = "__syncthreads();"
# By name: True if it races, and its text.
KERNELS = {
    "sum": (False, _SUM.replace("BARRIER", _BARRIER)),
    "sum without barrier": (True, _SUM.replace("BARRIER", "")),
    "turn": (False, _TURN.replace("FIRST", _BARRIER).replace("SECOND", _BARRIER)),
    "turn without first barrier": (True, _TURN.replace("FIRST", "").replace("SECOND", _BARRIER)),
    "turn without second barrier": (True, _TURN.replace("FIRST", _BARRIER).replace("SECOND", "")),
    "one writes": (False, _SAME.replace("WHO", "if (threadIdx.x == 0)")),
    "all write": (True, _SAME.replace("WHO", "")),
}


def run(name: str, device: str) -> None:
    """Launch one of KERNELS with a block of 256 threads."""
    x, y = (tensor(np.zeros(256, np.float32), device=device) for _ in range(2))
    kernel(KERNELS[name][1], "k")(x, y, grid=1, block=256)
