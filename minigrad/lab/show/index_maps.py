"""The terms of one element of a result: the numbers that its threads read for it, as the microscope saw them."""

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minigrad.display import folded, plural
from minigrad.errors import require, require_int
from minigrad.lab.show.draw.colours import LIGHT_BLUE, LIGHT_EDGE, LIGHT_GREEN, LIGHT_ORANGE, PALE
from minigrad.lab.show.draw.picture import WIDTH, Picture, boxes, canvas, write
from minigrad.microscope.native import Rows
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable

CELLS = 64  # the most cells from left to right
CELL = 0.44  # inches of one, at most
GAP, PLANE = 1.5, 0.5  # cells between arrays, and between the planes of one


class Term(NamedTuple):
    """Elements that were read for one term, by variable."""

    elements: dict[str, int]

    def text(self, variables: dict[str, Variable]) -> str:
        """The elements by their indices: `x[0,1]·w[2,2]`."""
        return "·".join(named(variables[name], element) for name, element in self.elements.items())


def terms(record: Inspection, element: int = 0) -> Picture:
    """The terms of an element of the result, numbered in every array: `terms(mg.inspect(kernel, ..., blocks=99), 7)`.

    They are the reads of the thread that wrote the element, or of its whole block where the block wrote no other one.
    Raises ValueError where no recorded thread wrote it, and for arrays too large to draw.
    """
    require("terms", record, Inspection, "a record of mg.inspect")
    rows = record.traffic[record.traffic["space"] == "global"]
    out, reads = _reads(record, rows, require_int("terms", "element", element, 0))
    found = _terms(reads)
    inputs = [name for name in record.variables if any(name in term.elements for term in found)]
    whole = [term for term in found if len(term.elements) == len(inputs)]
    alone = [term for term in found if len(term.elements) < len(inputs)]
    target = named(record.variables[out], element)
    what = plural(len(whole), "pair" if len(inputs) > 1 else "number")
    title = f"{record.kernel}: {target} comes from {what} of {' and '.join(inputs) or 'nothing'}"
    texts = [term.text(record.variables) for term in whole]
    numbers = [folded(f"{target}: {', '.join(texts) or 'nothing'}")]
    if alone:
        numbers.append(folded(f"without a partner: {', '.join(term.text(record.variables) for term in alone)}"))
    return Picture(_figure(record, title, inputs, whole, alone, (out, element)), title, "\n".join(numbers))


def named(variable: Variable, element: int) -> str:
    """An element by its index, without leading axes of extent 1: `x[1,2]`."""
    shape = variable.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return f"{variable.name}[{','.join(str(int(i)) for i in np.unravel_index(element, shape))}]"


def _reads(record: Inspection, rows: Rows, element: int) -> tuple[str, Rows]:
    """The name of the result, and the reads that its element came from."""
    writes = rows[rows["kind"] != "read"]
    out = str(writes["variable"][0]) if len(writes) else "anything"
    mine = writes[(writes["variable"] == out) & (writes["element"] == element)]
    if not len(mine):
        raise ValueError(
            f"terms: no thread of the blocks that were looked at writes {out}[{element}]; give mg.inspect more blocks=."
        )
    block, thread = mine["block"][-1], mine["thread"][-1]
    shared = len(np.unique(writes[writes["block"] == block]["element"])) == 1
    reads = rows[(rows["kind"] == "read") & (rows["block"] == block)]
    return out, reads if shared else reads[reads["thread"] == thread]


