"""Strategies of matmul: `choose` names one for each product, from shapes, dtype and chip, and `run` follows it.

A strategy is one launch (`tiles`) or several, with copies or partial sums between them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import MAX_ELEMENTS, Array, Spec
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import has_gradient, is_bfloat16, wide
from minigrad.devices.tensor_map import TensorMap
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.view import View, broadcast
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import (
    PRECISIONS,
    SMALL,
    STRIP,
    chunk_in_parts,
    has_room,
    has_tensor_cores,
    is_small,
    pick,
    takes_chunks,
    tile,
)
from minigrad.ops.matmul.packing import LANES, packed, packs
from minigrad.ops.matmul.shapes import ENDS, ONE, Products, products

Sizes = tuple[int, int, int]  # m, n, k


@dataclass(frozen=True)
class Strategy:
    """The way one product is computed. chunk: the terms of a sum that one block adds up, where several share it.

    adds: the kernel for the sum of the parts of products with a vector.
    """

    name: str
    kernel: Kernel
    way: str
    shapes: Products
    chunk: int = 0
    adds: Any = None

    @property
    def chunks(self) -> int:
        """The number of chunks into which each sum is split."""
        return max(ceil_div(self.shapes.extents(self.way)[2], self.chunk), 1) if self.chunk else 1

    def __repr__(self) -> str:
        rows, columns, terms = self.shapes.extents(self.way)
        count = f"{self.shapes.count} times " if self.shapes.count != 1 else ""
        split = f" in {self.chunks} chunks" if self.chunks > 1 else ""
        reason = STRATEGIES[self.name][1]
        return f"{count}{rows} x {terms} @ {terms} x {columns}: `{self.name}`, {reason}{split}, by {self.kernel.name}"


def choose(
    kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec, y: Spec, precision: str = "float32"
) -> Strategy:
    """The strategy for x times y, a product of these shapes; kernels are the op's, by name and by role.

    The first that fits: a product with a vector, a long sum of a small result, packed operands, tiles.
    """
    rows, columns, terms = shapes.extents(way)
    product = partial(Strategy, way=way, shapes=shapes)
    along = way == "backward_a" or rows == columns or (way == "forward" and columns == 1)  # 1 x 1 is one row's sum
    kernel, role = (kernels["vector_rows"], "along") if along else (kernels["vector_columns"], "down")
    if has_gradient(x.dtype) and kernel in (kernels["forward"], kernels.get(role)):
        if terms == shapes.count == 1 and role in kernels and min(rows, columns) < BROAD:
            return product("outer", OPS["multiply"].kernels["vectorized"])
        if min(rows, columns) <= 1:
            width = 1 if along else STRIP  # outputs of a block
            chunks = vector_chunks(ceil_div(rows * columns, width) * shapes.count, terms * width, x.device.processors)
            name, chunk = "rows_sum" if along else "columns_sum", chunk_of(terms, chunks, LANES)
            return product(name, kernel, chunk=chunk, adds=kernels["vector_parts"])
    if found := in_parts(kernels, way, shapes, x, y, precision):
        return product("sum_in_parts", found[0], chunk=found[1])
    if chunks := splits_sum(kernels, way, shapes, x):
        return product("split_sum", kernels[f"split_k_parts{ENDS[way]}"], chunk=chunk_of(terms, chunks, STAGE))
    if turns(kernels, way, shapes, x, y, precision):
        return product("turned", kernels["wgmma_tf32"])
    rounds = precision != "float32" and may_round(kernels, rows, columns, shapes.count, x, y)
    if not rounds and packs(kernels, way, shapes, x):
        return product("packed", kernels["packed"])
    kernel = kernels[PRECISIONS[precision] + ENDS[way]] if rounds else pick(kernels, way, shapes, x, y)
    return product(by_rows(kernel, way, shapes), kernel)


def chunk_of(terms: int, chunks: int, unit: int) -> int:
    """The terms of a chunk, a multiple of `unit`, for at most `chunks` chunks."""
    return max(ceil_div(terms, chunks * unit), 1) * unit


def run(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, by the strategy that was chosen for their specs."""
    STRATEGIES[strategy.name][0](strategy, x, y, out)


# --- products with a vector: they use each element of a matrix once, so they take as long as moving it ---

BROAD = 1024  # an extent from which on tiles write an outer product faster, as measured on an H200
CHUNK_ELEMENTS = 8192  # of a matrix, per block: with fewer, adding up the partial sums takes longer than they save


