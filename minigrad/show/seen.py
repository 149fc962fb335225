"""What to draw of an inspected launch: which accesses, which request of a warp, and the colour of each kind."""

from collections.abc import Callable

import numpy as np

from minigrad.microscope.lines import Line
from minigrad.microscope.record import Inspection
from minigrad.show.picture import BLUE, GREEN, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, ORANGE, SKY, listed, plural

LIGHT = {"read": LIGHT_BLUE, "write": LIGHT_ORANGE, "atomic": LIGHT_GREEN}
DARK = {"read": BLUE, "write": ORANGE, "atomic": GREEN}
RAMP = {"read": ("#DCEEFA", SKY), "write": ("#FCEBC6", ORANGE), "atomic": ("#D3F0E5", "#46BF98")}  # letters stay black
MOST = 4  # accesses in one picture


def accesses(
    name: str, report: Inspection, at: int | str | None, space: str, cost: Callable[[Line], float]
) -> list[int]:
    """The sites in a source line or of a variable, in the order of the source; of more than four the costliest."""
    sites = [i for i, line in enumerate(report.lines) if line.space == space]
    found = [i for i in sites if at is None or at in (report.lines[i].line, report.lines[i].variable)]
    if not found:
        where = sorted({f"line {report.lines[i].line} ({report.lines[i].variable})" for i in sites})
        there = f"it has {listed(where, 'and')}" if where else "there is none in the blocks that were looked at"
        raise ValueError(f"{name}: {report.kernel} has no access to {space} memory{_place(at)}; {there}.")
    return sorted(sorted(found, key=lambda i: -cost(report.lines[i]))[:MOST])


def _place(at: int | str | None) -> str:
    return "" if at is None else f" in line {at}" if isinstance(at, int) else f" named {at}"


def label(report: Inspection, line: Line) -> str:
    """What stands above an access: its line, its file if that is not the kernel's own, and what it does."""
    place = f"line {line.line}" if line.file == report.source.name else f"{line.file}:{line.line}"
    return f"{place}: {line.kind} {line.variable}"


def parts(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, once for each piece of `size` bytes that they touch; "element" is the number of the piece."""
    first, last = rows["offset"] // size, (rows["offset"] + rows["bytes"] - 1) // size
    count = last - first + 1
    made = np.repeat(rows, count)
    made["element"] = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(made))
    return made


def request_of(name: str, report: Inspection, site: int, number: int) -> np.ndarray:
    """The rows of one request, the `number`-th instruction of a warp in that access, lane after lane."""
    rows = report.traffic[report.traffic["site"] == site]
    requests = np.unique(rows["request"])
    if not 0 <= number < len(requests):
        line = report.lines[site]
        raise ValueError(
            f"{name}: request={number}, and line {line.line} has {plural(len(requests), 'request')}, from 0."
        )
    return rows[rows["request"] == requests[number]]
