"""The accesses of a warp as a picture: sectors of global memory, and banks of shared memory."""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import gcd
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from minigrad.display import plural, table
from minigrad.errors import require
from minigrad.lab.show.draw.colours import DARK, EDGE, GREY, LIGHT, LIGHT_EDGE, PALE
from minigrad.lab.show.draw.picture import WIDTH, Picture, boxes, canvas, joined, write
from minigrad.microscope.counts import BANKS, SECTOR, WARP, Line
from minigrad.microscope.native import Rows
from minigrad.microscope.record import Inspection

VERB = {"read": "read", "write": "write", "atomic": "change"}
SITES = 4  # accesses in one picture
SHARED = "one number for several lanes"  # more bytes are asked for than moved
TALL = 8  # wavefronts of a request, above which a second access does not fit on the screen


class Cost(NamedTuple):
    """A cost of accesses to a memory: `of` an access, named `by`, and `noun`, of which a request takes some."""

    space: str
    noun: str
    of: Callable[[Line], float]
    by: str

    def told(self, line: Line) -> str:
        """The cost of a request in words."""
        number = getattr(line, f"{self.noun}s_per_request")
        return f"{number:.4g} {self.noun}{'s' * (number != 1)} to {VERB[line.kind]} {line.variable}"


SECTORS = Cost("global", "sector", attrgetter("sectors"), "sectors in all")
WAVEFRONTS = Cost("shared", "wavefront", attrgetter("wavefronts_per_request"), "wavefronts/request")


def _select(
    name: str, report: Inspection, at: int | str | None, request: int, most: int, cost: Cost
) -> tuple[list[Line], list[np.ndarray], str, str]:
    """The accesses in a source line or of a variable, of more than `most` the costliest, and one request of each; a
    title; a sentence about accesses that are left out.
    """
    found = _sites(name, report, at, cost.space)
    chosen = _costliest(report, found, cost)[:most]
    lines = [report.lines[i] for i in sorted(chosen)]
    title = f"{report.kernel}, a warp: {', '.join(map(cost.told, lines))}"
    few = f"Drawn: the {'costliest' if most == 1 else f'{most} costliest'} of {len(found)} accesses, by {cost.by}.\n"
    requests = [request_of(name, report, i, request) for i in sorted(chosen)]
    return lines, requests, title, few if len(found) > most else ""


def _sites(name: str, report: Inspection, at: int | str | None, space: str) -> list[int]:
    """The numbers of the accesses to a memory, in a source line or of a variable. Raises ValueError without any."""
    require(name, report, Inspection, "a record of mg.inspect")
    sites = [i for i, line in enumerate(report.lines) if line.space == space]
    found = [i for i in sites if at is None or at in (report.lines[i].line, report.lines[i].variable)]
    if not found:
        where = sorted({f"line {report.lines[i].line} ({report.lines[i].variable})" for i in sites})
        there = f"it has {joined(where, 'and')}" if where else "there is none in the blocks that were looked at"
        place = "" if at is None else f" in line {at}" if isinstance(at, int) else f" named {at}"
        raise ValueError(f"{name}: {report.kernel} has no access to {space} memory{place}; {there}.")
    return found


def _costliest(report: Inspection, sites: list[int], cost: Cost) -> list[int]:
    """These accesses, the costliest in front; of equal cost, first one access of each variable."""
    seen = Counter[tuple[float, str]]()
    order: dict[int, tuple[float, int]] = {}
    for i in sites:
        kind = cost.of(report.lines[i]), report.lines[i].variable
        order[i] = -kind[0], seen[kind]
        seen[kind] += 1
    return sorted(sites, key=order.__getitem__)


def label(report: Inspection, line: Line) -> str:
    """The label of an access: its line, its file if that is not the kernel's own, its kind and its variable."""
    place = f"line {line.line}" if line.file == report.source.name else f"{line.file}:{line.line}"
    return f"{place}: {line.kind} {line.variable}"


def split_by_element(rows: Rows, size: int) -> Rows:
    """The rows of the traffic, once for each chunk of `size` bytes that they touch; "element" numbers the chunk."""
    first, last = rows["offset"] // size, (rows["offset"] + rows["bytes"] - 1) // size
    count = last - first + 1
    split = np.repeat(rows, count)
    split["element"] = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(split))
    return split


