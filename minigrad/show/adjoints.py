"""What adjoints cost beside their kernels, and whether that stays so as the work grows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.bench.adjoint_record import AdjointRecord, Growth, Ratio, newest
from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, FONT, GREY, INK, PAPER, VERMILLION, Picture, canvas, words
from minigrad.show.tables import table

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
    worst = [max((g.spread or 1 for g in pair), default=1.0) for pair in _growths(costs)]
    title = f"Largest over smallest ratio, at worst: {worst[0]:.2f} as threads grow, {worst[1]:.2f} as work grows"
    figure, first = canvas(9.6, 4.6, f"{title} ({record.place})")
    first.remove()
    for number, (side, along) in enumerate(zip(_growths(costs), ("threads", "work per thread"), strict=True)):
        axes = figure.add_subplot(1, 2, number + 1)
        axes.invert_yaxis()
        frame(axes, f"{along}, in multiples of the smallest", "ratio" if not number else "")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for growth in side:
            sizes = sorted(growth)
            axes.plot([n / sizes[0] for n in sizes], [growth[n].ratio for n in sizes], color=BLUE, linewidth=1.2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        axes.set_yticks([1, 2, 4, 10, 20])
        axes.set_title(f"{len(side)} kernels", fontsize=FONT, color=INK, loc="left")
    rows = [(name, _spread(cost.sizes), _spread(cost.works)) for name, cost in costs.items()]
    return Picture(figure, title, repr(table(rows, ("kernel", "as threads grow", "as work grows"))))


def _growths(costs: dict) -> tuple[list[Growth], list[Growth]]:
    return [cost.sizes for cost in costs.values()], [cost.works for cost in costs.values() if cost.works]


def _spread(growth: Growth) -> str:
    return f"{growth.spread:.2f}" if growth.spread else "-"


def _rival(beside: Ratio | str | None) -> str:
    return f"{beside.ratio:.2f}" if isinstance(beside, Ratio) else beside or "-"


def _known(record: AdjointRecord | None) -> AdjointRecord:
    found = record or newest()
    if found is None:
        raise ValueError("there is no record of adjoints. On a GPU: minigrad bench --adjoint.")
    return found