def _terms(reads: Rows) -> list[Term]:
    """The reads as terms, in the order in which their threads make them.

    Each term has one read of the variable that is read most often. It opens a term if a thread ends with another
    variable, and else closes it: at the border of an image a thread leaves the other one out.
    """
    if not len(reads):
        return []
    names = [str(name) for name in reads["variable"]]
    most = Counter(names).most_common(1)[0][0]
    threads = [reads[reads["thread"] == thread] for thread in np.unique(reads["thread"])]
    threads = [rows[np.argsort(rows["time"])] for rows in threads]
    opens = any(rows["variable"][-1] != most for rows in threads)
    found = []
    for rows in threads:
        is_most = rows["variable"] == most
        number = np.cumsum(is_most) - 1 if opens else np.cumsum(is_most) - is_most
        for i in range(int(number.max()) + 1):
            one = rows[number == i]
            elements = {str(row["variable"]): int(row["element"]) for row in one}
            found.append((i, int(one["thread"][0]), Term(elements)))
    return [term for *_, term in sorted(found, key=lambda each: each[:2])]


def _figure(
    record: Inspection, title: str, inputs: Sequence[str], whole: Sequence[Term], alone: Sequence[Term],
    target: tuple[str, int],
) -> Figure:  # fmt: skip
    """The inputs with the numbers of the terms in their cells, and the result with its element marked."""
    out, element = target
    panels = [record.variables[name] for name in dict.fromkeys([*inputs, out])]
    widths = [_width(variable.shape) for variable in panels]
    across = sum(widths) + GAP * (len(panels) - 1)
    if across > CELLS:
        raise ValueError(f"terms: the arrays are {across:.0f} cells wide, and {CELLS} can be drawn; take smaller ones.")
    high = max(_rows(variable.shape) for variable in panels)
    cell = min(CELL, (WIDTH - 0.4) / across)
    figure, axes = canvas(WIDTH, cell * (high + 1.2) + 0.6, title)
    axes.set(aspect="equal", anchor="NW", xlim=(-0.1, (WIDTH - 0.3) / cell), ylim=(high + 0.1, -1.2))
    left = 0.0
    for variable, width in zip(panels, widths, strict=True):
        fill = LIGHT_ORANGE if variable.name == out else (LIGHT_BLUE, LIGHT_GREEN)[panels.index(variable) % 2]
        marks = {element: ""} if variable.name == out else _marks(variable.name, whole)
        idle = [term.elements[variable.name] for term in alone if variable.name in term.elements]
        write(axes, left, -0.6, variable.name, ha="left", fontweight="bold")
        _panel(axes, left, variable.shape, marks, idle, fill)
        left += width + GAP
    return figure


def _marks(name: str, found: Sequence[Term]) -> dict[int, str]:
    """The numbers of the terms in which each element of a variable is read."""
    marks: dict[int, str] = {}
    for number, term in enumerate(found, 1):
        before = marks.get(term.elements[name])
        marks[term.elements[name]] = str(number) if before is None else f"{before.partition('+')[0]}+"
    return marks


def _panel(
    axes: Axes, left: float, shape: tuple[int, ...], marks: dict[int, str], idle: Sequence[int], fill: str
) -> None:
    """The cells of an array, plane after plane; those of a term are filled and numbered."""
    place = {i: _place(shape, i) for i in range(prod(shape))}
    for elements, colour in ((place, "white"), (idle, PALE), (marks, fill)):
        if at := [place[i] for i in elements]:
            x, y = np.array(at).T
            boxes(axes, left + x, y, 1, 1, colour, edgecolors=LIGHT_EDGE if colour == "white" else "#1a1a1a")
    for i, text in marks.items():
        write(axes, left + place[i][0] + 0.5, place[i][1] + 0.5, text, fontsize=10)


def _rows(shape: tuple[int, ...]) -> int:
    return (1, *shape)[-2]


def _width(shape: tuple[int, ...]) -> float:
    """The cells from left to right of an array of images, its planes next to each other."""
    planes = prod(shape[:-2])
    return planes * (1, *shape)[-1] + PLANE * (planes - 1)


def _place(shape: tuple[int, ...], element: int) -> tuple[float, int]:
    """Left and upper corner of an element, in cells."""
    rows, columns = (1, 1, *shape)[-2:]
    plane, inside = divmod(element, rows * columns)
    return plane * (columns + PLANE) + inside % columns, inside // columns