def request_of(name: str, report: Inspection, site: int, number: int) -> Rows:
    """The rows of one request, the `number`-th instruction of a warp in that access, lane after lane."""
    rows = report.traffic[report.traffic["site"] == site]
    requests = np.unique(rows["request"])
    if not 0 <= number < len(requests):
        count = f"line {report.lines[site].line} has {plural(len(requests), 'request')}"
        raise ValueError(f"{name}: request={number}, and {count}, from 0.")
    return rows[rows["request"] == requests[number]]


def costliest(report: Inspection, most: int = 2) -> Picture | None:
    """Accesses of `sectors` or `banks`, of the kind that is further from the fewest possible: the costliest of them.

    None where the inspected blocks touch no memory.
    """
    require("costliest", report, Inspection, "a record of mg.inspect")
    moved = max((x.sectors / x.ideal_sectors for x in report.lines if x.space == "global"), default=0)
    passes = [(x.wavefronts / (x.wavefronts - x.bank_conflicts), x) for x in report.lines if x.space == "shared"]
    waits, line = max(passes, key=itemgetter(0), default=(0, None))
    if line is None or moved >= waits:
        return sectors(report, most=most) if moved else None
    return banks(report, most=1 if line.wavefronts_per_request > TALL else most)


def sectors(report: Inspection, at: int | str | None = None, request: int = 0, most: int = SITES) -> Picture:
    """The lanes of a warp and the 32-byte sectors of global memory that they touch: `sectors(mg.inspect(...), "y")`.

    at is a source line or a variable; without it, the costliest accesses are drawn, `most` of them. request counts the
    instructions of warps in each access, from 0. Raises ValueError where there is no such access.
    """
    lines, requests, title, few = _select("sectors", report, at, request, most, SECTORS)
    figure, axes = canvas(WIDTH, 0.4 + 1.75 * len(lines), title)
    for row, (line, lanes) in enumerate(zip(lines, requests, strict=True)):
        _draw_sectors(axes, 3.6 * row, report, line, lanes)
    axes.set(xlim=(-1.6, WARP + 0.1), ylim=(3.6 * len(lines) - 0.3, -0.1))
    rows = [
        (x.line, x.kind, x.variable, x.requests, x.sectors_per_request, x.ideal_sectors_per_request,
         x.bytes, moved := x.sectors * SECTOR, f"{100 * x.bytes / moved:.4g} %" if x.bytes <= moved else SHARED)
        for x in lines
    ]  # fmt: skip
    head = ("line", "access", "of", "requests", "sectors/request", "ideal", "bytes asked", "bytes moved", "used")
    key = f"Dark: what a lane asks for. Pale: moved along in the same sector of {SECTOR} bytes, and not used."
    return Picture(figure, title, f"{few}{key}\n{table(rows, head)!r}")


