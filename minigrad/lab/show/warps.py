"""The threads of a launch at work: idle threads of a grid, and branches that split a warp."""

from collections.abc import Sequence
from math import prod
from textwrap import shorten

import numpy as np
from matplotlib.axes import Axes

from minigrad.display import plural, table
from minigrad.errors import require
from minigrad.lab.show.draw.bands import colour
from minigrad.lab.show.draw.colours import EDGE, GREY, INK, LIGHT_BLUE
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, boxes, canvas, write
from minigrad.microscope.counts import WARP
from minigrad.microscope.record import Inspection

BLOCKS, BRANCHES, EXECUTIONS = 64, 8, 64  # the most that are drawn


def idle(report: Inspection) -> Picture:
    """The threads of the grid, hatched where they touched no global memory: `idle(mg.inspect(..., blocks=12))`.

    Only inspected blocks are drawn, at most 64. Raises ValueError where there are more.
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
    across, down, deep = report.grid
    stacked = down * deep == 1 and report.block[1] == 1  # blocks along x that are rows
    places = [(0, b) if stacked else (b, 0) if down * deep == 1 else (b % across, b // across) for b in range(blocks)]
    wide, high = (1 + max(place[axis] for place in places) for axis in (0, 1))
    unit = min((WIDTH - 1) / (wide * x), 4.5 / (high * z * y), 0.3)
    band = max(1.0, 0.3 / unit) if z * y == 1 else 1.0  # a row of threads is drawn high enough for its name
    figure, axes = canvas(WIDTH, 0.9 + high * z * y * unit * band, title)
    for block, (column, row) in enumerate(places):
        _block(axes, busy[block], column * x, row * z * y * band, colour(column + row), band)
    axes.set(xlim=(-0.9 / unit, (WIDTH - 0.95) / unit), ylim=(high * z * y * band + 0.1 / unit, -0.3 / unit))
    _number_blocks(axes, report, places, unit, band)
    facts = [(f"{blocks} of {prod(report.grid)}", prod(report.block), total, working, total - working)]
    head = ("blocks looked at", "threads in each", "threads", "busy", "idle")
    key = "Hatched: a thread that read and wrote no global memory. Neighbors have different colors."
    if deep == 1 and down > 1:
        key += "\nNumbers at the edges: blockIdx.x across, blockIdx.y down."
    return Picture(figure, title, f"{key}\n{table(facts, head)!r}")


def _check_blocks(name: str, report: Inspection) -> None:
    require(name, report, Inspection, "a record of mg.inspect")
    if not report.blocks:
        raise ValueError(f"{name} draws the inspected blocks, and this record has none. Inspect with blocks=1.")


def _block(axes: Axes, busy: np.ndarray, left: float, top: float, fill: str, band: float) -> None:
    """A block; runs of idle threads are hatched."""
    high, wide = busy.shape
    box(axes, left, top, wide, high * band, fill, linewidth=0)
    for row, threads in enumerate(busy):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], ~threads, [0]]).astype(int)))
        for start, end in edges.reshape(-1, 2):
            box(axes, left + start, top + row * band, end - start, band, "white", idle=True, linewidth=0)
    box(axes, left, top, wide, high * band, "none", linewidth=1.6)


def _number_blocks(axes: Axes, report: Inspection, places: list[tuple[int, int]], unit: float, band: float) -> None:
    x, tall = report.block[0], report.block[1] * report.block[2] * band
    for row in sorted({row for _, row in places}):
        text = f"block {row}" if report.grid[1] == 1 and report.block[1] == 1 else str(row)
        write(axes, -0.08 / unit, (row + 0.5) * tall, text, ha="right", fontsize=10, color=GREY)
    columns = sorted({column for column, _ in places})
    for column in columns if len(columns) > 1 else ():
        write(axes, (column + 0.5) * x, -0.13 / unit, str(column), fontsize=10, color=GREY)


def divergence(report: Inspection, most: int = BRANCHES) -> Picture:
    """Branches that only some lanes of a warp enter, with the active lanes of each execution.

    Of more than `most` branches those are shown that leave the most lanes idle. Raises ValueError where no block was
    inspected.
    """
    _check_blocks("divergence", report)
    idlest = sorted(report.branches, key=lambda branch: sum(branch.lanes) - WARP * branch.executions)[:most]
    branches = [branch for branch in report.branches if branch in idlest]
    found = plural(len(report.branches), "branch", "branches")
    found = f"{found} that only some lanes of a warp enter" if branches else "every warp stays together"
    title = f"{report.kernel}: {found}"
    figure, axes = canvas(WIDTH, 0.6 + 1.35 * max(1, len(branches)), title)
    longest = max((min(len(branch.lanes), EXECUTIONS) for branch in branches), default=1)
    wide = max(longest, 16)
    for i, branch in enumerate(branches):
        name = f"line {branch.line}: {shorten(branch.text, 90, placeholder=' …')}"
        write(axes, 0, 1.35 * i + 0.15, name, ha="left", fontweight="bold")
        write(axes, -0.01 * wide, 1.35 * i + 0.8, "lanes", ha="right")
        _executions(axes, 1.35 * i, branch.lanes[:EXECUTIONS], numbered=longest <= 32)
    if not branches:
        write(axes, 0, 0.6, "Nothing to draw.", ha="left")
    axes.set(xlim=(-0.07 * wide, wide), ylim=(1.35 * max(1, len(branches)), 0))
    rows = [
        (b.line, b.executions, b.active_lanes, " ".join(map(str, b.lanes[:8])), shorten(b.text, 50, placeholder=" …"))
        for b in branches
    ]
    head = ("line", "executions", "mean lanes", "lanes, first 8 executions", "code")
    numbers = repr(table(rows, head)) if rows else "No branch that only some lanes of a warp enter."
    return Picture(figure, title, numbers)


def _executions(axes: Axes, top: float, lanes: Sequence[int], numbered: bool) -> None:
    """A bar for each execution of a branch, filled by its share of active lanes."""
    boxes(axes, np.arange(len(lanes)) + 0.06, top + 0.35, 0.88, 0.9, "white", edgecolors=EDGE, hatch="////")
    for x, active in enumerate(lanes):
        share = 0.9 * active / WARP
        box(axes, x + 0.06, top + 1.25 - share, 0.88, share, LIGHT_BLUE, edgecolor=INK, linewidth=0.8)
        if numbered:
            write(axes, x + 0.5, top + 0.8, str(active), bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
