"""The map from threads to elements of a launch: its axes, its idle threads, and the blocks that fit in a picture."""

import re
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from minigrad.display import plural
from minigrad.kernels.launch import Launch
from minigrad.scan import blank

_ROW = re.compile(r"\brow\s*=\s*blockIdx\.([xy])")


@dataclass(frozen=True)
class Axis:
    """`extent` elements along one axis, named `size`, split over blocks of `per_block` threads: a thread each."""

    name: str  # x or y, as in threadIdx.x
    size: str
    extent: int
    per_block: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads along this axis, the idle ones included."""
        return self.blocks * self.per_block

    def busy(self, block: int) -> int:
        """The number of threads of that block that have an element."""
        return max(0, min(self.per_block, self.extent - block * self.per_block))


class Slot(NamedTuple):
    """A drawn block: its number, or None for the gap where blocks are left out, and its place along the axis."""

    block: int | None
    at: float
    width: float


def element_axes(launch: Launch) -> list[Axis]:
    """The axes along which thread i owns element i: the grid is ceil(size / piece) and the block is piece."""
    numbers = {**launch.sizes, **launch.values}
    spans = zip("xyz", launch.kernel.grid, launch.kernel.block, launch.grid, strict=False)
    return [
        Axis(name, grid.size, numbers[grid.size], numbers[grid.piece], blocks)
        for name, grid, block, blocks in spans
        if grid.piece and block.size == grid.piece and not block.piece
    ]


def idle_threads(launch: Launch) -> int | None:
    """The number of threads without an element. None where threads take several each, as the kernel decides."""
    axes = element_axes(launch)
    if not axes:
        return None
    others = launch.threads // max(1, prod(axis.threads for axis in axes))
    return launch.threads - others * prod(axis.extent for axis in axes)


def rows_and_columns(launch: Launch) -> tuple[Axis, Axis]:
    """The two axes of a matrix: rows are those that the kernel's text calls `row`, else those along y."""
    across, down = element_axes(launch)
    found = _ROW.search(blank(launch.kernel.text))
    return (across, down) if found and found.group(1) == across.name else (down, across)


def slots(blocks: int, limit: int, keep: int = 0) -> list[Slot]:
    """The blocks to draw, each one unit wide: all, or of more than `limit` the first and last two and block `keep`."""
    wanted = {0, 1, keep, blocks - 2, blocks - 1} if blocks > limit else set(range(blocks))
    drawn: list[Slot] = []
    at, before = 0.0, -1
    for block in sorted(wanted):
        if block > before + 1:
            drawn.append(Slot(None, at, 0.8))
            at += 0.8
        drawn.append(Slot(block, at, 1))
        at, before = at + 1, block
    return drawn


def headline(launch: Launch) -> str:
    """The finding about a launch, for a title."""
    blocks, idle = launch.blocks, idle_threads(launch)
    if blocks == 0:
        return f"{launch.kernel.name}: no elements, so no block and no launch"
    start = f"{launch.kernel.name}: {plural(blocks, 'block')} of {plural(prod(launch.block), 'thread')}"
    if idle is None:
        return start
    return f"{start}, {plural(idle, 'thread')} idle" if idle else f"{start}, every thread has an element"


def facts(launch: Launch) -> str:
    """The arithmetic of the launch, and the idle threads, as text."""
    idle = idle_threads(launch)
    if idle is None:
        return f"{launch!r}\n  idle   depends on the kernel: its threads take several elements each"
    busy = launch.threads - idle
    share = f", {100 * idle / launch.threads:.1f} % of them" if idle else ""
    lines = [repr(launch), f"  busy   {busy}", f"  idle   {launch.threads} - {busy} = {plural(idle, 'thread')}{share}"]
    layers = launch.blocks // max(1, prod(axis.blocks for axis in element_axes(launch)))
    return "\n".join(lines + [f"  shown  one of {layers} equal parts of the grid"] * (layers > 1))
