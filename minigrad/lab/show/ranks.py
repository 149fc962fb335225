"""Ranks: the time line of a training step on each of them, and the pieces that travel around a ring."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from minigrad.display import Text, plural, table
from minigrad.errors import require_int
from minigrad.lab.bench.record import PARALLEL, RankSpan, records
from minigrad.lab.show.draw.axes import frame
from minigrad.lab.show.draw.colours import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LIGHT_BLUE,
    LIGHT_GREEN,
    LIGHT_ORANGE,
    ORANGE,
    PAPER,
    SKY,
)
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, canvas, joined, write

PARTS = {  # fill and edge
    "forward": (LIGHT_BLUE, BLUE), "backward": (SKY, BLUE), "wait": ("white", GREY), "update": (LIGHT_GREEN, GREEN),
}  # fmt: skip
NARROW = 0.07  # of the whole time: a span that is shorter has no room for its name
TURNS = {"reduce-scatter": "adds up", "all-gather": "hands on"}


def rank_timeline(spans: Sequence[Sequence[RankSpan]] | None = None, where: str = "") -> Picture | Text:
    """Two lanes for each rank: what it computes, and the messages that travel meanwhile, over the milliseconds.

    spans: those of each rank, as `mg.bench.RankWatch` has them; without them, those of the newest record, or where
    there is none a sentence. A wait is hatched.
    """
    if spans is None:
        record = next((record for record in records(folder=PARALLEL) if record.spans), None)
        if record is None:
            return Text("no record has a time line of ranks. `minigrad bench --gpus --only timeline` makes one.")
        spans, where = next(iter(record.spans.values())), f"{record.versions['gpus']} GPUs, {record.place}"
    end = 1e3 * max(span.stop for rank in spans for span in rank)
    hidden = [_hidden(rank) for rank in spans]
    title = f"{plural(len(spans), 'rank')}: {min(hidden):.0%} of the messages' time is behind the computation"
    title += f", on {where}" * bool(where)
    figure, axes = canvas(WIDTH, 1 + 1.15 * len(spans), title)
    frame(axes, "milliseconds", "")
    axes.set(xlim=(0, end * 1.01), ylim=(2.3 * len(spans) - 0.2, -0.2), axisbelow=True)
    for number, rank in enumerate(spans):
        for span in rank:
            _span(axes, span, 2.3 * number + (span.lane != "compute"), end)
    lanes = [(2.3 * rank + lane + 0.4, name) for rank in range(len(spans)) for lane, name in enumerate(_lanes(rank))]
    axes.set_yticks([y for y, _ in lanes], [name for _, name in lanes])
    rows = [
        (str(number), span.lane, span.name, f"{1e3 * span.start:.2f}", f"{1e3 * (span.stop - span.start):.2f}")
        for number, rank in enumerate(spans)
        for span in rank
    ]
    return Picture(figure, title, repr(table(rows, ("rank", "lane", "part", "from ms", "takes ms"))))


def _lanes(rank: int) -> tuple[str, str]:
    return f"rank {rank}: compute", "messages"


def _span(axes: Axes, span: RankSpan, y: float, end: float) -> None:
    start, width = 1e3 * span.start, 1e3 * (span.stop - span.start)
    fill, edge = PARTS.get(span.name, (LIGHT_ORANGE, ORANGE))
    box(axes, start, y, width, 0.8, fill, edgecolor=edge, idle=span.name == "wait")
    if width > NARROW * end:
        write(axes, start + width / 2, y + 0.4, span.name, bbox=PAPER if span.name == "wait" else None)


def _hidden(rank: Sequence[RankSpan]) -> float:
    """The part of the messages' time in which this rank has still something to compute."""
    computed = max(span.stop for span in rank if span.name == "backward")
    messages = [span for span in rank if span.lane == "messages"]
    whole = sum(span.stop - span.start for span in messages)
    behind = sum(max(0.0, min(span.stop, computed) - span.start) for span in messages)
    return behind / whole if whole else 1.0


def ring(ranks: int = 4, turn: int = 0) -> Picture:
    """The pieces of the sum of a ring all-reduce after so many turns: a column for each rank, a row for each piece.

    In a box are the ranks whose numbers are in the sum. What has just arrived is orange, a complete sum green.
    """
    ranks = require_int("ring", "ranks", ranks, 2)
    last = 2 * (ranks - 1)
    if not 0 <= turn <= last:
        raise ValueError(f"ring: turn={turn} must be from 0 to {last} with {ranks} ranks.")
    held, arrived = _held(ranks, turn)
    phase = "reduce-scatter" if turn < ranks else "all-gather"
    title = f"{ranks} ranks in a ring, turn {turn} of {last}" + f": the {phase} {TURNS[phase]}" * (turn > 0)
    figure, axes = canvas(WIDTH, 1.0 + 0.55 * ranks, title)
    for rank in range(ranks):
        write(axes, rank + 0.45, -0.25, f"rank {rank}")
        for piece in range(ranks):
            fill = LIGHT_ORANGE if arrived.get(rank) == piece else "white"
            whole = len(held[rank][piece]) == ranks
            fill = LIGHT_GREEN if whole and fill == "white" else fill
            box(axes, rank, piece, 0.9, 0.8, fill, edgecolor=GREEN if whole else INK, linewidth=2 if whole else 1)
            write(axes, rank + 0.45, piece + 0.4, "+".join(map(str, sorted(held[rank][piece]))))
    for piece in range(ranks):
        write(axes, -0.1, piece + 0.4, f"piece {piece}", ha="right")
    axes.set(xlim=(-0.75, ranks), ylim=(ranks, -0.6))
    moves = [f"piece {piece} to rank {rank}" for rank, piece in sorted(arrived.items())]
    complete = sum(len(piece) == ranks for rank in held for piece in rank)
    numbers = f"arrived in this turn: {joined(moves, 'and')}\n" if moves else ""
    return Picture(figure, title, f"{numbers}complete: {complete} of {ranks**2} pieces")


def _held(ranks: int, turns: int) -> tuple[list[list[set[int]]], dict[int, int]]:
    """The ranks in the sum of each piece on each rank, and by rank the piece that has arrived in the last turn."""
    held, arrived = [[{rank} for _ in range(ranks)] for rank in range(ranks)], dict[int, int]()
    for turn in range(turns):
        adds = turn < ranks - 1  # then a rank adds what arrives; afterwards it takes it as it is
        sent = {rank: (rank - turn) % ranks for rank in range(ranks)}
        moved = {(rank + 1) % ranks: (piece, set(held[rank][piece])) for rank, piece in sent.items()}
        for rank, (piece, summed) in moved.items():
            held[rank][piece] = held[rank][piece] | summed if adds else summed
        arrived = {rank: piece for rank, (piece, _) in moved.items()}
    return held, arrived
