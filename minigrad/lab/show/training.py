"""Training in pictures: the loss, the memory of a step over its launches, images with labels, and confusion."""

from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from minigrad.display import plural, table
from minigrad.errors import require, require_int
from minigrad.lab.bench.steps import TrainingStep
from minigrad.lab.memory import timeline
from minigrad.lab.show.draw.axes import STYLES, frame, name_curves, plain_ticks
from minigrad.lab.show.draw.colours import BLUE, FONT, INK, LIGHT_BLUE, LIGHT_ORANGE, ROUND_PAPER, RUST, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, canvas, rounded, write
from minigrad.tensor import Tensor

COLUMNS = 10  # images in a row


def loss_curve(
    losses: Mapping[str, Sequence[float]] | Sequence[float], unit: str = "step", what: str = "loss"
) -> Picture:
    """The loss by step, a curve for each name: `loss_curve({"numpy": losses})`; on a log scale if it falls 50-fold.

    unit and what name the axes, where the values are no losses of steps.
    """
    by_name = losses if isinstance(losses, Mapping) else {what: losses}
    curves = {name: np.asarray(values, dtype=float).ravel() for name, values in by_name.items()}
    if not curves or not all(len(curve) for curve in curves.values()):
        raise ValueError("loss_curve needs at least one loss: loss_curve({'numpy': losses}).")
    if (most := len(STYLES)) < len(curves):
        raise ValueError(f"loss_curve draws at most {most} curves; got {len(curves)}. Draw them in two pictures.")
    title = _headline(curves, unit, what)
    figure, axes = canvas(8, 3.6, title)
    frame(axes, unit, what)
    for curve, (colour, dash) in zip(curves.values(), STYLES, strict=False):
        axes.plot(np.arange(1, len(curve) + 1), curve, color=colour, linestyle=dash, linewidth=2)
        axes.plot([len(curve)], curve[-1:], "o", color=colour, markersize=4)
    longest = max(map(len, curves.values()))
    margin = max(0.5, 0.03 * longest)
    axes.set_xlim(1 - margin, longest + margin)
    _set_scales(axes, np.concatenate(list(curves.values())))
    finite = {name: curve[np.isfinite(curve)] for name, curve in curves.items()}
    if isinstance(losses, Mapping):
        ends = zip(finite.items(), STYLES, strict=False)
        name_curves(axes, [(name, c[-1], colour) for (name, c), (colour, _) in ends if c.size])
    lowest = {name: c.min() if c.size else np.nan for name, c in finite.items()}
    rows = [(name, len(c), *map(rounded, (c[0], lowest[name], c[-1]))) for name, c in curves.items()]
    return Picture(figure, title, repr(table(rows, ("curve", f"{unit}s", "first", "lowest", "last"))))


def _headline(curves: Mapping[str, np.ndarray], unit: str, what: str) -> str:
    """The fall of the values; the first value that is NaN or infinite, where there is one."""
    for name, curve in curves.items():
        bad = np.flatnonzero(~np.isfinite(curve))
        if bad.size:
            return f"{name}: the {what} is {rounded(curve[bad[0]])} at {unit} {bad[0] + 1}"
    if len(curves) > 1:
        return f"The {what} at the end: " + ", ".join(f"{name} {rounded(curve[-1])}" for name, curve in curves.items())
    ((name, curve),) = curves.items()
    verb = "fell" if curve[-1] < curve[0] else "did not fall:"
    head = f"The {what}" if name == what else f"{name}: the {what}"
    return f"{head} {verb} from {rounded(curve[0])} to {rounded(curve[-1])} in {plural(len(curve), unit)}"


def _set_scales(axes: Axes, values: np.ndarray) -> None:
    """Whole steps along x; a log scale with plain numbers along y where the values span more than a factor of 50."""
    finite = values[np.isfinite(values)]
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if finite.size and finite.min() > 0 and finite.max() > 50 * finite.min():
        axes.set_yscale("log")
        few = finite.max() < 1e4 * finite.min()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))  # over many decades 2 and 5 find none
        plain_ticks(axes.yaxis)


