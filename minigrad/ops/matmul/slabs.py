"""Products of matrices that are longer than a grid is along y, where a device allows 65535 blocks."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from minigrad.devices.array import Array, TensorMap
from minigrad.devices.device import MAX_GRID
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import View
from minigrad.op import OPS

if TYPE_CHECKING:
    from minigrad.ops.matmul import Work

ONE = View.of((), ())  # a batch of one matrix
Sizes = tuple[int, int, int]  # m, n, k
# What each kernel with tensor maps takes: rows and columns of its two matrices, and the rows of a box of 64 columns.
BOXES = {
    "matmul_wgmma": (("m", "k", 128), ("k", "n", 64)),
    "matmul_wgmma_backward_a": (("m", "n", 128), ("k", "n", 256)),
    "matmul_wgmma_backward_b": (("m", "k", 64), ("m", "n", 64)),
}


def multiply(kernel: Kernel, w: "Work", x: Array, y: Array, out: Array, x_at: View, y_at: View) -> None:
    """out = x times y, where x and out have w.m rows: slab after slab of them, where one launch cannot hold all."""
    most = _most(kernel, "m")
    if w.m <= most:
        return _launch(kernel, (w.m, w.n, w.k), x, y, out, x_at, y_at, w.count)
    _must_be_one(w, w.m, most)
    x, out = (matrix.reshape((w.m, matrix.size // w.m)) for matrix in (x, out))
    for start in range(0, w.m, most):
        rows = min(most, w.m - start)
        _launch(kernel, (rows, w.n, w.k), x.rows(start, rows), y, out.rows(start, rows))


def multiply_transposed(kernel: Kernel, w: "Work", a: Array, dy: Array, db: Array, a_at: View, dy_at: View) -> None:
    """db = a^T @ dy, with w.k rows; where one launch cannot hold them, as (dy^T @ a)^T: they lie along x then."""
    most = _most(kernel, "k")
    if w.k <= most:
        return _launch(kernel, (w.m, w.n, w.k), a, dy, db, a_at, dy_at, w.count)
    _must_be_one(w, w.k, most)
    across, transpose = Array.empty(dy.device, (w.n, w.k), dy.dtype), OPS["transpose"]
    _launch(kernel, (w.m, w.k, w.n), dy, a, across)
    db.copy_from(transpose.launch(transpose.kernels, across, (1, 0)))


def _launch(
    kernel: Kernel, sizes: Sizes, x: Array, y: Array, out: Array, x_at: View = ONE, y_at: View = ONE, count: int = 1
) -> None:
    """Launch a kernel for m, n and k, on x and y as it takes them: as they are, or as tensor maps."""
    own = (x.device.processors,) if "processors" in kernel.sizes else ()
    launch = kernel.launch(*sizes, count, *own)
    if boxes := BOXES.get(kernel.name):
        launch(*_maps(boxes, sizes, x, y), out, *sizes, count, x_at, y_at)
    else:
        launch(x, y, out, *sizes, x_at, y_at)


def _maps(boxes: Sequence[tuple[str, str, int]], sizes: Sizes, *arrays: Array) -> Iterator[TensorMap]:
    """The matrices of each array, in boxes."""
    extents = dict(zip("mnk", sizes, strict=True))
    for array, (rows, columns, tall) in zip(arrays, boxes, strict=True):
        shape = extents[rows], extents[columns]
        yield TensorMap(array, (array.size // prod(shape), *shape), (1, tall, 64))


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
