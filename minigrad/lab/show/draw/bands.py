"""Blocks as bands over a row of elements, in colours that alternate: the picture of a one-dimensional launch."""

from collections.abc import Iterator
from math import prod

from matplotlib.axes import Axes

from minigrad.kernels.extents import index_of
from minigrad.kernels.launch import Launch
from minigrad.lab.show.draw.colours import GREY, LIGHT_BLUE, LIGHT_ORANGE, PALE, ROUND_PAPER
from minigrad.lab.show.draw.grid import Axis, slots
from minigrad.lab.show.draw.picture import box, write

SQUARES = 32  # the most threads that are drawn as squares
BLOCKS = 5  # the most blocks drawn side by side


def colour(block: int) -> str:
    """A colour other than that of the neighboring blocks."""
    return (LIGHT_BLUE, LIGHT_ORANGE)[block % 2]


def each_thread(axes: Axes, axis: Axis) -> None:
    """A square per thread with its threadIdx.x, and under it its element."""
    size = axis.per_block
    for block in range(axis.blocks):
        left, busy = block * size, axis.busy(block)
        write(axes, left + size / 2, 0.45, f"block {block}" if size > 2 else str(block))
        for thread in range(size):
            at, idle = left + thread, thread >= busy
            box(axes, at, 1, 1, 1, "white" if idle else colour(block), idle=idle)
            write(axes, at + 0.5, 1.5, str(thread), bbox=ROUND_PAPER if idle else None)
            if not idle:
                _arrow(axes, at + 0.5)
                box(axes, at, 2.8, 1, 1, PALE)
                write(axes, at + 0.5, 3.3, str(left + thread))
        box(axes, left, 1, size, 1, "none", linewidth=2.2)
    if axis.threads > axis.extent:
        write(axes, (axis.extent + axis.threads) / 2, 3.3, "idle")
    axes.set_xlim(-0.1, axis.threads + 0.1)
    _label_rows(axes, "thread", "element")


def each_block(axes: Axes, axis: Axis) -> None:
    """A band per block: the part with elements and, hatched, the part without."""
    size = axis.per_block
    for left, block in _drawn(axes, axis.blocks):
        busy, first = axis.busy(block), block * size
        part, last = busy / size, first + busy - 1
        write(axes, left + 0.5, 0.45, f"block {block}")
        box(axes, left, 1, part, 1, colour(block), linewidth=0)
        if busy < size:
            box(axes, left + part, 1, 1 - part, 1, "white", idle=True)
        box(axes, left, 1, 1, 1, "none", linewidth=2.2)
        if busy == size:
            write(axes, left + 0.5, 1.5, f"0 … {size - 1}")
        else:  # in the larger part, and so beside the smaller one
            at = left + (part / 2 if part > 0.5 else (1 + part) / 2)
            write(axes, at, 1.5, f"{busy} busy,\n{size - busy} idle", bbox=ROUND_PAPER)
        _arrow(axes, left + part / 2)
        box(axes, left, 2.8, part, 1, PALE)
        text = str(first) if busy == 1 else f"{first} …{chr(10) if last > 10**7 or part < 0.75 else ' '}{last}"
        at, side = (left + part / 2, "center") if part > 0.5 else (left + part + 0.02, "left")
        write(axes, at, 3.3, text, ha=side)
    _label_rows(axes, "threads", "elements")


def _drawn(axes: Axes, blocks: int) -> Iterator[tuple[float, int]]:
    """The place and number of each drawn block; writes into the gap, and sets the limits along x."""
    drawn = slots(blocks, BLOCKS)
    for slot in drawn:
        if slot.block is None:
            write(axes, slot.at + slot.width / 2, 1.5, f"{blocks - len(drawn) + 1}\nmore\nblocks")
        else:
            yield slot.at, slot.block
    axes.set_xlim(-0.02, (drawn[-1].at if drawn else 0) + 1.02)


def _arrow(axes: Axes, at: float) -> None:
    """From a thread to its element."""
    axes.annotate("", (at, 2.78), (at, 2.02), arrowprops={"arrowstyle": "->", "lw": 0.8, "color": GREY})


def _label_rows(axes: Axes, *labels: str) -> None:
    """Label the rows of threads and of elements on their left, and set the limits along y."""
    for y, label in zip((1.5, 3.3), labels, strict=True):
        write(axes, 0, y, f"{label}  ", ha="right", fontweight="bold")
    axes.set_ylim(3.95, 0)


def cooperating(axes: Axes, launch: Launch) -> None:
    """Blocks whose threads work on the same elements: the block's index, and its threads."""
    for left, block in _drawn(axes, launch.blocks):
        at = index_of(block, launch.grid)
        write(axes, left + 0.5, 0.45, f"block {at if prod(launch.grid[1:]) > 1 else at[0]}")
        box(axes, left + 0.04, 1, 0.92, 1, colour(block), linewidth=2.2)
        write(axes, left + 0.5, 1.5, f"threads\n0 … {prod(launch.block) - 1}")
    axes.set_ylim(2.2, 0)
