"""Time against block size or tile, with what limits the occupancy, how full the last wave is, and the choice."""

from typing import Any

from matplotlib.axes import Axes as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from minigrad.bench.sweeps import label
from minigrad.bench.work import work_of
from minigrad.op import Op
from minigrad.require import a
from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, FONT, GREY, INK, ORANGE, PAPER, VERMILLION, Picture, canvas, words
from minigrad.show.sliders import Slider
from minigrad.show.tables import table
from minigrad.tune.regret import LONGEST
from minigrad.tune.search import Search, survey

SHORT = {"shared memory": "shared"}
HEADERS = ("occupancy", "limit", "waves", "last wave", "us", "of the fastest", "")


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
    return repr(table(rows, (tunable, *HEADERS)))


def _story(found: Search, at: dict[str, int]) -> str:
    """What limits the setting, with the numbers, and where the times are from."""
    names = [s.label for s in found.settings]
    seen = found.occupancy(found.at(at)) if label(at) in names else None
    source = f"Times: {found.how} on {found.place}."
    return f"{seen!r}\n{source}" if seen else source
