"""Where the time of a network's step goes: a bar for each layer, forward and backward, against its floor."""

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes

from minigrad.display import table
from minigrad.errors import require
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import Record
from minigrad.lab.bench.resnet import ResNetReport
from minigrad.lab.show.draw.axes import frame
from minigrad.lab.show.draw.colours import BLUE, FONT, GREEN, INK, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, ORANGE
from minigrad.lab.show.draw.picture import WIDTH, Picture, blank_figure, box, write

WAYS = {"forward": "forward", "backward": "backward", "update": "backward"}  # the panel of a part
LAYERS = ("conv2d", "batch_norm", "max_pool2d", "mean")  # ops that are the whole of their layer
KINDS = {
    "convolution": (BLUE, LIGHT_BLUE),
    "batch norm": (ORANGE, LIGHT_ORANGE),
    "anything else": (GREEN, LIGHT_GREEN),
}
HEADERS = ("kind", "work", "us", "of the step", "floor us", "of floor")
ROW = 0.19  # inches of a layer


def layer_times(report: ResNetReport, step: str = "") -> Picture:
    """A bar for each layer of a recorded step, light, and on it in dark its floor, the time that no kernel undercuts.

    report: `mg.bench.recorded_resnet()`. step is one of its record's `timelines`, by default the first. Raises
    ValueError where there is none.
    """
    record = require(
        "show.layer_times", report, ResNetReport, "a report, as mg.bench.recorded_resnet() gives it"
    ).record
    step = step or next(iter(record.timelines), "")
    if step not in record.timelines:
        raise ValueError(f"show.layer_times: {record.place} has no times of the layers of {step or 'a step'}.")
    rows = _rows(record.timelines[step].values())
    parts = [m for row in rows.values() for m in row.values()]
    total = sum(m.timing.seconds for m in parts)
    title = f"{step}: {total * 1e6:.0f} us on {record.place}"
    figure = blank_figure(WIDTH, ROW * len(rows) + 1.3, title)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, way in zip(panels, ("forward", "backward"), strict=True):
        _bars(axes, way, rows, record)
    longest = max(m.timing.seconds for m in parts) * 1e6
    panels[0].set(xlim=(0, 1.04 * longest), ylim=(len(rows) - 0.4, -0.6))
    panels[0].set_yticks(range(len(rows)), list(rows), fontsize=9)
    _explain(panels[1], len(rows))
    return Picture(figure, title, repr(table(_sums(parts, total, record), HEADERS)))


def _rows(parts: Iterable[Measurement]) -> dict[str, dict[str, Measurement]]:
    """The parts of each layer by their panel, in the order of the forward pass."""
    rows: dict[str, dict[str, Measurement]] = {}
    for m in parts:
        *layer, op, way = m.title.split(", ")
        name = " ".join(layer if layer and op in LAYERS else [*layer, op])
        rows.setdefault(name, {})[WAYS[way]] = m
    return rows


def _kind(m: Measurement) -> str:
    """The kind of layer, by the op."""
    op = m.title.split(", ")[-2]
    return "convolution" if op == "conv2d" else "batch norm" if op.startswith("batch_norm") else "anything else"


def _bars(axes: Axes, way: str, rows: Mapping[str, Mapping[str, Measurement]], record: Record) -> None:
    """The bars of one panel; a floor longer than its bar ends where the bar does."""
    frame(axes, f"microseconds {way}", "")
    for y, row in enumerate(rows.values()):
        if m := row.get(way):
            dark, light = KINDS[_kind(m)]
            us, floor = m.timing.seconds * 1e6, (record.floor(m) or 0) * 1e6
            box(axes, 0, y - 0.4, us, 0.8, light, edgecolor=dark, linewidth=0.7)
            box(axes, 0, y - 0.4, min(us, floor), 0.8, dark, edgecolor=dark, linewidth=0.7)
    axes.set_axisbelow(True)


def _explain(axes: Axes, rows: int) -> None:
    """A sample of each color with its kind, at the right, where no bar reaches."""
    for i, (kind, (dark, light)) in enumerate(KINDS.items()):
        y = rows * (0.47 + 0.04 * i)
        x = axes.get_xlim()[1]
        box(axes, 0.66 * x, y - 0.4, 0.03 * x, 0.8, dark, edgecolor=dark)
        box(axes, 0.69 * x, y - 0.4, 0.03 * x, 0.8, light, edgecolor=dark)
        write(axes, 0.74 * x, y, kind, ha="left", fontsize=FONT, color=INK)
    write(axes, 0.66 * x, rows * 0.60, "dark: the floor", ha="left")


def _sums(parts: Sequence[Measurement], total: float, record: Record) -> list[tuple[str, ...]]:
    """The time and the floor of each kind of layer, forward and backward, and of all of them."""
    groups = [(kind, way) for kind in KINDS for way in ("forward", "backward")]
    found = {group: [m for m in parts if (_kind(m), WAYS[m.title.split(", ")[-1]]) == group] for group in groups}
    return [_sum(*group, chosen, total, record) for group, chosen in [*found.items(), (("all", ""), parts)] if chosen]


def _sum(kind: str, way: str, parts: Sequence[Measurement], total: float, record: Record) -> tuple[str, ...]:
    seconds, floor = sum(m.timing.seconds for m in parts), sum(record.floor(m) or 0 for m in parts)
    share, reached = f"{100 * seconds / total:.0f} %", f"{floor / seconds:.2f}"
    return kind, way, f"{seconds * 1e6:.0f}", share, f"{floor * 1e6:.0f}", reached
