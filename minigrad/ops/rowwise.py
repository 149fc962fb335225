"""What ops along one axis have in common: a block owns a row of any length and writes one of the same length."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.devices.base import MAX_THREADS
from minigrad.kernel import Kernel
from minigrad.launch import Launch
from minigrad.op import Case, Op
from minigrad.ops.reduction import BLOCKS, axes_of

FAST = {"forward_held": "held", "backward_held": "held_backward"}
CASES = (
    *(Case((shape,)) for shape in ((1,), (2,), (33,), (1025,), (5000,), (2, 1024), (5, 65), (0, 3), (3, 0))),
    *(Case(((7, 5),), {"axis": axis}) for axis in (0, 1, -2)),
    Case(((2, 3, 4),), {"axis": 1}),
    Case((np.array([[1000.0, 1000.5, -1000.0], [-1000.0, 0.0, 0.5]]),)),
)


def per_row(file: str, name: str) -> Kernel:
    """A kernel in which a block owns a row."""
    return Kernel(file, name, ("rows",), ("BLOCK",), "rows", BLOCK=BLOCKS)


def held(file: str, name: str) -> Kernel:
    """A kernel in which a block holds its row in registers, 16 elements a thread."""
    return Kernel(file, name, ("rows",), ("n/16",), "rows n")


def fitting(kernels: dict[str, Kernel], way: str, rows: int, n: int, inner: int = 1) -> tuple[Launch, tuple[int, ...]]:
    """The launch for rows of n, and what its kernel takes of n and inner: held in registers if that pays, and fits."""
    held, general = kernels.get(f"{way}_held"), kernels["strided" if way == "forward" else way]
    asked = kernels[way] if "n" in kernels[way].sizes else held if n >= 512 else None
    if asked and inner == 1 and n % 4 == 0 and 0 < n <= 16 * MAX_THREADS:
        return asked.launch(rows, n), (n,)
    return general.launch(rows * inner), (n, inner)


def rowwise(name: str, forward: Callable, backward: Callable, flops: int, cases: Sequence[Case] = CASES) -> Op:
    """y = f(x) along an axis, by `<name>_forward(x, y, n, inner)` and `<name>_backward(dy, y, dx, n, inner)`.

    x is seen as (rows, n, inner) around the axis; a row's elements lie `inner` apart.
    """
    kernels = {way: per_row(f"{name}.cu", f"{name}_{way}") for way in ("forward", "backward")}
    kernels["strided"] = kernels["forward"]
    kernels |= {way: held(f"{name}.cu", f"{name}_{way}") for way in FAST.values()}

    def launch(kernels: dict[str, Kernel], x: Array, axis: int) -> Array:
        y, (rows, n, inner) = Array.empty(x.device, x.shape, x.dtype), around(x.shape, axis)
        launch, extents = fitting(kernels, "forward", rows, n, inner)
        launch(x, y, *extents)
        return y

    def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, y: Array, axis: int) -> tuple[Array]:
        dx, (rows, n, inner) = Array.empty(y.device, y.shape, y.dtype), around(y.shape, axis)
        launch, extents = fitting(kernels, "backward", rows, n, inner)
        launch(dy, y, dx, *extents)
        return (dx,)

    return Op(
        name,
        forward,
        backward,
        kernels=kernels,
        launch=launch,
        launch_backward=launch_backward,
        prepare=partial(prepare, name),
        fast=FAST,
        cost=lambda x, axis=-1: (flops * x.size, 2 * x.size * x.dtype.itemsize),
        cases=cases,
    )


def prepare(name: str, x: Any, axis: int = -1) -> dict[str, int]:
    """The axis as a number from 0. Raises ValueError or TypeError."""
    axes = axes_of(name, x.ndim, axis)
    if axis is None or len(axes) != 1:
        raise TypeError(f"{name}: axis={axis!r} must be one whole number.")
    return {"axis": axes[0]}


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(rows, n, inner): the elements before, along and after an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
