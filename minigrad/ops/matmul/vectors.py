"""Products with an extent of 1: they use each element of a matrix once, so they take as long as moving it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.kernels.view import View
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import ON, extents
from minigrad.ops.matmul.parts import add_up

if TYPE_CHECKING:
    from minigrad.ops.matmul import Work

STRIP, HEIGHTS = 32, (16, 32, 64, 128)  # columns of a block, and of how many of their rows it takes a step
# Elements of a matrix for a block: with fewer, the launch that adds up the parts takes longer than they save.
SHORTEST, LANES = 8192, 4
BROAD = 1024  # an extent from which on tiles write the products of all pairs faster, as measured on an H200


def vector_rows(outputs: int, n: int, parts: int, batch: int, processors: int) -> dict[str, int]:
    """The threads of a row: a block where there are few long rows, else so many lanes that each has 16 elements."""
    few = outputs * parts * batch < 24 * processors
    return {"SHARE": 256 if few and n >= 2048 * parts else min(32, 1 << max(0, (n // 16).bit_length() - 1))}


def vector_columns(outputs: int, n: int, parts: int, batch: int, processors: int) -> dict[str, int]:
    """The rows a block reads at once: 1024 threads for a multiprocessor, 8 for a row, with four rows each at least."""
    blocks = max(ceil_div(outputs, STRIP) * parts * batch, 1)
    most = max(min(1024 * processors // (8 * blocks), n // (4 * parts)), HEIGHTS[0])
    return {"HEIGHT": max(height for height in HEIGHTS if height <= most)}


def with_vector(fit: Callable, x: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A product with a vector, with the rows or columns of the matrix shared out among threads."""
    sizes = "outputs n parts=1 batch=1" + ON
    name = f"matmul_{fit.__name__}"
    return Kernel("matmul/vector.cu", name, (x, "parts", "batch"), block, sizes, None, fit, 0, **tunables)


kernels = {
    "vector_rows": with_vector(vector_rows, "outputs*SHARE/256", ("256",), SHARE=(32, 1, 2, 4, 8, 16, 256)),
    "vector_columns": with_vector(vector_columns, f"outputs/{STRIP}", ("8", "HEIGHT"), HEIGHT=HEIGHTS),
}
FAST = {"along": "vector_rows", "down": "vector_columns"}


def multiply(kernels: Mapping[str, Kernel], way: str, w: "Work", x: Array, y: Array, out: Array, *views: View) -> bool:
    """out = the product, where an extent is 1 and `using` asks for no other kernel. Whether it was done."""
    rows, columns, terms = extents(way, w)
    along = way == "backward_a" or rows == columns or (way == "forward" and columns == 1)  # 1 x 1 is one row's sum
    kernel, role = kernels["vector_rows" if along else "vector_columns"], "along" if along else "down"
    if out.dtype.kind != "f" or kernel not in (kernels["forward"], kernels.get(role)):
        return False
    if terms == w.count == 1 and role in kernels and min(rows, columns) < BROAD:
        _every_pair(x, y, out, rows, columns)
    elif min(rows, columns) <= 1:
        if columns != 1:
            x, y, views = y, x, views[::-1]
        _sums(kernel, along, w.count, x, y, out, rows * columns, terms, *views)
    else:
        return False
    return True


def _every_pair(x: Array, y: Array, out: Array, rows: int, columns: int) -> None:
    """out[i, j] = x[i] y[j]: a sum of one term."""
    views = (View.of((rows, columns), strides) for strides in ((1, 0), (0, 1)))
    OPS["multiply"].kernels["vectorized"].launch(out.size)(x, y, out, *views, out.size)


def _sums(
    kernel: Kernel, along: bool, count: int, matrix: Array, x: Array, out: Array, outputs: int, terms: int, *at: View
) -> None:
    """out = the sums of x times the rows of each matrix, `along` them, or times its columns."""
    processors, wide = out.device.processors, 1 if along else STRIP
    parts = shared_by(ceil_div(outputs, wide) * count, terms * wide, processors)
    chunk = max(ceil_div(terms, parts * LANES), 1) * LANES
    parts = max(ceil_div(terms, chunk), 1)
    to = out if parts == 1 else Array.empty(out.device, (parts, out.size), out.dtype)
    kernel.launch(outputs, terms, parts, count, processors)(matrix, x, to, outputs, terms, chunk, *at)
    if parts > 1:
        add_up(to, out, parts, 1 if along else outputs)


def shared_by(blocks: int, elements: int, processors: int) -> int:
    """How many blocks share what is behind one: then there are two for each multiprocessor."""
    shares = min(2 * processors // max(blocks, 1), elements // SHORTEST)
    return shares if shares > 4 else 1
