"""The accesses of one thread in the order of time, variable by variable."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from minigrad.display import plural, table
from minigrad.errors import require, require_words
from minigrad.lab.show.draw.axes import frame
from minigrad.lab.show.draw.colours import DARK, FONT, LIGHT_EDGE
from minigrad.lab.show.draw.picture import WIDTH, Picture, blank_figure
from minigrad.microscope.native import Rows
from minigrad.microscope.record import Inspection

MARK = {"read": "o", "write": "s", "atomic": "^"}
TALL, LOW = 1.3, 0.7  # inches, of a variable with several elements, and of one with a single element


def timeline(report: Inspection, thread: int = 0, only: Sequence[str] = ()) -> Picture:
    """The elements that a thread of the first block touches, from left to right in the order in which it does.

    One panel for each variable, in the order of the first touch, or in that of `only`. The numbers below name each run
    of elements with equal steps, `0..7` upwards, `7..0` downwards, and `7 x3` for 7 three times. Raises ValueError
    where the thread touched nothing, or no such variable.
    """
    require("timeline", report, Inspection, "a record of mg.inspect")
    rows = report.traffic[(report.traffic["block"] == 0) & (report.traffic["thread"] == thread)]
    if not len(rows):
        raise ValueError(f"timeline: thread {thread} of the first block of {report.kernel} touches no array.")
    touched = list(dict.fromkeys(rows["variable"].tolist()))
    chosen = require_words("timeline", "only", only or touched, touched)
    rows = rows[np.isin(rows["variable"], chosen)]
    panels = [(variable, np.flatnonzero(rows["variable"] == variable)) for variable in chosen]
    heights = [TALL if len(np.unique(rows["element"][when])) > 1 else LOW for _, when in panels]
    to = f" to {', '.join(chosen)}" if len(chosen) < len(touched) else ""
    title = f"{report.kernel}, thread {thread}: {plural(len(rows), 'access', 'accesses')}{to} in the order of time"
    figure = blank_figure(WIDTH, 1.1 + sum(heights), title)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, (variable, when) in zip(grid[:, 0], panels, strict=True):
        frame(axes, "", variable)
        _panel(axes, when, rows[when])
    grid[-1, 0].set_xlabel("accesses, in the order of time", fontsize=FONT)
    kinds = [kind for kind in MARK if kind in rows["kind"]]
    marks = [Line2D([], [], color=DARK[kind], marker=MARK[kind], linestyle="") for kind in kinds]
    figure.legend(marks, kinds, loc="outside upper right", ncols=len(kinds), frameon=False, fontsize=FONT)
    numbers = [row for variable, when in panels for row in _numbers(variable, rows[when])]
    headers = ("variable", "access", "times", "elements in the order of time")
    return Picture(figure, title, repr(table(numbers, headers)))


def _panel(axes: Axes, when: np.ndarray, rows: Rows) -> None:
    """The accesses to one variable: a line through all of them, and a mark for each kind."""
    axes.plot(when, rows["element"], color=LIGHT_EDGE, linewidth=1, zorder=1)
    for kind, mark in MARK.items():
        now = rows["kind"] == kind
        axes.plot(when[now], rows["element"][now], mark, color=DARK[kind], markersize=5)
    if len(single := np.unique(rows["element"])) == 1:
        axes.set_yticks(single)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.margins(y=0.15)


def _numbers(variable: str, rows: Rows) -> Iterator[tuple[str, str, int, str]]:
    """The rows of the table for one variable: for each kind, how many accesses, and to which elements."""
    for kind in MARK:
        if len(elements := rows["element"][rows["kind"] == kind]):
            yield variable, kind, len(elements), _spans(elements.tolist())


def _spans(elements: Iterable[int]) -> str:
    """Numbers as runs of equal steps: 0..3, 7, 6..0 by 2, 5 x3."""
    runs: list[list[int]] = []
    for n, equal in groupby(elements):
        if (times := len([*equal])) > 2:
            runs.append([n] * times)
        else:  # a turn, as in 0..2, 2..0, is in both runs
            for _ in range(times):
                _lengthen(runs, n)
    return ", ".join(map(_span, runs))


def _lengthen(runs: list[list[int]], n: int) -> None:
    """Add a number to the last run, or begin another."""
    last = runs[-1] if runs else []
    if last and (len(last) == 1 or n - last[-1] == last[1] - last[0]):
        last.append(n)
    elif len(last) == 2 and abs(last[1] - last[0]) != 1:
        runs.append([last.pop(), n])
    else:
        runs.append([n])


def _span(run: list[int]) -> str:
    steps = {abs(b - a) for a, b in pairwise(run)}
    if steps == {0}:
        return f"{run[0]} x{len(run)}"
    if not steps - {1}:
        return f"{run[0]}..{run[-1]}" if steps else str(run[0])
    return f"{run[0]}..{run[-1]} by {steps.pop()}" if len(run) > 2 else f"{run[0]}, {run[1]}"