def _draw_sectors(axes: Axes, top: float, report: Inspection, line: Line, lanes: Rows) -> None:
    """Lanes above, the sectors below, and a line from each lane to the elements that it requests."""
    itemsize = report.variables[line.variable].itemsize
    write(axes, 0, top + 0.25, label(report, line), ha="left", fontweight="bold")
    write(axes, -0.15, top + 0.9, "lane", ha="right")
    write(axes, -0.15, top + 2.45, line.variable, ha="right")
    lane = lanes["thread"] % WARP
    idle = np.setdiff1d(np.arange(WARP), lane)
    boxes(axes, lane, top + 0.6, 1, 0.6, LIGHT[line.kind])
    boxes(axes, idle, top + 0.6, 1, 0.6, "white", hatch="////", edgecolors=EDGE)
    for i in lane:
        write(axes, i + 0.5, top + 0.9, str(i), fontsize=10)
    first, size = lanes["offset"], int(lanes["bytes"].max())
    touched = np.unique(np.concatenate([first // SECTOR, (first + lanes["bytes"] - 1) // SECTOR]))
    unit = gcd(itemsize, size, SECTOR)  # an element, or the part of one that a lane requests
    each = SECTOR // unit
    wide = WARP / len(touched)
    cell = 0.94 * wide / each
    left = np.arange(len(touched)) * wide
    boxes(axes, (left[:, None] + np.arange(each) * cell).ravel(), top + 2.15, cell, 0.6, PALE, edgecolors="#b5b5b5",
          linewidths=0.4)  # fmt: skip
    spans = first[:, None] // unit + np.arange(size // unit)
    requested = np.searchsorted(touched, spans // each) * wide + spans % each * cell
    boxes(axes, requested.ravel(), top + 2.15, cell, 0.6, DARK[line.kind], linewidths=0.4)
    ends = np.stack([np.stack([lane + 0.5, np.full(len(lane), top + 1.2)], 1),
                     np.stack([requested[:, 0] + cell / 2, np.full(len(lane), top + 2.15)], 1)], 1)  # fmt: skip
    axes.add_collection(LineCollection(list(ends), colors=GREY, linewidths=0.7), autolim=False)
    boxes(axes, left, top + 2.15, 0.94 * wide, 0.6, "none", linewidths=1)
    number = touched * SECTOR // itemsize  # of the first element in a sector
    longest = len(str(number[-1]))
    step = max(1, round((longest + 1.5) * 0.085 / (wide * WIDTH / 34)))
    for i in range(0, len(touched), step):
        write(axes, left[i], top + 2.98, str(number[i]), ha="left", fontsize=10, color=GREY)


def banks(report: Inspection, at: int | str | None = None, request: int = 0, most: int = SITES) -> Picture:
    """The lanes of a warp in the 32 banks of shared memory, one row a wavefront: `banks(mg.inspect(...), "tile")`.

    A bank serves one word a wavefront. at, request and most as for `sectors`. Raises ValueError without such an access.
    """
    lines, requests, title, few = _select("banks", report, at, request, most, WAVEFRONTS)
    served = [wavefronts(lanes, line.kind == "atomic") for line, lanes in zip(lines, requests, strict=True)]
    heights = [1 + max(row for row, _ in lanes) for lanes in served]
    high = sum(heights) + 2.5 * len(lines)
    figure, axes = canvas(WIDTH, 0.55 + 0.2 * high, title)
    top = 0.0
    for line, lanes, height in zip(lines, served, heights, strict=True):
        _draw_banks(axes, top, label(report, line), LIGHT[line.kind], lanes, height)
        top += height + 2.5
    axes.set(xlim=(-1.9, BANKS + 0.1), ylim=(high - 0.2, -0.1))
    rows = [(line.line, line.kind, line.variable, line.requests, line.wavefronts, line.wavefronts_per_request,
             line.bank_conflicts, len({bank for _, bank in lanes}))
            for line, lanes in zip(lines, served, strict=True)]  # fmt: skip
    head = ("line", "access", "of", "requests", "wavefronts", "wavefronts/request", "bank conflicts", "banks drawn")
    key = "A column is a bank, a row a wavefront, a number the lane that is served; +: more lanes want the same word."
    return Picture(figure, title, f"{few}{key}\n{table(rows, head)!r}")


def wavefronts(lanes: Rows, atomic: bool) -> dict[tuple[int, int], list[int]]:
    """The lanes served by each (wavefront, bank). Lanes share a word; atomics on one word are serialized.

    Accesses of 8 bytes are served by half warps, of 16 by quarters, one after the other.
    """
    size = max(4, int(lanes["bytes"].max(initial=4)))
    requested: dict[int, dict[tuple, list[int]]] = defaultdict(lambda: defaultdict(list))  # by part of the warp, word
    for thread, byte in zip(lanes["thread"].tolist(), lanes["offset"].tolist(), strict=True):
        lane = thread % WARP
        for word in range(byte // 4, (byte + size - 1) // 4 + 1):
            requested[lane * size // (WARP * 4)][word, lane if atomic else None].append(lane)
    served: dict[tuple[int, int], list[int]] = {}
    start = 0
    for part in sorted(requested):
        used = dict.fromkeys(range(BANKS), start)
        for (word, _), lanes_of_word in requested[part].items():
            served[used[word % BANKS], word % BANKS] = lanes_of_word
            used[word % BANKS] += 1
        start = max(used.values())
    return served


def _draw_banks(
    axes: Axes, top: float, name: str, fill: str, served: dict[tuple[int, int], list[int]], height: int
) -> None:
    """A column for each bank, and in it the lanes that it serves, wavefront after wavefront."""
    write(axes, 0, top + 0.3, name, ha="left", fontweight="bold")
    write(axes, -0.2, top + 1.2, "bank", ha="right")
    for bank in range(BANKS):
        write(axes, bank + 0.5, top + 1.2, str(bank), fontsize=10, color=GREY)
    x, y = np.meshgrid(np.arange(BANKS), np.arange(height) + top + 1.8)
    boxes(axes, x.ravel(), y.ravel(), 1, 1, "white", edgecolors=LIGHT_EDGE, linewidths=0.4)
    row, bank = np.array(list(served)).T
    boxes(axes, bank, row + top + 1.8, 1, 1, fill)
    for (row, bank), lanes in served.items():
        write(axes, bank + 0.5, row + top + 2.3, f"{lanes[0]}{'+' * (len(lanes) > 1)}", fontsize=10)
