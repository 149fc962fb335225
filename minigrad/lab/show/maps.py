"""Fields over a grid as maps, images in gray, and functions of one variable as lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from minigrad.display import table
from minigrad.lab.show.draw.axes import STYLES, frame
from minigrad.lab.show.draw.colours import EDGE, FONT, GREY, INK
from minigrad.lab.show.draw.picture import WIDTH, Picture, blank_figure, rounded

MAPS, LINES = 4, len(STYLES)  # the most in one picture
SIGNED = 0.2  # a field that is below 0 by more than this share of its largest value has both signs


def fields(
    title: str,
    given: Mapping[str, Any],
    hidden: Any = None,
    marked: Any = None,
    over: Iterable[Mapping[str, Any]] = (),
) -> Picture:
    """Maps side by side, (height, width) each, by name: `fields("a flow", {"speed": u, "gradient": du})`.

    A field that goes well below 0 has white at 0, red above and blue below; any other goes from dark to light.
    hidden masks elements, as within a wall; the elements where marked is True get an edge. over lists the maps of all
    steps of a slider, which then have one scale: `fields(f"step {n}", maps[n], over=maps.values())`. Raises ValueError
    where shapes differ, or where a map of a step is missing.
    """
    maps: dict[str, Any] = {name: np.asarray(field, dtype=float) for name, field in given.items()}
    steps = list(over) or [given]
    _check(maps, {"hidden": hidden, "marked": marked}, steps)
    tallest = max(field.shape[0] / field.shape[1] for field in maps.values())
    width = WIDTH / len(maps)
    figure = blank_figure(WIDTH, min(5.5, width * tallest * 0.9 + 1.2), title)
    if hidden is not None:
        maps = {name: np.ma.masked_where(hidden, field) for name, field in maps.items()}
    seen = slice(None) if hidden is None else ~np.asarray(hidden, dtype=bool)
    ranges = {name: _range([np.asarray(step[name], dtype=float)[seen] for step in steps]) for name in maps}
    for axes, (name, field) in zip(np.ravel(figure.subplots(1, len(maps), squeeze=False)), maps.items(), strict=True):
        _map(axes, name, field, *ranges[name])
        if marked is not None:
            _edge(axes, np.pad(np.asarray(marked, dtype=int), 1))
    rows = [(name, rounded(field.min()), rounded(field.max())) for name, field in maps.items()]
    return Picture(figure, title, repr(table(rows, ("field", "smallest", "largest"))))


def photos(title: str, given: Mapping[str, Any]) -> Picture:
    """Images in gray side by side, (height, width) each, by name; one that goes well below 0 has middle gray at 0.

    NaN is white. Raises ValueError for other shapes.
    """
    shown: dict[str, Any] = {name: np.asarray(image, dtype=float) for name, image in given.items()}
    _check(shown, {}, [given], "photos")
    tallest = max(image.shape[0] / image.shape[1] for image in shown.values())
    figure = blank_figure(WIDTH, min(5.5, WIDTH / len(shown) * tallest + 0.6), title)
    for axes, (name, image) in zip(np.ravel(figure.subplots(1, len(shown), squeeze=False)), shown.items(), strict=True):
        seen = image[np.isfinite(image)]
        low, high, _ = _limits(*(_range([seen]) if seen.size else (0.0, 1.0)))
        axes.imshow(image, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_title(name, fontsize=FONT, color=INK, loc="left")
    rows = [(name, *image.shape) for name, image in shown.items()]
    return Picture(figure, title, repr(table(rows, ("image", "rows", "columns"))))


def _check(
    maps: Mapping[str, Any], masks: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], what: str = "fields"
) -> None:
    """Raise ValueError for maps that cannot be drawn, masks of another shape, or a step without one of the maps."""
    if not 0 < len(maps) <= MAPS or any(field.ndim != 2 or not field.size for field in maps.values()):
        shapes = ", ".join(f"{name} {field.shape}" for name, field in maps.items()) or "none"
        raise ValueError(f"{what} draws 1 to {MAPS} {what} of shape (height, width); got {shapes}.")
    for name, mask in masks.items():
        if mask is not None and (wrong := {field.shape for field in maps.values()} - {np.shape(mask)}):
            raise ValueError(f"fields: {name} has shape {np.shape(mask)}, and a field {min(wrong)}; give both one.")
    if missing := {name for step in steps for name in maps if name not in step}:
        raise ValueError(f"fields: over has a step without {min(missing)}; give the maps of every step by their names.")


def lines(title: str, along: str, x: Any, given: Mapping[str, Any], log: bool = False) -> Picture:
    """Functions of one variable, below each other and over the same x, by name. log: x has a log scale."""
    x, curves = np.asarray(x, dtype=float), {name: np.asarray(y, dtype=float) for name, y in given.items()}
    wrong = [f"{name} has shape {y.shape}" for name, y in curves.items() if y.shape != x.shape]
    if wrong or not 0 < len(curves) <= LINES or x.ndim != 1:
        raise ValueError(f"lines draws 1 to {LINES} curves, each as long as x {x.shape}; {', '.join(wrong) or 'none'}.")
    figure = blank_figure(WIDTH, 1.1 + 1.5 * len(curves), title)
    rows = np.ravel(figure.subplots(len(curves), 1, sharex=True, squeeze=False))
    for axes, (name, y), (colour, _) in zip(rows, curves.items(), STYLES, strict=False):
        frame(axes, along if axes is rows[-1] else "", "")
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.plot(x, y, color=colour, linewidth=1.6)
        axes.set_title(name, fontsize=FONT, color=colour, loc="left")
        if log:
            axes.set_xscale("log")
    ranges = [(name, rounded(y.min()), rounded(y.max())) for name, y in curves.items()]
    return Picture(figure, title, repr(table(ranges, ("curve", "smallest", "largest"))))


def _range(steps: Sequence[Any]) -> tuple[float, float]:
    """The smallest and the largest number of a field over all its steps."""
    return min(float(step.min()) for step in steps), max(float(step.max()) for step in steps)


def _limits(low: float, high: float) -> tuple[float, float, bool]:
    """The ends of the scale, and True where it has 0 in its middle: for numbers that go well below 0."""
    largest = max(abs(low), abs(high))
    return (-largest, largest, True) if low < -SIGNED * largest else (low, high, False)


def _map(axes: Axes, name: str, field: Any, low: float, high: float) -> None:
    """One field, with a scale from low to high."""
    low, high, signed = _limits(low, high)
    axes.set_facecolor(EDGE)  # of hidden elements
    drawn = axes.imshow(field, origin="lower", cmap="RdBu_r" if signed else "cividis", vmin=low, vmax=high)
    axes.set(xticks=[], yticks=[], aspect="auto" if field.shape[0] > 3 * field.shape[1] else "equal")
    axes.set_title(name, fontsize=FONT, color=INK, loc="left")
    scale = axes.figure.colorbar(drawn, ax=axes, orientation="horizontal", shrink=0.9, pad=0.03, ticks=MaxNLocator(5))
    scale.ax.tick_params(labelsize=10, colors=INK)
    scale.outline.set_visible(False)


def _edge(axes: Axes, marked: Any) -> None:
    """A line around the marked elements; the mask has a border of unmarked ones around the field."""
    y, x = np.nonzero(np.diff(marked, axis=1))
    axes.vlines(x - 0.5, y - 1.5, y - 0.5, color=INK, linewidth=1.4)
    y, x = np.nonzero(np.diff(marked, axis=0))
    axes.hlines(y - 0.5, x - 1.5, x - 0.5, color=INK, linewidth=1.4)
