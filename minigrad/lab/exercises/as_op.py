"""An exercise's kernel as an op: the calls of the op that it can do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minigrad.devices.array import Array
from minigrad.ops.reduction import reduced_shape


def any_call(*arrays: Array, **params: Any) -> str:
    """Every call can be done."""
    return ""


@dataclass(frozen=True)
class AsOp:
    """The op as which the kernel of an exercise can run, on the arrays that its `launch` takes.

    name: "matmul", or "SGD" for the update of a parameter in place, with p, g, v, lr, momentum and n as arguments. way:
    "forward", or of a matmul that multiplies by a transpose "a @ b^T" or "a^T @ b". unfit(*arrays, **params) is empty
    for a call that the kernel can do, else the reason in words; the course's kernel runs then. finish(y, *arrays,
    **params) makes the op's result of the kernel's.
    """

    name: str
    way: str = "forward"
    unfit: Callable[..., str] = any_call
    finish: Callable[..., Array] = lambda y, *arrays, **params: y


def two_matrices(a: Array, b: Array, **params: Any) -> str:
    """For a product of two matrices."""
    return "" if a.ndim == b.ndim == 2 else "it is no product of two matrices"


def rows_of_a_matrix(x: Array, axis: int) -> str:
    """For an op along the rows of a matrix."""
    return "" if (x.ndim, axis) == (2, 1) else "it is not along the rows of a matrix"


def columns_of_a_matrix(x: Array, axis: tuple[int, ...], **params: Any) -> str:
    """For an op down the columns of a matrix."""
    return "" if (x.ndim, axis) == (2, (0,)) else "it is not down the columns of a matrix"


def everything(x: Array, axis: tuple[int, ...], **params: Any) -> str:
    """For an op over all numbers of an array."""
    return "" if len(axis) == x.ndim else "it is not over the whole array"


def one_shape(a: Array, b: Array) -> str:
    """For an op on two arrays, element by element."""
    return "" if a.shape == b.shape else "one array is broadcast over the other"


def one_image(x: Array, w: Array, bias: Array | None = None, **params: Any) -> str:
    """For a convolution of one image with one window, both of one channel, without padding and steps."""
    usual = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    plain = bias is None and all(params[key] == value for key, value in usual.items())
    single = {*x.shape[:2], *w.shape[:2]} == {1}
    words = "it is not one image of one channel under one window, without bias, padding and stride"
    return "" if plain and single else words


def as_images(y: Array, *arrays: Array, **params: Any) -> Array:
    """An image (H, W) in the shape (1, 1, H, W)."""
    return y.reshape((1, 1, *y.shape))


def reduced(y: Array, x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """The sums in the shape of the op's result."""
    return y.reshape(reduced_shape(x.shape, axis, keepdims))
