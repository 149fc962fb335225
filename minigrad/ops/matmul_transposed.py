"""matmul_transposed: products with the rows of a table, as the logits of a vocabulary are, without a copy of it."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.kernels.kernel import Kernel
from minigrad.op import OPS, Case, Op
from minigrad.ops import matmul
from minigrad.ops.matmul.shapes import Products, products


def forward(x: np.ndarray, w: np.ndarray, precision: str = "float32") -> np.ndarray:
    """y = x @ w^T, x (..., k), w (n, k)"""
    return matmul.forward(x, w.T, precision)


def backward(dy: np.ndarray, x: np.ndarray, w: np.ndarray, needs: tuple, precision: str) -> tuple:
    """dx = dy @ w, dw = dy^T @ x"""
    dx = matmul.forward(dy, w, precision) if needs[0] else None
    flat = [a.reshape(prod(a.shape[:-1]), a.shape[-1]) for a in (dy, x)]
    return dx, matmul.forward(flat[0].T, flat[1], precision) if needs[1] else None


def shapes_of(x: Any, w: Any) -> Products:
    """Those of a product with w: for a = x @ w^T, dy = x is the upstream gradient of a @ w, and the result da."""
    return products((prod(x[:-1]), w[0]), tuple(w))


def launch(kernels: Mapping[str, Kernel], x: Array, w: Array, precision: str) -> Array:
    """The launches of matmul for the gradient of a first factor."""
    return matmul.multiply(running(), "backward_a", shapes_of(x.shape, w.shape), x, w, y_shape(x, w), precision)


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, x: Array, w: Array, precision: str
) -> tuple[Array | None, Array | None]:
    """Those for a product, and for the gradient of a second factor."""
    s = shapes_of(x.shape, w.shape)
    dx = matmul.multiply(running(), "forward", s, dy, w, x.shape, precision) if needs[0] else None
    return dx, matmul.multiply(running(), "backward_b", s, dy, x, w.shape, precision) if needs[1] else None


def running() -> Mapping[str, Kernel]:
    """The kernels of matmul, as they are tuned."""
    return OPS["matmul"].running


def y_shape(x: Any, w: Any) -> tuple[int, ...]:
    return (*x.shape[:-1], w.shape[0])


def prepare(x: Any, w: Any, precision: str | None = None) -> dict[str, str]:
    """Raises ValueError for shapes and TypeError for dtypes. The precision is that of `mg.precision` unless given."""
    must_be_floats("matmul_transposed", x, w)
    if not x.ndim or w.ndim != 2 or x.shape[-1] != w.shape[1]:
        raise ValueError(f"matmul_transposed: x is {x.shape}, w {w.shape}; they must be (..., k) and (n, k).")
    return {"precision": rounding.current() if precision is None else rounding.known(precision)}


def cost(x: Any, w: Any, precision: str = "float32") -> tuple[int, int]:
    """2 FLOPs for each element of w and row of x; all read once, y written once."""
    outputs = prod(y_shape(x, w))
    return 2 * outputs * w.shape[1], (x.size + w.size + outputs) * x.dtype.itemsize


matmul_transposed = Op(
    "matmul_transposed",
    forward,
    backward,
    kernels={},
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost,
    backward_flops=2,
    rounds=True,
    integers=True,
    cases=[
        Case((x, w))
        for x, w in (
            ((3, 4), (5, 4)), ((2, 3, 8), (33, 8)), ((65, 33), (31, 33)), ((1, 1), (1, 1)), ((4,), (3, 4)),
            ((0, 3), (4, 3)), ((2, 0), (3, 0)), ((5, 1), (6, 1)), ((2, 36), (1, 36)),
        )
    ],
)  # fmt: skip
