"""Matrices that a kernel makes and sums over their rows at once, for the gradient of a bias."""

from math import prod

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.op import OPS
from minigrad.ops.reduction import reduce

RESIDENT = 6  # blocks of a multiprocessor


def row_maker(file: str, name: str) -> Kernel:
    """A kernel that calls `make_rows` of cuda/column_sums.cuh."""
    return Kernel(file, name, ("strips", "parts"), ("32", "ROWS_AT_ONCE"), "strips parts", ROWS_AT_ONCE=(8,))


def launch_rows(kernel: Kernel, y: Array, dtype: np.dtype | None) -> tuple[Launch, Array | None]:
    """The launch that makes y (..., columns), and the array of this dtype for the sums of its blocks, if wanted."""
    rows, columns = prod(y.shape[:-1]), y.shape[-1]
    strips = ceil_div(columns, 32 * (8 if y.dtype.itemsize == 2 else 4))
    count = max(1, min(ceil_div(rows, kernel.values["ROWS_AT_ONCE"]), RESIDENT * y.device.processors // max(strips, 1)))
    return kernel.launch(strips, count), Array.empty(y.device, (count, columns), dtype) if dtype else None


def total(parts: Array) -> Array:
    """The sums of all blocks together."""
    return reduce(OPS["sum"].running, parts, (0,), False, 1)