def memory(step: Callable[..., Any], *inputs: Tensor, what: str = "A step of {} launches holds") -> Picture:
    """The bytes in use after each launch of step(*inputs), on `sim`: the forward pass allocates, the backward frees.

    what begins the title, with {} for the number of launches.
    """
    found = timeline(step, *inputs)
    if not found.kernels:
        raise ValueError("show.memory: the step launched no kernel.")
    top = found.live.index(found.peak) + 1
    title = f"{what.format(len(found.kernels))} at most {found.peak:,} bytes, after launch {top}"
    figure, axes = canvas(8, 3.6, title)
    frame(axes, "launch", "bytes in use")
    marked = [i for i, name in enumerate(found.kernels) if "backward" in name or name.endswith("_adjoint")] or [-1]
    back = [marked[0] <= i <= marked[-1] for i in range(len(found.kernels))]  # sums of gradients lie between
    colours, hatches = zip(*((LIGHT_ORANGE, "//") if is_back else (LIGHT_BLUE, "") for is_back in back), strict=True)
    axes.bar(range(1, len(found.live) + 1), found.live, 1.0, color=colours, hatch=hatches, edgecolor=BLUE,
             linewidth=0.5)  # fmt: skip
    axes.annotate(found.kernels[top - 1], (top, found.peak), (0, 4), textcoords="offset points", ha="center",
                  fontsize=FONT - 2, color=INK)  # fmt: skip
    axes.set(ylim=(0, found.peak * 1.15), axisbelow=True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return Picture(figure, title, f"hatched: the way back\n{found!r}")


def step_time(found: TrainingStep) -> Picture:
    """A bar for each library's step, as launches and as a graph: the kernels' share of it, and the host's.

    The time of a graph's step is taken for that of its kernels, since the host starts all of them with one call; what a
    step takes longer without the graph, the GPU waits for the host. Raises ValueError where no graph was measured.
    """
    times = require("show.step_time", found, TrainingStep, "a step, as mg.bench.recorded_step() gives it").times
    graphs = {name: t.seconds * 1e6 for name in times if (t := times.get(f"{name}, graph"))}
    if not graphs:
        raise ValueError(f"show.step_time: {found.title} was not measured as a graph.")
    rows = []
    for name, busy in graphs.items():
        total = times[name].seconds * 1e6
        rows += [(name, total, busy, max(total - busy, 0.0)), (f"{name}, graph", busy, busy, 0.0)]
    name, total, busy, wait = rows[0]
    title = f"{name}: kernels run for {rounded(busy)} of the {rounded(total)} us of a step, otherwise the GPU waits"
    figure, axes = canvas(WIDTH, 0.8 + 0.55 * len(rows), title)
    frame(axes, "microseconds of a step", "")
    for y, (*_, busy, wait) in enumerate(rows):
        box(axes, 0, y - 0.35, busy, 0.7, LIGHT_BLUE, edgecolor=BLUE)
        if wait:
            box(axes, busy, y - 0.35, wait, 0.7, idle=True)
            write(axes, busy + wait / 2, y, "waits for the host", bbox=ROUND_PAPER)
    axes.set(xlim=(0, 1.04 * max(row[1] for row in rows)), ylim=(len(rows) - 0.5, -0.5), axisbelow=True)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    cells = [(name, *(f"{value:.1f}" for value in row)) for name, *row in rows]
    headers = ("step", "us", "kernels run", "waits for the host")
    return Picture(figure, title, repr(table(cells, headers, f"{found.title}, on {found.device}, {found.date}")))


def images(images: Any, labels: Any = None, predictions: Any = None, count: int = 20) -> Picture:
    """The first images with their labels; with predictions, the wrong ones say so.

    images are (n, height, width), (n, 1, height, width) or (n, pixels) of square ones, dark where large, or (n, 3,
    height, width) in red, green and blue; predictions are (n,) classes or (n, classes) scores.
    """
    pixels, truth, predicted = _checked(images, labels, predictions)
    shown = range(min(require_int("images", "count", count, 1), len(pixels)))
    title = plural(len(pixels), "image") if len(shown) == len(pixels) else f"{len(shown)} of {len(pixels)} images"
    if truth is not None and predicted is not None:
        wrong = int(np.count_nonzero(truth[: len(shown)] != predicted[: len(shown)]))
        title += ", every prediction right" if not wrong else f", {wrong} predicted wrongly"
    return _contact_sheet(title, pixels, shown, truth, predicted)


def wrong_predictions(images: Any, labels: Any, predictions: Any, count: int = 20) -> Picture:
    """The first `count` images whose prediction is wrong."""
    pixels, truth, predicted = _checked(images, labels, predictions)
    if truth is None or predicted is None:
        raise ValueError("wrong_predictions needs labels and predictions.")
    wrong = np.flatnonzero(truth != predicted)
    shown = wrong[: require_int("wrong_predictions", "count", count, 1)].tolist()
    title = f"{len(wrong)} of {len(pixels)} predicted wrongly"
    title += f", {len(shown)} shown" if len(shown) < len(wrong) else ""
    return _contact_sheet(title, pixels, shown, truth, predicted)


def confusion(labels: Any, predictions: Any = None, names: Any = None) -> Picture:
    """Counts of each class (row) predicted as each (column), from labels and predictions or a matrix of counts.

    names: of all classes, also of those that do not occur. Raises ValueError for another number of them.
    """
    classes = [] if names is None else [str(name) for name in names]
    counts = np.asarray(labels)  # counts[i, j]: the number of times that label i was predicted as j
    if predictions is not None:
        truth = counts.ravel()
        predicted: Any = _classes(predictions, len(truth))
        size = max(len(classes), int(max(truth.max(initial=0), np.max(predicted, initial=0))) + 1)
        counts = np.zeros((size, size), dtype=np.int64)
        np.add.at(counts, (truth, predicted), 1)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ValueError(f"confusion: a matrix of counts is square; this one has shape {counts.shape}.")
    if names is None:
        classes = [str(n) for n in range(len(counts))]
    if len(classes) != len(counts):
        raise ValueError(f"confusion: {len(classes)} names for {len(counts)} classes; give one for each.")
    total, right = int(counts.sum()), int(np.trace(counts))
    title = f"{right} of {total} right, {100 * right / max(total, 1):.1f} %"
    mistakes = [(int(counts[i, j]), i, j) for i, j in np.argwhere(counts).tolist() if i != j]
    mistakes.sort(key=lambda mistake: -mistake[0])
    if mistakes and mistakes[0][0] > max((times for times, *_ in mistakes[1:]), default=0):
        times, i, j = mistakes[0]
        title += f"; the commonest mistake takes {classes[i]} for {classes[j]}, {plural(times, 'time')}"
    rows = [(classes[i], classes[j], times) for times, i, j in mistakes[:5]]
    numbers = repr(table(rows, ("label", "predicted", "times"))) if rows else "no mistakes"
    return Picture(_heat_map(counts, classes, title), title, numbers)


def _checked(images: Any, labels: Any, predictions: Any) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Images as (n, height, width), or (n, height, width, 3), and the classes that are known.

    Raises ValueError for other shapes.
    """
    pixels = np.asarray(images)
    if pixels.ndim == 4 and pixels.shape[1] == 1:
        pixels = pixels[:, 0]
    if colored := pixels.ndim == 4 and pixels.shape[1] == 3:
        pixels = np.moveaxis(pixels, 1, -1)
    if pixels.ndim == 2 and isqrt(pixels.shape[1]) ** 2 == pixels.shape[1]:
        pixels = pixels.reshape(len(pixels), isqrt(pixels.shape[1]), -1)
    if pixels.ndim != 3 + colored or not len(pixels):
        raise ValueError(
            "images are (n, height, width), (n, 1 or 3, height, width) or (n, pixels) of square ones; "
            f"got shape {np.shape(images)}."
        )
    return pixels, _classes(labels, len(pixels)), _classes(predictions, len(pixels))


def _classes(classes: Any, count: int) -> np.ndarray | None:
    """Classes (count,), from classes or from scores (count, classes)."""
    if classes is None:
        return None
    found = np.asarray(classes)
    found = found.argmax(axis=1) if found.ndim == 2 else found
    if found.shape != (count,):
        raise ValueError(f"there are {count} images or labels, and classes of shape {found.shape} for them.")
    return found


def _contact_sheet(title: str, pixels: np.ndarray, shown: Sequence[int], truth: Any, predicted: Any) -> Picture:
    """The shown images in rows, each over its caption; the captions as lines of text below."""
    captions = [_caption(i, truth, predicted) for i in shown]
    rows = max(1, -(-len(shown) // COLUMNS))
    figure, axes = canvas(WIDTH, 1.25 * rows + 0.5, title)
    axes.set_aspect("equal", anchor="NW")
    low, high = float(pixels.min()), float(pixels.max())
    for place, (i, (text, wrong)) in enumerate(zip(shown, captions, strict=True)):
        x, y = place % COLUMNS * 1.1, place // COLUMNS * 1.4
        extent = (x, x + 1, y + 1, y)
        shown_as = pixels[i] if pixels.ndim == 3 else (pixels[i] - low) / (high - low or 1.0)  # colors are 0 to 1
        axes.imshow(shown_as, cmap="gray_r", vmin=low, vmax=high, extent=extent, interpolation="nearest", zorder=1)
        edge, width = (VERMILLION, 2.5) if wrong else ("#bbbbbb", 0.8)
        box(axes, x, y, 1, 1, "none", edgecolor=edge, linewidth=width, zorder=2)
        bold = {"color": RUST, "fontweight": "bold"} if wrong else {}
        write(axes, x + 0.5, y + 1.18, text, fontsize=FONT if len(text) < 9 else 10, **bold)
    axes.set(xlim=(-0.05, COLUMNS * 1.1), ylim=(rows * 1.4, -0.1))  # imshow has changed them
    texts = [text for text, _ in captions]
    lines = [" | ".join(texts[at : at + COLUMNS]) for at in range(0, len(texts), COLUMNS)]
    return Picture(figure, title, "\n".join(lines) if any(texts) else f"no labels; {len(texts)} images")


def _caption(i: int, truth: Any, predicted: Any) -> tuple[str, bool]:
    """The text under image i, and True for a wrong prediction."""
    if truth is None or predicted is None:
        known = truth if truth is not None else predicted
        return ("" if known is None else str(known[i])), False
    wrong = bool(truth[i] != predicted[i])
    return (f"{predicted[i]}, not {truth[i]}" if wrong else str(truth[i])), wrong


def _heat_map(counts: np.ndarray, classes: list[str], title: str) -> Figure:
    """Each count in its cell; mistakes are darker where they are more frequent, the diagonal is outlined."""
    size = len(counts)
    figure, axes = canvas(7.2, 0.42 * size + 1.4, title)
    axes.set(aspect="equal", anchor="NW", xlim=(-2, max(size, 13)), ylim=(size + 0.1, -2))
    most = int((counts * (1 - np.eye(size, dtype=int))).max(initial=0))
    for i in range(size):
        write(axes, -0.3, i + 0.5, classes[i], ha="right")
        write(axes, i + 0.5, -0.45, classes[i])
        for j in range(size):
            share = counts[i, j] / most if most and i != j else 0
            mixed = tuple(1 - share * 0.6 * (1 - part) for part in to_rgb(VERMILLION))  # with white
            box(axes, j, i, 1, 1, mixed, edgecolor="#cccccc", linewidth=0.7)
            if counts[i, j]:
                write(axes, j + 0.5, i + 0.5, str(counts[i, j]), fontsize=10)
    for i in range(size):
        box(axes, i, i, 1, 1, "none", edgecolor=BLUE, linewidth=2)
    write(axes, 0, -1.3, "predicted", ha="left", fontweight="bold")
    write(axes, -1.6, size / 2, "label", rotation=90, fontweight="bold")
    return figure
