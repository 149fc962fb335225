"""The elements of a variable that threads touch between two barriers, phase by phase."""

from dataclasses import dataclass
from math import prod

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from minigrad.display import plural, table
from minigrad.errors import require
from minigrad.lab.show.accesses import split_by_element
from minigrad.lab.show.draw.colours import INK, RAMP, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, boxes, canvas, write
from minigrad.microscope.native import Rows
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable

LABEL = 1.5  # inches, of the label left of a row
DIGIT = 0.09  # inches of a digit in a cell
LONG = 64  # of a longer axis, only the touched span is drawn


@dataclass(frozen=True)
class PhasePanel:
    """The accesses of one kind to a variable between two barriers."""

    phase: int
    kind: str
    rows: Rows  # of the traffic
    contested: np.ndarray  # elements that several threads touched in this phase, one of them writing

    def owners(self, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements, the lowest thread or block that touched each, and the number of threads that did."""
        who = np.stack([self.rows["element"], self.rows[by], self.rows["block"], self.rows["thread"]])
        element, owner = np.unique(who, axis=1)[:2]
        each, first, count = np.unique(element, return_index=True, return_counts=True)
        return each, owner[first], count


def phases(report: Inspection, variable: str, by: str = "thread") -> Picture:
    """The owner of each element of a variable in each barrier phase: `phases(mg.inspect(...), "tile")`.

    by is "thread" or "block": the darker an element, the higher its owner's number. Phase 0 ends at the first barrier.
    Outlined are elements that several threads of a block touch in one phase, one of them writing, and not each its own
    part: a race, unless warps keep an order there. Raises ValueError where the variable was not touched.
    """
    require("phases", report, Inspection, "a record of mg.inspect")
    if by not in ("thread", "block"):
        raise ValueError(f"phases: by={by!r} must be 'thread' or 'block'.")
    rows = report.traffic[report.traffic["variable"] == variable]
    if not len(rows):
        names = ", ".join(sorted(set(report.traffic["variable"].tolist()))) or "none"
        found = f"{report.kernel} touched no {variable!r} in the inspected blocks"
        raise ValueError(f"phases: {found}; it touched {names}.")
    known = report.variables[variable]
    panels = panels_of(rows, known.itemsize)
    sheet = _Sheet(panels, split_by_element(rows, known.itemsize), known, by)
    contested = np.unique(np.concatenate([panel.contested for panel in panels])).size
    title = f"{report.kernel}: {variable} in {plural(len({panel.phase for panel in panels}), 'phase')}"
    title += f", {plural(contested, 'element')} touched by several threads at once" if contested else ""
    return Picture(sheet.figure(title), title, _numbers(panels, known, sheet.numbered))


def panels_of(rows: Rows, itemsize: int) -> list[PhasePanel]:
    """In the order of time: phase after phase, and in a phase the kind of access that began first."""
    panels = []
    whole = not ((rows["offset"] % itemsize).any() or (rows["bytes"] % itemsize).any())
    for phase in np.unique(rows["phase"]):
        now = rows[rows["phase"] == phase]
        contested = _contested(now, itemsize) if whole else np.unique(_contested(now, 1) // itemsize)
        now = split_by_element(now, itemsize)
        for kind in dict.fromkeys(now["kind"].tolist()):
            panels.append(PhasePanel(int(phase), kind, now[now["kind"] == kind], contested))
    return panels


def _contested(rows: Rows, size: int) -> np.ndarray:
    """The chunks of `size` bytes that several threads of a block touch, one of them by a plain write."""
    chunks = split_by_element(rows, size)
    who = np.unique(np.stack([chunks["block"], chunks["element"], chunks["thread"]]), axis=1)[:2]
    shared, count = np.unique(who, axis=1, return_counts=True)
    return np.intersect1d(shared[1, count > 1], chunks["element"][chunks["kind"] == "write"])


def _span(touched: np.ndarray, extent: int) -> tuple[int, int]:
    """The first element to draw along an axis and their number: all, or the touched part of a long axis."""
    return (0, extent) if extent <= LONG else (first := int(touched.min()), int(touched.max()) + 1 - first)


class _Sheet:
    """The panels of the drawn part of a variable; all but its last axis are rows."""

    def __init__(self, panels: list[PhasePanel], rows: Rows, variable: Variable, by: str):
        *above, self.row = variable.shape or (1,)
        self.panels, self.by, self.largest = panels, by, max(1, int(rows[by].max(initial=0)))
        self.top, self.high = _span(rows["element"] // self.row, prod(above))
        self.left, self.wide = _span(rows["element"] % self.row, self.row)
        self.columns = 1 if self.high < 4 or self.wide > 4 * self.high else min(len(panels), 2)
        self.unit = min((WIDTH - LABEL - 0.3) / (self.columns * (self.wide + 1)), max(4.4 / self.high, 0.1), 0.5)
        longest = max(len(_number(*owner)) for panel in panels for owner in zip(*panel.owners(by)[1:], strict=True))
        self.numbered = by == "thread" and self.unit >= longest * DIGIT + 0.05  # a cell has room for a thread's number

    def figure(self, title: str) -> Figure:
        """Panels with few rows are stacked, others lie two in a row."""
        high, wide, unit = self.high, self.wide, self.unit
        lines = -(-len(self.panels) // self.columns)
        head = 0.42 / unit if self.columns > 1 or high > 1 else 0.12 / unit
        above = head * unit > 0.4  # the labels
        figure, axes = canvas(WIDTH, 0.75 + lines * (high + head) * unit, title)
        axes.set_aspect("equal", anchor="NW")
        left = (0.2 if above else LABEL) / unit
        for i, panel in enumerate(self.panels):
            x, y = left + i % self.columns * (wide + 0.5 / unit), head + i // self.columns * (high + head)
            at = (x, y - 0.08 / unit, "left", "bottom") if above else (x - 0.12 / unit, y + 0.5, "right", "center")
            write(axes, *at[:2], f"phase {panel.phase}, {panel.kind}", ha=at[2], va=at[3], fontweight="bold")
            self.draw(axes, panel, x, y)
        axes.set(xlim=(0, (WIDTH - 0.2) / unit), ylim=(head * 0.9 + lines * (high + head), 0))
        return figure

    def draw(self, axes: Axes, panel: PhasePanel, left: float, top: float) -> None:
        """One panel: a cell for each element, its owner's number in it where there is room."""
        box(axes, left, top, self.wide, self.high, "white", linewidth=1)
        element, owner, count = panel.owners(self.by)
        row, column = np.divmod(element, self.row)
        x, y = left + column - self.left, top + row - self.top
        fills = LinearSegmentedColormap.from_list("", RAMP[panel.kind])(owner / self.largest)
        edge = 0.7 if self.unit > 0.2 else 0.15 if self.unit > 0.1 else 0
        boxes(axes, x, y, 1, 1, fills, edgecolors=INK if edge else fills, linewidths=edge)
        if self.by == "block":
            for block in np.unique(owner):
                own = owner == block
                write(axes, x[own].mean() + 0.5, y[own].mean() + 0.5, str(block), fontsize=10)
        elif self.numbered:
            for cell_x, cell_y, thread, threads in zip(x, y, owner, count, strict=True):
                write(axes, cell_x + 0.5, cell_y + 0.5, _number(thread, threads), fontsize=10)
        marked = np.isin(element, panel.contested)
        boxes(axes, x[marked], y[marked], 1, 1, "none", edgecolors=VERMILLION, linewidths=2.4)


def _number(owner: int, threads: int) -> str:
    """A thread's number; with a plus where others touch the element, too."""
    return f"{owner}{'+' if threads > 1 else ''}"


def _numbers(panels: list[PhasePanel], variable: Variable, numbered: bool) -> str:
    """A table of the panels: elements, threads, and the elements of the first threads."""
    rows = []
    for panel in panels:
        lines = ", ".join(map(str, np.unique(panel.rows["line"])))
        threads = np.unique(panel.rows["block"].astype(np.int64) << 10 | panel.rows["thread"]).size
        elements = np.unique(panel.rows["element"]).size
        first = panel.rows[panel.rows["block"] == panel.rows["block"].min()]
        examples = _examples(first, variable)
        rows.append((panel.phase, panel.kind, lines, elements, threads, panel.contested.size, examples))
    head = ("phase", "access", "line", "elements", "threads", "contested", "thread: elements")
    key = "Darker: a higher number. Contested: several threads touch the element in one phase, one of them writing."
    if numbered and any((panel.owners("thread")[2] > 1).any() for panel in panels):
        key += "\nA number with a +: this thread, and others with higher numbers."
    return f"{key}\n{table(rows, head)!r}"


def _examples(rows: Rows, variable: Variable) -> str:
    """The first three threads, with the elements that each touched."""
    examples = []
    for thread in np.unique(rows["thread"])[:3]:
        elements = np.unique(rows["element"][rows["thread"] == thread]).tolist()
        places = np.transpose(np.unravel_index(elements[:2], variable.shape or (1,)))
        names = ["".join(f"[{i}]" for i in place) for place in places]
        examples.append(f"{thread}: {' '.join(names)}{' …' if elements[2:] else ''}")
    return "  ".join(examples)
