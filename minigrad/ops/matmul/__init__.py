"""matmul: matrix multiplication, naive to tiled, and the two matrix multiplications of its gradient."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import is_bfloat16, must_be_floats
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape, View, broadcast
from minigrad.op import Case, Op
from minigrad.ops.matmul import packed, parts, vectors
from minigrad.ops.matmul.kernels import FAST, kernels, pick
from minigrad.ops.matmul.packed import Operand
from minigrad.ops.matmul.slabs import ONE, multiply, multiply_transposed


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c = a @ b: c[i, j] = sum over l of a[i, l] b[l, j]"""
    return _product(a, b)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b; bfloat16 is added up in float32, as on tensor cores."""
    if is_bfloat16(a.dtype):
        return np.asarray(a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    return np.asarray(a @ b)


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray, shapes: tuple, needs: tuple) -> tuple:
    """da = dy @ b^T, db = a^T @ dy"""
    row, column = (len(shape) == 1 for shape in shapes)  # a vector is a row on the left, a column on the right
    dy = dy[..., None] if column else dy
    dy = dy[..., None, :] if row else dy
    da = _without(_product(dy, (b[:, None] if column else b).swapaxes(-1, -2)), -2, row) if needs[0] else None
    db = _without(_product((a[None] if row else a).swapaxes(-1, -2), dy), -1, column) if needs[1] else None
    return da, db


def _without(matrix: np.ndarray, axis: int, vector: bool) -> np.ndarray:
    """A gradient with the axis taken out again that a vector was given."""
    return matrix.squeeze(axis) if vector else matrix


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
    """One launch for the whole batch, or one for each slab of very many rows; some behind copies, some in parts."""
    w = work(a.shape, b.shape)
    c = Array.empty(a.device, w.c, a.dtype)
    if not _odd_shaped(kernels, "forward", w, a, b, c, w.a_at, w.b_at):
        ab = Operand(a, w.m, w.k, across=True), Operand(b, w.k, w.n)
        if not packed.multiply(kernels, w.count, *ab, c):
            multiply(pick(kernels, "forward", w, a, b), w, a, b, c, w.a_at, w.b_at)
    return c


def _odd_shaped(kernels: dict[str, Kernel], way: str, w: Work, x: Array, y: Array, out: Array, *views: View) -> bool:
    """out = the product, where its shape has kernels of its own: with a vector, or in parts. Whether it was done."""
    return vectors.multiply(kernels, way, w, x, y, out, *views) or parts.multiply(kernels, way, w, x, y, out)


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, a: Array, b: Array, shapes: tuple) -> tuple:
    """A launch for each gradient that is wanted, behind the copies that its kernel may need."""
    w = work(*shapes)
    da = Array.empty(dy.device, w.da, dy.dtype) if needs[0] else None
    db = Array.empty(dy.device, w.db, dy.dtype) if needs[1] else None
    if da is not None and not _odd_shaped(kernels, "backward_a", w, dy, b, da, w.c_at, w.b_at):
        ab = Operand(dy, w.m, w.n, across=True), Operand(b, w.k, w.n, across=True)
        if not packed.multiply(kernels, w.count, *ab, da):
            multiply(pick(kernels, "backward_a", w, dy, b), w, dy, b, da, w.c_at, w.b_at)
    if db is not None and not _odd_shaped(kernels, "backward_b", w, a, dy, db, w.a_at, w.c_at):
        ab = Operand(a, w.m, w.k), Operand(dy, w.m, w.n)
        if not packed.multiply(kernels, w.count, *ab, db):
            multiply_transposed(pick(kernels, "backward_b", w, a, dy), w, a, dy, db, w.a_at, w.c_at)
    return da, db


def prepare(a: Any, b: Any) -> dict:
    """Raises ValueError where the shapes do not multiply, TypeError where the dtypes do not."""
    if not (is_bfloat16(a.dtype) and is_bfloat16(b.dtype)):
        must_be_floats("matmul", a, b)
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
    kernels=kernels | vectors.kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    uses=("b", "a"),
    cost=cost,
    backward_flops=2,
    broadcasts=True,
    integers=True,
    fast=FAST | vectors.FAST,
    cases=[Case(shapes) for shapes in INPUTS],
)
