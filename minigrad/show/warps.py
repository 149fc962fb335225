"""Threads without work, and warps that part: as they were executed."""

from math import prod
from textwrap import shorten

import numpy as np
from matplotlib.axes import Axes as Canvas

from minigrad.microscope.record import Inspection
from minigrad.microscope.requests import WARP
from minigrad.require import a
from minigrad.show.bands import colour
from minigrad.show.picture import GREY, INK, LIGHT_BLUE, Picture, box, boxes, canvas, plural, words
from minigrad.show.tables import table

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
