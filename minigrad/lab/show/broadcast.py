"""Broadcasting as a picture: which elements of an array are its own, and which are repeated."""

from collections.abc import Iterator
from math import prod

import numpy as np
from matplotlib.axes import Axes as Canvas

from minigrad.display import table
from minigrad.lab.show.draw.grid import Axis, Slot, slots
from minigrad.lab.show.draw.picture import GREY, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, Picture, box, canvas, words

Shape = tuple[int, ...]
CELLS = 6  # as many elements are drawn along an axis
INCHES = 0.48  # of a cell
GAP = 1.2


def broadcast(shape_a: int | Shape, shape_b: int | Shape) -> Picture:
    """How NumPy aligns two shapes from the right and repeats the axes of extent 1.

    Raises ValueError where they cannot be broadcast, naming the axis, and where there is more to draw than 3 axes.
    """
    a, b = (tuple(np.atleast_1d(shape).tolist()) if shape != () else () for shape in (shape_a, shape_b))
    shape = _joint(a, b)
    if len(shape) > 3 or 0 in shape:
        raise ValueError(f"broadcast draws 1 to 3 axes with elements in them; this is shape {shape}.")
    title = f"{a} and {b} broadcast to {shape}"
    panels = [("a", a, LIGHT_BLUE), ("b", b, LIGHT_GREEN), ("result", shape, LIGHT_ORANGE)]
    wide, high = _extent(shape)
    below = len(shape) == 3 or 3 * wide + 2 * GAP > 9.6 / INCHES
    width, height = (wide, 3 * (high + GAP)) if below else (3 * wide + 2 * GAP, high + GAP)
    figure, axes = canvas(max(7.2, width * INCHES + 0.4), height * INCHES + 0.6, title)
    axes.set_aspect("equal", anchor="NW")
    axes.set_xlim(-0.2, max(width + 0.1, 7 / INCHES))
    axes.set_ylim(height, -0.1)
    for i, (name, own, fill) in enumerate(panels):
        left, top = (0, i * (high + GAP)) if below else (i * (wide + GAP), 0)
        words(axes, left, top + 0.4, f"{name}  {own}", ha="left", fontweight="bold")
        _panel(axes, left, top + 0.9, own, shape, fill, result=(a, b) if name == "result" else None)
    return Picture(figure, title, _told(a, b, shape))


def _joint(a: Shape, b: Shape) -> Shape:
    """The shape of the result. Raises ValueError with the axis that does not fit."""
    ndim = max(len(a), len(b))
    pairs = zip((1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b, strict=True)
    for axis, (m, n) in enumerate(pairs):
        if m != n and 1 not in (m, n):
            raise ValueError(
                f"{a} and {b} do not broadcast: axis {axis} is {m} in one and {n} in the other. "
                "They must be equal, or one of them 1: reshape, e.g. (n,) to (n, 1)."
            )
    return np.broadcast_shapes(a, b)


def _cells(shape: Shape) -> Iterator[tuple[tuple[Slot, ...], float, float]]:
    """The drawn elements of a shape and where they lie; matrices of a 3-dimensional one stand side by side."""
    plane, rows, columns = (slots(Axis("", "", n, 1, n), CELLS) for n in (1,) * (3 - len(shape)) + shape)
    step = columns[-1].at + 1 + GAP / 2
    for p in plane:
        for r in rows:
            for c in columns:
                yield (p, r, c), p.at * step + c.at, r.at


def _extent(shape: Shape) -> tuple[float, float]:
    """Width and height of one panel, in cells."""
    corners = [(x, y) for _, x, y in _cells(shape)]
    return max(x for x, _ in corners) + 1, max(y for _, y in corners) + 1


def _panel(axes: Canvas, left: float, top: float, own: Shape, shape: Shape, fill: str, result: tuple | None) -> None:
    """An operand stretched to the shape of the result: its own elements filled, the repeated ones hatched."""
    for place, x, y in _cells(shape):
        at = [slot.block for slot in place][3 - len(shape) :]
        if None in at:
            _dots(axes, left + x, top + y, place)
            continue
        index = tuple(n or 0 for n in at)
        if result:
            box(axes, left + x, top + y, 1, 1, fill)
            text = "\n".join(f"{name}{_number(index, part)}" for name, part in zip("ab", result, strict=True))
        else:
            repeated = any(i and extent == 1 for i, extent in zip(index, _padded(own, len(shape)), strict=True))
            box(axes, left + x, top + y, 1, 1, "white" if repeated else fill, idle=repeated)
            text = str(_number(index, own))
        paper = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        plain = result or not repeated
        words(axes, left + x + 0.5, top + y + 0.5, text, fontsize=10, linespacing=0.9, bbox=None if plain else paper)


def _dots(axes: Canvas, x: float, y: float, place: tuple[Slot, ...]) -> None:
    """Where elements are left out."""
    _, row, column = place
    words(axes, x + column.width / 2, y + row.width / 2, "⋮" if column.block is not None else "…", color=GREY)


def _padded(own: Shape, ndim: int) -> Shape:
    return (1,) * (ndim - len(own)) + own


def _number(index: Shape, own: Shape) -> int:
    """Which element of an operand stands at this index of the result, counted in C order."""
    inside = [0 if extent == 1 else i for i, extent in zip(index, _padded(own, len(index)), strict=True)]
    return int(np.ravel_multi_index(inside, _padded(own, len(index)))) if index else 0


def _told(a: Shape, b: Shape, shape: Shape) -> str:
    """The same as a table, and what it means for the gradient."""
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
    """The extents under each other, a dot for an axis that is not there."""
    cells = ["."] * (len(shape) - len(own)) + [str(n) for n in own]
    return " ".join(cell.rjust(len(str(n))) for cell, n in zip(cells, shape, strict=True)) or "-"
