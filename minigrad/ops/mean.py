"""mean: the kernels of sum, with n as the divisor."""

from math import prod

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.ops import sum as addition
from minigrad.ops.reduction import Axis, reduce, reduced_shape, reduction


def forward(x: np.ndarray, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    """y = (sum of x over the axes) / n, the mean of n elements

    Over the axes (2, 3) of images it is the global average pool.
    """
    y = x.sum(axis=axis, keepdims=keepdims)
    return y / terms(x.size, y.size)


def backward(dy: np.ndarray, shapes: tuple, lasts: tuple, axis: tuple) -> tuple:
    """dx = dy / n, repeated along the axes"""
    (dx,) = addition.backward(dy, shapes, lasts, axis)
    return (dx / terms(dx.size, dy.size),)


def terms(inputs: int, outputs: int) -> int:
    """n, the terms of each mean; 0 for the mean of nothing, which is 0/0 = NaN."""
    return inputs // max(outputs, 1)


kernels = {name: addition.kernels[name] for name in ("warp", "columns", "backward", *addition.FAST.values())}


def launch(kernels: dict[str, Kernel], x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """The passes of sum, with a divisor."""
    return reduce(kernels, x, axis, keepdims, terms(x.size, prod(reduced_shape(x.shape, axis, keepdims))))


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, shapes: tuple, lasts: tuple, axis: tuple
) -> tuple[Array]:
    """The kernel of sum, with a divisor."""
    return (addition.repeat(kernels, dy, shapes[0], axis, terms(prod(shapes[0]), dy.size), lasts[0]),)


mean = reduction("mean", forward, backward, launch, launch_backward, kernels, addition.FAST)
