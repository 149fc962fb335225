"""What to draw of an inspected launch: which accesses, which request of a warp, and the colour of each kind."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import gcd, prod
from textwrap import shorten

import numpy as np
from matplotlib.axes import Axes as Canvas

from minigrad.display import table
from minigrad.errors import a
from minigrad.lab.show.draw.bands import colour
from minigrad.lab.show.draw.picture import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LIGHT_BLUE,
    LIGHT_GREEN,
    LIGHT_ORANGE,
    ORANGE,
    PALE,
    SKY,
    Picture,
    box,
    boxes,
    canvas,
    listed,
    plural,
    strokes,
    words,
)
from minigrad.microscope.counts import BANKS, SECTOR, WARP, Line
from minigrad.microscope.record import Inspection

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


DOES = {"read": "read", "write": "write", "atomic": "change"}
LANES_WIDTH = 9.6
BANK = LANES_WIDTH / 36  # inches of a bank; the rest is the margin


def sectors(report: Inspection, at: int | str | None = None, request: int = 0) -> Picture:
    """The lanes of a warp and the 32-byte sectors of global memory that they touch: `sectors(mg.inspect(...), "y")`.

    at is a source line or a variable; without it, the costliest accesses are drawn. request counts the instructions of
    warps in each access, from 0. Raises ValueError where there is nothing of that kind to draw.
    """
    a("sectors", report, Inspection, "a record of mg.inspect")
    chosen = accesses("sectors", report, at, "global", lambda line: line.sectors_per_request)
    drawn = [request_of("sectors", report, site, request) for site in chosen]
    lines = [report.lines[site] for site in chosen]
    figure, axes = canvas(LANES_WIDTH, 0.4 + 1.75 * len(chosen), _title(report, lines, _sectors_of))
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
    step = max(1, round((longest + 1.5) * 0.085 / (wide * LANES_WIDTH / 34)))
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
    figure, axes = canvas(LANES_WIDTH, 0.55 + 0.2 * high, title)
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


WIDTH = 9.6
BLOCKS, BRANCHES, EXECUTIONS = 64, 8, 64  # as many are drawn


def idle(report: Inspection) -> Picture:
    """The threads of the grid, those hatched that touched no global memory: `idle(mg.inspect(..., blocks=12))`.

    Only blocks that were looked at are drawn, at most 64. Raises ValueError where there are more.
    """
    _check_blocks("idle", report)
    x, y, z = report.block
    blocks = min(report.blocks, prod(report.grid))
    if blocks > BLOCKS:
        raise ValueError(f"idle draws at most {BLOCKS} blocks; this record has {blocks}. Inspect with blocks={BLOCKS}.")
    rows = report.traffic[report.traffic["space"] == "global"]
    busy = np.zeros((blocks, z * y, x), bool)
    busy.reshape(blocks, -1)[rows["block"], rows["thread"]] = True
    total, working = busy.size, int(busy.sum())
    title = f"{report.kernel}: {total - working} of {plural(total, 'thread')} idle"
    places = _places(report, blocks)
    wide, high = (1 + max(place[axis] for place in places) for axis in (0, 1))
    unit = min((WIDTH - 1) / (wide * x), 4.5 / (high * z * y), 0.3)
    band = max(1.0, 0.3 / unit) if z * y == 1 else 1.0  # a row of threads is drawn high enough for its name
    figure, axes = canvas(WIDTH, 0.9 + high * z * y * unit * band, title)
    for block, (column, row) in enumerate(places):
        _block(axes, busy[block], column * x, row * z * y * band, block, band)
    axes.set_xlim(-0.9 / unit, (WIDTH - 0.95) / unit)
    axes.set_ylim(high * z * y * band + 0.1 / unit, -0.3 / unit)
    _names(axes, report, places, unit, band)
    facts = [(f"{blocks} of {prod(report.grid)}", prod(report.block), total, working, total - working)]
    head = ("blocks looked at", "threads in each", "threads", "busy", "idle")
    return Picture(figure, title, f"Hatched: touched no global memory.\n{table(facts, head)!r}")


def _check_blocks(name: str, report: Inspection) -> None:
    a(name, report, Inspection, "a record of mg.inspect")
    if not report.blocks:
        raise ValueError(
            f"{name} draws the blocks that were looked at, and this record has none. Inspect with blocks=1."
        )


def _places(report: Inspection, blocks: int) -> list[tuple[int, int]]:
    """Column and row of each block: as in the grid, or for a grid along x alone below each other."""
    x, y, z = report.grid
    if y * z == 1:
        return [(0, block) for block in range(blocks)] if report.block[1] == 1 else [(b, 0) for b in range(blocks)]
    return [(block % x, block // x) for block in range(blocks)]


def _block(axes: Canvas, busy: np.ndarray, left: float, top: float, block: int, band: float) -> None:
    """A block; the threads without work are hatched, run after run."""
    high, wide = busy.shape
    box(axes, left, top, wide, high * band, colour(block), linewidth=0)
    for row, threads in enumerate(busy):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], ~threads, [0]]).astype(int)))
        for start, end in edges.reshape(-1, 2):
            box(axes, left + start, top + row * band, end - start, band, "white", idle=True, linewidth=0)
    box(axes, left, top, wide, high * band, "none", linewidth=1.6)


def _names(axes: Canvas, report: Inspection, places: list[tuple[int, int]], unit: float, band: float) -> None:
    """The blocks' numbers along the edges."""
    x, tall = report.block[0], report.block[1] * report.block[2] * band
    for row in sorted({row for _, row in places}):
        text = f"block {row}" if report.grid[1] == 1 and report.block[1] == 1 else str(row)
        words(axes, -0.08 / unit, (row + 0.5) * tall, text, ha="right", fontsize=10, color=GREY)
    for column in sorted({column for column, _ in places}) if len({column for column, _ in places}) > 1 else ():
        words(axes, (column + 0.5) * x, -0.13 / unit, str(column), fontsize=10, color=GREY)


