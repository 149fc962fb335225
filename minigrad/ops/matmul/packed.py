"""Large products of copies that lie as the fastest kernel wants them: n^2 elements are copied, n^3 multiplied."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from minigrad.devices.array import MAX_ELEMENTS, Array
from minigrad.devices.device import MAX_GRID
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.kernels.view import View
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import is_small
from minigrad.ops.matmul.slabs import ONE

LANES = 4  # neighbours that the kernel reads at once
FILL = 32  # rows of copies begin at multiples of so many elements, which are 128 bytes, what memory moves at once
# The multiplications in which as much time is saved as it takes to copy a number: where rows of an array begin at
# multiples of LANES, and where they begin anywhere. From the times of an H200.
ALIGNED, RAGGED = 1000, 250
TALLEST = 32 * MAX_GRID[1]  # rows: a block of the copy or of the product has 32 of them at least


class Operand(NamedTuple):
    """A matrix of a product, (rows, columns), of which its transpose is meant if it goes `across`."""

    x: Array
    rows: int
    columns: int
    across: bool = False

    @property
    def copied(self) -> int:
        """The elements to be copied before the kernel can read it."""
        return self.rows * self.columns if self.across or self.columns % LANES else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Its rows as the kernel reads them, and how long they are: of copies a multiple of FILL."""
        height, width = (self.columns, self.rows) if self.across else (self.rows, self.columns)
        return height, ceil_div(width, FILL) * FILL if self.copied else width

    @property
    def pitch(self) -> int:
        """The length of a row as the kernel reads it."""
        return self.shape[1]

    def laid(self) -> Array:
        """The matrix with its rows filled up, with anything, to the pitch."""
        if not self.copied:
            return self.x.reshape(self.shape)
        y = Array.empty(self.x.device, self.shape, self.x.dtype)
        if self.across:
            swap = OPS["transpose"].kernels["strips_apart"].launch(self.rows, self.columns, 1)
            swap(self.x, y, self.rows, self.columns, self.columns, self.pitch, ONE, ONE)
        else:
            place = OPS["concatenate"].kernels["vectorized"].launch(self.x.size)
            place(self.x, y, View.of((self.rows, self.columns), (self.pitch, 1)), self.x.size)
        return y


def multiply(kernels: Mapping[str, Kernel], count: int, a: Operand, b: Operand, out: Array) -> bool:
    """out = a^T @ b, where that is one product and worth the copies, or `using` asks for it. Whether it was done."""
    terms, rows = (a.columns, a.rows) if a.across else (a.rows, a.columns)
    columns = b.rows if b.across else b.columns
    asked = kernels["forward"] is kernels["packed"] and out.dtype.kind == "f"
    ragged = a.columns % LANES or b.columns % LANES
    worth = rows * columns * terms >= (RAGGED if ragged else ALIGNED) * (a.copied + b.copied)
    fast = "large" in kernels and out.dtype == np.float32 and not is_small(rows, columns, 1, out.device.processors)
    tall = max(a.rows, b.rows, rows) > TALLEST
    large = max(prod(a.shape), prod(b.shape)) > MAX_ELEMENTS  # filled up
    if count != 1 or tall or large or not (asked or (fast and worth)):
        return False
    launch = kernels["packed"].launch(rows, columns, terms, out.device.processors)
    launch(a.laid(), b.laid(), out, rows, columns, terms, a.pitch // LANES, b.pitch // LANES)
    return True
