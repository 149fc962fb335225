"""layer_norm: each row shifted and scaled to mean 0 and variance 1, then each column by its own weight and bias."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied, must_be_floats, wide
from minigrad.devices.layouts import typed
from minigrad.errors import LaunchError, require_number
from minigrad.kernels.extents import ceil_div, next_power
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.op import OPS, Case, Op
from minigrad.ops.elementwise import BLOCKS
from minigrad.ops.reduction import reduce
from minigrad.ops.rowwise import around, requested

FILE, WARPS = "layer_norm.cu", 8  # of a block; a row has up to all of them, and 128 numbers in each
CHUNK, PARTS = 64, 1024  # rows whose sums a thread makes at least; such parts at most
RESIDENT = 4  # blocks of a multiprocessor that walk through the rows
FAST = {"forward_warp": "warp", "backward_warp": "warp_backward"}


def forward(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, eps: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = (x - mean) / sqrt(var + eps) * weight + bias, mean and var (over n) of each row: along the last axis

    Source: Ba, Kiros and Hinton, "Layer normalization", 2016.
    """
    dtype, x = x.dtype, x.astype(wide(x.dtype), copy=False)
    mean = average(x)
    inverse = 1 / np.sqrt(average(np.square(x - mean)) + x.dtype.type(eps))
    return affine((x - mean) * inverse, weight, bias).astype(dtype, copy=False), mean[..., 0], inverse[..., 0]


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, inverse: np.ndarray, shapes: tuple
) -> tuple:
    """dx = (g - mean(g) - n mean(g n)) / sqrt(var + eps), dweight = sum of dy n, dbias = sum of dy

    g is dy * weight, n the normalized x; the sums are over all rows.
    """
    dtype, dy, x = dy.dtype, *(a.astype(wide(a.dtype), copy=False) for a in (dy, x))
    normal, scaled = (x - mean[..., None]) * inverse[..., None], affine(dy, weight)
    dx = scaled - average(scaled) - normal * average(scaled * normal)
    return ((dx * inverse[..., None]).astype(dtype, copy=False), *sums(dy, normal))[: len(shapes)]


def average(x: np.ndarray) -> np.ndarray:
    """The mean of each row, and of an empty one 0."""
    return x.sum(-1, keepdims=True) / max(x.shape[-1], 1)


def affine(normal: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None = None) -> np.ndarray:
    """normal * weight + bias"""
    y = normal if weight is None else normal * weight
    return y if bias is None else y + bias


