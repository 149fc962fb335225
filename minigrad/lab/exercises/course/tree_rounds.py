"""05: the rounds and the additions of a tree."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.op import OPS


def run() -> Inspection:
    """The tree of one block."""
    return inspect(OPS["sum"]["tree"], np.ones(256, np.float32), BLOCK=256)


def truth(record: Inspection) -> dict[str, int]:
    """A round ends with a barrier; each addition writes one element of `sums`."""
    steps = record.traffic[(record.traffic["space"] == "shared") & (record.traffic["kind"] == "write")]
    added = steps[steps["phase"] > 0]
    return {
        "rounds": len(np.unique(added["phase"])),
        "additions": len(added),
        "of_thread_0": int((added["thread"] == 0).sum()),
        "of_thread_100": int((added["thread"] == 100).sum()),
    }


tree_rounds = Prediction(
    "05",
    "tree_rounds",
    task="""
**Count the tree.** A block of 256 threads adds up 256 numbers in the same way. Replace the dots: how many rounds are
there after phase 0, how many additions are made in all of them together, and how many of these are made by thread 0 and
by thread 100?
""",
    solution="""
#> rounds = ...
rounds = 8
#<
#> additions = ...
additions = 255
#<
#> of_thread_0 = ...
of_thread_0 = 8
#<
#> of_thread_100 = ...
of_thread_100 = 1
#<
""",
    run=run,
    truth=truth,
    show=lambda record: show.phases(record, "sums"),
    hints=[
        "each round leaves half as many numbers: 128, 64, 32, ... When is one left?",
        "an addition makes one number of two. How many must be made until one of 256 is left, in whatever order?",
        "thread 0 is in the front half in every round. In which rounds is thread 100 among the first 128, 64, 32, ...?",
    ],
    wrong=[
        Wrong("rounds = 8", "rounds = 256", "value",
              "That many rounds has a queue. In a tree each round leaves half of the numbers."),
        Wrong("rounds = 8", "rounds = 9", "value",
              "256, 128, 64, 32, 16, 8, 4, 2, 1 are nine counts, with eight rounds between them."),
        Wrong("rounds = 8", "rounds = 128", "value", "128 threads add in the first round alone. Halve again, until 1."),
        Wrong("additions = 255", "additions = 128", "value", "That is the first round. The next one adds 64 times."),
        Wrong("additions = 255", "additions = 8", "value",
              "8 is the number of rounds; in each of them many threads add at the same time."),
        Wrong("additions = 255", "additions = 2048", "value",
              "In a round half of the threads of the round before are at work, and not all 256."),
        Wrong("additions = 255", "additions = 256", "value",
              "An addition makes one number of two, so from 256 numbers to one it takes one addition less."),
        Wrong("of_thread_0 = 8", "of_thread_0 = 1", "value", "Thread 0 is in the front half in every round."),
        Wrong("of_thread_100 = 1", "of_thread_100 = 8", "value",
              "From the second round on only the first 64 threads add, then 32: thread 100 rests."),
        Wrong("of_thread_100 = 1", "of_thread_100 = 2", "value",
              "In the first round the threads 0 to 127 add, in the second 0 to 63: thread 100 adds once."),
    ],
)  # fmt: skip
