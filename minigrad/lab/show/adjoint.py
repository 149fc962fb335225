"""The cost of adjoints relative to their kernels, and its growth with threads and work."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from minigrad import errors
from minigrad.display import table
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio, saturated
from minigrad.lab.bench.record import Record, newest_adjoints
from minigrad.lab.show.draw.axes import STYLES, frame, name_curves, plain_ticks
from minigrad.lab.show.draw.colours import BLUE, FONT, GREEN, GREY, INK, PAPER, PURPLE, RUST, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, blank_figure, canvas, write

KINDS: dict[str, Callable[[AdjointCost], Growth]] = {"threads": lambda c: c.sizes, "work per thread": lambda c: c.works}
FLAT = 1.3  # the largest ratio over the smallest, up to which growth is called flat
NAMED = (VERMILLION, GREEN, PURPLE, INK)  # the curves with a name, among many


def adjoint_costs(record: Record | None = None) -> Picture:
    """The time of each adjoint as a multiple of its kernel's, by default in the newest record, compared with Warp's.

    Raises ValueError without a record.
    """
    record = _or_newest(record)
    ratios = np.array([cost.ratio for cost in record.costs.values()])
    title = f"The adjoint takes {record.median:.1f} times the kernel's time at the median, at most {ratios.max():.1f}"
    figure, axes = canvas(WIDTH, 1.6 + 0.25 * len(record.costs), f"{title} ({record.place})")
    frame(axes, "time of the adjoint over the time of the kernel", "")
    axes.invert_yaxis()
    axes.set_xscale("log")
    rows = []
    for y, (name, cost) in enumerate(record.costs.items()):
        rival = cost.beside
        axes.plot([1, ratios[y]], [y, y], color=BLUE, linewidth=3)
        axes.plot([ratios[y]], [y], "o", color=BLUE)
        if isinstance(rival, Ratio):
            axes.plot([rival.ratio], [y], "D", color=VERMILLION, markersize=6, markerfacecolor="white")
            rival = f"{rival.ratio:.2f}"
        elif rival:
            write(axes, 1.15 * ratios[y], y, f"Warp: {rival.partition(':')[0]}", color=RUST, fontsize=9, ha="left")
        rows.append((name, f"{ratios[y]:.2f}", rival or "-"))
    axes.set_yticks(range(len(record.costs)), list(record.costs), fontsize=10)
    axes.set_xlim(left=min(0.9, 0.9 * float(ratios.min())))
    plain_ticks(axes.xaxis)
    axes.set_xticks([1, 2, 4, 10, 20, *([50, 100] if ratios.max() > 30 else [])])
    write(axes, 0.99, 0.02, "points: this package; open diamonds: NVIDIA Warp", ha="right",
          transform=axes.transAxes, color=GREY, bbox=PAPER)  # fmt: skip
    return Picture(figure, title, repr(table(rows, ("kernel", "ratio", "Warp's ratio"))))


def adjoint_growth(record: Record | None = None, only: Sequence[str] = ()) -> Picture:
    """The ratio as threads (left) and work per thread (right) grow 32-fold on a saturated GPU.

    In grey, to the left of 1: sizes that leave a part of the GPU idle, or fit into a cache. only: some of the kernels.
    Few kernels have a colour and a name each; among many the highest, the lowest, the least flat, and all that are not
    flat, which are dashed. The numbers are those of the kernels with names. Raises ValueError without
    a record, or for a kernel that it lacks.
    """
    record = _or_newest(record)
    chosen = errors.require_words("show.adjoint_growth", "only", only or record.costs, list(record.costs))
    costs = {name: cost for name, cost in record.costs.items() if name in chosen}
    pairs = [{name: growth for name, cost in costs.items() if (growth := kind(cost))} for kind in KINDS.values()]
    worst = [max((growth.spread or 1 for growth in grown.values()), default=1.0) for grown in pairs]
    title = f"Largest over smallest ratio, at worst: {worst[0]:.2f} as threads grow, {worst[1]:.2f} as work grows"
    figure = blank_figure(WIDTH, 4.6, f"{title} ({record.place})")
    few = len(costs) <= len(STYLES)
    own = {name: colour for name, (colour, _) in zip(costs, STYLES, strict=False)} if few else {}
    told = set[str]()
    ratios = [r.ratio for grown in pairs for growth in grown.values() for r in growth.values()]
    for number, (along, grown) in enumerate(zip(KINDS, pairs, strict=True), 1):
        axes = _panel(figure.add_subplot(1, 2, number), along, (0.9 * min(ratios), 1.2 * max(ratios)))
        axes.set_title(f"{len(grown)} kernels", fontsize=FONT, color=INK, loc="left")
        colours = own or _named(grown)
        told |= {*colours}
        for name, growth in sorted(grown.items(), key=lambda item: item[0] in colours):
            _line(axes, growth, colours.get(name))
        ends = {name: growth[max(growth)].ratio for name, growth in grown.items()}
        name_curves(axes, [(name, ends[name], colours[name]) for name in grown if name in colours])
    rows = [(name, _spread(cost.sizes), _spread(cost.works)) for name, cost in costs.items() if name in told]
    return Picture(figure, title, repr(table(rows, ("kernel", "as threads grow", "as work grows"))))


def _panel(axes: Axes, along: str, limits: tuple[float, float]) -> Axes:
    """Axes for ratios between `limits` over multiples of the smallest size that saturates a GPU."""
    frame(axes, f"{along}, 1 where the GPU is full", "ratio")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(LogLocator(base=4))  # with 1 among them
    axes.set_yticks([n for n in (0.5, 1, 2, 4, 10, 20) if limits[0] <= n <= limits[1]])
    axes.set_ylim(*limits)
    return axes


def _named(grown: Mapping[str, Growth]) -> dict[str, str]:
    """Colours for the kernels of a panel that have a name: those that end highest and lowest, and the least flat."""
    if not grown:
        return {}
    ends = {name: growth[max(growth)].ratio for name, growth in grown.items()}
    spreads = {name: growth.spread or 1 for name, growth in grown.items()}
    telling = [max(ends, key=ends.__getitem__), min(ends, key=ends.__getitem__), max(spreads, key=spreads.__getitem__)]
    steep = [name for name, spread in spreads.items() if spread > FLAT]
    return dict(zip(dict.fromkeys([*telling, *steep]), cycle(NAMED), strict=False))


def _line(axes: Axes, growth: Growth, colour: str | None) -> None:
    """The ratio over the size, grey below saturation; a steep one is dashed."""
    full, steep = saturated(growth), (growth.spread or 1) > FLAT
    parts = [n for n in sorted(growth) if n <= full[0]], full
    (before, low), (x, y) = (([n / full[0] for n in part], [growth[n].ratio for n in part]) for part in parts)
    axes.plot(before, low, color=GREY, linewidth=0.9)
    axes.plot(x, y, color=colour or BLUE, linestyle="--" if steep else "-", linewidth=2 if colour else 1.1)


def _spread(growth: Growth) -> str:
    return f"{growth.spread:.2f}" if growth.spread else "-"


def _or_newest(record: Record | None) -> Record:
    found = record or newest_adjoints()
    if found is None:
        raise ValueError("there is no record of adjoints. On a GPU: minigrad bench --adjoint.")
    return found
