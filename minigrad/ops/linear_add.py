"""linear_add: a layer of few rows added to a residual, by one kernel: for a text that grows word by word."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import norm_linear as normed


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """y = residual + x @ weight + bias

    For inference: it has no gradient. The kernels are those of norm_linear.
    """
    y = normed.finished(x.astype(wide(x.dtype), copy=False), weight, bias) + residual.astype(wide(x.dtype), copy=False)
    return y.astype(x.dtype, copy=False)


def launch(kernels: Mapping[str, Kernel], x: Array, weight: Array, bias: Array, residual: Array) -> Array:
    """One kernel."""
    return normed.layer(kernels, x, weight, bias, residual=residual)


def prepare(x: Any, weight: Any, bias: Any, residual: Any) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes."""
    normed.checked("linear_add", x, weight, bias)
    if (residual.shape, residual.dtype) != ((*x.shape[:-1], weight.shape[1]), x.dtype):
        raise ValueError(
            f"linear_add: the residual is {residual.dtype} {residual.shape}; it must be as the product: {x.dtype} "
            f"{(*x.shape[:-1], weight.shape[1])}."
        )
    return {}


def cost(x: Any, weight: Any, bias: Any, residual: Any) -> tuple[int, int]:
    """2 FLOPs for each weight and row; all arrays read once, y written once."""
    moved = sum(a.size for a in (x, weight, bias, residual)) + residual.size
    return 2 * residual.size * weight.shape[0], moved * x.dtype.itemsize


linear_add = Op(
    "linear_add",
    forward,
    kernels={"forward": normed.norm_linear.kernels["forward"]},
    launch=launch,
    prepare=prepare,
    integers=True,
    widens=False,
    cost=cost,
    cases=[
        Case(((*rows, terms), (terms, columns), (columns,), (*rows, columns)))
        for terms, columns, *rows in ((4, 8, 1), (33, 65, 3), (300, 12, 2, 1), (1, 1), (260, 132, 1), (8, 4, 0))
    ],
)
