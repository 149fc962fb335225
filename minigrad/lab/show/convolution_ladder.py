"""The ladder of convolutions: launches, multiplications and memory traffic of each way, counted by the microscope."""

from collections.abc import Sequence
from math import prod
from typing import Any

from minigrad.display import Table, table
from minigrad.microscope import Inspection, watching
from minigrad.microscope.op_kernel import tensors_on_sim
from minigrad.microscope.watch import LIMIT
from minigrad.op import OPS

HEADERS = ("way", "launches", "multiplications", "loads", "sectors", "shared loads", "bytes written")


def convolutions(ways: Sequence[str], x: Any, w: Any, **params: Any) -> Table:
    """The counts of one convolution done in several ways: `convolutions(["naive", "im2col"], x, w, padding=1)`.

    multiplications: of a number of x by one of w, or of numbers made of them, with zeros of the padding. loads: read
    instructions of warps to global memory, and sectors what these ask for. bytes written: to global memory, y included.
    All of these are of all launches of the forward pass together. Raises KeyError for an unknown way, ValueError for
    one that cannot do it, and MemoryError where there is too much to count.
    """
    return table([_row(way, x, w, params) for way in ways], HEADERS)


def _row(way: str, x: Any, w: Any, params: dict[str, Any]) -> tuple[Any, ...]:
    op = OPS["conv2d"].using(way)
    x, w = (tensors_on_sim(array) for array in (x, w))
    with watching(blocks=LIMIT) as report:
        op(x, w, **params)
    products = [prod(sizes) for launch in report.launches if (sizes := _product(launch))]
    multiplications = sum(products) if products else op.cost(x, w, **params)[0] // 2

    def total(field: str, space: str, kind: str) -> int:
        lines = (line for launch in report.launches for line in launch.lines)
        return sum(getattr(line, field) for line in lines if (line.space, line.kind) == (space, kind))

    return (
        way, len(report.launches), f"{multiplications:,}", f"{total('requests', 'global', 'read'):,}",
        f"{total('sectors', 'global', 'read'):,}", f"{total('requests', 'shared', 'read'):,}",
        f"{total('bytes', 'global', 'write'):,}",
    )  # fmt: skip


def _product(launch: Inspection) -> tuple[int, ...]:
    """The number of products, rows, columns and terms of a matrix product; empty for another launch."""
    if not launch.kernel.startswith("matmul_"):
        return ()
    a, b = (launch.variables[name].shape for name in "ab")
    return *b[:-2], a[-2], b[-1], b[-2]
