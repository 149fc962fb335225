"""Which thread owns which element: read off a launch, counted, and cut down to what fits in a picture."""

import re
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from minigrad.kernels.launch import Launch
from minigrad.lab.show.draw.picture import plural
from minigrad.source import blank

_ROW = re.compile(r"\brow\s*=\s*blockIdx\.([xy])")


@dataclass(frozen=True)
class Axis:
    """`extent` elements along one axis, named `size`, cut into blocks of `piece` threads: one thread per element."""

    name: str  # x or y, as in threadIdx.x
    size: str
    extent: int
    piece: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads along this axis, the idle ones included."""
        return self.blocks * self.piece

    def busy(self, block: int) -> int:
        """How many threads of that block have an element."""
        return max(0, min(self.piece, self.extent - block * self.piece))


class Slot(NamedTuple):
    """A block as it is drawn: its number, or None for the gap where blocks are left out, and where it lies."""

    block: int | None
    at: float
    width: float


def owned(launch: Launch) -> list[Axis]:
    """The axes along which thread i has element i: those whose grid is ceil(size / piece) and whose block is piece."""
    numbers = {**launch.sizes, **launch.values}
    spans = zip("xyz", launch.kernel.grid, launch.kernel.block, launch.grid, strict=False)
    return [
        Axis(name, grid.size, numbers[grid.size], numbers[grid.piece], blocks)
        for name, grid, block, blocks in spans
        if grid.piece and block.size == grid.piece and not block.piece
    ]


def idle(launch: Launch) -> int | None:
    """Threads that have no element. None where threads take several elements each, and nobody can say."""
    axes = owned(launch)
    if not axes:
        return None
    others = launch.threads // max(1, prod(axis.threads for axis in axes))
    return launch.threads - others * prod(axis.extent for axis in axes)


def rows_and_columns(launch: Launch) -> tuple[Axis, Axis]:
    """The two axes of a matrix: rows are those that the kernel's text calls `row`, else those along y."""
    across, down = owned(launch)
    found = _ROW.search(blank(launch.kernel.text))
    return (across, down) if found and found.group(1) == across.name else (down, across)


def slots(axis: Axis, most: int, keep: int = 0) -> list[Slot]:
    """The blocks to draw, each one unit wide: all, or of more than `most` the first and last two and block `keep`."""
    wanted = {0, 1, keep, axis.blocks - 2, axis.blocks - 1} if axis.blocks > most else set(range(axis.blocks))
    drawn: list[Slot] = []
    at, before = 0.0, -1
    for block in sorted(wanted):
        if block > before + 1:
            drawn.append(Slot(None, at, 0.8))
            at += 0.8
        drawn.append(Slot(block, at, 1))
        at, before = at + 1, block
    return drawn


def verdict(launch: Launch) -> str:
    """The finding, for a title."""
    head = f"{launch.kernel.name}: "
    blocks, threads, lazy = launch.blocks, prod(launch.block), idle(launch)
    if blocks == 0:
        return head + "no elements, so no block and no launch"
    start = f"{plural(blocks, 'block')} of {plural(threads, 'thread')}"
    if lazy is None:
        return head + start
    if lazy == 0:
        return head + start + ", every thread has an element"
    return head + f"{start}, {plural(lazy, 'thread')} idle"


def facts(launch: Launch) -> str:
    """The arithmetic of the launch, and the idle threads, as text."""
    lazy, lines = idle(launch), [repr(launch)]
    if lazy is None:
        return f"{launch!r}\n  idle   depends on the kernel: its threads take several elements each"
    busy = launch.threads - lazy
    share = f", {100 * lazy / launch.threads:.1f} % of them" if lazy else ""
    lines += [f"  busy   {busy}", f"  idle   {launch.threads} - {busy} = {plural(lazy, 'thread')}{share}"]
    layers = launch.blocks // max(1, prod(axis.blocks for axis in owned(launch)))
    return "\n".join(lines + [f"  shown  one of {layers} equal parts of the grid"] * (layers > 1))
