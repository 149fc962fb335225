"""What the lanes of one warp touch: sectors of global memory, banks of shared memory."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import gcd

import numpy as np
from matplotlib.axes import Axes as Canvas

from minigrad.microscope.lines import Line
from minigrad.microscope.record import Inspection
from minigrad.microscope.requests import BANKS, SECTOR, WARP
from minigrad.require import a
from minigrad.show.picture import GREY, INK, PALE, Picture, boxes, canvas, strokes, words
from minigrad.show.seen import DARK, LIGHT, accesses, label, request_of
from minigrad.show.tables import table

DOES = {"read": "read", "write": "write", "atomic": "change"}
WIDTH = 9.6
BANK = WIDTH / 36  # inches of a bank; the rest is the margin


def sectors(report: Inspection, at: int | str | None = None, request: int = 0) -> Picture:
    """The lanes of a warp and the 32-byte sectors of global memory that they touch: `sectors(mg.inspect(...), "y")`.

    at is a source line or a variable; without it, the costliest accesses are drawn. request counts the instructions of
    warps in each access, from 0. Raises ValueError where there is nothing of that kind to draw.
    """
    a("sectors", report, Inspection, "a record of mg.inspect")
    chosen = accesses("sectors", report, at, "global", lambda line: line.sectors_per_request)
    drawn = [request_of("sectors", report, site, request) for site in chosen]
    lines = [report.lines[site] for site in chosen]
    figure, axes = canvas(WIDTH, 0.4 + 1.75 * len(chosen), _title(report, lines, _sectors_of))
    for row, (line, lanes) in enumerate(zip(lines, drawn, strict=True)):
        _fan(axes, 3.6 * row, report, line, lanes)
    axes.set_xlim(-1.6, WARP + 0.1)
    axes.set_ylim(3.6 * len(chosen) - 0.3, -0.1)
    moved = [
        (line.bytes, line.sectors * SECTOR, f"{100 * line.bytes / (line.sectors * SECTOR):.4g} %") for line in lines
    ]
    rows = [
        (
            line.line,
            line.kind,
            line.variable,
            line.requests,
            line.sectors_per_request,
            line.ideal_sectors_per_request,
            *m,
        )
        for line, m in zip(lines, moved, strict=True)
    ]
    head = ("line", "access", "of", "requests", "sectors/request", "ideal", "bytes asked", "bytes moved", "used")
    key = f"Dark: what a lane asks for. Pale: moved along in the same sector of {SECTOR} bytes, and not used."
    return Picture(figure, _title(report, lines, _sectors_of), f"{key}\n{table(rows, head)!r}")


def _title(report: Inspection, lines: Sequence[Line], cost: Callable[[Line], str]) -> str:
    """The finding."""
    return f"{report.kernel}, a warp: " + ", ".join(cost(line) for line in lines)


def _sectors_of(line: Line) -> str:
    each = line.sectors_per_request
    return f"{each:.4g} sector{'s' * (each != 1)} to {DOES[line.kind]} {line.variable}"


def _fan(axes: Canvas, top: float, report: Inspection, line: Line, lanes: np.ndarray) -> None:
    """Lanes above, the sectors below, and a line from each lane to what it asks for."""
    itemsize = report.variables[line.variable].itemsize
    words(axes, 0, top + 0.25, label(report, line), ha="left", fontweight="bold")
    words(axes, -0.15, top + 0.9, "lane", ha="right")
    words(axes, -0.15, top + 2.45, line.variable, ha="right")
    lane = lanes["thread"] % WARP
    idle = np.setdiff1d(np.arange(WARP), lane)
    boxes(axes, lane, np.full(len(lane), top + 0.6), 1, 0.6, LIGHT[line.kind], edgecolors=INK)
    boxes(axes, idle, np.full(len(idle), top + 0.6), 1, 0.6, "white", hatch="////", edgecolors="#9a9a9a")
    for i in lane:
        words(axes, i + 0.5, top + 0.9, str(i), fontsize=10)
    first, size = lanes["offset"], int(lanes["bytes"].max())
    touched = np.unique(np.concatenate([first // SECTOR, (first + lanes["bytes"] - 1) // SECTOR]))
    unit = gcd(itemsize, size, SECTOR)  # an element, or the part of one that a lane asks for
    each = SECTOR // unit
    wide = WARP / len(touched)
    cell = 0.94 * wide / each
    left = np.arange(len(touched)) * wide
    x = (left[:, None] + np.arange(each) * cell).ravel()
    boxes(axes, x, np.full(len(x), top + 2.15), cell, 0.6, PALE, edgecolors="#b5b5b5", linewidths=0.4)
    spans = first[:, None] // unit + np.arange(size // unit)
    asked = np.searchsorted(touched, spans // each) * wide + spans % each * cell
    boxes(
        axes, asked.ravel(), np.full(asked.size, top + 2.15), cell, 0.6, DARK[line.kind], edgecolors=INK, linewidths=0.4
    )
    ends = np.stack([np.stack([lane + 0.5, np.full(len(lane), top + 1.2)], 1),
                     np.stack([asked[:, 0] + cell / 2, np.full(len(lane), top + 2.15)], 1)], 1)  # fmt: skip
    strokes(axes, ends, GREY)
    boxes(axes, left, np.full(len(left), top + 2.15), 0.94 * wide, 0.6, "none", edgecolors=INK, linewidths=1)
    number = touched * SECTOR // itemsize  # of the first element in a sector
    longest = len(str(number[-1]))
    step = max(1, round((longest + 1.5) * 0.085 / (wide * WIDTH / 34)))
    for i in range(0, len(touched), step):
        words(axes, left[i], top + 2.98, str(number[i]), ha="left", fontsize=10, color=GREY)


def banks(report: Inspection, at: int | str | None = None, request: int = 0) -> Picture:
    """The lanes of a warp in the 32 banks of shared memory, one row a wavefront: `banks(mg.inspect(...), "tile")`.

    A bank gives one word a wavefront. at and request as for `sectors`. Raises ValueError where nothing is shared.
    """
    a("banks", report, Inspection, "a record of mg.inspect")
    chosen = accesses("banks", report, at, "shared", lambda line: line.wavefronts_per_request)
    drawn = [request_of("banks", report, site, request) for site in chosen]
    lines = [report.lines[site] for site in chosen]
    stacks = [wavefronts(lanes, line.kind == "atomic") for line, lanes in zip(lines, drawn, strict=True)]
    heights = [1 + max(row for row, _ in stack) for stack in stacks]
    high = sum(heights) + 2.5 * len(chosen)
    title = _title(report, lines, _wavefronts_of)
    figure, axes = canvas(WIDTH, 0.55 + 0.2 * high, title)
    top = 0.0
    for line, stack, height in zip(lines, stacks, heights, strict=True):
        _stacks(axes, top, report, line, stack, height)
        top += height + 2.5
    axes.set_xlim(-1.9, BANKS + 0.1)
    axes.set_ylim(high - 0.2, -0.1)
    rows = [(line.line, line.kind, line.variable, line.requests, line.wavefronts, line.wavefronts_per_request,
             line.bank_conflicts, len({bank for _, bank in stack}))
            for line, stack in zip(lines, stacks, strict=True)]  # fmt: skip
    head = ("line", "access", "of", "requests", "wavefronts", "wavefronts/request", "bank conflicts", "banks drawn")
    key = "A column is a bank, a row a wavefront, a number the lane that is served; +: more lanes want the same word."
    return Picture(figure, title, f"{key}\n{table(rows, head)!r}")


def _wavefronts_of(line: Line) -> str:
    each = line.wavefronts_per_request
    return f"{each:.4g} wavefront{'s' * (each != 1)} to {DOES[line.kind]} {line.variable}"


def wavefronts(lanes: np.ndarray, atomic: bool) -> dict[tuple[int, int], list[int]]:
    """The lanes served by each (wavefront, bank). Lanes share a word, but atomics take turns.

    Accesses of 8 bytes go by half warps, of 16 by quarters, one after the other.
    """
    size = max(4, int(lanes["bytes"].max(initial=4)))
    wanted: dict[int, dict[tuple, list[int]]] = defaultdict(lambda: defaultdict(list))
    for thread, byte in zip(lanes["thread"].tolist(), lanes["offset"].tolist(), strict=True):
        lane = thread % WARP
        for word in range(byte // 4, (byte + size - 1) // 4 + 1):
            wanted[lane * size // (WARP * 4)][word, lane if atomic else None].append(lane)
    served: dict[tuple[int, int], list[int]] = {}
    start = 0
    for part in sorted(wanted):
        used = dict.fromkeys(range(BANKS), start)
        for (word, _), who in wanted[part].items():
            served[used[word % BANKS], word % BANKS] = who
            used[word % BANKS] += 1
        start = max(used.values())
    return served


def _stacks(
    axes: Canvas, top: float, report: Inspection, line: Line, stack: dict[tuple[int, int], list[int]], height: int
) -> None:
    """A column for each bank, and in it the lanes that it serves, wavefront after wavefront."""
    words(axes, 0, top + 0.3, label(report, line), ha="left", fontweight="bold")
    words(axes, -0.2, top + 1.2, "bank", ha="right")
    for bank in range(BANKS):
        words(axes, bank + 0.5, top + 1.2, str(bank), fontsize=10, color=GREY)
    x, y = np.meshgrid(np.arange(BANKS), np.arange(height) + top + 1.8)
    boxes(axes, x.ravel(), y.ravel(), 1, 1, "white", edgecolors="#c8c8c8", linewidths=0.4)
    places = np.array([(bank, row + top + 1.8) for row, bank in stack])
    boxes(axes, places[:, 0], places[:, 1], 1, 1, LIGHT[line.kind], edgecolors=INK, linewidths=0.8)
    for (row, bank), who in stack.items():
        words(axes, bank + 0.5, row + top + 2.3, f"{who[0]}{'+' * (len(who) > 1)}", fontsize=10)
