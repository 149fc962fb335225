"""bias_gelu_tanh: gelu_tanh of a layer's product and its bias, so that their sum is never written."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.kernels.kernel import Kernel
from minigrad.layouts import typed
from minigrad.op import OPS, Case, Op
from minigrad.ops import gelu_tanh
from minigrad.ops.elementwise import launch_over, per_four
from minigrad.ops.reduction import reduce

FILE = "gelu_tanh.cu"


def forward(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """y = gelu_tanh(x + bias), x (..., columns), bias (columns,)"""
    return gelu_tanh.forward(x.astype(bias.dtype, copy=False) + bias).astype(x.dtype, copy=False)


def backward(dy: np.ndarray, x: np.ndarray, bias: np.ndarray) -> tuple:
    """dx = dy times the slope of gelu_tanh at x + bias, dbias = the sum of dx over all rows"""
    (dx,) = gelu_tanh.backward(dy.astype(bias.dtype, copy=False), x.astype(bias.dtype, copy=False) + bias)
    dx = dx.astype(x.dtype, copy=False)
    return dx, dx.astype(bias.dtype, copy=False).sum(tuple(range(dx.ndim - 1)))


def launch(kernels: Mapping[str, Kernel], x: Array, bias: Array) -> Array:
    """One kernel."""
    y = Array.empty(x.device, x.shape, x.dtype)
    launch_over(kernels["forward"], x.size, x.dtype)(x, bias, y, max(bias.size, 1), x.size)
    return y


def launch_backward(kernels: Mapping[str, Kernel], needs: tuple, dy: Array, x: Array, bias: Array) -> tuple:
    """One kernel for dx, and its sums."""
    dx = Array.empty(x.device, x.shape, x.dtype)
    run = launch_over(kernels["backward"], x.size, x.dtype)
    run(typed(dy, x.dtype), x, bias, dx, max(bias.size, 1), x.size)
    return dx, column_sums(dx, bias.dtype) if needs[1] else None


def column_sums(dx: Array, dtype: np.dtype) -> Array:
    """The sums over all rows of (..., columns), in this dtype."""
    return reduce(OPS["sum"].running, dx, tuple(range(dx.ndim - 1)), False, 1, dtype=dtype)


def prepare(x: Any, bias: Any) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes: with x in bfloat16 the bias is float32."""
    must_be_floats("bias_gelu_tanh", x)
    if not x.ndim or bias.shape != x.shape[-1:]:
        raise ValueError(f"bias_gelu_tanh: x is {x.shape}, bias {bias.shape}; it must be a row of x.")
    if bias.dtype != wide(x.dtype):
        raise TypeError(f"bias_gelu_tanh: x is {x.dtype}, bias {bias.dtype}; it must be {wide(x.dtype)}.")
    return {}


bias_gelu_tanh = Op(
    "bias_gelu_tanh",
    forward,
    backward,
    kernels={way: per_four(FILE, f"bias_gelu_tanh_{way}") for way in ("forward", "backward")},
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    integers=True,
    widens=False,
    cost=lambda x, bias: (9 * x.size, 2 * x.size * x.dtype.itemsize + bias.size * bias.dtype.itemsize * bool(x.size)),
    backward_flops=2,
    cases=[
        *(Case((shape, shape[-1:])) for shape in ((1,), (3, 5), (2, 3, 8), (33, 36), (5, 260), (0, 4), (3, 0))),
        Case(((9, 5), (5,)), nan=True),
    ],
)
