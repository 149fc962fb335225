"""Time against block size or tile, with what limits the occupancy, how full the last wave is, and the choice."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from minigrad.display import table
from minigrad.errors import a
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import Record, newest
from minigrad.lab.bench.sweeps import label
from minigrad.lab.bench.work import work_of
from minigrad.lab.show.draw.curves import frame
from minigrad.lab.show.draw.picture import (
    BLUE,
    FONT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PAPER,
    PURPLE,
    VERMILLION,
    Picture,
    canvas,
    plural,
    words,
)
from minigrad.lab.show.widgets import Slider
from minigrad.lab.tune.regret import LONGEST
from minigrad.lab.tune.regret import regret as regrets
from minigrad.lab.tune.search import Search, survey
from minigrad.op import Op

SHORT = {"shared memory": "shared"}
CHOICE_HEADERS = ("occupancy", "limit", "waves", "last wave", "us", "of the fastest", "")


def tuning_slider(op: Op, *shapes: Any, variant: str | None = None, way: str = "forward", **params: Any) -> Slider:
    """A slider for each tunable of an op over the times of its values: `tuning_slider(mg.relu, (2**26,))`.

    Timed now where there is a GPU; elsewhere it replays the newest record, and says so. Raises ValueError where
    neither is to be had, or the op has nothing to choose.
    """
    found = survey(work_of(op, shapes, way, variant, **params))
    choices = {key: sorted({s.values[key] for s in found.settings}) for key in found.chosen.values}
    if not choices:
        raise ValueError(f"{found.work.title}: its kernels have no tunable.")
    tuning(found)  # refuse now what cannot be drawn
    return Slider(lambda **values: tuning(found, **values), choices, dict(found.chosen.values)).show()


def tuning(found: Search, **values: int) -> Picture:
    """The picture at one setting of a search, the one that was chosen if none is given.

    The first tunable runs along x, the others stay at their values. Raises ValueError where no time is known.
    """
    a("show.tuning", found, Search, "a search, e.g. mg.tune.survey(mg.bench.suite('relu')[0])")
    if not found.times:
        raise ValueError(
            f"{found.work.title}: its settings are in no record. On a GPU mg.show.tuning_slider times them itself, "
            f"whatever the size; minigrad bench --sweep only those of its own works, below {LONGEST * 1e3:.0f} ms."
        )
    at = {**found.chosen.values, **values}
    tunable = next(iter(at))
    line = {s.values[tunable]: s.label for s in found.settings if label({**at, tunable: s.values[tunable]}) == s.label}
    times = {value: found.times[name].seconds * 1e6 for value, name in line.items() if name in found.times}
    title = _title(found, at, times.get(at[tunable]))
    figure, axes = canvas(8, 4.2, title)
    frame(axes, f"{tunable}; occupancy; waves of blocks; what limits the occupancy", "time in us")
    _draw(axes, found, times, line, at[tunable])
    return Picture(figure, title, "\n".join([_numbers(found, line, times, tunable), "", _story(found, at)]))


def _title(found: Search, at: dict[str, int], took: float | None) -> str:
    best = found.times[found.choice].seconds * 1e6
    if took is None:
        return f"{found.work.title}: {label(at)} was not timed"
    more = "the automatic choice" if label(at) == found.choice else f"{took / best:.2f} times the automatic choice"
    return f"{found.work.title}: {label(at)} takes {took:.1f} us, {more}"


def _draw(axes: Canvas, found: Search, times: dict[int, float], line: dict[int, str], here: int) -> None:
    places = {value: place for place, value in enumerate(sorted(line))}
    xs = [places[value] for value in sorted(times)]
    axes.plot(xs, [times[value] for value in sorted(times)], "-o", color=BLUE, linewidth=1.5, markersize=5, zorder=2)
    axes.set_yscale("log")
    axes.set_xlim(-0.5, len(places) - 0.5)
    low, high = min(times.values()), max(times.values())
    room = max(1.45, (high / low) ** 0.3)  # for the words under the lowest point and above the highest
    axes.set_ylim(low / room, high * max(1.45, room**0.7))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 4 * low else (1, 1.5, 2, 3, 4, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(list(places.values()), [_tick(found, value, line[value]) for value in places])
    source = {"transform": axes.transAxes, "ha": "right", "color": GREY}
    words(axes, 0.995, 0.955, f"{found.how} on {found.place}", **source)
    chosen = next((value for value, name in line.items() if name == found.choice), None)
    if chosen in times:
        axes.plot([places[chosen]], [times[chosen]], "*", color=ORANGE, markeredgecolor=INK, markersize=17, zorder=3)
        _beside(axes, places[chosen], times[chosen], -24, "automatic choice", fontweight="bold")
    if here in times:
        axes.plot([places[here]], [times[here]], "o", color="none", markeredgecolor=VERMILLION, markersize=19,
                  markeredgewidth=2.2, zorder=4)  # fmt: skip
        _beside(axes, places[here], times[here], 20, f"{times[here]:.1f} us", bbox=PAPER)


def _beside(axes: Canvas, x: float, y: float, points: int, text: str, **style: Any) -> None:
    """Text above a point, or below it: so many points away, whatever the scale is."""
    axes.annotate(text, (x, y), (0, points), textcoords="offset points", ha="center", va="center", fontsize=FONT,
                  color=INK, **style)  # fmt: skip


def _tick(found: Search, value: int, name: str) -> str:
    """The value; under it the share of the warps that are held, the waves, and the resources that ran out."""
    seen = found.occupancy(found.at(name))
    if seen is None:
        return str(value)
    limits = "\n".join(SHORT.get(one, one) for one in seen.limiters)
    return f"{value}\n{100 * seen.share:.0f} %\n{seen.waves:.2f} waves\n{limits}"


def _numbers(found: Search, line: dict[int, str], times: dict[int, float], tunable: str) -> str:
    """A row for each value."""
    rows = []
    for value in sorted(line):
        seen, took = found.occupancy(found.at(line[value])), times.get(value)
        held = ("-",) * 4
        if seen:
            limits = ", ".join(seen.limiters)
            held = (f"{100 * seen.share:.0f} %", limits, f"{seen.waves:.2f}", f"{100 * seen.tail:.0f} % full")
        spent = (f"{took:.1f}", f"{took / min(times.values()):.2f} x") if took else ("-", "-")
        rows.append((value, *held, *spent, "automatic choice" if line[value] == found.choice else ""))
    return repr(table(rows, (tunable, *CHOICE_HEADERS)))


def _story(found: Search, at: dict[str, int]) -> str:
    """What limits the setting, with the numbers, and where the times are from."""
    names = [s.label for s in found.settings]
    seen = found.occupancy(found.at(at)) if label(at) in names else None
    source = f"Times: {found.how} on {found.place}."
    return f"{seen!r}\n{source}" if seen else source


REGRET_HEADERS = ("work", "search loses", "source loses", "best")
ALLOWED = 5  # percent: what a test lets the search lose


def regret(record: Record | None = None, count: int = 12) -> Picture:
    """How much slower than the best of a full sweep each choice is, where the values in the source lose most.

    Of the newest record if none is given. Raises ValueError where there is none.
    """
    found = regrets(record)
    if not found.rows:
        raise ValueError(f"{found.place}: nothing was swept. On a GPU: minigrad bench --sweep.")
    shown = found.largest(count).rows
    lost = [f"{100 * share:.1f} %" for share in (found.worst, max(row.of_default for row in found.rows))]
    of = plural(len(found.rows), "work")
    title = f"Of {of}: the search loses at most {lost[0]}, the values in the source {lost[1]}"
    figure, axes = canvas(9.6, 1.4 + 0.27 * len(shown), title)
    frame(axes, f"percent slower than the best of a full sweep, {found.place}", "")
    axes.invert_yaxis()
    axes.axvline(ALLOWED, color=GREY, linestyle=":", linewidth=1.2)
    for y, row in enumerate(shown):
        search, source = 100 * row.of_search, 100 * row.of_default
        axes.plot([search, source], [y, y], color=PALE, linewidth=4, zorder=1)
        axes.plot([source], [y], "D", color=VERMILLION, markerfacecolor="white", markersize=6)
        axes.plot([search], [y], "o", color=BLUE, markersize=6)
    axes.set_yticks(range(len(shown)), [row.title for row in shown], fontsize=9)
    axes.set_xlim(left=-2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    key = f"points: the search; diamonds: the values in the source; dotted: {ALLOWED} %"
    words(axes, 0.99, 0.06, key, ha="right", transform=axes.transAxes, color=INK, bbox=PAPER)
    rows = [(row[0], row[4], row[6], row[1]) for row in (each.row() for each in shown)]
    return Picture(figure, title, repr(table(rows, REGRET_HEADERS)))


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
