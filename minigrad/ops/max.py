"""max over any axes; ties share the gradient."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import broadcast
from minigrad.op import OPS
from minigrad.ops import reduction
from minigrad.ops.elementwise import per_element


def forward(x: np.ndarray, axis: reduction.Axis = None, keepdims: bool = False) -> np.ndarray:
    """y = the largest x over the axes; NaN if any is NaN"""
    return x.max(axis=axis, keepdims=keepdims)


def backward(dy: np.ndarray, x: np.ndarray, y: np.ndarray, axis: tuple) -> tuple:
    """dx = dy / (number of ties) where x = y, else 0"""
    shape = reduction.reduced_shape(x.shape, axis, keepdims=True)
    ties = x == y.reshape(shape)
    return (np.where(ties, dy.reshape(shape), x.dtype.type(0)) / ties.sum(axis=axis, keepdims=True, dtype=x.dtype),)


kernels = {
    "warp": reduction.per_output("max.cu", "max_warp", 256),
    "columns": reduction.per_column("max.cu", "max_columns"),
    "vectorized": reduction.per_output("max.cu", "max_vectorized", 256),
    "lanes": reduction.per_lanes("max.cu", "max_lanes"),
    "strips": reduction.per_strip("max.cu", "max_strips"),
    "backward_ties": per_element("max.cu", "max_ties", "size", reduction.first(256)),
    "backward": per_element("max.cu", "max_backward", "size", reduction.first(256)),
}


def prepare(name: str, x: Any, axis: reduction.Axis = None, keepdims: bool = False) -> dict[str, Any]:
    """Complete the parameters. Raises ValueError for the maximum of no elements."""
    params = reduction.prepare(name, x, axis, keepdims)
    if any(x.shape[axis] == 0 for axis in params["axis"]):
        raise ValueError(f"{name}: shape {x.shape} has no elements along axis {params['axis']}, so no maximum.")
    return params


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, x: Array, y: Array, axis: tuple) -> tuple:
    """Mark the ties, count them with sum, split the gradient."""
    view = broadcast(reduction.reduced_shape(x.shape, axis, keepdims=True), x.shape)
    ties, dx = (Array.empty(x.device, x.shape, dtype) for dtype in (wide(x.dtype), x.dtype))
    kernels["backward_ties"].launch(x.size)(x, y, ties, view, x.size)
    number = OPS["sum"].run([ties], {"axis": axis, "keepdims": True})
    kernels["backward"].launch(x.size)(dy, ties, number, dx, view, x.size)
    return (dx,)


FAST = {"warp": "vectorized", "short": "lanes", "columns": "strips", "few": "columns"}
max = reduction.reduction("max", forward, backward, reduction.reduce, launch_backward, kernels, FAST, prepare, "NCHW")
