"""Ops along one axis: a block owns a row of any length and writes a row of the same length."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_THREADS
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.op import Case, Op
from minigrad.ops.reduction import BLOCKS, SHARES, axes_of

FAST = {"forward_held": "held", "backward_held": "held_backward"}
FAST |= {"forward_lanes": "lanes", "backward_lanes": "lanes_backward"}
CASES = (
    *(Case((shape,)) for shape in ((1,), (2,), (33,), (1025,), (5000,), (2, 1024), (2, 516), (5, 65), (0, 3), (3, 0))),
    *(Case(((7, 5),), {"axis": axis}) for axis in (0, 1, -2)),
    Case(((2, 3, 4),), {"axis": 1}),
    Case(((5, 3),), nan=True),
    Case((np.array([[1000.0, 1000.5, -1000.0], [-1000.0, 0.0, 0.5]]),)),
)


def held(file: str, name: str) -> Kernel:
    """A kernel in which a block holds its row in registers, 16 elements per thread."""
    return Kernel(file, name, ("rows",), ("n/16",), "rows n")


def lanes(file: str, name: str) -> Kernel:
    """A kernel in which SHARE lanes of a warp hold their row in registers, 8 elements per lane."""

    def fit(rows: int, n: int) -> dict[str, int]:
        return {"SHARE": next(share for share in sorted(SHARES) if n <= 8 * share)}

    shares = sorted(SHARES, reverse=True)  # by default a whole warp
    grid = ("rows*SHARE/BLOCK",)
    return Kernel(file, name, grid, ("BLOCK",), "rows n", None, fit, BLOCK=BLOCKS, SHARE=tuple(shares))


def kernels_of(name: str) -> dict[str, Kernel]:
    """The kernels `<name>_forward` and `<name>_backward` of `cuda/<name>.cu`, and those with a row in registers."""
    file = f"{name}.cu"
    per_row = partial(Kernel, file, grid=("rows",), block=("BLOCK",), sizes="rows", BLOCK=BLOCKS)  # block -> a row
    kernels = {way: per_row(name=f"{name}_{way}") for way in ("forward", "backward")}
    kernels["strided"] = kernels["forward"]
    makers = {key: held if "held" in key else lanes for key in FAST.values()}
    return kernels | {key: make(file, f"{name}_{key}") for key, make in makers.items()}


def fitting(
    kernels: dict[str, Kernel], way: str, rows: int, n: int, inner: int | None = None
) -> tuple[Launch, tuple[int, ...]]:
    """The launch for rows of n, and the extents that its kernel takes. Rows stay in registers if that fits and pays."""
    general = kernels["strided" if way == "forward" else way]
    short, long = (requested(kernels, way, kind) for kind in ("lanes", "held"))
    if inner in (None, 1) and n > 0:
        if short and n <= 8 * max(SHARES):
            launch = short.launch(rows, n)
            if n > 8 * launch.values["SHARE"]:
                raise LaunchError(
                    f"{short.name}: SHARE={launch.values['SHARE']} lanes hold 8 numbers each, and a row has {n}. "
                    "Choose a larger SHARE."
                )
            return launch, (rows, n)
        if long and n % 4 == 0 and n <= 16 * MAX_THREADS and (n >= 512 or long is kernels[way]):
            return long.launch(rows, n), (n,)
    return general.launch(rows * (inner or 1)), (n,) if inner is None else (n, inner)


def requested(kernels: Mapping[str, Kernel], way: str, kind: str) -> Kernel | None:
    """The kernel of a kind, if it has its role by default or `using` selects it."""
    own = kernels[way]
    return own if own.name.endswith(f"_{kind}") else kernels.get(f"{way}_{kind}")


def rowwise(name: str, forward: Callable, backward: Callable, flops: int) -> Op:
    """y = f(x) along an axis, by `<name>_forward(x, y, n, inner)` and `<name>_backward(dy, y, dx, n, inner)`.

    x is viewed as (rows, n, inner) around the axis; the elements of a row are `inner` apart.
    """
    return Op(
        name,
        forward,
        backward,
        kernels=kernels_of(name),
        launch=partial(launch, way="forward"),
        launch_backward=lambda kernels, needs, dy, y, axis: (launch(kernels, dy, y, axis=axis, way="backward"),),
        prepare=partial(prepare, name),
        fast=FAST,
        cost=lambda x, axis=-1: (flops * x.size, 2 * x.size * x.dtype.itemsize),
        cases=CASES,
    )


def launch(kernels: dict[str, Kernel], *inputs: Array, axis: int, way: str) -> Array:
    """kernel(inputs, output, extents), with an output like the inputs."""
    out = Array.empty(inputs[0].device, inputs[0].shape, inputs[0].dtype)
    run, extents = fitting(kernels, way, *around(out.shape, axis))
    run(*inputs, out, *extents)
    return out


def prepare(name: str, x: Any, axis: int = -1) -> dict[str, int]:
    """The axis as a number from 0. Raises ValueError or TypeError."""
    axes = axes_of(name, x.ndim, axis)
    if axis is None or len(axes) != 1:
        raise TypeError(f"{name}: axis={axis!r} must be one whole number.")
    return {"axis": axes[0]}


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(rows, n, inner): the elements before, along and after an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
