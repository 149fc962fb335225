"""What threads did to a variable, barrier phase by barrier phase: the rows of the picture of phases."""

from dataclasses import dataclass
from math import prod

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from minigrad.display import table
from minigrad.errors import a
from minigrad.lab.show.draw.picture import INK, VERMILLION, Picture, box, boxes, canvas, plural, words
from minigrad.lab.show.warp import RAMP, parts
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable


@dataclass(frozen=True)
class Panel:
    """What one kind of access did to a variable between two barriers."""

    phase: int
    kind: str
    rows: np.ndarray  # of the traffic
    contested: np.ndarray  # elements that several threads touched in this phase, one of them writing

    def owners(self, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements, the lowest thread or block that touched each, and how many threads did."""
        who = np.stack([self.rows["element"], self.rows[by], self.rows["block"], self.rows["thread"]])
        element, owner = np.unique(who, axis=1)[:2]
        each, first, count = np.unique(element, return_index=True, return_counts=True)
        return each, owner[first], count


def panels_of(rows: np.ndarray, itemsize: int) -> list[Panel]:
    """In the order of time: phase after phase, and in a phase the kind of access that began first."""
    found = []
    whole = not ((rows["offset"] % itemsize).any() or (rows["bytes"] % itemsize).any())
    for phase in np.unique(rows["phase"]):
        now = rows[rows["phase"] == phase]
        contested = _contested(now, itemsize) if whole else np.unique(_contested(now, 1) // itemsize)
        now = parts(now, itemsize)
        for kind in dict.fromkeys(now["kind"].tolist()):
            found.append(Panel(int(phase), kind, now[now["kind"] == kind], contested))
    return found


def _contested(rows: np.ndarray, size: int) -> np.ndarray:
    """The pieces of `size` bytes that several threads of a block touch, one of them by a plain write."""
    pieces = parts(rows, size)
    who = np.unique(np.stack([pieces["block"], pieces["element"], pieces["thread"]]), axis=1)[:2]
    shared, count = np.unique(who, axis=1, return_counts=True)
    return np.intersect1d(shared[1, count > 1], pieces["element"][pieces["kind"] == "write"])


WIDTH, LABEL = 9.6, 1.5  # inches, of all and of what stands left of a row
DIGIT = 0.09  # inches of one, of a number in a cell
LONG = 64  # of a longer axis, only what was touched is drawn
Span = tuple[int, int]


def phases(report: Inspection, variable: str, by: str = "thread") -> Picture:
    """Who touches which element of a variable in each barrier phase: `phases(mg.inspect(...), "tile")`.

    by is "thread" or "block": the darker an element, the higher its number. Phase 0 ends at the first barrier. Outlined
    are elements that several threads of a block touch in one phase, one of them writing, and not each its own part: a
    race, unless warps keep an order there. Raises ValueError where the variable was not touched.
    """
    a("phases", report, Inspection, "a record of mg.inspect")
    if by not in ("thread", "block"):
        raise ValueError(f"phases: by={by!r} must be 'thread' or 'block'.")
    rows = report.traffic[report.traffic["variable"] == variable]
    if not len(rows):
        names = ", ".join(sorted(set(report.traffic["variable"].tolist()))) or "none"
        raise ValueError(
            f"phases: {report.kernel} touched no {variable!r} in the blocks looked at; it touched {names}."
        )
    known = report.variables[variable]
    panels = panels_of(rows, known.itemsize)
    rows = parts(rows, known.itemsize)
    high, wide = _shape(known)
    down = _span(rows["element"] // wide, high)
    across = _span(rows["element"] % wide, wide)
    title = _title(report, variable, panels)
    drawn = _Sheet(known, down, across, by, int(rows[by].max(initial=0)))
    figure = drawn.figure(title, panels)
    return Picture(figure, title, _told(panels, known, drawn.numbered(panels)))


def _shape(variable: Variable) -> tuple[int, int]:
    """Rows and columns: all but the last axis are rows."""
    shape = variable.shape or (1,)
    return prod(shape[:-1]), shape[-1]


def _span(touched: np.ndarray, extent: int) -> Span:
    """What to draw along an axis: all of it, or of a long one what was touched."""
    return (0, extent) if extent <= LONG else (int(touched.min()), int(touched.max()) + 1)


def _title(report: Inspection, variable: str, panels: list[Panel]) -> str:
    contested = np.unique(np.concatenate([panel.contested for panel in panels])).size
    head = f"{report.kernel}: {variable} in {plural(len({panel.phase for panel in panels}), 'phase')}"
    return head + (f", {plural(contested, 'element')} touched by several threads at once" if contested else "")


@dataclass(frozen=True)
class _Sheet:
    """How a variable is drawn: its part, and whose number gives the colour."""

    variable: Variable
    down: Span
    across: Span
    by: str
    most: int

    def layout(self, panels: list[Panel]) -> tuple[int, float]:
        """How many panels stand side by side, and the inches of a cell."""
        high, wide = self.down[1] - self.down[0], self.across[1] - self.across[0]
        columns = 1 if high < 4 or wide > 4 * high else min(len(panels), 2)
        return columns, min((WIDTH - LABEL - 0.3) / (columns * (wide + 1)), max(4.4 / high, 0.1), 0.5)

    def numbered(self, panels: list[Panel]) -> bool:
        """Whether a cell has room for the numbers of threads."""
        owners = (zip(*panel.owners(self.by)[1:], strict=True) for panel in panels)
        longest = max(len(_number(*owner)) for panel in owners for owner in panel)
        return self.by == "thread" and self.layout(panels)[1] >= longest * DIGIT + 0.05

    def figure(self, title: str, panels: list[Panel]) -> Figure:
        """Panels of few rows below each other, of many side by side."""
        high, wide = self.down[1] - self.down[0], self.across[1] - self.across[0]
        (columns, unit), numbered = self.layout(panels), self.numbered(panels)
        lines = -(-len(panels) // columns)
        head = 0.42 / unit if columns > 1 or high > 1 else 0.12 / unit
        figure, axes = canvas(WIDTH, 0.75 + lines * (high + head) * unit, title)
        axes.set_aspect("equal", anchor="NW")
        left = 0.2 / unit if head * unit > 0.4 else LABEL / unit
        for i, panel in enumerate(panels):
            x, y = left + i % columns * (wide + 0.5 / unit), head + i // columns * (high + head)
            self.draw(axes, panel, x, y, unit, head * unit > 0.4, numbered)
        axes.set_xlim(0, (WIDTH - 0.2) / unit)
        axes.set_ylim(head * 0.9 + lines * (high + head), 0)
        return figure

    def draw(
        self, axes: Canvas, panel: Panel, left: float, top: float, unit: float, above: bool, numbered: bool
    ) -> None:
        """One panel: a cell for each element, its owner's number in it where there is room."""
        label = f"phase {panel.phase}, {panel.kind}"
        if above:
            words(axes, left, top - 0.08 / unit, label, ha="left", va="bottom", fontweight="bold")
        else:
            words(axes, left - 0.12 / unit, top + 0.5, label, ha="right", fontweight="bold")
        high, wide = self.down[1] - self.down[0], self.across[1] - self.across[0]
        box(axes, left, top, wide, high, "white", linewidth=1)
        element, owner, count = panel.owners(self.by)
        row, column = np.divmod(element, _shape(self.variable)[1])
        x, y = left + column - self.across[0], top + row - self.down[0]
        fills = LinearSegmentedColormap.from_list("", RAMP[panel.kind])(owner / max(1, self.most))
        edge = 0.7 if unit > 0.2 else 0.15 if unit > 0.1 else 0
        boxes(axes, x, y, 1, 1, fills, edgecolors=INK if edge else fills, linewidths=edge)
        if self.by == "block":
            for block in np.unique(owner):
                own = owner == block
                words(axes, x[own].mean() + 0.5, y[own].mean() + 0.5, str(block), fontsize=10)
        elif numbered:
            for at, who, many in zip(zip(x, y, strict=True), owner, count, strict=True):
                words(axes, at[0] + 0.5, at[1] + 0.5, _number(who, many), fontsize=10)
        marked = np.isin(element, panel.contested)
        boxes(axes, x[marked], y[marked], 1, 1, "none", edgecolors=VERMILLION, linewidths=2.4)


def _number(owner: int, threads: int) -> str:
    """A thread's number; with a plus where others touch the element, too."""
    return f"{owner}{'+' if threads > 1 else ''}"


def _told(panels: list[Panel], variable: Variable, numbered: bool) -> str:
    """The same as a table: how many elements and threads, and where the first threads are."""
    rows = []
    for panel in panels:
        lines = ", ".join(map(str, np.unique(panel.rows["line"])))
        who = np.unique(panel.rows["block"].astype(np.int64) << 10 | panel.rows["thread"]).size
        elements = np.unique(panel.rows["element"]).size
        first = panel.rows[panel.rows["block"] == panel.rows["block"].min()]
        rows.append((panel.phase, panel.kind, lines, elements, who, panel.contested.size, _places(first, variable)))
    head = ("phase", "access", "line", "elements", "threads", "contested", "thread: elements")
    key = "Darker: a higher number. Contested: several threads touch the element in one phase, one of them writing."
    if numbered and any((panel.owners("thread")[2] > 1).any() for panel in panels):
        key += "\nA number with a +: this thread, and others with higher numbers."
    return f"{key}\n{table(rows, head)!r}"


def _places(rows: np.ndarray, variable: Variable) -> str:
    """The first three threads, with the elements that each touched."""
    told = []
    for thread in np.unique(rows["thread"])[:3]:
        mine = np.unique(rows["element"][rows["thread"] == thread]).tolist()
        names = [_subscript(variable, element) for element in mine[:2]]
        told.append(f"{thread}: {' '.join(names)}{' …' if mine[2:] else ''}")
    return "  ".join(told)


def _subscript(variable: Variable, element: int) -> str:
    return "".join(f"[{int(i)}]" for i in np.unravel_index(element, variable.shape or (1,)))
