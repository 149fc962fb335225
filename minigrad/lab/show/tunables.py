"""The tunables of an op: time against each value, with occupancy and waves, and the regret of each choice."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from minigrad.display import plural, table
from minigrad.errors import require
from minigrad.lab.bench.record import Record
from minigrad.lab.bench.sweeps import label
from minigrad.lab.bench.work import work_of
from minigrad.lab.show.draw.axes import frame, plain_ticks
from minigrad.lab.show.draw.colours import BLUE, FONT, GREY, INK, ORANGE, PALE, PAPER, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, canvas, write
from minigrad.lab.show.sliders import Slider
from minigrad.lab.tune.regret import LONGEST
from minigrad.lab.tune.regret import regret as regrets
from minigrad.lab.tune.search import Search, survey
from minigrad.op import Op

TUNING_HEADERS = ("occupancy", "limit", "waves", "last wave", "us", "of the fastest", "")
REGRET_HEADERS = ("work", "search loses", "source loses", "best")
ALLOWED = 5  # percent that a test lets the search lose


def tuning_slider(op: Op, *shapes: Any, variant: str | None = None, way: str = "forward", **params: Any) -> Slider:
    """A slider for each tunable of an op over the times of its values: `tuning_slider(mg.relu, (2**26,))`.

    Timed now where there is a GPU; elsewhere it replays the newest record, and says so. Raises ValueError without
    either, and for an op without tunables.
    """
    found = survey(work_of(op, shapes, way, variant, **params))
    choices = {key: sorted({s.values[key] for s in found.settings}) for key in found.chosen.values}
    if not choices:
        raise ValueError(f"{found.work.title}: its kernels have no tunable.")
    tuning(found)  # raises now where no time is known
    return Slider(lambda **values: tuning(found, **values), choices, dict(found.chosen.values)).show()


def tuning(found: Search, **values: int) -> Picture:
    """One setting of a search, by default the chosen one, among the times of its neighbors.

    The first tunable runs along x, the others keep their values. Raises ValueError where no time is known.
    """
    require("show.tuning", found, Search, "a search, e.g. mg.tune.survey(mg.bench.suite('relu')[0])")
    if not found.times:
        raise ValueError(
            f"{found.work.title}: its settings are in no record. On a GPU mg.show.tuning_slider times them itself, "
            f"whatever the size; minigrad bench --sweep only those of its own works, below {LONGEST * 1e3:.0f} ms."
        )
    at = {**found.chosen.values, **values}
    tunable = next(iter(at))
    line = {s.values[tunable]: s.label for s in found.settings if label({**at, tunable: s.values[tunable]}) == s.label}
    times = {value: found.times[name].seconds * 1e6 for value, name in line.items() if name in found.times}
    title = f"{found.work.title}: {label(at)} was not timed"
    if took := times.get(at[tunable]):
        more = f"{took / (found.times[found.choice].seconds * 1e6):.2f} times mg.tune's choice"
        more = "mg.tune's choice" if label(at) == found.choice else more
        title = f"{found.work.title}: {label(at)} takes {took:.1f} us, {more}"
    figure, axes = canvas(8, 4.2, title)
    frame(axes, f"{tunable}; occupancy; waves of blocks; what limits the occupancy", "time in us")
    axes.xaxis.labelpad = 10  # below up to five lines of ticks
    _draw(axes, found, times, line, at[tunable])
    seen = found.occupancy(found.at(at)) if label(at) in (s.label for s in found.settings) else None
    explained = f"{seen!r}\n" if seen else ""
    numbers = f"{_numbers(found, line, times, tunable)}\n\n{explained}Times: {found.how} on {found.place}."
    return Picture(figure, title, numbers)


def _draw(axes: Axes, found: Search, times: dict[int, float], line: dict[int, str], here: int) -> None:
    places = {value: place for place, value in enumerate(sorted(line))}
    xs = [places[value] for value in sorted(times)]
    axes.plot(xs, [times[value] for value in sorted(times)], "-o", color=BLUE, linewidth=1.5, markersize=5, zorder=2)
    axes.set(yscale="log", xlim=(-0.5, len(places) - 0.5))
    low, high = min(times.values()), max(times.values())
    room = max(1.45, (high / low) ** 0.3)  # for the text under the lowest point and above the highest
    axes.set_ylim(low / room, high * max(1.45, room**0.7))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 4 * low else (1, 1.5, 2, 3, 4, 5, 7)))
    plain_ticks(axes.yaxis)
    axes.set_xticks(list(places.values()), [_tick(found, value, line[value]) for value in places])
    write(axes, 0.995, 0.955, f"{found.how} on {found.place}", transform=axes.transAxes, ha="right", color=GREY)
    chosen = next((value for value, name in line.items() if name == found.choice), None)
    if chosen in times:
        axes.plot([places[chosen]], [times[chosen]], "*", color=ORANGE, markeredgecolor=INK, markersize=17, zorder=3)
        _annotate(axes, places[chosen], times[chosen], -24, "mg.tune's choice", fontweight="bold")
    if here in times:
        axes.plot([places[here]], [times[here]], "o", color="none", markeredgecolor=VERMILLION, markersize=19,
                  markeredgewidth=2.2, zorder=4)  # fmt: skip
        _annotate(axes, places[here], times[here], 20, f"{times[here]:.1f} us", bbox=PAPER)


def _annotate(axes: Axes, x: float, y: float, points: int, text: str, **style: Any) -> None:
    """Text above or below a data point, at a distance in typographic points."""
    axes.annotate(text, (x, y), (0, points), textcoords="offset points", ha="center", va="center", fontsize=FONT,
                  color=INK, **style)  # fmt: skip


def _tick(found: Search, value: int, name: str) -> str:
    """The value; under it the occupancy, the waves, and the resources that limit the occupancy."""
    if (seen := found.occupancy(found.at(name))) is None:
        return str(value)
    limits = "\n".join(seen.limiters).replace("shared memory", "shared")
    return f"{value}\n{100 * seen.share:.0f} %\n{seen.waves:.2f} waves\n{limits}"


def _numbers(found: Search, line: dict[int, str], times: dict[int, float], tunable: str) -> str:
    rows = []
    for value in sorted(line):
        took, occupied = times.get(value), ["-"] * 4
        if seen := found.occupancy(found.at(line[value])):
            share, tail = f"{100 * seen.share:.0f} %", f"{100 * seen.tail:.0f} % full"
            occupied = [share, ", ".join(seen.limiters), f"{seen.waves:.2f}", tail]
        spent = (f"{took:.1f}", f"{took / min(times.values()):.2f} x") if took else ("-", "-")
        rows.append((value, *occupied, *spent, "mg.tune's choice" if line[value] == found.choice else ""))
    return repr(table(rows, (tunable, *TUNING_HEADERS)))


def regret(record: Record | None = None, count: int = 12) -> Picture:
    """Percent slower than the best of a full sweep: the search and the values in the source, where these lose most.

    record: by default the newest. Raises ValueError without one.
    """
    found = regrets(record)
    if not found.rows:
        raise ValueError(f"{found.place}: nothing was swept. On a GPU: minigrad bench --sweep.")
    shown = found.largest(count).rows
    lost = [f"{100 * share:.1f} %" for share in (found.worst, max(row.of_default for row in found.rows))]
    of = plural(len(found.rows), "case")
    title = f"Of {of}: the search loses at most {lost[0]}, the values in the source {lost[1]}"
    figure, axes = canvas(WIDTH, 1.4 + 0.27 * len(shown), title)
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
    plain_ticks(axes.xaxis, " %")
    key = f"points: the search; diamonds: the values in the source; dotted: {ALLOWED} %"
    write(axes, 0.99, 0.06, key, ha="right", transform=axes.transAxes, bbox=PAPER)
    rows = [(row[0], row[4], row[6], row[1]) for row in (each.row() for each in shown)]
    return Picture(figure, title, repr(table(rows, REGRET_HEADERS)))
