"""Packed operands: copying n^2 elements of transposed or misaligned matrices pays against n^3 multiplications."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import MAX_ELEMENTS, Array, Spec
from minigrad.devices.device import MAX_GRID
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import View
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import is_small
from minigrad.ops.matmul.shapes import ONE, Products

LANES = 4  # neighbors that a thread reads at once
FILL = 32  # rows of copies begin at multiples of 32 elements: 128 bytes, the unit in which memory is moved
# The multiplications that save as much time as copying one element takes, as measured on an H200: of arrays whose rows
# begin at multiples of LANES, and of others.
ALIGNED, RAGGED = 1000, 250
TALLEST = 32 * MAX_GRID[1]  # rows: a block of the copy or of the product has 32 of them at least


class Operand(NamedTuple):
    """A stored matrix, (rows, columns), to be read as it is or transposed."""

    rows: int
    columns: int
    transposed: bool

    @property
    def copied(self) -> int:
        """The elements to copy before the kernel can read the matrix."""
        return self.rows * self.columns if self.transposed or self.columns % LANES else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows as the kernel reads them, and their pitch: in copies a multiple of FILL."""
        height, width = (self.columns, self.rows) if self.transposed else (self.rows, self.columns)
        return height, ceil_div(width, FILL) * FILL if self.copied else width

    def pack(self, x: Array) -> Array:
        """The matrix with its rows padded to the pitch; the padding is not initialised."""
        if not self.copied:
            return x.reshape(self.shape)
        y, pitch = Array.empty(x.device, self.shape, x.dtype), self.shape[1]
        if self.transposed:
            swap = OPS["transpose"].kernels["strips_apart"].launch(self.rows, self.columns, 1)
            swap(x, y, self.rows, self.columns, self.columns, pitch, ONE, ONE)
        else:
            place = OPS["concatenate"].kernels["vectorized"].launch(x.size)
            place(x, y, View.of((self.rows, self.columns), (pitch, 1)), x.size)
        return y


def operands(way: str, shapes: Products) -> tuple[Operand, Operand]:
    """The factors as they are stored. The kernel reads both with the terms of the sum as rows."""
    m, n, k = shapes.m, shapes.n, shapes.k
    return {
        "forward": (Operand(m, k, True), Operand(k, n, False)),
        "backward_a": (Operand(m, n, True), Operand(k, n, True)),
        "backward_b": (Operand(m, k, False), Operand(m, n, False)),
    }[way]


def packs(kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec) -> bool:
    """True for one product whose copies fit in a grid and an array, if it is worth them or `using` selects it."""
    (rows, columns, terms), (a, b) = shapes.extents(way), operands(way, shapes)
    requested = kernels["forward"] is kernels["packed"] and x.dtype.kind == "f"
    gain = RAGGED if a.columns % LANES or b.columns % LANES else ALIGNED
    worth = rows * columns * terms >= gain * (a.copied + b.copied)
    fast = "large" in kernels and x.dtype == np.float32 and not is_small(rows, columns, 1, x.device.processors)
    fits = max(a.rows, b.rows, rows) <= TALLEST and max(prod(a.shape), prod(b.shape)) <= MAX_ELEMENTS
    return shapes.count == 1 and fits and (requested or (fast and worth))


def packed(strategy: Any, x: Array, y: Array, out: Array) -> None:
    """out = x times y, of operands packed for the fastest kernel."""
    rows, columns, terms = strategy.shapes.extents(strategy.way)
    a, b = operands(strategy.way, strategy.shapes)
    launch = strategy.kernel.launch(rows, columns, terms, out.device.processors)
    launch(a.pack(x), b.pack(y), out, rows, columns, terms, a.shape[1] // LANES, b.shape[1] // LANES)
