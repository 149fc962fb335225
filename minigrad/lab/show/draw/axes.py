"""Axes with scales: their frame, plain tick labels, and curves with their names at their ends."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.lab.show.draw.colours import BLUE, FONT, GREEN, GREY, INK, PURPLE, VERMILLION

STYLES = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (INK, (0, (6, 1, 1, 1))))


def frame(axes: Axes, along: str, up: str) -> None:
    """A scale on the left and at the bottom with their labels, and a light grid; y upwards."""
    axes.set_axis_on()
    axes.yaxis.set_inverted(False)  # `canvas` has it downwards
    axes.set_facecolor("white")
    axes.set_xlabel(along, fontsize=FONT, color=INK)
    axes.set_ylabel(up, fontsize=FONT, color=INK)
    axes.tick_params(labelsize=10, colors=INK, which="both")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)


def plain_ticks(axis: Any, unit: str = "") -> None:
    """Ticks as plain numbers, also on a log scale, without the small ones between."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))
    axis.set_minor_locator(NullLocator())


def name_curves(axes: Axes, ends: Iterable[tuple[str, float, str]]) -> None:
    """Write each curve's name behind its end; ends are (name, last value, colour). Names that meet move apart."""
    scale = np.log if axes.get_yscale() == "log" else np.asarray
    low, high = scale(axes.get_ylim())
    below = -1.0
    for height, name, colour in sorted((float((scale(y) - low) / (high - low)), name, c) for name, y, c in ends):
        below = max(height, below + 0.09)
        axes.text(1.01, below, name, transform=axes.transAxes, color=colour, fontsize=FONT, fontweight="bold",
                  va="center")  # fmt: skip
