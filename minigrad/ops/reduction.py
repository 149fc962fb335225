"""Reductions: the axes, their layout in memory, and the passes that reduce them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import wide
from minigrad.devices.layouts import in_layout
from minigrad.errors import require_bool
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.operators import Axis as Axis
from minigrad.ops.astype import cast

Axes = tuple[int, ...]
BLOCKS = (128, 32, 64, 256, 512, 1024)
CHUNKS = (8192, 32, 100)  # elements that a block reduces; the small ones make a short row take several passes
SHARES = (8, 1, 2, 4, 16, 32)  # lanes of a warp that reduce a short row together
WARP = 32
SHORT = 2048  # elements of a row that is too short for a block
DEPTHS = (128, 4)  # elements that a thread reduces, where a thread owns a column
CASES = (
    *(Case((shape,)) for shape in ((), (1,), (2,), (3,), (31,), (33,), (1023,), (1025,), (5000,))),
    *(Case(((3, 33),), {"axis": axis}) for axis in (0, 1, (0, -1))),
    *(Case(((2, 3, 2, 5),), {"axis": axis}) for axis in ((0, 2), (1, 2), (3, 1), -2)),
    Case(((65, 3),), {"axis": 0}),
    Case(((3, 1, 7),), {"axis": (1, 2), "keepdims": True}),
    Case(((2, 3),), {"axis": ()}),
    Case(((0, 3),), {"axis": 1}),
    *(Case(((9, 5),), {"axis": axis}, nan=True) for axis in (0, 1, None)),
)
LAST = [
    Case(((2, 3, 3, 5),), {"axis": axis, "keepdims": keep}, channels_last=True)
    for axis, keep in (((2, 3), False), ((0, 2, 3), True), (1, True), ((0, 3), False))
]


def per_output(file: str, name: str, block: int = 128) -> Kernel:
    """A kernel in which a block reduces CHUNK elements of one output."""
    return Kernel(file, name, ("outputs", "n/CHUNK"), ("BLOCK",), "outputs n", BLOCK=first(block), CHUNK=CHUNKS)


def per_column(file: str, name: str) -> Kernel:
    """A kernel in which a thread reduces CHUNK elements of one output."""
    grid = ("outputs/BLOCK", "n/CHUNK")
    return Kernel(file, name, grid, ("BLOCK",), "outputs n", BLOCK=BLOCKS, CHUNK=DEPTHS)


def per_lanes(file: str, name: str) -> Kernel:
    """A kernel in which SHARE lanes of a warp reduce CHUNK elements of one output, four at a time."""

    def fit(outputs: int, n: int) -> dict[str, int]:
        return {"SHARE": min(32, 1 << max(0, (n // 16).bit_length() - 1))}  # four times four elements per lane

    grid = ("outputs*SHARE/BLOCK", "n/CHUNK")
    return Kernel(file, name, grid, ("BLOCK",), "outputs n", None, fit, 0, BLOCK=first(256), SHARE=SHARES, CHUNK=CHUNKS)


def per_strip(file: str, name: str) -> Kernel:
    """A kernel in which a column of HEIGHT threads reduces CHUNK elements of one output."""
    grid = ("outputs/32", "n/CHUNK")
    return Kernel(file, name, grid, ("32", "HEIGHT"), "outputs n", HEIGHT=(8, 4, 16, 32), CHUNK=(1024, 32, 100))


def first(block: int) -> tuple[int, ...]:
    """The legal block sizes, the default first."""
    return block, *(other for other in BLOCKS if other != block)


def axes_of(name: str, ndim: int, axis: Axis) -> Axes:
    """The axes as sorted numbers from 0: None is all of them, -1 the last. Raises ValueError or TypeError."""
    listed = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    if any(isinstance(a, bool) or not isinstance(a, Integral) for a in listed):
        raise TypeError(f"{name}: axis={axis!r} must be a whole number, a tuple of them, or None.")
    for a in listed:
        if not -ndim <= a < ndim:
            legal = f", {-ndim} to {ndim - 1}" if ndim else ""
            raise ValueError(f"{name}: axis {a} does not exist; the tensor has {ndim} axes{legal}.")
    axes = tuple(sorted(int(a) % ndim for a in listed))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}: axis={axis!r} names one axis twice.")
    return axes


def reduced_shape(shape: Sequence[int], axes: Axes, keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction: reduced axes have extent 1, or are dropped."""
    full = [1 if d in axes else extent for d, extent in enumerate(shape)]
    return tuple(full) if keepdims else tuple(extent for d, extent in enumerate(full) if d not in axes)


def prepare(name: str, x: Any, axis: Axis = None, keepdims: bool = False) -> dict[str, Any]:
    """Check and complete the parameters of a reduction."""
    return {"axis": axes_of(name, x.ndim, axis), "keepdims": require_bool(name, "keepdims", keepdims)}


