"""17: turns, bytes and time of a ring all-reduce, counted on a ring that is played through."""

from minigrad.lab.exercises import Prediction, Wrong

RANKS, MEGABYTES, LATENCY, SPEED = 8, 400, 5, 100  # the latency in us, the speed in MB/ms
MANY = 1000


def played(ranks: int) -> tuple[int, float]:
    """The turns until every rank has the sums of all pieces, and the MB that a rank has sent by then."""
    held, turns = [[{rank} for _ in range(ranks)] for rank in range(ranks)], 0
    while any(len(piece) < ranks for row in held for piece in row):
        moved = [(rank, (rank - turns) % ranks) for rank in range(ranks)]
        given = [(to, piece, held[to - 1][piece]) for to, piece in (((r + 1) % ranks, piece) for r, piece in moved)]
        for to, piece, summed in given:
            held[to][piece] = held[to][piece] | summed
        turns += 1
    return turns, turns * MEGABYTES / ranks


def truth(found: tuple[int, float]) -> dict[str, float]:
    turns, sent = found
    one, each = 2 * (MANY - 1), MEGABYTES / MANY
    return {
        "turns": turns, "sent": sent, "ms": turns * LATENCY * 1e-3 + sent / SPEED,
        "many": one * (LATENCY * 1e-3 + each / SPEED),
    }  # fmt: skip


ring_costs = Prediction(
    "17",
    "ring_costs",
    task="""
**What a ring costs.** 8 GPUs stand in a ring, and each has gradients of 400 MB. In each turn a GPU sends a piece of one
eighth to its neighbor. A turn costs 5 us, however short the message, and a link moves 100 MB in a millisecond. Predict

1. the turns of an all-reduce;
2. the MB that each GPU sends in all of them;
3. the milliseconds that it takes;
4. the milliseconds with 1000 GPUs in the ring, and pieces of one thousandth.
""",
    solution="""
#> turns = ...  # of the ring, with 8 GPUs
turns = 2 * (8 - 1)
#<
#> sent = ...  # MB that each GPU sends
sent = turns * 400 / 8
#<
#> ms = ...  # with 8 GPUs
ms = turns * 0.005 + sent / 100
#<
#> many = ...  # ms with 1000 GPUs
many = 2 * 999 * (0.005 + 400 / 1000 / 100)
#<
""",
    hints=[
        "first each piece goes once around, from rank to rank, and is added up. Then each sum goes around again.",
        "going around once takes a turn less than there are GPUs.",
        "in each turn a GPU sends one piece of 400 / 8 MB.",
        "a turn takes 0.005 ms and the time of its piece. With 1000 GPUs there are 2 * 999 turns with small pieces.",
    ],
    wrong=[
        Wrong("turns = 2 * (8 - 1)", "turns = 8 - 1", "value",
              "After 7 turns each GPU has the whole sum of one piece. The others have to get it, too."),
        Wrong("turns = 2 * (8 - 1)", "turns = 2 * 8", "value", "The first of each round is at home already: 7 turns."),
        Wrong("sent = turns * 400 / 8", "sent = turns * 400", "value", "In a turn only a piece is sent, an eighth."),
        Wrong("sent = turns * 400 / 8", "sent = 400", "value",
              "Count the pieces: each GPU sends one in every turn, and there are more turns than pieces."),
        Wrong("ms = turns * 0.005 + sent / 100", "ms = sent / 100", "value", "The 5 us of each turn are missing."),
        Wrong("ms = turns * 0.005 + sent / 100", "ms = turns * (0.005 + sent / 100)", "value",
              "`sent` is already of all turns."),
        Wrong("many = 2 * 999 * (0.005 + 400 / 1000 / 100)", "many = 2 * 999 * (0.005 + 400 / 8 / 100)", "value",
              "With 1000 GPUs a piece is a thousandth."),
    ],
    run=lambda: played(RANKS),
    truth=truth,
    source="Counted",
)  # fmt: skip
