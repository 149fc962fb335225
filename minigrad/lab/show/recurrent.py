"""Recurrent networks: unrolled over their steps, and the share of a step that each thread or rank has."""

from matplotlib.axes import Axes

from minigrad.display import plural
from minigrad.errors import require_int, require_word
from minigrad.lab.show.draw.colours import (
    BLUE,
    FONT,
    GREEN,
    GREY,
    INK,
    LIGHT_BLUE,
    LIGHT_GREEN,
    LIGHT_ORANGE,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILLION,
)
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, canvas, write
from minigrad.recurrent.openmp import groups_of

CELL, APART = 0.62, 1.0  # the side of a cell, and the distance of its neighbor
NOW, DONE, LATER = (LIGHT_ORANGE, ORANGE), (PALE, GREY), ("white", GREY)  # fill and edge, by when a cell runs
OWNERS = (LIGHT_BLUE, LIGHT_ORANGE, LIGHT_GREEN, "#F2D5E5", "#DCEEFA", "#F6CDB4", "#E3E3E3", "#D9D2EC")
EDGES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, GREY, INK)
SHARES = {  # how a step of a layer is shared, and the words for those who share it
    "units": "thread", "batch": "thread", "both": "thread", "hidden": "rank", "sequences": "rank",
}  # fmt: skip
HEIGHT = 3.2  # inches of a picture of shares


def unrolled(steps: int = 6, layers: int = 1, turn: int | None = None) -> Picture:
    """A box for each step and layer, with arrows from what it reads; in it the earliest turn at which it can run.

    turn: the boxes that run then are orange, those that have run gray.
    """
    steps, layers = require_int("unrolled", "steps", steps, 1), require_int("unrolled", "layers", layers, 1)
    last = steps + layers - 1
    if turn is not None and not 1 <= turn <= last:
        raise ValueError(f"unrolled: turn={turn} must be from 1 to {last}: {steps} steps and {layers} layers.")
    title = _title(steps, layers, turn)
    figure, axes = canvas(WIDTH, 1.6 + 0.95 * layers, title)
    axes.set_aspect("equal", anchor="NW")
    for layer in range(layers):
        y = (layers - 1 - layer) * APART
        _arrow(axes, -0.42, y + CELL / 2, 0, y + CELL / 2)  # the state before the first step
        for step in range(steps):
            _cell(axes, step, layer, y, turn, steps, layers)
    ends = {"x": layers * APART + 0.12, "y": -0.62}
    for name, y in ends.items():
        for step in range(steps):
            write(axes, step * APART + CELL / 2, y, f"${name}_{{{step + 1}}}$", fontsize=FONT + 1)
    write(axes, -0.62, (layers - 1) * APART + CELL / 2, "$h_0$", fontsize=FONT + 1)
    axes.set(xlim=(-0.9, max(steps * APART, 8.6)), ylim=(layers * APART + 0.35, -0.85))
    return Picture(figure, title, _counted(steps, layers, turn))


def _title(steps: int, layers: int, turn: int | None) -> str:
    shape = f"{plural(layers, 'layer')}, {plural(steps, 'step')}"
    if turn is not None:
        return f"{shape}: turn {turn} of {steps + layers - 1}"
    return f"A recurrent network, unrolled: {shape}"


def _cell(axes: Axes, step: int, layer: int, y: float, turn: int | None, steps: int, layers: int) -> None:
    """The box of a step and layer, the arrow up into it, and those out of it."""
    x, runs = step * APART, step + layer + 1
    fill, edge = (LIGHT_BLUE, BLUE) if turn is None else NOW if runs == turn else DONE if runs < turn else LATER
    box(axes, x, y, CELL, CELL, fill, edgecolor=edge, linewidth=1.8)
    write(axes, x + CELL / 2, y + CELL / 2, "f" if layers == 1 and turn is None else str(runs), fontsize=FONT + 1)
    middle = x + CELL / 2
    _arrow(axes, middle, y + APART - (0.05 if layer == 0 else 0), middle, y + CELL)
    if layer == layers - 1:
        _arrow(axes, middle, y, middle, y - 0.4)
    if step < steps - 1:
        _arrow(axes, x + CELL, y + CELL / 2, x + APART, y + CELL / 2, VERMILLION)


