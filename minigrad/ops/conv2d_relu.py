"""conv2d_relu: relu(conv2d(x, w, bias) + residual), a residual block for inference, without the arrays between."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Pair, Sides, Window
from minigrad.op import OPS, Case, Op
from minigrad.ops import conv2d as plain
from minigrad.ops import relu
from minigrad.ops.conv2d.kernels import FAST, kernels


def forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, residual: np.ndarray | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1, precision: str = "float32",
) -> np.ndarray:  # fmt: skip
    """y = relu(conv2d(x, w, bias) + residual)"""
    y = plain.forward(x, w, bias, stride, padding, dilation, groups, precision)
    return relu.forward(y if residual is None else y + residual)


def backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, y: np.ndarray, shapes: tuple, needs: tuple, stride: Pair,
    padding: Sides, dilation: Pair, groups: int, precision: str,
) -> tuple:  # fmt: skip
    """dresidual = dy where y > 0, else 0; the others are the gradients of conv2d for that"""
    (dz,) = relu.backward(dy, y)
    grads = plain.backward(dz, x, w, shapes[:3], needs, stride, padding, dilation, groups, precision)
    return (*grads, dz)[: len(shapes)]


def launch(kernels: dict[str, Kernel], *arrays: Array, **params: Any) -> Array:
    """As conv2d, with relu."""
    return plain.launch(kernels, *arrays, relu=True, **params)


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, x: Array, w: Array, y: Array, shapes: tuple, *params: Any
) -> tuple:
    """The gradient of relu, then those of conv2d."""
    dz = OPS["relu"].vjp([y], dy, {})[0]
    return (*plain.launch_backward(kernels, needs[:3], dz, x, w, shapes[:3], *params), dz)[: len(shapes)]


def prepare(x: Any, w: Any, bias: Any, residual: Any = None, **params: Any) -> dict[str, Any]:
    """As conv2d does. Raises TypeError and ValueError, also for a residual that is not like y."""
    params = plain.prepare(x, w, bias, **params)
    at = Window.over(x.shape, w.shape[-2:], params["stride"], params["padding"], params["dilation"])
    shape = (x.shape[0], w.shape[0], at.out_height, at.out_width)
    if residual is not None and (residual.shape, residual.dtype) != (shape, x.dtype):
        raise ValueError(
            f"conv2d_relu: the residual is {residual.dtype} {residual.shape}; it must be {x.dtype} {shape}, as y."
        )
    return params


def cost(x: Any, w: Any, bias: Any, residual: Any = None, **params: Any) -> tuple[int, int]:
    """As conv2d, with a comparison for each element and an addition with a residual, which is read once."""
    flops, nbytes = plain.cost(x, w, bias, **params)
    outputs = nbytes // x.dtype.itemsize - x.size - w.size - bias.size
    more = 0 if residual is None else residual.size
    return flops + outputs + more, nbytes + more * x.dtype.itemsize


conv2d_relu = Op(
    "conv2d_relu",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    uses=("w", "x", "", ""),
    cost=cost,
    fast=FAST,
    rounds=True,
    integers=True,
    layouts="any",
    cases=[
        Case(((2, 3, 5, 7), (4, 3, 3, 2), (4,)), {"padding": 1}),
        Case(((2, 3, 5, 7), (4, 3, 3, 2), (4,), (2, 4, 5, 8)), {"padding": ((1, 1), (1, 1))}),
        Case(((2, 4, 8, 7), (6, 2, 3, 2), (6,), (2, 6, 4, 3)), {"groups": 2, "stride": 2, "padding": ((1, 0), (0, 0))}),
        Case(((2, 8, 5, 6), (12, 8, 3, 3), (12,), (2, 12, 5, 6)), {"padding": 1}, channels_last=True),
        Case(((0, 3, 5, 7), (4, 3, 3, 2), (4,), (0, 4, 3, 6))),
    ],
)