def divergence(report: Inspection) -> Picture:
    """Branches that only some lanes of a warp enter, and how many in each execution: `divergence(mg.inspect(...))`.

    Raises ValueError where no block was looked at.
    """
    _check_blocks("divergence", report)
    branches = report.branches[:BRANCHES]
    title = f"{report.kernel}: " + (
        f"{plural(len(report.branches), 'branch', 'branches')} that only some lanes of a warp enter"
        if branches
        else "every warp stays together"
    )
    figure, axes = canvas(WIDTH, 0.6 + 1.35 * max(1, len(branches)), title)
    most = max((min(len(branch.lanes), EXECUTIONS) for branch in branches), default=1)
    wide = max(most, 16)
    for i, branch in enumerate(branches):
        top = 1.35 * i
        lanes = np.array(branch.lanes[:EXECUTIONS])
        at = np.arange(len(lanes))
        words(
            axes,
            0,
            top + 0.15,
            f"line {branch.line}: {shorten(branch.text, 90, placeholder=' …')}",
            ha="left",
            fontweight="bold",
        )
        words(axes, -0.01 * wide, top + 0.8, "lanes", ha="right")
        boxes(axes, at + 0.06, np.full(len(at), top + 0.35), 0.88, 0.9, "white", edgecolors="#9a9a9a", hatch="////")
        for x, active in zip(at, lanes, strict=True):
            share = 0.9 * active / WARP
            box(axes, x + 0.06, top + 1.25 - share, 0.88, share, LIGHT_BLUE, edgecolor=INK, linewidth=0.8)
            if most <= 32:
                words(axes, x + 0.5, top + 0.8, str(active), bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    if not branches:
        words(axes, 0, 0.6, "Nothing to draw.", ha="left")
    axes.set_xlim(-0.07 * wide, wide)
    axes.set_ylim(1.35 * max(1, len(branches)), 0)
    rows = [
        (b.line, b.executions, b.active_lanes, " ".join(map(str, b.lanes[:8])), shorten(b.text, 50, placeholder=" …"))
        for b in report.branches
    ]
    head = ("line", "executions", "mean lanes", "lanes, first 8 executions", "code")
    told = repr(table(rows, head)) if rows else ""
    return Picture(figure, title, told or "No branch that only some lanes of a warp enter.")
