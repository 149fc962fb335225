"""matmul: matrix multiplication, naive to tiled, and the two matrix multiplications of its gradient."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.devices.base import MAX_GRID
from minigrad.kernel import Kernel
from minigrad.launch import ceil_div
from minigrad.op import Case, Op
from minigrad.ops.slabs import ONE, multiply, multiply_transposed
from minigrad.view import Shape, View, broadcast

TILES = (16, 4, 8, 32)


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c = a @ b: c[i, j] = sum over l of a[i, l] b[l, j]"""
    return np.asarray(a @ b)


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray, shapes: tuple, needs: tuple) -> tuple:
    """da = dy @ b^T, db = a^T @ dy"""
    row, column = (len(shape) == 1 for shape in shapes)  # a vector is a row on the left, a column on the right
    dy = dy[..., None] if column else dy
    dy = dy[..., None, :] if row else dy
    da = _without(dy @ (b[:, None] if column else b).swapaxes(-1, -2), -2, row) if needs[0] else None
    db = _without((a[None] if row else a).swapaxes(-1, -2) @ dy, -1, column) if needs[1] else None
    return da, db


def _without(matrix: np.ndarray, axis: int, vector: bool) -> np.ndarray:
    """A gradient with the axis taken out again that a vector was given."""
    return matrix.squeeze(axis) if vector else matrix


def per_tile(name: str, x: str, y: str) -> Kernel:
    """A kernel whose blocks are TILE x TILE threads, one per element of the result."""
    grid = (f"{x}/TILE", f"{y}/TILE", "batch")
    return Kernel("matmul.cu", f"matmul_{name}", grid, ("TILE", "TILE"), "m n k batch=1", TILE=TILES)


