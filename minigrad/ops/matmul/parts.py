"""Products with a long sum and a small result: several blocks share the sum of a tile, and another launch adds up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from minigrad.devices.array import MAX_ELEMENTS, Array
from minigrad.devices.device import MAX_GRID
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import ENDS, SMALL, extents, is_small, tile

if TYPE_CHECKING:
    from minigrad.ops.matmul import Work

# Steps of a sum. A block takes 160 in a microsecond (64 x 64 with 16384 of them, in 102 us on an H200), and the launch
# that adds up lasts about 3: from LONG on, half of the steps take four times as long as it.
LONG, SHORTEST, STAGE = 4096, 1024, 64


def multiply(kernels: Mapping[str, Kernel], way: str, w: "Work", x: Array, y: Array, out: Array) -> bool:
    """out = the product, in parts, if it is worth that or `using` asks for it. Whether it was done."""
    kernel = kernels[f"split_k_parts{ENDS[way]}"]
    rows, columns, terms = extents(way, w)
    shares = shared_by(rows, columns, terms, out.device.processors)
    long = kernels.get(f"{way}_long") is kernel
    fast = long and out.dtype == np.float32 and shares > 1
    asked = out.dtype.kind == "f" and (kernels[way] is kernel or (long and f"{way}_small" not in kernels))
    tall = rows > 16 * MAX_GRID[1]
    large = max(shares, 2) * out.size > MAX_ELEMENTS  # all parts of it together
    if w.count != 1 or tall or large or not out.size or not (asked or fast):
        return False
    part = max(ceil_div(terms, max(shares, 2) * STAGE), 1) * STAGE
    count = max(ceil_div(terms, part), 1)
    partial = Array.empty(out.device, (count, out.size), out.dtype)
    kernel.launch(w.m, w.n, w.k, count, out.device.processors)(x, y, partial, w.m, w.n, w.k, part)
    add_up(partial, out, count, out.size)
    return True


def add_up(partial: Array, out: Array, count: int, inner: int) -> None:
    """out = the sum of `count` parts of it, which lie `inner` apart."""
    chunk = max(count, 2)  # all of them, whatever sum would take by itself
    add = OPS["sum"].kernels["strips" if inner > 1 else "vectorized"]
    add.launch(outputs=out.size, n=count, CHUNK=chunk)(partial, out, out.size, count, inner, chunk, 1.0)


def shared_by(rows: int, columns: int, terms: int, processors: int) -> int:
    """How many blocks share a tile of the result: as many as find a multiprocessor, with SHORTEST steps at least."""
    if terms < LONG or not is_small(rows, columns, 1, processors):
        return 1
    tall, wide = tile(rows, columns, 1, processors, SMALL)
    tiles = ceil_div(rows, tall) * ceil_div(columns, wide)
    return max(1, min(processors // tiles, terms // SHORTEST))
