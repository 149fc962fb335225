"""bias_gelu_tanh: gelu_tanh of a layer's product and its bias, so that their sum is never written."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.devices.layouts import typed
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import gelu_tanh
from minigrad.ops.column_sums import launch_rows, row_maker, total
from minigrad.ops.elementwise import launch_over, per_four

FILE = "gelu_tanh.cu"


def forward(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """y = gelu_tanh(x + bias), x (..., columns), bias (columns,)"""
    return gelu_tanh.forward(x.astype(bias.dtype, copy=False) + bias).astype(x.dtype, copy=False)


def backward(dy: np.ndarray, x: np.ndarray, bias: np.ndarray) -> tuple:
    """dx = dy times the slope of gelu_tanh at x + bias, dbias = the sum of dx over all rows"""
    (dx,) = gelu_tanh.backward(dy.astype(bias.dtype, copy=False), x.astype(bias.dtype, copy=False) + bias)
    return dx.astype(x.dtype, copy=False), dx.sum(tuple(range(dx.ndim - 1)))


def launch(kernels: Mapping[str, Kernel], x: Array, bias: Array) -> Array:
    """One kernel."""
    y = Array.empty(x.device, x.shape, x.dtype)
    launch_over(kernels["forward"], x.size, x.dtype)(x, bias, y, max(bias.size, 1), x.size)
    return y


def launch_backward(kernels: Mapping[str, Kernel], needs: tuple, dy: Array, x: Array, bias: Array) -> tuple:
    """One kernel for dx and the sums of its blocks, and those together."""
    dx = Array.empty(x.device, x.shape, x.dtype)
    run, parts = launch_rows(kernels["backward"], dx, bias.dtype if needs[1] else None)
    run(typed(dy, x.dtype), x, bias, dx, parts, bias.size, prod(x.shape[:-1]))
    return dx, total(parts) if parts else None


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
    kernels={
        "forward": per_four(FILE, "bias_gelu_tanh_forward"),
        "backward": row_maker(FILE, "bias_gelu_tanh_backward"),
    },
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