def per_edge(file: str, name: str, x: str, y: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A kernel whose blocks own EDGE x EDGE elements of the result."""
    grid = (f"{x}/EDGE", f"{y}/EDGE", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}", grid, block, "m n k batch=1", **tunables)


def warp_tiled(name: str, x: str, y: str) -> Kernel:
    """A product in warp tiles, of matrices as they are or with one of them transposed."""
    return Kernel(
        "matmul/warp_tiled.cu",
        f"matmul_{name}",
        grid=(f"{x}/COLUMNS", f"{y}/ROWS", "batch"),
        block=("128",),
        sizes="m n k batch=1",
        fit=lambda **sizes: dict(zip(("ROWS", "COLUMNS"), tile(sizes[y], sizes[x], sizes["batch"]), strict=True)),
        ROWS=(128, 64),
        COLUMNS=(128, 64),
    )


COSTS = {(128, 128): 1.0, (64, 128): 1.05, (64, 64): 1.15}  # rows and columns of a tile, and the time for an element
PROCESSORS = 132  # of an H100 or H200; each takes a block at a time, and in the last round many may be idle


def tile(rows: int, columns: int, count: int) -> tuple[int, int]:
    """The tile for which rounds of blocks x elements x time is least."""

    def time(shape: tuple[int, int]) -> float:
        blocks = ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * count
        return ceil_div(blocks, PROCESSORS) * prod(shape) * COSTS[shape]

    return min((shape for shape in COSTS if rows <= shape[0] * MAX_GRID[1]), key=time, default=(128, 128))


COLUMN, SQUARE, EIGHTHS = ("EDGE", "EDGE/EACH"), ("EDGE/EACH", "EDGE/EACH"), ("EDGE/8", "EDGE/8")
kernels = {
    "naive": per_tile("naive", "m", "n"),
    "coalesced": per_tile("coalesced", "n", "m"),
    "tiled": per_tile("tiled", "n", "m"),
    "register_tile_1d": per_edge("register_tile", "register_tile_1d", "n", "m", COLUMN, EDGE=(32, 64), EACH=(8, 4)),
    "register_tile_2d": per_edge("register_tile", "register_tile_2d", "n", "m", SQUARE, EDGE=(128, 64), EACH=(8, 4)),
    "vectorized": per_edge("vectorized", "vectorized", "n", "m", EIGHTHS, EDGE=(128, 64)),
    "double_buffered": per_edge("double_buffered", "double_buffered", "n", "m", EIGHTHS, EDGE=(128, 64)),
    "warp_tiled": warp_tiled("warp_tiled", "n", "m"),
    "backward_a": per_tile("backward_a", "k", "m"),
    "backward_b": per_tile("backward_b", "n", "k"),
    "warp_tiled_backward_a": warp_tiled("warp_tiled_backward_a", "k", "m"),
    "warp_tiled_backward_b": warp_tiled("warp_tiled_backward_b", "n", "k"),
}
kernels["forward"] = kernels["tiled"]
WAYS = {"forward": "warp_tiled", **{way: f"warp_tiled_{way}" for way in ("backward_a", "backward_b")}}


def single(kernels: dict[str, Kernel], way: str, dtype: np.dtype) -> Kernel:
    """The fast kernel for float32, whose large tiles would overflow the registers with float64."""
    return kernels.get(f"{way}_float32" if dtype == np.float32 else way, kernels[way])


@dataclass(frozen=True)
class Work:
    """`count` products (m, k) @ (k, n), which matrix of a, b and c each takes, and the shapes of the results."""

    m: int
    n: int
    k: int
    da: Shape
    db: Shape
    c: Shape
    count: int = 1
    a_at: View = ONE
    b_at: View = ONE
    c_at: View = ONE


@lru_cache(maxsize=1024)
def work(a: Shape, b: Shape) -> Work:
    """The work for these shapes. One matrix b for a whole batch of a is one product, with the rows of all of them."""
    m, n, k = (1, *a)[-2], b[-1] if len(b) > 1 else 1, a[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    da, db, c = (*batch, *a[-2:]), (*batch, *b[-2:]), (*batch, *a[-2:-1], *b[-1:] * (len(b) > 1))
    if prod(b[:-2]) == 1:
        return Work(prod(a[:-1]), n, k, a, b, c)
    if prod(batch) > MAX_GRID[2]:
        raise ValueError(f"matmul: {prod(batch)} matrices in a batch; a launch takes {MAX_GRID[2]}. Cut the batch up.")
    views = (broadcast(shape, batch) for shape in (a[:-2], b[:-2], batch))
    return Work(m, n, k, da, db, c, prod(batch), *views)


def launch(kernels: dict[str, Kernel], a: Array, b: Array) -> Array:
    """One launch for the whole batch, or one for each slab of very many rows."""
    w = work(a.shape, b.shape)
    c = Array.empty(a.device, w.c, a.dtype)
    multiply(single(kernels, "forward", a.dtype), w, a, b, c, w.a_at, w.b_at)
    return c


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, a: Array, b: Array, shapes: tuple) -> tuple:
    """A launch for each gradient that is wanted."""
    w = work(*shapes)
    da = Array.empty(dy.device, w.da, dy.dtype) if needs[0] else None
    db = Array.empty(dy.device, w.db, dy.dtype) if needs[1] else None
    if da is not None:
        multiply(single(kernels, "backward_a", dy.dtype), w, dy, b, da, w.c_at, w.b_at)
    if db is not None:
        multiply_transposed(single(kernels, "backward_b", dy.dtype), w, a, dy, db, w.a_at, w.c_at)
    return da, db


def prepare(a: Any, b: Any) -> dict:
    """Raises ValueError where the shapes do not multiply."""
    given = f"matmul: a is {a.shape} and b is {b.shape}"
    if not a.ndim or not b.ndim:
        raise ValueError(f"{given}; a number has no axis to sum over. Write a * b.")
    inner, other = a.shape[-1], (*b.shape, 1)[-3 if b.ndim > 1 else 0]
    if inner != other:
        raise ValueError(f"{given}: the inner extents {inner} and {other} differ.{_did_you_mean(a.shape, b.shape)}")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"{given}: the batch axes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast.") from None
    return {}


def _did_you_mean(a: Shape, b: Shape) -> str:
    if len(a) != 2 or len(b) != 2:
        return ""
    ways = {"a @ b.T": a[1] == b[1], "a.T @ b": a[0] == b[0], "b @ a": b[1] == a[0], "a.T @ b.T": a[0] == b[1]}
    return next((f" Did you mean {way}?" for way, fits in ways.items() if fits), "")


def cost(a: Any, b: Any) -> tuple[int, int]:
    """2 m n k FLOPs, a multiplication and an addition each; a and b read once, c written once."""
    outputs = prod(work(a.shape, b.shape).c)
    return 2 * outputs * a.shape[-1], (a.size + b.size + outputs) * a.dtype.itemsize


INPUTS = (
    ((1, 1), (1, 1)), ((2, 3), (3, 4)), ((16, 16), (16, 16)), ((31, 33), (33, 65)), ((65, 1), (1, 33)),
    ((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 5)), ((2, 4, 3), (3,)), ((3,), (2, 3, 5)),
    ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 4), (1, 4, 5)),
    ((0, 3), (3, 4)), ((2, 0), (0, 3)), ((0, 2, 3), (0, 3, 2)),
)  # fmt: skip

matmul = Op(
    "matmul",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    uses=("b", "a"),
    cost=cost,
    backward_flops=2,
    broadcasts=True,
    fast={f"{way}_float32": kernel for way, kernel in WAYS.items()},
    cases=[Case(shapes) for shapes in INPUTS],
)
