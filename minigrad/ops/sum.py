"""sum over any axes: four ways to add up many numbers with many threads."""

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.layouts import in_layout
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import broadcast
from minigrad.ops import reduction
from minigrad.ops.elementwise import launch_over, per_element, per_four


def forward(x: np.ndarray, axis: reduction.Axis = None, keepdims: bool = False) -> np.ndarray:
    """y = sum of x over the axes"""
    return x.sum(axis=axis, keepdims=keepdims)


def backward(dy: np.ndarray, shapes: tuple, lasts: tuple, axis: tuple) -> tuple:
    """dx = dy, repeated along the axes"""
    dy = dy.reshape(reduction.reduced_shape(shapes[0], axis, keepdims=True))
    return (np.broadcast_to(dy, shapes[0]).copy(),)


kernels = {
    "warp": reduction.per_output("sum.cu", "sum_warp"),
    "columns": reduction.per_column("sum.cu", "sum_columns"),
    "tree": reduction.per_output("sum.cu", "sum_tree"),
    "atomic": per_element("sum.cu", "sum_atomic", "size", reduction.BLOCKS),
    "backward": per_element("sum.cu", "sum_backward", "size", reduction.BLOCKS),
    "vectorized": reduction.per_output("sum.cu", "sum_vectorized", 256),
    "lanes": reduction.per_lanes("sum.cu", "sum_lanes"),
    "strips": reduction.per_strip("sum.cu", "sum_strips"),
    "vectorized_backward": per_four("sum.cu", "sum_vectorized_backward", "size", (256, 128, 512)),
}
FAST = {
    "warp": "vectorized",
    "short": "lanes",
    "columns": "strips",
    "few": "columns",
    "backward": "vectorized_backward",
}


def launch(kernels: dict[str, Kernel], x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Passes over each run of neighboring axes: "columns" for those that are not the last, else "warp"."""
    return reduction.reduce(kernels, x, axis, keepdims, 1.0)


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, shapes: tuple, lasts: tuple, axis: tuple
) -> tuple[Array]:
    """One kernel."""
    return (repeat(kernels, dy, shapes[0], axis, 1.0, lasts[0]),)


def repeat(
    kernels: dict[str, Kernel], dy: Array, shape: tuple, axis: tuple, divisor: float, last: bool = False
) -> Array:
    """dy / divisor, repeated along the axes: each element reads its dy through a view with stride 0 along them."""
    last = last and reduction.in_order(axis)
    dx, dy = Array.empty(dy.device, shape, dy.dtype, last), in_layout(dy, False)
    if dx.channels_last:
        shape, axis = dx.spec.stored, reduction.stored(axis)
    view = broadcast(reduction.reduced_shape(shape, axis, keepdims=True), shape)
    launch_over(kernels["backward"], dx.size, dy.dtype)(dy, dx, view, dx.size, divisor)
    return dx


sum = reduction.reduction("sum", forward, backward, launch, launch_backward, kernels, FAST)
