"""Blocks as bands over a row of elements: the picture of a one-dimensional launch."""

from math import prod

from matplotlib.axes import Axes as Canvas
from matplotlib.figure import Figure

from minigrad.devices.device import index_of
from minigrad.kernels.launch import Launch
from minigrad.lab.show.draw.grid import Axis, Slot, owned, slots, verdict
from minigrad.lab.show.draw.picture import GREY, LIGHT_BLUE, LIGHT_ORANGE, PALE, box, canvas, words

EVERY = 32  # as many threads are drawn one by one
BLOCKS = 5  # as many blocks are drawn side by side
WIDTH = 9.6


def bands(launch: Launch) -> tuple[Figure, str]:
    """The figure and its title. Thread i stands over element i; blocks take turns in colour."""
    (axis,) = owned(launch)
    title = verdict(launch)
    if axis.blocks == 0:
        figure, axes = canvas(WIDTH, 1, title)
        words(axes, 0.5, 0.5, "Nothing to do.")
        return figure, title
    figure, axes = canvas(WIDTH, 2.5, title)
    if axis.threads <= EVERY:
        _each_thread(axes, axis)
    else:
        _each_block(axes, axis)
    return figure, title


def colour(block: int) -> str:
    """Neighbouring blocks differ."""
    return (LIGHT_BLUE, LIGHT_ORANGE)[block % 2]


def _each_thread(axes: Canvas, axis: Axis) -> None:
    """A square per thread with its threadIdx.x, and under it its element."""
    for block in range(axis.blocks):
        left, busy = block * axis.piece, axis.busy(block)
        words(axes, left + axis.piece / 2, 0.45, _block_label(block, axis.piece))
        for thread in range(axis.piece):
            at, idle = left + thread, thread >= busy
            box(axes, at, 1, 1, 1, "white" if idle else colour(block), idle=idle)
            words(axes, at + 0.5, 1.5, str(thread), bbox=_plain() if idle else None)
            if not idle:
                _arrow(axes, at + 0.5)
                box(axes, at, 2.8, 1, 1, PALE)
                words(axes, at + 0.5, 3.3, str(left + thread))
        box(axes, left, 1, axis.piece, 1, "none", linewidth=2.2)
    if axis.threads > axis.extent:
        words(axes, (axis.extent + axis.threads) / 2, 3.3, "idle")
    _rows(axes, (1.5, "thread"), (3.3, "element"))
    axes.set_xlim(-0.1, axis.threads + 0.1)
    axes.set_ylim(3.95, 0)


def _each_block(axes: Canvas, axis: Axis) -> None:
    """A band per block; inside, the part with elements and, hatched, the part without."""
    drawn = slots(axis, BLOCKS)
    for slot in drawn:
        if slot.block is None:
            words(axes, slot.at + slot.width / 2, 1.5, f"{axis.blocks - len(drawn) + 1}\nmore\nblocks")
        else:
            _band(axes, axis, slot, slot.block)
    _rows(axes, (1.5, "threads"), (3.3, "elements"))
    axes.set_xlim(-0.02, drawn[-1].at + 1.02)
    axes.set_ylim(3.95, 0)


def _band(axes: Canvas, axis: Axis, slot: Slot, block: int) -> None:
    busy, first = axis.busy(block), block * axis.piece
    part = busy / axis.piece
    words(axes, slot.at + 0.5, 0.45, f"block {block}")
    box(axes, slot.at, 1, part, 1, colour(block), linewidth=0)
    if busy < axis.piece:
        box(axes, slot.at + part, 1, 1 - part, 1, "white", idle=True)
    box(axes, slot.at, 1, 1, 1, "none", linewidth=2.2)
    label = f"0 … {axis.piece - 1}" if busy == axis.piece else f"{busy} busy, {axis.piece - busy} idle"
    words(axes, slot.at + 0.5, 1.5, label, bbox=_plain() if busy < axis.piece else None)
    _arrow(axes, slot.at + part / 2)
    box(axes, slot.at, 2.8, part, 1, PALE)
    last = first + busy - 1
    text = str(first) if busy == 1 else f"{first} …{chr(10) if last > 10**7 else ' '}{last}"
    at, side = (slot.at + part / 2, "center") if part > 0.5 else (slot.at + part + 0.02, "left")
    words(axes, at, 3.3, text, ha=side)


def _arrow(axes: Canvas, at: float) -> None:
    """From a thread to its element."""
    axes.annotate("", (at, 2.78), (at, 2.02), arrowprops={"arrowstyle": "->", "lw": 0.8, "color": GREY})


def _rows(axes: Canvas, *labels: tuple[float, str]) -> None:
    """What each row is, left of it."""
    left = min(0.0, axes.get_xlim()[0])
    for y, label in labels:
        words(axes, left, y, f"{label}  ", ha="right", fontweight="bold")


def _block_label(block: int, piece: int) -> str:
    return f"block {block}" if piece > 2 else str(block)


def _plain() -> dict:
    """Paper under letters that stand on a hatch."""
    return {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}


def shared(launch: Launch) -> tuple[Figure, str]:
    """Blocks whose threads share one piece of work: which piece, and how many threads."""
    title = verdict(launch)
    figure, axes = canvas(WIDTH, 2.2, title)
    lanes = Axis("x", "blocks", launch.blocks, 1, launch.blocks)
    drawn = slots(lanes, BLOCKS)
    for slot in drawn:
        if slot.block is None:
            words(axes, slot.at + slot.width / 2, 1.5, f"{launch.blocks - len(drawn) + 1}\nmore\nblocks")
        else:
            at = index_of(slot.block, launch.grid)
            words(axes, slot.at + 0.5, 0.45, f"block {at if prod(launch.grid[1:]) > 1 else at[0]}")
            box(axes, slot.at + 0.04, 1, 0.92, 1, colour(slot.block), linewidth=2.2)
            words(axes, slot.at + 0.5, 1.5, f"threads\n0 … {prod(launch.block) - 1}")
    axes.set_xlim(-0.02, (drawn[-1].at if drawn else 0) + 1.02)
    axes.set_ylim(2.2, 0)
    return figure, title
