"""What adjoints cost beside their kernels, and whether that stays so as the work grows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.bench.adjoint_record import AdjointRecord, newest
from minigrad.bench.growth import Growth, Ratio
from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, FONT, GREY, INK, PAPER, RUST, VERMILLION, Picture, canvas, words
from minigrad.show.tables import table

FLAT = 1.3  # the largest ratio over the smallest, of what is called flat
TARGETS = (4, 10, 20)  # for the median, for each rung up to the multipole lookup, for the discontinuous Galerkin term


def adjoint_costs(record: AdjointRecord | None = None) -> Picture:
    """The time of each adjoint as a multiple of its kernel's, of the newest record if none is given; beside it Warp's.

    Raises ValueError where there is no record.
    """
    record = _known(record)
    names = list(record.costs)
    ratios = np.array([record.costs[name].ratio for name in names])
    title = f"The adjoint takes {record.median:.1f} times the kernel's time at the median, at most {ratios.max():.1f}"
    figure, axes = canvas(9.6, 1.6 + 0.25 * len(names), f"{title} ({record.place})")
    frame(axes, "time of the adjoint over the time of the kernel", "")
    axes.invert_yaxis()
    axes.set_xscale("log")
    for target in TARGETS:
        axes.axvline(target, color=GREY, linestyle=":", linewidth=1)
    for y, name in enumerate(names):
        rival = record.costs[name].beside
        axes.plot([1, ratios[y]], [y, y], color=BLUE, linewidth=3)
        axes.plot([ratios[y]], [y], "o", color=BLUE)
        if isinstance(rival, Ratio):
            axes.plot([rival.ratio], [y], "D", color=VERMILLION, markersize=6, markerfacecolor="white")
    axes.set_yticks(range(len(names)), names, fontsize=10)
    axes.set_xlim(left=min(0.9, 0.9 * float(ratios.min())))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([1, 2, 4, 10, 20, *([50, 100] if ratios.max() > 30 else [])])
    words(axes, 0.99, 0.02, "points: this package; open diamonds: NVIDIA Warp; dotted: 4, 10 and 20", ha="right",
          transform=axes.transAxes, color=GREY, bbox=PAPER)  # fmt: skip
    rows = [(name, f"{r:.2f}", _rival(record.costs[name].beside)) for name, r in zip(names, ratios, strict=True)]
    return Picture(figure, title, repr(table(rows, ("kernel", "ratio", "Warp's ratio"))))


def adjoint_growth(record: AdjointRecord | None = None, only: Sequence[str] | None = None) -> Picture:
    """Whether the ratio stays the same as threads (left) and work per thread (right) grow 32-fold."""
    record = _known(record)
    costs = {name: cost for name, cost in record.costs.items() if only is None or name in only}
    pairs = ([cost.sizes for cost in costs.values()], [cost.works for cost in costs.values()])
    worst = [max((growth.spread or 1 for growth in growths), default=1.0) for growths in pairs]
    title = f"Largest over smallest ratio, at worst: {worst[0]:.2f} as threads grow, {worst[1]:.2f} as work grows"
    figure, first = canvas(9.6, 4.6, f"{title} ({record.place})")
    first.remove()
    for number, along in enumerate(("threads", "work per thread")):
        grown = {name: growth for name, cost in costs.items() if (growth := (cost.sizes, cost.works)[number])}
        axes = figure.add_subplot(1, 2, number + 1)
        axes.invert_yaxis()
        frame(axes, f"{along}, in multiples of the smallest", "ratio" if not number else "")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for name, growth in grown.items():
            _line(axes, name, growth)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        axes.set_yticks([1, 2, 4, 10, 20])
        axes.set_title(f"{len(grown)} kernels", fontsize=FONT, color=INK, loc="left")
    rows = [(name, _spread(cost.sizes), _spread(cost.works)) for name, cost in costs.items()]
    return Picture(figure, title, repr(table(rows, ("kernel", "as threads grow", "as work grows"))))


def _line(axes: Axes, name: str, growth: Growth) -> None:
    """The ratio over the growth; a line that is not flat is dashed, and has its name at its highest point."""
    sizes = sorted(growth)
    x, y = [n / sizes[0] for n in sizes], [growth[n].ratio for n in sizes]
    steep = (growth.spread or 1) > FLAT
    axes.plot(x, y, color=VERMILLION if steep else BLUE, linestyle="--" if steep else "-", linewidth=1.3)
    if steep:
        top = int(np.argmax(y))
        words(axes, x[top], y[top] * 1.07, name, color=RUST, fontsize=9, ha="left" if top < 3 else "right", va="bottom")


def _spread(growth: Growth) -> str:
    return f"{growth.spread:.2f}" if growth.spread else "-"


def _rival(beside: Ratio | str | None) -> str:
    return f"{beside.ratio:.2f}" if isinstance(beside, Ratio) else beside or "-"


def _known(record: AdjointRecord | None) -> AdjointRecord:
    found = record or newest()
    if found is None:
        raise ValueError("there is no record of adjoints. On a GPU: minigrad bench --adjoint.")
    return found
