"""matmul: matrix multiplication, and the two matrix multiplications of its gradient.

`shapes` holds the extents of the products, `kernels` the ladder of kernels; `strategies` chooses among them.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array, spec_of
from minigrad.devices.dry_run import dry_run
from minigrad.devices.dtypes import check_dtype, must_be_floats
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape
from minigrad.op import Case, Op
from minigrad.ops.matmul.kernels import FAST, kernels
from minigrad.ops.matmul.shapes import ENDS, Products, products
from minigrad.ops.matmul.strategies import Strategy, choose, result_dtype, run
from minigrad.ops.precision import rounded


def forward(a: np.ndarray, b: np.ndarray, precision: str = "float32") -> np.ndarray:
    """c = a @ b: c[i, j] = sum over l of a[i, l] b[l, j]"""
    return np.asarray(rounding.rounded(a, precision) @ rounding.rounded(b, precision))


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray, shapes: tuple, needs: tuple, precision: str) -> tuple:
    """da = dy @ b^T, db = a^T @ dy"""
    row, column = (len(shape) == 1 for shape in shapes)  # a vector is a row on the left, a column on the right
    dy = dy[..., None] if column else dy
    dy = dy[..., None, :] if row else dy
    da = db = None
    if needs[0]:
        da = forward(dy, (b[:, None] if column else b).swapaxes(-1, -2), precision)
        da = da.squeeze(-2) if row else da
    if needs[1]:
        db = forward((a[None] if row else a).swapaxes(-1, -2), dy, precision)
        db = db.squeeze(-1) if column else db
    return da, db


def launch(kernels: Mapping[str, Kernel], a: Array, b: Array, precision: str = "float32") -> Array:
    """The launches of one strategy."""
    shapes = products(a.shape, b.shape)
    return multiply(kernels, "forward", shapes, a, b, shapes.c, precision)


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, a: Any, b: Any, shapes: tuple, precision: str
) -> tuple:
    """The launches of a strategy for each gradient that is wanted."""
    s = products(*shapes)
    da = multiply(kernels, "backward_a", s, dy, b, s.da, precision) if needs[0] else None
    return da, multiply(kernels, "backward_b", s, a, dy, s.db, precision) if needs[1] else None


def multiply(
    kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Array, y: Array, shape: Shape, precision: str
) -> Array:
    """x times y, in this shape. A device that is no GPU rounds the factors first, as NumPy does."""
    x, y = rounded(precision, x, y)
    strategy = choose(kernels, way, shapes, x.spec, y.spec, precision)
    out = Array.empty(x.device, shape, result_dtype(strategy, x.dtype))
    run(strategy, x, y, out)
    return out


def prepare(a: Any, b: Any, precision: str | None = None) -> dict[str, str]:
    """Raises ValueError where the shapes do not multiply, TypeError where the dtypes do not.

    The precision is that of `mg.precision` unless given.
    """
    must_be_floats("matmul", a, b)
    shapes = f"matmul: a is {a.shape} and b is {b.shape}"
    if not a.ndim or not b.ndim:
        raise ValueError(f"{shapes}; a number has no axis to sum over. Write a * b.")
    inner, other = a.shape[-1], (*b.shape, 1)[-3 if b.ndim > 1 else 0]
    if inner != other:
        raise ValueError(f"{shapes}: the inner extents {inner} and {other} differ.{_did_you_mean(a.shape, b.shape)}")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"{shapes}: the batch axes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast.") from None
    return {"precision": rounding.current() if precision is None else rounding.known(precision)}


def _did_you_mean(a: Shape, b: Shape) -> str:
    if len(a) != 2 or len(b) != 2:
        return ""
    ways = {"a @ b.T": a[1] == b[1], "a.T @ b": a[0] == b[0], "b @ a": b[1] == a[0], "a.T @ b.T": a[0] == b[1]}
    return next((f" Did you mean {way}?" for way, fits in ways.items() if fits), "")


def cost(a: Any, b: Any, precision: str = "float32") -> tuple[int, int]:
    """2 m n k FLOPs, a multiplication and an addition each; a and b read once, c written once."""
    outputs = prod(products(a.shape, b.shape).c)
    return 2 * outputs * a.shape[-1], (a.size + b.size + outputs) * a.dtype.itemsize


INPUTS = (
    ((1, 1), (1, 1)), ((2, 3), (3, 4)), ((16, 16), (16, 16)), ((31, 33), (33, 65)), ((65, 1), (1, 33)),
    ((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 5)), ((2, 4, 3), (3,)), ((3,), (2, 3, 5)),
    ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 4), (1, 4, 5)),
    ((0, 3), (3, 4)), ((2, 0), (0, 3)), ((0, 2, 3), (0, 3, 2)),
)  # fmt: skip


class Matmul(Op):
    """The op, with the strategy that it chooses for a product."""

    def strategy(self, a: Any, b: Any, dtype: str = "float32", way: str = "forward") -> Strategy:
        """The strategy for two tensors or shapes, on their device, or else on this machine's GPU (or an H200).

        way: "forward", or "backward_a" or "backward_b" for the gradient of a or b.
        """
        if way not in ENDS:
            raise ValueError(f"matmul.strategy: way={way!r} is not one of {', '.join(ENDS)}.")
        device = dry_run()

        def operand(x: Any) -> Array:
            array = getattr(x, "array", None)
            if isinstance(array, Array):
                return array
            return Array.empty(device, tuple(getattr(x, "shape", x)), check_dtype(getattr(x, "dtype", dtype)))

        a, b = operand(a), operand(b)
        params, shapes = prepare(a, b), products(a.shape, b.shape)
        c = spec_of(a.device, shapes.c, a.dtype)
        x, y = {"forward": (a.spec, b.spec), "backward_a": (c, b.spec), "backward_b": (a.spec, c)}[way]
        return choose(self.running, way, shapes, x, y, **params)


matmul = Matmul(
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
    integers=True,
    rounds=True,
    fast=FAST,
    cases=[Case(shapes) for shapes in INPUTS],
)