def cost(x: Any, axis: Axis = None, keepdims: bool = False) -> tuple[int, int]:
    """One FLOP per element of x; x read once, y written once."""
    outputs = prod(reduced_shape(x.shape, axes_of("cost", x.ndim, axis), keepdims))
    return x.size, (x.size + outputs) * x.dtype.itemsize


def reduction(
    name: str, forward: Callable, backward: Callable, launch: Callable, launch_backward: Callable,
    kernels: Mapping[str, Kernel], fast: Mapping[str, str], prepare: Callable = prepare, layouts: str = "any",
) -> Op:  # fmt: skip
    """y = f(x) over axes, by default all of them; prepare is called with the op's name first."""
    return Op(
        name,
        forward,
        backward,
        launch=launch,
        launch_backward=launch_backward,
        kernels=kernels,
        fast=fast,
        prepare=partial(prepare, name),
        cost=cost,
        layouts=layouts,
        cases=[*CASES, *(LAST if layouts == "any" else ())],
    )


def runs(shape: Sequence[int], axes: Axes) -> list[tuple[int, int]]:
    """The axes as runs of neighbors, [start, stop), the last first. Axes of extent 1 are left out.

    A run is reduced as one long axis: around it the array is (rows, n, inner).
    """
    long = [a for a in axes if shape[a] != 1]
    if not long:
        return [(0, 0)]  # (1, 1, size): a copy
    separate = [prod(shape[a + 1 : b]) != 1 for a, b in pairwise(long)]
    cuts = [0, *(i for i, cut in enumerate(separate, 1) if cut), len(long)]
    return [(long[i], long[j - 1] + 1) for i, j in pairwise(cuts)][::-1]


def stored(axes: Axes) -> Axes:
    """The axes of images (N, C, H, W) in the order of memory with the channels last, (N, H, W, C)."""
    return tuple(sorted((0, 3, 1, 2)[a] for a in axes))


def in_order(axes: Axes) -> bool:
    """True if the axes that remain of images with their channels last lie in memory as they are named."""
    return 1 in axes or {2, 3} <= {*axes}


def reduce(
    kernels: Mapping[str, Kernel], x: Array, axis: Axes, keepdims: bool, *divisor: float, dtype: np.dtype | None = None
) -> Array:
    """Reduce one run of neighboring axes after another; the last kernel divides by `divisor`, if it takes one.

    Sums of bfloat16 are float32 until the end, where they get the dtype, by default that of x.
    """
    result, dtype = reduced_shape(x.shape, axis, keepdims), dtype or x.dtype
    if x.channels_last:
        x, axis = (x.reshape(x.spec.stored), stored(axis)) if in_order(axis) else (in_layout(x, False), axis)
    y, shape, pending = x, list(x.shape), runs(x.shape, axis)
    for start, stop in pending:
        rows, n, inner = prod(shape[:start]), prod(shape[start:stop]), prod(shape[stop:])
        last = (start, stop) == pending[-1]
        y = _passes(kernels, y, rows, n, inner, divisor if last else (1.0,) * len(divisor))
        shape[start:stop] = [1] * (stop - start)
    return cast(y, dtype).reshape(result)


def _passes(kernels: Mapping[str, Kernel], x: Array, rows: int, n: int, inner: int, divisor: tuple) -> Array:
    """(rows, n, inner) -> (rows, chunks, inner) -> ... -> (rows, 1, inner): each pass reduces the partial results."""
    fold = WARP // inner if 1 < inner < WARP and "short" in kernels else 1
    if fold > 1 and n % fold == 0 and n >= 1024 * fold:  # (n / fold, fold * inner): enough columns for a warp
        x = _passes(kernels, x, rows, n // fold, fold * inner, (1.0,) * len(divisor))
        n = fold
    few = "few" if n <= WARP and "few" in kernels else "columns"  # a thread adds up few numbers faster alone
    way = few if inner > 1 else "short" if n <= SHORT and rows > 1 and "short" in kernels else "warp"
    kernel = kernels.get("forward") or kernels[way]
    make = Array.empty if "CHUNK" in kernel.tunables else Array.zeros  # atomics add to the output
    while True:
        sizes = {"size": rows * n * inner, "outputs": rows * inner, "n": max(n, 1)}
        values = kernel.values | kernel.preferred(*(sizes[key] for key in kernel.sizes))
        chunk = sizes["CHUNK"] = max(values.get("CHUNK", n), ceil_div(n, MAX_GRID[1]), 2)
        chunks = max(ceil_div(n, chunk), 1)  # an empty row is one empty chunk
        y = make(x.device, (rows * chunks * inner,), wide(x.dtype))
        known = {key: sizes[key] for key in (*kernel.sizes, *kernel.tunables) if key in sizes}
        by = divisor if chunks == 1 else (1.0,) * len(divisor)
        kernel.launch(**known)(x, y, rows * inner, n, inner, chunk, *by)
        if chunks == 1:
            return y
        x, n = y, chunks