def sums(dy: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of weight and bias."""
    rows = tuple(range(dy.ndim - 1))
    return (dy * normal).sum(rows), dy.sum(rows)


def kernels_of(center: bool) -> dict[str, Kernel]:
    """The kernels of layer_norm, or with a mean of 0 those of rms_norm."""

    defines = {"CENTER": int(center)}
    per_row = partial(Kernel, FILE, grid=("rows",), block=("BLOCK",), sizes="rows", defines=defines, BLOCK=BLOCKS)
    kernels = {way: per_row(name=f"layer_norm_{way}") for way in ("forward", "backward")}
    kernels["rows"] = kernels["forward"]  # by this name `using` selects it, for rows of any length
    grid = ("n/BLOCK", "parts")
    kernels["backward_sums"] = Kernel(
        FILE, "layer_norm_backward_sums", grid, ("BLOCK",), "n parts", defines, BLOCK=BLOCKS
    )
    kernels["warp"] = per_warp(FILE, "layer_norm_warp", center)
    kernels["warp_backward"] = per_warps(FILE, "layer_norm_warp_backward", center)
    return kernels


def per_warp(file: str, name: str, center: bool) -> Kernel:
    """A kernel in which a warp holds a row: a lane has QUADS times four neighbors."""

    def fit(rows: int, n: int) -> dict[str, int]:
        return {"QUADS": next_power(ceil_div(n, 128), WARPS)}

    return Kernel(file, name, ("rows/4",), ("32", "4"), "rows n", {"CENTER": int(center)}, fit, QUADS=(WARPS, 1, 2, 4))


def per_warps(file: str, name: str, center: bool) -> Kernel:
    """A kernel in which warps hold a row: see cuda/row_in_warps.cuh."""
    block, defines = ("32*WARPS", f"{WARPS}/WARPS"), {"CENTER": int(center)}

    def fit(rows: int, n: int, **_: int) -> dict[str, int]:
        return {"WARPS": next_power(ceil_div(n, 128), WARPS)}

    return Kernel(file, name, ("blocks",), block, "rows n blocks", defines, fit, WARPS=(WARPS, 1, 2, 4))


def launch(
    kernels: Mapping[str, Kernel], x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float
) -> tuple:
    """A warp for each row that fits into its registers, else a block."""
    rows, n, _ = around(x.shape, x.ndim - 1)
    y, new = Array.empty(x.device, x.shape, x.dtype), Array.empty if x.size else Array.zeros
    mean, inverse = (new(x.device, x.shape[:-1], wide(x.dtype)) for _ in range(2))
    if x.size and (warp := held(kernels, "forward", n)):
        launched(warp, x)(x, weight, bias, y, mean, inverse, eps, rows, n)
    elif x.size:
        kernels["rows"].launch(rows)(x, weight, bias, y, mean, inverse, eps, n)
    return y, mean, inverse


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, x: Array, weight: Array | None, mean: Array,
    inverse: Array, shapes: tuple,
) -> tuple:  # fmt: skip
    """All gradients by one kernel where warps hold a row, else dx by one kernel and the sums by another."""
    dy, (rows, n, _) = typed(dy, x.dtype), around(x.shape, x.ndim - 1)
    dx = Array.empty(x.device, x.shape, x.dtype) if needs[0] else None
    if x.size and (warp := held(kernels, "backward", n)):
        launch = launched(warp, x, RESIDENT)
        parts = Array.empty(x.device, (2, launch.grid[0], n), wide(x.dtype))
        launch(dy, x, weight, mean, inverse, dx, parts, rows, n)
    elif x.size:
        if dx:
            kernels["backward"].launch(rows)(dy, x, weight, mean, inverse, dx, n)
        if any(needs[1:]):
            chunk = max(CHUNK, ceil_div(rows, PARTS))
            parts = Array.empty(x.device, (2, ceil_div(rows, chunk), n), wide(x.dtype))
            launch = kernels["backward_sums"].launch(n, parts.shape[1])
            launch(dy, x, mean, inverse, parts, rows, n, chunk)
    else:
        parts = Array.zeros(x.device, (2, 1, n), wide(x.dtype))
    if not any(needs[1:]):
        return (dx, None, None)[: len(shapes)]
    both = reduce(OPS["sum"].running, parts, (1,), False, 1).reshape((2, n))
    return dx, *(one(both, i) if need else None for i, need in enumerate(needs[1:]))


def one(both: Array, i: int) -> Array:
    """dweight or dbias: a copy where the row begins at a place at which no vector of four numbers may."""
    row = both.rows(i, 1).reshape((both.shape[1],))
    return copied(row) if i and row.size % 4 else row


def held(kernels: Mapping[str, Kernel], way: str, n: int) -> Kernel | None:
    """The kernel of warps that hold their row, if `using` has not selected another and the row fits."""
    return requested(kernels, way, "warp") if n % 4 == 0 and n <= 128 * WARPS else None


def launched(kernel: Kernel, x: Array, resident: int = 0) -> Launch:
    """The launch for the rows of x, with as many blocks as are there at once where they walk. Raises LaunchError."""
    rows, n, _ = around(x.shape, x.ndim - 1)
    sizes: tuple[int, ...] = (rows, n)
    if resident:
        warps = kernel.launch(rows, n, 1).values["WARPS"]
        sizes = (*sizes, max(1, min(ceil_div(rows * warps, WARPS), resident * x.device.processors)))
    launch = kernel.launch(*sizes)
    if n > longest(launch) and kernel.fit:  # tuned for a shorter row
        launch = kernel.launch(*sizes, **kernel.fit(rows, n))
    if n > longest(launch):
        ((name, value),) = launch.values.items()
        raise LaunchError(f"{kernel.name}: {name}={value} holds rows of up to {128 * value}; choose more for {n}.")
    return launch


def longest(launch: Launch) -> int:
    """The longest row that a warp's QUADS, or a block's WARPS, hold."""
    return 128 * max(launch.values.values())


def prepare(name: str, x: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes: with x in bfloat16 weight and bias are float32."""
    must_be_floats(name, x)
    if x.ndim == 0:
        raise ValueError(f"{name}: x has no axis; it must have at least one, along which it is normalized.")
    for key, array in (("weight", weight), ("bias", bias)):
        if array is None:
            continue
        if array.shape != x.shape[-1:]:
            raise ValueError(f"{name}: {key} is {array.shape}; the last axis of x {x.shape} needs {x.shape[-1:]}.")
        if array.dtype != (dtype := wide(x.dtype)):
            raise TypeError(
                f"{name}: x is {x.dtype} and {key} {array.dtype}; make it {dtype}: .astype({dtype.name!r})."
            )
    return {"eps": require_number(name, "eps", eps)}


def cost(x: Any, *columns: Any, **params: Any) -> tuple[int, int]:
    """About 8 FLOPs for each x; x read once, y written once, and the columns' numbers."""
    return 8 * x.size, 2 * x.size * x.dtype.itemsize + sum(a.size * a.dtype.itemsize for a in columns if x.size)


def cases(affine: int) -> Sequence[Case]:
    """Rows of many lengths, with `affine` numbers for each column, with fewer, with NaN, and far from 0."""

    def case(*shape: int, given: int = affine, far: float = 0, **how: Any) -> Case:
        columns = np.linspace(0.5, 2.0, shape[-1]), np.linspace(1.5, -0.75, shape[-1])
        x: Any = shape
        if far:
            x = np.random.default_rng(3).standard_normal(shape) + far
        return Case((x, *columns[:given]), **how)

    shapes = (
        (4,), (5, 3), (1, 33), (3, 128), (2, 3, 36), (17, 132), (2, 1024), (3, 1028), (2, 2050), (0, 8), (3, 0), (3, 1),
    )  # fmt: skip
    return (
        *(case(*shape) for shape in shapes),
        case(9, 64, given=0), case(70, 12, given=1), case(6, 5, params={"eps": 0.1}), case(4, 8, nan=True),
        case(3, 7, nan=True), case(6, 260, far=30.0), case(5, 1500, far=30.0),
    )  # fmt: skip


def norm(name: str, forward: Callable, backward: Callable, center: bool) -> Op:
    """An Op of rows: layer_norm or rms_norm, which has no bias."""
    return Op(
        name,
        forward,
        backward,
        kernels=kernels_of(center),
        fast=FAST,
        launch=launch,
        launch_backward=launch_backward,
        prepare=partial(prepare, name),
        saves=("mean", "inverse"),
        integers=True,
        widens=False,
        cost=cost,
        cases=cases(2 if center else 1),
    )


layer_norm = norm("layer_norm", forward, backward, True)
