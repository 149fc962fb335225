"""The elements of a variable that threads touch between two barriers, phase by phase."""

from dataclasses import dataclass
from math import prod

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from minigrad.display import table
from minigrad.errors import a
from minigrad.lab.show.accesses import split_by_element
from minigrad.lab.show.draw.colours import INK, RAMP, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, boxes, canvas, plural, write
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable

LABEL = 1.5  # inches, of the label left of a row
DIGIT = 0.09  # inches of a digit in a cell
LONG = 64  # of a longer axis, only the touched span is drawn
Span = tuple[int, int]


@dataclass(frozen=True)
class PhasePanel:
    """The accesses of one kind to a variable between two barriers."""

    phase: int
    kind: str
    rows: np.ndarray  # of the traffic
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
    a("phases", report, Inspection, "a record of mg.inspect")
    if by not in ("thread", "block"):
        raise ValueError(f"phases: by={by!r} must be 'thread' or 'block'.")
    rows = report.traffic[report.traffic["variable"] == variable]
    if not len(rows):
        names = ", ".join(sorted(set(report.traffic["variable"].tolist()))) or "none"
        found = f"{report.kernel} touched no {variable!r} in the inspected blocks"
        raise ValueError(f"phases: {found}; it touched {names}.")
    known = report.variables[variable]
    panels = panels_of(rows, known.itemsize)
    rows = split_by_element(rows, known.itemsize)
    high, wide = _shape(known)
    down, across = _span(rows["element"] // wide, high), _span(rows["element"] % wide, wide)
    title = _title(report, variable, panels)
    sheet = _Sheet(known, down, across, by, int(rows[by].max(initial=0)))
    return Picture(sheet.figure(title, panels), title, _numbers(panels, known, sheet.numbered(panels)))


def panels_of(rows: np.ndarray, itemsize: int) -> list[PhasePanel]:
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


def _contested(rows: np.ndarray, size: int) -> np.ndarray:
    """The chunks of `size` bytes that several threads of a block touch, one of them by a plain write."""
    chunks = split_by_element(rows, size)
    who = np.unique(np.stack([chunks["block"], chunks["element"], chunks["thread"]]), axis=1)[:2]
    shared, count = np.unique(who, axis=1, return_counts=True)
    return np.intersect1d(shared[1, count > 1], chunks["element"][chunks["kind"] == "write"])


def _shape(variable: Variable) -> tuple[int, int]:
    """Rows and columns: all but the last axis are rows."""
    shape = variable.shape or (1,)
    return prod(shape[:-1]), shape[-1]


def _span(touched: np.ndarray, extent: int) -> Span:
    """The span to draw along an axis: all of it, or the touched part of a long one."""
    return (0, extent) if extent <= LONG else (int(touched.min()), int(touched.max()) + 1)


def _title(report: Inspection, variable: str, panels: list[PhasePanel]) -> str:
    contested = np.unique(np.concatenate([panel.contested for panel in panels])).size
    head = f"{report.kernel}: {variable} in {plural(len({panel.phase for panel in panels}), 'phase')}"
    return head + (f", {plural(contested, 'element')} touched by several threads at once" if contested else "")


@dataclass(frozen=True)
class _Sheet:
    """The drawn part of a variable, and the number that gives an element its colour."""

    variable: Variable
    down: Span
    across: Span
    by: str
    largest: int  # number of a thread or block

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of a panel, in cells."""
        return self.down[1] - self.down[0], self.across[1] - self.across[0]

    def layout(self, panels: list[PhasePanel]) -> tuple[int, float]:
        """The number of panels in a line, and the inches of a cell."""
        high, wide = self.extent
        columns = 1 if high < 4 or wide > 4 * high else min(len(panels), 2)
        return columns, min((WIDTH - LABEL - 0.3) / (columns * (wide + 1)), max(4.4 / high, 0.1), 0.5)

    def numbered(self, panels: list[PhasePanel]) -> bool:
        """True where a cell has room for the numbers of threads."""
        owners = (zip(*panel.owners(self.by)[1:], strict=True) for panel in panels)
        longest = max(len(_number(*owner)) for panel in owners for owner in panel)
        return self.by == "thread" and self.layout(panels)[1] >= longest * DIGIT + 0.05

    def figure(self, title: str, panels: list[PhasePanel]) -> Figure:
        """Panels with few rows are stacked, others lie two in a line."""
        high, wide = self.extent
        (columns, unit), numbered = self.layout(panels), self.numbered(panels)
        lines = -(-len(panels) // columns)
        head = 0.42 / unit if columns > 1 or high > 1 else 0.12 / unit
        above = head * unit > 0.4  # the labels
        figure, axes = canvas(WIDTH, 0.75 + lines * (high + head) * unit, title)
        axes.set_aspect("equal", anchor="NW")
        left = (0.2 if above else LABEL) / unit
        for i, panel in enumerate(panels):
            x, y = left + i % columns * (wide + 0.5 / unit), head + i // columns * (high + head)
            label = f"phase {panel.phase}, {panel.kind}"
            if above:
                write(axes, x, y - 0.08 / unit, label, ha="left", va="bottom", fontweight="bold")
            else:
                write(axes, x - 0.12 / unit, y + 0.5, label, ha="right", fontweight="bold")
            self.draw(axes, panel, x, y, unit, numbered)
        axes.set_xlim(0, (WIDTH - 0.2) / unit)
        axes.set_ylim(head * 0.9 + lines * (high + head), 0)
        return figure

    def draw(self, axes: Axes, panel: PhasePanel, left: float, top: float, unit: float, numbered: bool) -> None:
        """One panel: a cell for each element, its owner's number in it where there is room."""
        high, wide = self.extent
        box(axes, left, top, wide, high, "white", linewidth=1)
        element, owner, count = panel.owners(self.by)
        row, column = np.divmod(element, _shape(self.variable)[1])
        x, y = left + column - self.across[0], top + row - self.down[0]
        fills = LinearSegmentedColormap.from_list("", RAMP[panel.kind])(owner / max(1, self.largest))
        edge = 0.7 if unit > 0.2 else 0.15 if unit > 0.1 else 0
        boxes(axes, x, y, 1, 1, fills, edgecolors=INK if edge else fills, linewidths=edge)
        if self.by == "block":
            for block in np.unique(owner):
                own = owner == block
                write(axes, x[own].mean() + 0.5, y[own].mean() + 0.5, str(block), fontsize=10)
        elif numbered:
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


def _examples(rows: np.ndarray, variable: Variable) -> str:
    """The first three threads, with the elements that each touched."""
    examples = []
    for thread in np.unique(rows["thread"])[:3]:
        elements = np.unique(rows["element"][rows["thread"] == thread]).tolist()
        names = [_subscript(variable, element) for element in elements[:2]]
        examples.append(f"{thread}: {' '.join(names)}{' …' if elements[2:] else ''}")
    return "  ".join(examples)


def _subscript(variable: Variable, element: int) -> str:
    return "".join(f"[{int(i)}]" for i in np.unravel_index(element, variable.shape or (1,)))
