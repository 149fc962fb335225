"""Products of matrices that are longer than a grid is along y, where a device allows 65535 blocks."""

from typing import TYPE_CHECKING

from minigrad.array import Array
from minigrad.devices.base import MAX_GRID
from minigrad.kernel import Kernel
from minigrad.op import OPS
from minigrad.view import View

if TYPE_CHECKING:
    from minigrad.ops.matmul import Work

ONE = View.of((), ())  # a batch of one matrix


def multiply(kernel: Kernel, w: "Work", x: Array, y: Array, out: Array, x_at: View, y_at: View) -> None:
    """out = x times y, where x and out have w.m rows: slab after slab of them, where one launch cannot hold all."""
    most = _most(kernel, "m")
    if w.m <= most:
        return kernel.launch(w.m, w.n, w.k, w.count)(x, y, out, w.m, w.n, w.k, x_at, y_at)
    _must_be_one(w, w.m, most)
    x, out = (matrix.reshape((w.m, matrix.size // w.m)) for matrix in (x, out))
    for start in range(0, w.m, most):
        rows = min(most, w.m - start)
        slab, result = x.rows(start, rows), out.rows(start, rows)
        kernel.launch(rows, w.n, w.k)(slab, y, result, rows, w.n, w.k, ONE, ONE)


def multiply_transposed(kernel: Kernel, w: "Work", a: Array, dy: Array, db: Array, a_at: View, dy_at: View) -> None:
    """db = a^T @ dy, with w.k rows; where one launch cannot hold them, as (dy^T @ a)^T: they lie along x then."""
    most = _most(kernel, "k")
    if w.k <= most:
        return kernel.launch(w.m, w.n, w.k, w.count)(a, dy, db, w.m, w.n, w.k, a_at, dy_at)
    _must_be_one(w, w.k, most)
    across, transpose = Array.empty(dy.device, (w.n, w.k), dy.dtype), OPS["transpose"]
    kernel.launch(w.m, w.k, w.n)(dy, a, across, w.m, w.k, w.n, ONE, ONE)
    db.copy_from(transpose.launch(transpose.kernels, across, (1, 0)))


def _most(kernel: Kernel, rows: str) -> int:
    """How many rows a launch can take. A kernel with something else along y has them along x, where all find room."""
    along_y = kernel.grid[1]
    return MAX_GRID[1] * along_y.step(kernel.values) if along_y.size == rows else MAX_GRID[0]


def _must_be_one(w: "Work", rows: int, most: int) -> None:
    if w.count > 1:
        raise ValueError(
            f"matmul: a batch of {w.count} products with {rows} rows each; a launch takes {most} rows of each. "
            "Multiply the matrices one by one: a[i] @ b[i]."
        )
