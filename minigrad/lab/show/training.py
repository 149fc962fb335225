"""The memory of a training step, drawn over its launches."""

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from minigrad.display import table
from minigrad.errors import whole
from minigrad.lab.memory import timeline
from minigrad.lab.show.draw.curves import frame
from minigrad.lab.show.draw.picture import (
    BLUE,
    FONT,
    INK,
    LIGHT_BLUE,
    LIGHT_ORANGE,
    RUST,
    VERMILLION,
    Picture,
    box,
    canvas,
    plural,
    words,
)
from minigrad.tensor import Tensor


def memory(step: Callable[..., Any], *inputs: Tensor) -> Picture:
    """The bytes in use after each launch of step(*inputs), on `sim`: forward they rise, backward they fall."""
    found = timeline(step, *inputs)
    if not found.kernels:
        raise ValueError("show.memory: the step launched no kernel.")
    top = found.live.index(found.peak) + 1
    title = f"A step of {len(found.kernels)} launches holds at most {found.peak:,} bytes, after launch {top}"
    figure, axes = canvas(8, 3.6, title)
    frame(axes, "launch", "bytes in use")
    marked = [i for i, name in enumerate(found.kernels) if "backward" in name] or [-1]
    back = [marked[0] <= i <= marked[-1] for i in range(len(found.kernels))]  # between them are sums of gradients
    colours = [LIGHT_ORANGE if is_back else LIGHT_BLUE for is_back in back]
    hatches = ["//" if is_back else "" for is_back in back]
    axes.bar(
        range(1, len(found.live) + 1), found.live, 1.0, color=colours, hatch=hatches, edgecolor=BLUE, linewidth=0.5
    )
    axes.annotate(found.kernels[top - 1], (top, found.peak), (0, 4), textcoords="offset points", ha="center",
                  fontsize=FONT - 2, color=INK)  # fmt: skip
    axes.set_ylim(0, found.peak * 1.15)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return Picture(figure, title, f"hatched: the way back\n{found!r}")


COLUMNS = 10


def images(images: Any, labels: Any = None, predictions: Any = None, count: int = 20) -> Picture:
    """The first images with their labels; with predictions, the wrong ones say so.

    images are (n, height, width) or (n, pixels) of square ones, dark where large; predictions are (n,) classes or
    (n, classes) scores.
    """
    pixels = _square(images)
    truth, said = _classes(labels, len(pixels)), _classes(predictions, len(pixels))
    shown = range(min(whole("images", "count", count, 1), len(pixels)))
    title = plural(len(pixels), "image") if len(shown) == len(pixels) else f"{len(shown)} of {len(pixels)} images"
    if truth is not None and said is not None:
        wrong = int(np.count_nonzero(truth[: len(shown)] != said[: len(shown)]))
        title += ", every prediction right" if not wrong else f", {wrong} predicted wrongly"
    return Picture(_sheet(pixels, shown, truth, said, title), title, _captions(shown, truth, said))


def wrong_predictions(images: Any, labels: Any, predictions: Any, count: int = 20) -> Picture:
    """The images that were predicted wrongly, the first so many of them."""
    pixels = _square(images)
    truth, said = _classes(labels, len(pixels)), _classes(predictions, len(pixels))
    if truth is None or said is None:
        raise ValueError("wrong_predictions needs labels and predictions.")
    wrong = np.flatnonzero(truth != said)
    shown = wrong[: whole("wrong_predictions", "count", count, 1)].tolist()
    title = f"{len(wrong)} of {len(pixels)} predicted wrongly" + (
        f", {len(shown)} shown" if len(shown) < len(wrong) else ""
    )
    return Picture(_sheet(pixels, shown, truth, said, title), title, _captions(shown, truth, said))


def confusion(labels: Any, predictions: Any = None, names: Any = None) -> Picture:
    """How often each class (row) is predicted as each (column): of labels and predictions, or of a matrix of counts.

    names: of all classes, whether they occur or not. Raises ValueError for another number of them.
    """
    known = None if names is None else [str(name) for name in names]
    counts = np.asarray(labels) if predictions is None else confusion_counts(labels, predictions, len(known or ()))
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ValueError(f"confusion: a matrix of counts is square; this one has shape {counts.shape}.")
    classes = [str(n) for n in range(len(counts))] if known is None else known
    if len(classes) != len(counts):
        raise ValueError(f"confusion: {len(classes)} names for {len(counts)} classes; give one for each.")
    total, right = int(counts.sum()), int(np.trace(counts))
    title = f"{right} of {total} right, {100 * right / max(total, 1):.1f} %"
    mistakes = [(int(counts[i, j]), i, j) for i, j in np.argwhere(counts).tolist() if i != j]
    mistakes.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    if mistakes and mistakes[0][0] > max((often for often, *_ in mistakes[1:]), default=0):
        often, i, j = mistakes[0]
        title += f"; the commonest mistake takes {classes[i]} for {classes[j]}, {plural(often, 'time')}"
    rows = [(classes[i], classes[j], often) for often, i, j in mistakes[:5]]
    told = repr(table(rows, ("label", "predicted", "times"))) if rows else "no mistakes"
    return Picture(_heat(counts, classes, title), title, told)


