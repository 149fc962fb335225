"""Multi-tensor kernels: one launch updates up to 8 parameters, since most are too small to be worth a launch."""

from collections.abc import Iterator, Sequence
from typing import Any

from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel

MANY, BLOCK, CHUNK = 8, 256, 1024  # parameters that a launch updates; threads of a block, and elements
Row = Sequence[Any]  # an array with what goes with it: a parameter, its gradient, its states, its size


def multi_tensor(file: str, name: str) -> Kernel:
    """A kernel for MANY parameters, each with blocks of its own."""
    return Kernel(file, name, ("blocks",), (str(BLOCK),), "blocks")


def blocks(rows: Sequence[Row]) -> int:
    """The number of blocks for these parameters."""
    return sum(ceil_div(row[0].size, CHUNK) for row in rows)


def chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows that a launch takes together: those of one dtype, MANY at most, without the empty ones."""
    for dtype in dict.fromkeys(row[0].dtype for row in rows):
        alike = [row for row in rows if row[0].dtype == dtype and row[0].size]
        yield from (alike[at : at + MANY] for at in range(0, len(alike), MANY))


def arguments(rows: Sequence[Row]) -> Row:
    """The arguments of such a kernel; places without a parameter get null pointers and a size of 0."""
    empty = [0 if isinstance(value, int) else None for value in rows[0]]
    return [value for row in [*rows, *[empty] * (MANY - len(rows))] for value in row]