def _arrow(axes: Axes, x: float, y: float, to_x: float, to_y: float, colour: str = GREY) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.5, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (to_x, to_y), (x, y), arrowprops=style)


def _counted(steps: int, layers: int, turn: int | None) -> str:
    """The numbers below the picture."""
    if turn is None and layers == 1:
        return f"red arrows: the state h. {steps} boxes, one function f: each waits for the one on its left"
    cells, turns = steps * layers, steps + layers - 1
    each = [sum(0 <= t - layer < steps for layer in range(layers)) for t in range(turns)]
    now = "" if turn is None else f"at turn {turn}: {plural(each[turn - 1], 'box', 'boxes')} at once\n"
    one = f"one after the other: {cells} boxes in {cells} turns"
    return f"{now}{one}\nas soon as possible: {cells} boxes in {turns} turns, at most {max(each)} at once"


# --- shares ---


def shares(rung: str, workers: int, hidden: int = 512, batch: int = 32, gates: int = 1) -> Picture:
    """h after a step, units x sequences, in the color of the thread or rank that computes it.

    rung: "units", "batch" or "both" of `recurrent.OpenMP`, "hidden" or "sequences" of ranks. The numbers below are
    those of one worker: its share of h, the weights W_hh of its units in float32, and for whom it waits at each step.
    """
    rung = require_word("shares", "rung", rung, tuple(SHARES))
    workers = require_int("shares", "workers", workers, 1)
    down, across = _split(rung, workers, batch)
    who = SHARES[rung]
    title = f"{rung}: {plural(workers, who)} share a step of {hidden} units and {batch} sequences"
    figure, axes = canvas(WIDTH, HEIGHT, title)
    parts = [(i, j) for j in range(across) for i in range(down)]
    for number, (i, j) in enumerate(parts):
        y, rows = _span(i, down, hidden)
        x, columns = _span(j, across, batch)
        fill, edge = OWNERS[number % len(OWNERS)], EDGES[number % len(EDGES)]
        box(axes, x, y, columns, rows, fill, edgecolor=edge, linewidth=1.5)
        if rows * len(parts) >= hidden / 2:
            write(axes, x + columns / 2, y + rows / 2, f"{who} {number}" if across < 5 else str(number))
    write(axes, batch / 2, -0.06 * hidden, f"{batch} sequences")
    write(axes, -0.02 * batch, hidden / 2, f"{hidden} units", rotation=90)
    axes.set(xlim=(-0.05 * batch, 1.02 * batch), ylim=(1.02 * hidden, -0.12 * hidden))
    units, sequences = _span(0, down, hidden)[1], _span(0, across, batch)[1]
    facts = [
        f"its share of h: {units} of {hidden} units, {sequences} of {batch} sequences",
        (f"weights W_hh that it reads at each step: {units * gates * hidden * 4 // 1024} KiB of "
         f"{hidden * gates * hidden * 4 // 1024}"),
        f"waits at each step for: {_waits(rung, down, who)}",
    ]  # fmt: skip
    return Picture(figure, title, "\n".join([f"one {who}", *(f"  {fact}" for fact in facts)]))


def _split(rung: str, workers: int, batch: int) -> tuple[int, int]:
    """The parts of the units, and of the sequences."""
    if rung == "both":
        groups = groups_of(workers, batch)
        return workers // groups, groups
    return (workers, 1) if rung in ("units", "hidden") else (1, workers)


def _span(i: int, parts: int, count: int) -> tuple[int, int]:
    """The first of count things that part i has, and how many it has."""
    first = count * i // parts
    return first, count * (i + 1) // parts - first


def _waits(rung: str, together: int, who: str) -> str:
    if together == 1:
        return "nobody"
    others = f"{plural(together - 1, f'other {who}')} at a barrier"
    return others if rung != "hidden" else f"the units of {plural(together - 1, f'other {who}')}, by an all-gather"
