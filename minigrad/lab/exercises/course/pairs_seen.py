"""12: the pairs of a query and a key under a causal mask, predicted before they are counted."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.ops.attention import visible

QUERIES, KEYS = 4, 6


def run() -> np.ndarray:
    """Where a query sees a key, (queries, keys)."""
    return visible(np.empty((1, 1, QUERIES, 8)), np.empty((1, 1, KEYS, 8)), None, True)[0, 0]


pairs_seen = Prediction(
    "12",
    "pairs_seen",
    task="""
**How many pairs are left?** There are 4 queries and 6 keys, `causal=True`, and both lengths end together. Predict

1. the number of keys that the first query sees;
2. the number of pairs of a query and a key that it sees, in all;
3. the same for 1000 queries and 1000 keys, as a multiple of the pairs without the mask. An error of 1 % is allowed.
""",
    solution="""
#> first = ...  # keys of the first query
first = 3
#<
#> pairs = ...  # of 4 queries and 6 keys
pairs = 18
#<
#> part = ...  # of the pairs of 1000 queries and 1000 keys
part = 0.5
#<
""",
    hints=[
        "the last query stands at the place of the last key, and sees all keys. The one before it sees one less.",
        "add up the keys of all queries. The last one has 6.",
        "with 1000 and 1000 the pairs that are left form a triangle of a square.",
    ],
    wrong=[
        Wrong("first = 3", "first = 1", "value",
              "So it would be if both lengths began together. The queries are the last 4 of 6 places."),
        Wrong("first = 3", "first = 2", "value",
              "2 keys are before its own place. It sees the key of its own place, too."),
        Wrong("pairs = 18", "pairs = 10", "value",
              "1 + 2 + 3 + 4 are the pairs if both lengths began together. The first query sees 3 keys here."),
        Wrong("pairs = 18", "pairs = 24", "value", "That is all of them, without the mask."),
        Wrong("pairs = 18", "pairs = 14", "value", "A query sees the key of its own place as well: 3 + 4 + 5 + 6."),
        Wrong("part = 0.5", "part = 1", "value", "The first query sees one key of 1000."),
        Wrong("part = 0.5", "part = 0.25", "value", "The pairs that are left form a triangle: half of the square."),
    ],
    run=run,
    truth=lambda seen: {
        "first": int(seen[0].sum()), "pairs": int(seen.sum()), "part": float(np.tril(np.ones((1000, 1000))).mean()),
    },
    rtol=0.01,
    source="Counted",
)  # fmt: skip
