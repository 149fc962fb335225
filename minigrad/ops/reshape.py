"""reshape: the same memory read under another shape. No kernel runs."""

from math import prod
from numbers import Integral
from operator import index
from typing import Any

import numpy as np

from minigrad.kernels.view import Shape
from minigrad.op import Case, Op


def prepare(x: Any, shape: Any) -> dict[str, Shape]:
    """Fill in the extent given as -1. Raises ValueError if the sizes differ."""
    extents = whole_numbers("reshape", "shape", shape)
    if extents.count(-1) > 1 or min(extents, default=0) < -1:
        raise ValueError(f"reshape: shape {extents} may hold one -1, for the extent to compute, and no other negative.")
    known = prod(extent for extent in extents if extent != -1)
    full = tuple(x.size // known if extent == -1 and known else extent for extent in extents)
    if prod(full) != x.size or -1 in full:
        raise ValueError(
            f"reshape: the {x.size} elements of shape {x.shape} do not fill {extents}; "
            f"its extents must multiply to {x.size}, and one may be -1."
        )
    return {"shape": full}


def whole_numbers(name: str, parameter: str, value: Any) -> tuple[int, ...]:
    """One whole number or several, as a tuple. Raises TypeError for anything else."""
    try:
        return tuple(index(n) for n in ((value,) if isinstance(value, Integral) else value))
    except TypeError:
        raise TypeError(f"{name}: {parameter}={value!r} must be whole numbers, e.g. {parameter}=(0, 1).") from None


def forward(x: np.ndarray, *, shape: Shape) -> np.ndarray:
    """y = x, its elements in the same order, in another shape"""
    return x.reshape(shape)


def backward(dy: np.ndarray, shapes: tuple) -> tuple:
    """dx = dy in the shape of x"""
    return (dy.reshape(shapes[0]),)


reshape = Op(
    "reshape",
    forward,
    backward,
    kernels={},
    launch=lambda kernels, x, shape: x.reshape(shape),
    launch_backward=lambda kernels, needs, dy, shapes: (dy.reshape(shapes[0]),),
    prepare=prepare,
    cost=lambda x, shape: (0, 0),
    integers=True,
    shares=True,
    cases=[
        Case((before,), {"shape": after})
        for before, after in (
            ((2, 3), (3, 2)), ((2, 3), 6), ((4, 6), (2, -1, 3)), ((33, 31), (-1,)), ((1023,), (3, 11, 31)),
            ((), (1, 1)), ((1,), ()), ((0, 3), (5, 0)), ((3, 0), (-1, 2)),
        )
    ],
)  # fmt: skip