def outer(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out[i, j] = x[i] y[j]: a sum of one term."""
    rows, columns, _ = strategy.shapes.extents(strategy.way)
    views = (View.of((rows, columns), strides) for strides in ((1, 0), (0, 1)))
    strategy.kernel.launch(out.size)(x, y, out, *views, out.size)


def vector_sums(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = the sums of a vector times the rows of each matrix (`rows_sum`), or times its columns."""
    shapes, chunk, chunks = strategy.shapes, strategy.chunk, strategy.chunks
    rows, columns, terms = shapes.extents(strategy.way)
    outputs, views = rows * columns, shapes.views(strategy.way)
    matrix, vector, views = (x, y, views) if columns == 1 else (y, x, views[::-1])
    parts = Array.empty(out.device, (chunks, out.size), wide(out.dtype)) if chunks > 1 else None
    launch = strategy.kernel.launch(outputs, terms, chunks, shapes.count, out.device.processors)
    launch(matrix, vector, out, parts, outputs, terms, chunk, *views)
    if parts:
        inner = 1 if strategy.name == "rows_sum" else outputs
        strategy.adds.launch(out.size)(parts, out, out.size, chunks, inner)


def vector_chunks(blocks: int, elements: int, processors: int) -> int:
    """The number of blocks that share the elements of one, so that each multiprocessor gets two blocks."""
    chunks = min(2 * processors // max(blocks, 1), elements // CHUNK_ELEMENTS)
    return chunks if chunks > 4 else 1


# --- a long sum of a small result: several blocks share the sum of a tile, and another launch adds up ---

# Terms of a sum. A block adds 160 per microsecond (64 x 64 with 16384 of them take 102 us on an H200), and the launch
# that adds up takes about 3: from LONG terms on, half of them take 13 us, four times as long as that launch.
LONG, SHORTEST, STAGE = 4096, 1024, 64


def splits_sum(kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec) -> int:
    """The number of chunks, at least 2, if splitting the sum pays or `using` selects it; else 0.

    It is also 0 where a grid or an array has no room for the partial results.
    """
    kernel = kernels[f"split_k_parts{ENDS[way]}"]
    rows, columns, terms = shapes.extents(way)
    chunks = split_chunks(rows, columns, terms, x.device.processors)
    long = kernels.get(f"{way}_long") is kernel
    fast = long and x.dtype == np.float32 and chunks > 1
    requested = x.dtype.kind == "f" and (kernels[way] is kernel or (long and f"{way}_small" not in kernels))
    fits = rows <= 16 * MAX_GRID[1] and 0 < rows * columns * max(chunks, 2) <= MAX_ELEMENTS
    return max(chunks, 2) if shapes.count == 1 and fits and (requested or fast) else 0


def split_chunks(rows: int, columns: int, terms: int, processors: int) -> int:
    """The number of blocks that share a tile: one for each multiprocessor, with at least SHORTEST terms each."""
    if terms < LONG or not is_small(rows, columns, 1, processors):
        return 1
    tall, wide = tile(rows, columns, 1, processors, SMALL)
    tiles = ceil_div(rows, tall) * ceil_div(columns, wide)
    return max(1, min(processors // tiles, terms // SHORTEST))


def split_sum(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, with a launch for the partial sums and one that adds them up."""
    shapes, chunks = strategy.shapes, strategy.chunks
    partial_sums = Array.empty(out.device, (chunks, out.size), out.dtype)
    launch = strategy.kernel.launch(shapes.m, shapes.n, shapes.k, chunks, out.device.processors)
    launch(x, y, partial_sums, shapes.m, shapes.n, shapes.k, strategy.chunk)
    add_up(partial_sums, out, chunks, out.size)


def in_parts(
    kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec, y: Spec, precision: str
) -> tuple[Kernel, int] | None:
    """The kernel on tensor cores for the gradient of b, and the terms of a part of its sum, where it pays to split it.

    Each part is a product of a batch. Without them a layer's few weights would keep few multiprocessors busy.
    """
    rows, columns, terms = shapes.extents(way)
    if way != "backward_b" or shapes.count > 1 or f"{way}_long" not in kernels or not x.size or x.offset or y.offset:
        return None
    if x.dtype == np.float32 and precision != "float32" and has_tensor_cores(x.device.arch):
        kernel = kernels[PRECISIONS[precision] + ENDS[way]]
    elif is_bfloat16(x.dtype) and has_room(x.device.arch):
        kernel = pick(kernels, way, shapes, x, y)
    else:
        return None
    chunk = chunk_in_parts(kernel, rows, columns, terms, x.device.processors)
    fits = by_rows(kernel, way, shapes) == "tiles" and rows * columns * ceil_div(terms, chunk) <= MAX_ELEMENTS
    return (kernel, chunk) if chunk < terms and fits else None


def sum_in_parts(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, a batch of products of some terms each, and a launch that adds them up."""
    kernel, shapes, parts = strategy.kernel, strategy.shapes, strategy.chunks
    sums = Array.empty(out.device, (parts, out.size), out.dtype)
    if takes_chunks(kernel):
        one = broadcast((1,), (parts,))
        _launch(kernel, (shapes.m, shapes.n, shapes.k), x, y, sums, one, one, parts, strategy.chunk)
    else:
        each = products((parts, shapes.m // parts, shapes.k), (parts, shapes.k, shapes.n))
        tiles(replace(strategy, shapes=each, chunk=0), x, y, sums)
    add_up(sums, out, parts, out.size)


def result_dtype(strategy: Strategy, dtype: np.dtype) -> np.dtype:
    """Of the product of two matrices of this dtype: some kernels leave that of bfloat16 in float32."""
    out = next(each for each in strategy.kernel.signature.params if each.pointer and not each.const)
    return wide(dtype) if out.type == "float" else dtype


FEW = 33  # partial sums that one thread adds up


def add_up(partial_sums: Array, out: Array, count: int, inner: int) -> None:
    """out = the sum of `count` partial sums, `inner` elements apart: a thread adds up few, a column of threads many."""
    chunk = max(count, 2)  # all of them, whatever chunk `sum` would choose
    add = OPS["sum"].kernels["vectorized" if inner == 1 else "columns" if count < FEW else "strips"]
    add.launch(outputs=out.size, n=count, CHUNK=chunk)(partial_sums, out, out.size, count, inner, chunk, 1.0)


# --- turned operands: wgmma takes TF32 with the sum along the rows of both factors alone ---

TURNED = 1700  # multiplications that save as much time as copying an element takes, as measured on an H200
SUM_DOWN = {"forward": (False, True), "backward_a": (False, False), "backward_b": (True, True)}  # of x, of y


def turns(kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec, y: Spec, precision: str) -> bool:
    """True for one product that wgmma takes, if it is worth the copies or `using` selects it. Raises LaunchError."""
    (rows, columns, terms), down = shapes.extents(way), SUM_DOWN[way]
    requested = kernels["forward"] is kernels["wgmma_tf32"]
    copied = rows * terms * down[0] + columns * terms * down[1]
    worth = precision in ("tf32", "bf16") and "turned" in kernels and rows * columns * terms >= TURNED * copied
    fits = shapes.count == 1 and rows * columns * terms > 0 and terms % LANES == 0
    fits = fits and x.dtype == np.float32 and not (x.offset or y.offset)
    if requested and not (fits and x.device.arch == "sm_90a"):
        raise LaunchError(
            f"matmul: wgmma_tf32 takes one product of float32, sums of a multiple of {LANES} terms, on a Hopper GPU "
            f"(sm_90a); this one is {rows} x {terms} @ {terms} x {columns} of {x.dtype} on {x.device.arch or 'no GPU'}."
        )
    large = not is_small(rows, columns, 1, x.device.processors)
    return requested or (worth and fits and large and x.device.arch == "sm_90a")


def turned(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, of copies with the sum along their rows."""
    rows, columns, terms = strategy.shapes.extents(strategy.way)
    left, right = (
        OPS["transpose"].run([z.reshape((terms, lines))], {"axes": (1, 0)}) if down else z.reshape((lines, terms))
        for z, lines, down in zip((x, y), (rows, columns), SUM_DOWN[strategy.way], strict=True)
    )
    _launch(strategy.kernel, (rows, columns, terms), left, right, out)


# --- tiles: one launch for the whole batch, or one per matrix; more where a matrix is longer than a grid along y ---

# Rows and columns of both matrices of each kernel with tensor maps, and the rows of a box of 128 bytes.
BOXES: dict[str, tuple[tuple[str, str, int | str], ...]] = {
    "matmul_wgmma_tf32": (("m", "k", 128), ("n", "k", "COLUMNS")),
    "matmul_wgmma": (("m", "k", 128), ("k", "n", 64)),
    "matmul_wgmma_backward_a": (("m", "n", 128), ("k", "n", "COLUMNS")),
    "matmul_wgmma_backward_b": (("m", "k", 64), ("m", "n", 64)),
}


def may_round(kernels: Mapping[str, Kernel], rows: int, columns: int, count: int, x: Spec, y: Spec) -> bool:
    """True where tensor cores, which load 16 bytes at once, multiply float32 faster, and `using` selects no kernel."""
    fast = x.dtype == np.float32 and "forward_float32" in kernels and not (x.offset or y.offset)
    return fast and has_tensor_cores(x.device.arch) and not is_small(rows, columns, count, x.device.processors)


def most_rows(kernel: Kernel, way: str) -> int:
    """The most rows of a result in one launch. Along x, where some kernels have them, a grid has room for all."""
    along_y = kernel.grid[1]
    rows = "k" if way == "backward_b" else "m"
    return MAX_GRID[1] * along_y.step(kernel.values) if along_y.size == rows else MAX_GRID[0]


def by_rows(kernel: Kernel, way: str, shapes: Products) -> str:
    """`tiles` if one launch takes all rows, else `slabs` or `transposed`. Raises ValueError for a batch."""
    rows, limit = shapes.extents(way)[0], most_rows(kernel, way)
    if rows > limit and shapes.count > 1:
        raise ValueError(
            f"matmul: a batch of {shapes.count} products with {rows} rows each; a launch takes {limit} rows of each. "
            "Multiply the matrices one by one: a[i] @ b[i]."
        )
    return "tiles" if rows <= limit else "transposed" if way == "backward_b" else "slabs"


def tiles(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, in one launch, or in one per matrix of the batch by a kernel of one product."""
    kernel, shapes = strategy.kernel, strategy.shapes
    sizes, (x_at, y_at) = (shapes.m, shapes.n, shapes.k), shapes.views(strategy.way)
    if shapes.count == 1 or "batch" in kernel.sizes:
        _launch(kernel, sizes, x, y, out, x_at, y_at, shapes.count)
        return
    rows, columns, terms = shapes.extents(strategy.way)
    for i in range(shapes.count):
        left, right = _matrix(x, x_at.element(i), rows * terms), _matrix(y, y_at.element(i), terms * columns)
        _launch(kernel, sizes, left, right, _matrix(out, i, rows * columns))


def slabs(strategy: Strategy, x: Array, y: Array, out: Array) -> None:
    """out = x times y, with a launch for each slab of as many rows as a grid can hold."""
    shapes, limit = strategy.shapes, most_rows(strategy.kernel, strategy.way)
    x, out = (matrix.reshape((shapes.m, matrix.size // shapes.m)) for matrix in (x, out))
    for start in range(0, shapes.m, limit):
        rows = min(limit, shapes.m - start)
        _launch(strategy.kernel, (rows, shapes.n, shapes.k), x.rows(start, rows), y, out.rows(start, rows))


def transposed(strategy: Strategy, a: Array, dy: Array, db: Array) -> None:
    """db = (dy^T @ a)^T, whose k rows lie along x then."""
    shapes, transpose = strategy.shapes, OPS["transpose"]
    across = Array.empty(dy.device, (shapes.n, shapes.k), db.dtype)
    _launch(strategy.kernel, (shapes.m, shapes.k, shapes.n), dy, a, across)
    db.copy_from(transpose.launch(transpose.kernels, across, (1, 0)))


def _launch(
    kernel: Kernel, sizes: Sizes, x: Array, y: Array, out: Array, x_at: View = ONE, y_at: View = ONE, count: int = 1,
    chunk: int = 0,
) -> None:  # fmt: skip
    """Launch a kernel for m, n and k, with x and y as pointers or as tensor maps."""
    if "batch" not in kernel.sizes:
        kernel.launch(*sizes)(x, y, out, *sizes)
        return
    own = (x.device.processors,) if "processors" in kernel.sizes else ()
    launch = kernel.launch(*sizes, count, *own)
    if kernel.name in BOXES:
        more = (chunk,) if takes_chunks(kernel) else ()
        launch(*maps(launch, x, y), out, *sizes, count, x_at, y_at, *more)
    else:
        launch(x, y, out, *sizes, x_at, y_at)


def _matrix(batch: Array, index: int, size: int) -> Array:
    """A view of one matrix of a batch, of `size` elements."""
    address = batch.address + index * size * batch.dtype.itemsize
    return Array(batch.device, (size,), batch.dtype, batch.buffer, address)


def maps(launch: Launch, *arrays: Array) -> Iterator[TensorMap]:
    """The tensor map of each array of a launch: its matrices, in boxes."""
    numbers = launch.sizes | launch.values
    for array, (rows, columns, tall) in zip(arrays, BOXES[launch.kernel.name], strict=True):
        shape, tall = (numbers[rows], numbers[columns]), numbers.get(tall, tall)  # type: ignore[arg-type]
        yield TensorMap(array, (array.size // prod(shape), *shape), (1, tall, 128 // array.dtype.itemsize))


# Name -> how to run it, and the reason for which it is chosen.
STRATEGIES: dict[str, tuple[Callable[[Strategy, Array, Array, Array], None], str]] = {
    "outer": (outer, "all pairs of two vectors"),
    "rows_sum": (vector_sums, "a product with a vector"),
    "columns_sum": (vector_sums, "a product with a vector"),
    "split_sum": (split_sum, "a long sum of a small result"),
    "sum_in_parts": (sum_in_parts, "a long sum of few tiles"),
    "turned": (turned, "large enough to turn the operands first"),
    "packed": (packed, "large enough to copy the operands first"),
    "tiles": (tiles, "one launch"),
    "slabs": (slabs, "more rows than one launch takes"),
    "transposed": (transposed, "more rows than one launch takes"),
}
