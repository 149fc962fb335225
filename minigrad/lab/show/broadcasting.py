"""Broadcasting as a picture: the elements that an array stores, and their repetitions in the result."""

from collections.abc import Iterator
from math import prod

import numpy as np
from matplotlib.axes import Axes

from minigrad.display import table
from minigrad.lab.show.draw.colours import GREY, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, PAPER
from minigrad.lab.show.draw.grid import Slot, slots
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, canvas, write

Shape = tuple[int, ...]
CELLS = 6  # the most elements drawn along an axis
INCHES = 0.48  # of a cell
GAP = 1.2


def broadcast(shape_a: int | Shape, shape_b: int | Shape) -> Picture:
    """NumPy's broadcasting: two shapes are aligned from the right, and axes of extent 1 repeated.

    Raises ValueError where the shapes do not fit, naming the axis, and where the result is empty or has over 3 axes.
    """
    a, b = (tuple(np.atleast_1d(shape).tolist()) if shape != () else () for shape in (shape_a, shape_b))
    shape = _result_shape(a, b)
    if len(shape) > 3 or 0 in shape:
        raise ValueError(f"broadcast draws 1 to 3 axes with elements in them; this is shape {shape}.")
    title = f"{a} and {b} broadcast to {shape}"
    panels = [("a", a, LIGHT_BLUE), ("b", b, LIGHT_GREEN), ("result", shape, LIGHT_ORANGE)]
    _, xs, ys = zip(*_cells(shape), strict=True)
    wide, high = max(xs) + 1, max(ys) + 1  # of a panel, in cells
    stacked = len(shape) == 3 or 3 * wide + 2 * GAP > WIDTH / INCHES
    width, height = (wide, 3 * (high + GAP)) if stacked else (3 * wide + 2 * GAP, high + GAP)
    figure, axes = canvas(max(7.2, width * INCHES + 0.4), height * INCHES + 0.6, title)
    axes.set(aspect="equal", anchor="NW", xlim=(-0.2, max(width + 0.1, 7 / INCHES)), ylim=(height, -0.1))
    for i, (name, own, fill) in enumerate(panels):
        left, top = (0, i * (high + GAP)) if stacked else (i * (wide + GAP), 0)
        write(axes, left, top + 0.4, f"{name}  {own}", ha="left", fontweight="bold")
        _panel(axes, left, top + 0.9, own, shape, fill, operands=(a, b) if name == "result" else None)
    return Picture(figure, title, _numbers(a, b, shape))


def _result_shape(a: Shape, b: Shape) -> Shape:
    """The broadcast shape. Raises ValueError with the axis that does not fit."""
    ndim = max(len(a), len(b))
    for axis, (m, n) in enumerate(zip(_padded(a, ndim), _padded(b, ndim), strict=True)):
        if m != n and 1 not in (m, n):
            raise ValueError(
                f"{a} and {b} do not broadcast: axis {axis} is {m} in one and {n} in the other. "
                "They must be equal, or one of them 1: reshape, e.g. (n,) to (n, 1)."
            )
    return np.broadcast_shapes(a, b)


def _cells(shape: Shape) -> Iterator[tuple[tuple[Slot, ...], float, float]]:
    """The drawn elements of a shape and their x and y; the matrices of a 3-dimensional one lie next to each other."""
    plane, rows, columns = (slots(n, CELLS) for n in _padded(shape, 3))
    step = columns[-1].at + 1 + GAP / 2
    for p in plane:
        for r in rows:
            for c in columns:
                yield (p, r, c), p.at * step + c.at, r.at


def _panel(axes: Axes, left: float, top: float, own: Shape, shape: Shape, fill: str, operands: tuple | None) -> None:
    """An operand stretched to the shape of the result: its stored elements filled, the repeated ones hatched."""
    for place, x, y in _cells(shape):
        at = [slot.block for slot in place][3 - len(shape) :]
        if None in at:
            _, row, column = place
            dots = "⋮" if column.block is not None else "…"
            write(axes, left + x + column.width / 2, top + y + row.width / 2, dots, color=GREY)
            continue
        index, repeated = tuple(n or 0 for n in at), False
        if operands:
            text = "\n".join(f"{name}{_number(index, part)}" for name, part in zip("ab", operands, strict=True))
        else:
            repeated = any(i and extent == 1 for i, extent in zip(index, _padded(own, len(shape)), strict=True))
            text = str(_number(index, own))
        box(axes, left + x, top + y, 1, 1, "white" if repeated else fill, idle=repeated)
        paper = {**PAPER, "boxstyle": "round,pad=0.1"} if repeated else None
        write(axes, left + x + 0.5, top + y + 0.5, text, fontsize=10, linespacing=0.9, bbox=paper)


def _padded(own: Shape, ndim: int) -> Shape:
    return (1,) * (ndim - len(own)) + own


def _number(index: Shape, own: Shape) -> int:
    """The operand's element at this index of the result, counted in C order."""
    inside = [0 if extent == 1 else i for i, extent in zip(index, _padded(own, len(index)), strict=True)]
    return int(np.ravel_multi_index(inside, _padded(own, len(index)))) if index else 0


def _numbers(a: Shape, b: Shape, shape: Shape) -> str:
    """The alignment as a table, and the axes over which each gradient is summed."""
    rows = []
    for name, own in (("a", a), ("b", b)):
        stretched = [i for i, (m, n) in enumerate(zip(_padded(own, len(shape)), shape, strict=True)) if m != n]
        along = ", ".join(f"axis {i}: {shape[i]} times" for i in stretched) or "nothing"
        summed = f"dy summed over axis {', '.join(map(str, stretched))}" if stretched else "dy as it is"
        rows.append((name, own, _aligned(own, shape), along, f"d{name} is {summed}"))
    rows.append(("result", shape, _aligned(shape, shape), f"{prod(shape)} elements", ""))
    key = "Filled: an element in its own place. Hatched: the same element, read again; it is stored once."
    return f"{key}\n" + repr(table(rows, ("", "shape", "aligned", "repeated along", "gradient")))


def _aligned(own: Shape, shape: Shape) -> str:
    """The extents aligned in columns, a dot for an axis that is missing."""
    cells = ["."] * (len(shape) - len(own)) + [str(n) for n in own]
    return " ".join(cell.rjust(len(str(n))) for cell, n in zip(cells, shape, strict=True)) or "-"
