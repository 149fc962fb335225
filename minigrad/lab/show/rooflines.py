"""The roofline: every measurement of a record under the limits of memory bandwidth and arithmetic.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4), 2009.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes

from minigrad.display import table
from minigrad.errors import require
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import Record, newest
from minigrad.lab.show.draw.axes import frame, plain_ticks
from minigrad.lab.show.draw.colours import GREY, INK, UNIT
from minigrad.lab.show.draw.picture import WIDTH, Picture, canvas, write

NAMES = {"float32": "float32", "3xtf32": "float32 by TF32 tensor cores", "tf32": "TF32 tensor cores"}
NAMES |= {"bfloat16": "bfloat16 tensor cores"}
LEFT = 1 / 32  # FLOP/byte: the place of kernels that only move numbers, or whose FLOPs are not counted
LETTER, TALL = 0.0092, 0.036  # the width and the height of a character, relative to the picture's
HEADERS = ("work", "FLOP/byte", "GB/s", "TFLOP/s", "of the roof")


def roofline(record: Record | None = None, only: Sequence[str] | str | None = None) -> Picture:
    """Every measurement of a record, by default the newest, or those whose titles start as in `only=["matmul of"]`.

    Along x the FLOPs for each byte that must be moved, along y the FLOP/s. The slanted roof is the measured bandwidth
    of a copy, and the dotted line above it the product of the memory's clock and bus width, which nothing exceeds; the
    flat ones are the peaks of the chip's units. Kernels that only move numbers are at the left, at their share of the
    copy's bandwidth. Raises ValueError where nothing was measured.
    """
    record = require("show.roofline", record or newest(), Record | None, "a record, e.g. mg.bench.newest()")
    only = [only] if isinstance(only, str) else only
    if record is None or not record.chip or not record.copy:
        raise ValueError("there is no record with measurements. On a GPU: minigrad bench.")
    starts = tuple(f"{start} " for start in only or [""])
    shown = [m for m in record.measurements.values() if only is None or m.title.startswith(starts)]
    if not shown:
        raise ValueError(f"{record.place} has no measurement of {', '.join(only or ['any op'])}.")
    title = f"{len(shown)} measurements on {record.place}, under the roofs of its memory and its arithmetic"
    figure, axes = canvas(WIDTH, 4.4 if len({m.unit for m in shown}) == 1 else 5.2, title)
    frame(axes, "FLOPs for each byte that must be moved", "TFLOP/s")
    _draw_roofs(axes, record, shown)
    for m in shown:
        colour, marker = (UNIT[m.unit], "o") if m.flops else (GREY, "s")
        axes.plot(*_place(m), marker, color=colour, markeredgecolor="white", markersize=7, zorder=3)
    _write_names(axes, shown, record)
    slanted = f"A copy moves {record.copy / 1e9:.0f} GB/s; clock and width of the memory allow {_limit(record):.0f}."
    return Picture(figure, title, repr(table([_row(m, record) for m in shown], HEADERS, slanted)))


def roof(m: Measurement, record: Record) -> float:
    """The share of the roof that is reached: FLOP/s over min(copy bandwidth * intensity, peak)."""
    slanted = m.bytes_per_second / (record.copy or np.nan)
    peak = record.chip.peak(m.unit) if record.chip else None
    return max(slanted, m.flops_per_second / peak if peak else 0.0)


def _limit(record: Record) -> float:
    """The bandwidth of the chip's data sheet, in GB/s."""
    assert record.chip
    return record.chip.bandwidth / 1e9


def _place(m: Measurement) -> tuple[float, float]:
    """FLOP/byte and TFLOP/s of a point."""
    return m.intensity or LEFT, (m.flops_per_second or m.bytes_per_second * LEFT) / 1e12


