"""A matrix and the same numbers in memory, one row after the other."""

import numpy as np
from matplotlib.axes import Axes

from minigrad.display import table
from minigrad.errors import require_int
from minigrad.lab.show.draw.colours import BLUE, EDGE, LIGHT_BLUE, LIGHT_ORANGE, PALE
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, boxes, canvas, write

MOST = 48  # elements of a matrix: their numbers are to be read


def row_major(rows: int, cols: int, i: int = 1, j: int = 2) -> Picture:
    """Element (i, j) of a matrix is number i * cols + j in memory, where one row follows the other.

    Row i and column j are coloured in both. Raises ValueError beyond 48 elements, and for an element that is not there.
    """
    rows, cols = (require_int("row_major", name, n, 1) for name, n in (("rows", rows), ("cols", cols)))
    i, j = (require_int("row_major", name, n) for name, n in (("i", i), ("j", j)))
    if rows * cols > MOST:
        raise ValueError(f"row_major: {rows} x {cols} are {rows * cols} elements; it draws at most {MOST}.")
    if i >= rows or j >= cols:
        raise ValueError(f"row_major: there is no element ({i}, {j}) in {rows} x {cols}; rows and columns begin at 0.")
    number = i * cols + j
    title = f"Element ({i}, {j}) of a {rows} x {cols} matrix is number {i} * {cols} + {j} = {number} in memory"
    wide = max(rows * cols, 2 * cols)
    figure, axes = canvas(WIDTH, 1.4 + 0.36 * rows, title)
    in_matrix = max(1.0, min(2.0, 0.36 * wide / (WIDTH - 1)))  # the width of a cell of the matrix, in cells below
    for row in range(rows):
        write(axes, -0.2, 1.5 + row, f"row {row}", ha="right")
        _cells(axes, in_matrix, 1 + row, row * cols + np.arange(cols), (i, j), cols)
    for column in range(cols):
        write(axes, (column + 0.5) * in_matrix, 0.55, str(column))
    _cells(axes, 1, rows + 2.2, np.arange(rows * cols), (i, j), cols)
    write(axes, -0.2, rows + 2.7, "memory", ha="right")
    for row in range(rows):
        axes.plot([row * cols + 0.1, (row + 1) * cols - 0.1], [rows + 3.5] * 2, color=EDGE, linewidth=1)
        write(axes, (row + 0.5) * cols, rows + 3.9, f"row {row}" if cols > 1 else str(row))
    axes.set(xlim=(-0.1 * wide, wide + 0.1), ylim=(rows + 4.3, 0))
    down, across = [row * cols + j for row in range(rows)], [i * cols + column for column in range(cols)]
    facts = [("row", i, 1, " ".join(map(str, across))), ("column", j, cols, " ".join(map(str, down)))]
    return Picture(figure, title, repr(table(facts, ("", "number", "one step in memory", "places in memory"))))


def _cells(axes: Axes, width: float, top: float, numbers: np.ndarray, at: tuple[int, int], cols: int) -> None:
    """Cells with their numbers in memory; the row and the column of the element are coloured, it itself outlined."""
    left = (numbers - numbers[0]) * width
    rows, columns = numbers // cols, numbers % cols
    fill = [
        LIGHT_BLUE if r == at[0] else LIGHT_ORANGE if c == at[1] else PALE for r, c in zip(rows, columns, strict=True)
    ]
    boxes(axes, left, top, width, 1, fill)
    for x, number, row, column in zip(left, numbers, rows, columns, strict=True):
        if (row, column) == at:
            box(axes, x, top, width, 1, "none", edgecolor=BLUE, linewidth=2.6)
        write(axes, x + width / 2, top + 0.5, str(number), fontsize=10)
