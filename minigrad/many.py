"""Kernels of the optimizers for many parameters: most are small, and a launch takes longer than they do."""

from collections.abc import Sequence
from typing import Any

from minigrad.kernel import Kernel
from minigrad.launch import ceil_div

MANY, BLOCK, PIECE = 8, 256, 1024  # parameters that a launch updates; threads of a block, and elements
Row = Sequence[Any]  # a parameter, its gradient, its states


def per_parameters(name: str) -> Kernel:
    """A kernel for MANY parameters, whose blocks are theirs one after the other."""
    return Kernel("optim.cu", name, ("blocks",), (str(BLOCK),), "blocks")


SGD_STEPS = per_parameters("sgd_steps")
ADAM_STEPS = per_parameters("adam_steps")
ADAM_COUNTS = Kernel("optim.cu", "adam_counts", ("1",), (str(MANY),))


def blocks(rows: Sequence[Row]) -> int:
    """Blocks for these parameters: each has its own."""
    return sum(ceil_div(row[0].size, PIECE) for row in rows)


def sized(rows: Sequence[Row]) -> list[Row]:
    """With the number of elements behind each row."""
    return [(*row, row[0].size) for row in rows]


def places(rows: Sequence[Row]) -> Row:
    """What a kernel for MANY parameters takes of them; the places that are left get null pointers and a size of 0."""
    empty = [0 if isinstance(value, int) else None for value in rows[0]]
    return [value for row in [*rows, *[empty] * (MANY - len(rows))] for value in row]
