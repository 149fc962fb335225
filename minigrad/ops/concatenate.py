"""concatenate: inputs one after another along an axis; each is copied through a view of the output."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape, View, strides_of
from minigrad.op import Case, Op
from minigrad.ops.elementwise import kernels_of, launch_over, must_match


def prepare(*xs: Any, axis: Any = 0) -> dict[str, int]:
    """Count the axis from the front. Raises ValueError if the shapes differ on another axis."""
    must_match("concatenate", *xs)
    first = xs[0].shape
    if not first:
        raise ValueError("concatenate: numbers with no axes cannot be concatenated; x.reshape(1) gives one an axis.")
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise TypeError(f"concatenate: axis={axis!r} must be a whole number, e.g. axis=0.")
    if not -len(first) <= axis < len(first):
        raise ValueError(f"concatenate: shape {first} has no axis {axis}; choose {-len(first)} <= axis < {len(first)}.")
    axis = int(axis) % len(first)
    for x in xs:
        if x.shape[:axis] != first[:axis] or x.shape[axis + 1 :] != first[axis + 1 :] or x.ndim != len(first):
            raise ValueError(
                f"concatenate: shapes {first} and {x.shape} may differ on axis {axis} only; "
                "reshape or slice one of them, or choose another axis."
            )
    return {"axis": axis}


def forward(*xs: np.ndarray, axis: int = 0) -> np.ndarray:
    """y = the inputs one after another along an axis"""
    return np.concatenate(xs, axis)


def backward(dy: np.ndarray, shapes: tuple, axis: int) -> tuple:
    """dx = the part of dy at the position of x"""
    ends = list(accumulate(shape[axis] for shape in shapes))
    return tuple(part.copy() for part in np.split(dy, ends[:-1], axis))


def parts(shapes: tuple[Shape, ...], whole: Shape, axis: int) -> Iterator[View]:
    """The part of each input, as a view of the output."""
    strides, start = strides_of(whole), 0
    for shape in shapes:
        yield View.of(shape, strides, start * strides[axis])
        start += shape[axis]


def launch(kernels: dict[str, Kernel], *xs: Array, axis: int) -> Array:
    """One launch per input."""
    shapes = tuple(x.shape for x in xs)
    whole = list(shapes[0])
    whole[axis] = sum(shape[axis] for shape in shapes)
    y = Array.empty(xs[0].device, tuple(whole), xs[0].dtype)
    for x, y_at in zip(xs, parts(shapes, y.shape, axis), strict=True):
        launch_over(kernels["forward"], x.size, x.dtype)(x, y, y_at, x.size)
    return y


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, shapes: tuple, axis: int) -> tuple:
    """One launch per input that wants its gradient."""
    grads = tuple(Array.empty(dy.device, x, dy.dtype) if need else None for need, x in zip(needs, shapes, strict=True))
    for dx, dy_at in zip(grads, parts(shapes, dy.shape, axis), strict=True):
        if dx is not None:
            launch_over(kernels["backward"], dx.size, dy.dtype)(dy, dx, dy_at, dx.size)
    return grads


concatenate = Op(
    "concatenate",
    forward,
    backward,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=lambda *xs, axis=0: (0, 2 * sum(x.size * x.dtype.itemsize for x in xs)),
    integers=True,
    **kernels_of("concatenate"),
    cases=[
        Case(((3,),)),
        Case(((1,), (1023,), (0,), (33,))),
        Case(((2, 3), (4, 3))),
        Case(((33, 31), (33, 2)), {"axis": 1}),
        Case(((2, 3, 4), (2, 1, 4), (2, 5, 4)), {"axis": -2}),
        Case(((0, 3), (0, 2)), {"axis": 1}),
    ],
)
