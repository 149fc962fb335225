"""Curves with their names at their ends."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from minigrad.display import table
from minigrad.lab.show.draw.picture import BLUE, FONT, GREEN, GREY, INK, PURPLE, VERMILLION, Picture, canvas, plural

STYLES = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (INK, (0, (6, 1, 1, 1))))


def loss_curve(losses: Mapping[str, Sequence[float]] | Sequence[float], unit: str = "step") -> Picture:
    """The loss of each step, one curve a name: `loss_curve({"numpy": losses})`. On a log scale where it falls far."""
    given = losses if isinstance(losses, Mapping) else {"loss": losses}
    curves = {name: np.asarray(values, dtype=float).ravel() for name, values in given.items()}
    if not curves or not all(len(curve) for curve in curves.values()):
        raise ValueError("loss_curve needs at least one loss: loss_curve({'numpy': losses}).")
    if len(curves) > len(STYLES):
        raise ValueError(
            f"loss_curve draws at most {len(STYLES)} curves; got {len(curves)}. Draw them in two pictures."
        )
    title = _finding(curves, unit)
    figure, axes = canvas(8, 3.6, title)
    frame(axes, unit, "loss")
    for curve, (colour, dash) in zip(curves.values(), STYLES, strict=False):
        axes.plot(np.arange(1, len(curve) + 1), curve, color=colour, linestyle=dash, linewidth=2)
        axes.plot([len(curve)], curve[-1:], "o", color=colour, markersize=4)
    longest = max(map(len, curves.values()))
    axes.set_xlim(1 - max(0.5, 0.03 * longest), longest + max(0.5, 0.03 * longest))
    _scale(axes, np.concatenate(list(curves.values())))
    if isinstance(losses, Mapping):
        finite = [(name, curve[np.isfinite(curve)]) for name, curve in curves.items()]
        names(axes, [(name, c[-1], colour) for (name, c), (colour, _) in zip(finite, STYLES, strict=False) if c.size])
    rows = [(name, len(c), *(_short(v) for v in (c[0], _lowest(c), c[-1]))) for name, c in curves.items()]
    return Picture(figure, title, repr(table(rows, ("curve", f"{unit}s", "first", "lowest", "last"))))


def _finding(curves: Mapping[str, np.ndarray], unit: str) -> str:
    """How far the loss fell; that it is NaN or infinite, if so, before all else."""
    for name, curve in curves.items():
        bad = np.flatnonzero(~np.isfinite(curve))
        if bad.size:
            return f"{name}: the loss is {_short(curve[bad[0]])} at {unit} {bad[0] + 1}"
    if len(curves) > 1:
        return "The loss at the end: " + ", ".join(f"{name} {_short(curve[-1])}" for name, curve in curves.items())
    ((name, curve),) = curves.items()
    verb = "fell" if curve[-1] < curve[0] else "did not fall:"
    head = "The loss" if name == "loss" else f"{name}: the loss"
    return f"{head} {verb} from {_short(curve[0])} to {_short(curve[-1])} in {plural(len(curve), unit)}"


def _lowest(curve: np.ndarray) -> float:
    finite = curve[np.isfinite(curve)]
    return finite.min() if finite.size else float("nan")


def _short(value: Any) -> str:
    return f"{value:.3g}"


def frame(axes: Canvas, along: str, up: str) -> None:
    """Axes with a scale, a light grid, and nothing else."""
    axes.set_axis_on()
    axes.invert_yaxis()  # upwards again
    axes.set_facecolor("white")
    axes.set_xlabel(along, fontsize=FONT, color=INK)
    axes.set_ylabel(up, fontsize=FONT, color=INK)
    axes.tick_params(labelsize=10, colors=INK, which="both")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)


def _scale(axes: Canvas, values: np.ndarray) -> None:
    """Whole steps along x; a log scale with plain numbers along y where the values span more than a factor of 50."""
    finite = values[np.isfinite(values)]
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if finite.size and finite.min() > 0 and finite.max() > 50 * finite.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def names(axes: Canvas, ends: Iterable[tuple[str, float, str]]) -> None:
    """Each curve's name, given with its last value and its colour, behind its end; moved apart where they meet."""
    scale = np.log if axes.get_yscale() == "log" else np.asarray
    low, high = scale(axes.get_ylim())
    below = -1.0
    for height, name, colour in sorted((float((scale(y) - low) / (high - low)), name, c) for name, y, c in ends):
        below = max(height, below + 0.09)
        axes.text(
            1.01, below, name, transform=axes.transAxes, color=colour, fontsize=FONT, fontweight="bold", va="center"
        )
