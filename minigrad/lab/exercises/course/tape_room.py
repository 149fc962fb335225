"""15b: the room that the checkpoints of a loop take, and the order in which they are read."""

import numpy as np

from minigrad.adjoint import adjoint, ladder
from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection

ROUNDS, COLUMNS = 27, 64


def run() -> Inspection:
    """The adjoint of a product down each column, two blocks of 32 threads."""
    x = np.ones(ROUNDS * COLUMNS, np.float32)
    y, dy = np.zeros(COLUMNS, np.float32), np.ones(COLUMNS, np.float32)
    made = adjoint(ladder("product"))
    return made.inspect(x, y, COLUMNS, ROUNDS, dy=[dy], grid=2, block=32, blocks=2)[0]


def truth(record: Inspection) -> dict[str, int]:
    tape = record.traffic[record.traffic["variable"] == "p_tape"]
    written, read = (tape[tape["kind"] == kind] for kind in ("write", "read"))
    mine = read[(read["block"] == 0) & (read["thread"] == 0)]
    return {
        "stored": int((written["block"] * 32 + written["thread"] == 0).sum()),
        "tape_bytes": int(written["bytes"].sum()),
        "first": int(mine["element"][0]) // COLUMNS,
    }


tape_room = Prediction(
    "15b",
    "tape_room",
    task=f"""
**How long is the tape?** The adjoint of `product` runs for a matrix of {ROUNDS} rows and {COLUMNS} columns of `float`,
in 2 blocks of 32 threads. Predict how many values of `p` one thread stores on the tape, how many bytes the tape has for
all threads together, and which of its values a thread reads first on the way back, counted from 0.
""",
    solution="""
#> stored = ...  # values of one thread
stored = 4
#<
#> tape_bytes = ...  # of all threads
tape_bytes = 1024
#<
#> first = ...  # the number of the value that is read first
first = 3
#<
""",
    run=run,
    truth=truth,
    show=lambda record: show.timeline(record, only=("x", "p_tape", "d_x")),
    hints=[
        "In which rounds is j % 8 == 0? Begin with j = 0.",
        "Each of the threads has a column of its own, and a float has 4 bytes.",
        "Rounds 0, 8, 16 and 24 are stored. The way back starts with the last rounds, so with the last value stored.",
    ],
    wrong=[
        Wrong("stored = 4", "stored = 27", "value",
              "Only every eighth round stores its p. The rounds in between are computed again."),
        Wrong("stored = 4", "stored = 3", "value",
              "The last part is not full, but it needs a start, too: rounds 0, 8, 16 and 24."),
        Wrong("stored = 4", "stored = 8", "value",
              "Eight values stay in registers for a while. On the tape is one value for each part of eight rounds."),
        Wrong("tape_bytes = 1024", "tape_bytes = 6912", "value",
              "That is a tape of all rounds. This one has a value for every eighth round of each thread."),
        Wrong("tape_bytes = 1024", "tape_bytes = 256", "value",
              "That is the number of values. A float has 4 bytes."),
        Wrong("tape_bytes = 1024", "tape_bytes = 512", "value", "There are two blocks of 32 threads."),
        Wrong("tape_bytes = 1024", "tape_bytes = 16", "value", "That is the part of one thread. There are 64."),
        Wrong("first = 3", "first = 0", "value",
              "The loop runs backwards: the last part of the rounds comes first, and begins with the last value."),
        Wrong("first = 3", "first = 24", "value",
              "That is the round in which the value was stored. Among the values of a thread it has the number 3."),
        Wrong("first = 3", "first = 4", "value", "Counted from 0, the last of four values has the number 3."),
    ],
)  # fmt: skip
