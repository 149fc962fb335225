"""The roofline: what each kernel reaches, under what memory and arithmetic allow. No profiler is needed for it.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.bench.measurement import Measurement
from minigrad.bench.record import Record, newest
from minigrad.require import a
from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, GREEN, GREY, INK, PURPLE, Picture, canvas, words
from minigrad.show.tables import table

COLOURS = {"float32": BLUE, "tf32": PURPLE, "bfloat16": GREEN}
NAMES = {"float32": "float32", "tf32": "TF32 tensor cores", "bfloat16": "bfloat16 tensor cores"}
LEFT = 1 / 32  # FLOP/byte: here stand kernels that only move numbers, or whose FLOPs nobody counted
LETTER = 0.0092  # the width of a letter of a name, as a share of the picture's
HEADERS = ("work", "FLOP/byte", "GB/s", "TFLOP/s", "of the roof")


def roofline(record: Record | None = None, only: Sequence[str] | str | None = None) -> Picture:
    """Every measurement of a record, the newest if none is given, or those that begin so: `only=["matmul of", "sum"]`.

    Along x the FLOPs for each byte that must be moved, along y the FLOP/s. The slanted roof is the bandwidth of a copy,
    as measured; the flat ones are what the chip's units can do. What only moves numbers stands at the left, at its
    share of the copy's bandwidth. Raises ValueError where nothing was measured.
    """
    record = a("show.roofline", record or newest(), Record | None, "a record, e.g. mg.bench.newest()")
    only = [only] if isinstance(only, str) else only
    if record is None or not record.chip or not record.copy:
        raise ValueError("there is no record with measurements. On a GPU: minigrad bench.")
    begins = tuple(f"{start} " for start in only or [""])
    shown = [m for m in record.measurements.values() if only is None or m.title.startswith(begins)]
    if not shown:
        raise ValueError(f"{record.place} has no measurement of {', '.join(only or ['any op'])}.")
    title = f"{len(shown)} measurements on {record.place}, under the roofs of its memory and its arithmetic"
    figure, axes = canvas(9.6, 5.2, title)
    frame(axes, "FLOPs for each byte that must be moved", "TFLOP/s")
    furthest = min([1.0, *map(_x, shown)])  # to the left
    _roofs(axes, record, {m.unit for m in shown}, furthest, min(map(_y, shown)), not all(m.flops for m in shown))
    for m in shown:
        colour = COLOURS[m.unit] if m.flops else GREY
        axes.plot(
            [_x(m)], [_y(m)], "o" if m.flops else "s", color=colour, markeredgecolor="white", markersize=7, zorder=3
        )
    _names(axes, shown, record)
    return Picture(figure, title, repr(table([_row(m, record) for m in shown], HEADERS)))


def roof(m: Measurement, record: Record) -> float:
    """The share of what memory and arithmetic allow: achieved over min(copy bandwidth * intensity, peak)."""
    slanted = m.bytes_per_second / (record.copy or np.nan)
    peak = record.chip.peak(m.unit) if record.chip else None
    return max(slanted, m.flops_per_second / peak if peak else 0.0)


def _x(m: Measurement) -> float:
    return m.intensity or LEFT


def _y(m: Measurement) -> float:
    return (m.flops_per_second or m.bytes_per_second * LEFT) / 1e12


def _row(m: Measurement, record: Record) -> tuple[str, ...]:
    flops = (
        (f"{m.intensity:.3g}" if m.intensity < 100 else f"{m.intensity:.0f}", f"{m.flops_per_second / 1e12:.2f}")
        if m.flops
        else ("-", "-")
    )
    gigabytes = f"{m.bytes_per_second / 1e9:.0f}"
    return m.title, flops[0], gigabytes, flops[1], f"{100 * roof(m, record):.0f} %"


def _roofs(axes: Canvas, record: Record, units: set[str], furthest: float, lowest: float, uncounted: bool) -> None:
    """A line for the memory, which the first flat roof cuts off, and one for each unit that was used."""
    assert record.chip and record.copy
    peaks = {unit: peak / 1e12 for unit in COLOURS if unit in units and (peak := record.chip.peak(unit))}
    slope, top = record.copy / 1e12, max(peaks.values(), default=100.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    left, right = furthest / 1.6, max(16384.0, 4 * top / slope)
    axes.plot([left, top / slope], [slope * left, top], color=INK, linewidth=1.6)
    for unit, peak in peaks.items():
        axes.plot([peak / slope, right], [peak, peak], color=COLOURS[unit], linewidth=1.6)
        name = f"{NAMES[unit]}: {peak:.0f} TFLOP/s"  # left of its roof, where no kernel can be
        words(axes, 0.85 * peak / slope, peak, name, ha="right", color=COLOURS[unit])
    axes.set_xlim(left, right)
    axes.set_ylim(lowest / 4, top * 2.2)
    middle = left**0.35 * (min(peaks.values(), default=top) / slope) ** 0.65
    words(axes, middle, slope * middle * 1.6, f"a copy: {record.copy / 1e9:.0f} GB/s", ha="right")
    if uncounted:
        words(axes, LEFT, lowest / 2.4, "squares: FLOPs not counted, at their share of a copy", ha="left", color=GREY)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _names(axes: Canvas, shown: Sequence[Measurement], record: Record) -> None:
    """Names where there is room, to the right or to the left; of what only moves numbers the best and the worst."""
    best: dict[str, Measurement] = {}
    for m in sorted((m for m in shown if m.intensity > 1), key=lambda m: -_y(m)):
        best.setdefault(_name(m), m)
    moving = sorted((m for m in shown if m.intensity <= 1), key=lambda m: roof(m, record))
    low, high = np.log2(axes.get_xlim())
    letter = LETTER * (high - low)
    taken = [_spot(m, 0, letter) for m in shown]
    for m in [*best.values(), *moving[:1], *moving[1:][-1:]]:
        for side in (1, -1):
            left, right, y = _spot(m, side, letter)
            below_roof = y < left + np.log2((record.copy or np.inf) / 1e12)
            crossed = any(left < other and before < right and abs(y - at) < 0.5 for before, other, at in taken)
            if not crossed and (side > 0 or below_roof):
                taken.append((left, right, y))
                words(axes, 2.0 ** (left if side > 0 else right), _y(m), _name(m), ha="left" if side > 0 else "right",
                      fontsize=10, zorder=3)  # fmt: skip
                break


def _name(m: Measurement) -> str:
    return m.title.split(" of ")[0]


def _spot(m: Measurement, side: int, letter: float) -> tuple[float, float, float]:
    """From where to where along x, and at which y, as powers of two: a point (0), its name right (1) or left (-1)."""
    x, y = float(np.log2(_x(m))), float(np.log2(_y(m)))
    ends = (
        (x - 1.2 * letter, x + 1.2 * letter)
        if not side
        else (x + 1.3 * side * letter, x + side * (len(_name(m)) + 1.3) * letter)
    )
    return min(ends), max(ends), y