def _row(m: Measurement, record: Record) -> tuple[str, ...]:
    intensity = (f"{m.intensity:.3g}" if m.intensity < 100 else f"{m.intensity:.0f}") if m.flops else "-"
    speed = f"{m.flops_per_second / 1e12:.2f}" if m.flops else "-"
    return m.title, intensity, f"{m.bytes_per_second / 1e9:.0f}", speed, f"{100 * roof(m, record):.0f} %"


def _draw_roofs(axes: Axes, record: Record, shown: Sequence[Measurement]) -> None:
    """A line for the memory, which ends at the highest flat roof, and one for each unit that was used."""
    assert record.chip and record.copy
    units, (xs, ys) = {m.unit for m in shown}, zip(*map(_place, shown), strict=True)
    peaks = {unit: peak / 1e12 for unit in UNIT if unit in units and (peak := record.chip.peak(unit))}
    slope, top = record.copy / 1e12, max(peaks.values(), default=100.0)
    axes.set(xscale="log", yscale="log")
    left, right = min(1.0, *xs) / 1.6, max(16384.0, 4 * top / slope)
    axes.plot([left, top / slope], [slope * left, top], color=INK, linewidth=1.6)
    limit = _limit(record) / 1e3
    axes.plot([left, top / limit], [limit * left, top], color=GREY, linewidth=1.2, linestyle=":")
    for unit, peak in peaks.items():
        axes.plot([peak / slope, right], [peak, peak], color=UNIT[unit], linewidth=1.6)
        name = f"{NAMES[unit]}: {peak:.0f} TFLOP/s"  # left of its roof, where no kernel can be
        write(axes, 0.85 * peak / slope, 1.4 * peak, name, ha="right", color=UNIT[unit])
    axes.set(xlim=(left, right), ylim=(min(ys) / 4, top * 2.2))
    middle = left**0.35 * (min(peaks.values(), default=top) / slope) ** 0.65
    write(axes, middle, slope * middle * 1.6, f"a copy: {record.copy / 1e9:.0f} GB/s", ha="right")
    if not all(m.flops for m in shown):
        write(axes, LEFT, min(ys) / 2.4, "squares: FLOPs not counted, at their share of a copy", ha="left", color=GREY)
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)


def _write_names(axes: Axes, shown: Sequence[Measurement], record: Record) -> None:
    """Names where there is room, right or left of the point or a little lower; of kernels that only move numbers, the
    best and worst."""
    best: dict[str, Measurement] = {}
    for m in sorted((m for m in shown if m.intensity > 1), key=lambda m: -_place(m)[1]):
        best.setdefault(_name(m), m)
    moving = sorted((m for m in shown if m.intensity <= 1), key=lambda m: roof(m, record))
    low, high = np.log2(axes.get_xlim())
    letter, tall = LETTER * (high - low), TALL * float(np.subtract(*np.log2(axes.get_ylim())[::-1]))
    taken = [_interval(m, 0, letter) for m in shown]
    for m in [*best.values(), *moving[:1], *moving[1:][-1:]]:
        for lower, side in product((0.0, 0.4), (1, -1)):
            left, right, y = _interval(m, side, letter)
            y -= lower * tall
            below_roof = y < left + np.log2((record.copy or np.inf) / 1e12)
            crossed = any(left < other and before < right and abs(y - at) < tall for before, other, at in taken)
            if not crossed and (side > 0 or below_roof):
                taken.append((left, right, y))
                x, align = (left, "left") if side > 0 else (right, "right")
                write(axes, 2.0**x, 2.0**y, _name(m), ha=align, fontsize=10, zorder=3)
                break


def _name(m: Measurement) -> str:
    return m.title.split(" of ")[0]


def _interval(m: Measurement, side: int, letter: float) -> tuple[float, float, float]:
    """The first and last x and the y, as powers of two: of a point (side 0), or its name right (1) or left (-1)."""
    x, y = map(float, np.log2(_place(m)))
    near, far = (1.3 * side, side * (len(_name(m)) + 1.3)) if side else (-1.2, 1.2)
    return x + letter * min(near, far), x + letter * max(near, far), y
