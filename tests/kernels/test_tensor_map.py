"""Tensor maps: the driver encodes one for the array of each launch (over a fake driver)."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.tensor_map import TensorMap
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.replay.launches import Program
from minigrad.source import CUDA, Source

PEEK = Kernel(
    Source(
        """
struct alignas(64) TensorMap { unsigned long long word[16]; };
extern "C" __global__ void peek(const __grid_constant__ TensorMap map, long long* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = map.word[threadIdx.x];
}
""",
        "peek.cu",
        CUDA,
    ),
    "peek",
    grid=("1",),
    block=("32",),
)
BFLOAT16, RANK = 9, 3


def bits(gpu, *shape):
    """An array of 2 bytes per element, like bfloat16."""
    return Array.empty(gpu, shape, np.dtype(np.int16))


def peek(x, y):
    PEEK.launch()(TensorMap(x, (2, 40, 24), (1, 32, 64)), y, 16)
    return (y,)


def wanted(x):
    return [BFLOAT16, RANK, x.address, 24, 40, 2, 48, 1920, 64, 32, 1, 1, 1, 1, 0, 3]


def test_the_driver_gets_the_innermost_axis_first(gpu):
    x, y = bits(gpu, 2, 40, 24), Array.empty(gpu, (16,), np.dtype(np.int64))
    peek(x, y)
    assert y.numpy().tolist() == wanted(x)


def test_a_replay_encodes_a_map_of_its_own_array(gpu):
    y = Array.empty(gpu, (16,), np.dtype(np.int64))
    first = bits(gpu, 2, 40, 24)
    program = Program(lambda xs: peek(*xs), [first.spec, y.spec])
    for x in (first, bits(gpu, 2, 40, 24), first):
        program([x, y])
        assert y.numpy().tolist() == wanted(x)


def test_a_map_that_the_driver_rejects(gpu):
    with pytest.raises(LaunchError, match=r"no tensor map of \(2, 40, 25\) in boxes of \(1, 32, 64\).* 16 bytes"):
        PEEK.launch()(
            TensorMap(bits(gpu, 2, 40, 25), (2, 40, 25), (1, 32, 64)), Array.empty(gpu, (16,), np.dtype(np.int64)), 16
        )


def test_a_tensor_is_no_tensor_map():
    x = mg.ones(4, 4, device="sim")
    with pytest.raises(TypeError, match=r"peek: argument 1 \(const TensorMap map\)"):
        PEEK.launch()(x, mg.zeros(16, device="sim", dtype="int64"), 16)