def confusion_counts(labels: Any, predictions: Any, least: int = 0) -> np.ndarray:
    """counts[i, j]: how often label i was predicted as j; of the classes that occur, and so many at least."""
    truth = np.asarray(labels).ravel()
    said: Any = _classes(predictions, len(truth))
    size = max(least, int(max(truth.max(initial=0), np.max(said, initial=0))) + 1)
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (truth, said), 1)
    return counts


def _square(images: Any) -> np.ndarray:
    pixels = np.asarray(images)
    if pixels.ndim == 4 and pixels.shape[1] == 1:
        pixels = pixels[:, 0]
    if pixels.ndim == 2 and isqrt(pixels.shape[1]) ** 2 == pixels.shape[1]:
        pixels = pixels.reshape(len(pixels), isqrt(pixels.shape[1]), -1)
    if pixels.ndim != 3 or not len(pixels):
        raise ValueError(f"images are (n, height, width) or (n, pixels) of square ones; got shape {pixels.shape}.")
    return pixels


def _classes(given: Any, wanted: int) -> np.ndarray | None:
    """Classes (n,), from classes or from scores (n, classes)."""
    if given is None:
        return None
    found = np.asarray(given)
    found = found.argmax(axis=1) if found.ndim == 2 else found
    if found.shape != (wanted,):
        raise ValueError(f"there are {wanted} images or labels, and classes of shape {found.shape} for them.")
    return found


def _caption(i: int, truth: Any, said: Any) -> tuple[str, bool]:
    """What stands under image i, and whether it is a mistake."""
    if truth is None or said is None:
        known = truth if truth is not None else said
        return ("" if known is None else str(known[i])), False
    wrong = bool(truth[i] != said[i])
    return (f"{said[i]}, not {truth[i]}" if wrong else str(truth[i])), wrong


def _captions(shown: Any, truth: Any, said: Any) -> str:
    """The captions as lines of text, ten to a line."""
    texts = [_caption(i, truth, said)[0] for i in shown]
    lines = [" | ".join(texts[at : at + COLUMNS]) for at in range(0, len(texts), COLUMNS)]
    return "\n".join(lines) if any(texts) else f"no labels; {len(texts)} images"


def _sheet(pixels: np.ndarray, shown: Any, truth: Any, said: Any, title: str) -> Figure:
    rows = max(1, -(-len(shown) // COLUMNS))
    figure, axes = canvas(9.6, 1.25 * rows + 0.5, title)
    axes.set_aspect("equal", anchor="NW")
    axes.set_xlim(-0.05, COLUMNS * 1.1)
    axes.set_ylim(rows * 1.4, -0.1)
    low, high = float(pixels.min()), float(pixels.max())
    for place, i in enumerate(shown):
        x, y = place % COLUMNS * 1.1, place // COLUMNS * 1.4
        text, wrong = _caption(i, truth, said)
        where = (x, x + 1, y + 1, y)
        axes.imshow(pixels[i], cmap="gray_r", vmin=low, vmax=high, extent=where, interpolation="nearest", zorder=1)
        box(
            axes,
            x,
            y,
            1,
            1,
            "none",
            edgecolor=VERMILLION if wrong else "#bbbbbb",
            linewidth=2.5 if wrong else 0.8,
            zorder=2,
        )
        bold = {"color": RUST, "fontweight": "bold"} if wrong else {"color": INK}
        words(axes, x + 0.5, y + 1.18, text, fontsize=FONT if len(text) < 9 else 10, **bold)
    axes.set_xlim(-0.05, COLUMNS * 1.1)
    axes.set_ylim(rows * 1.4, -0.1)
    return figure


def _heat(counts: np.ndarray, classes: list[str], title: str) -> Figure:
    """Each count in its cell, the mistakes the darker the commoner; right ones lie on the outlined diagonal."""
    size = len(counts)
    figure, axes = canvas(7.2, 0.42 * size + 1.4, title)
    axes.set_aspect("equal", anchor="NW")
    axes.set_xlim(-2, max(size, 13))
    axes.set_ylim(size + 0.1, -2)
    most = max((int(counts[i, j]) for i in range(size) for j in range(size) if i != j), default=0)
    for i in range(size):
        words(axes, -0.3, i + 0.5, classes[i], ha="right")
        words(axes, i + 0.5, -0.45, classes[i])
        for j in range(size):
            share = counts[i, j] / most if most and i != j else 0
            box(axes, j, i, 1, 1, _mixed(VERMILLION, share * 0.6), edgecolor="#cccccc", linewidth=0.7)
            if counts[i, j]:
                words(axes, j + 0.5, i + 0.5, str(counts[i, j]), fontsize=10)
    for i in range(size):
        box(axes, i, i, 1, 1, "none", edgecolor=BLUE, linewidth=2)
    words(axes, 0, -1.3, "predicted", ha="left", fontweight="bold")
    words(axes, -1.6, size / 2, "label", rotation=90, fontweight="bold")
    return figure


def _mixed(colour: str, share: float) -> tuple[float, ...]:
    """The colour mixed with white."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(1 - share * (1 - part) for part in parts)
