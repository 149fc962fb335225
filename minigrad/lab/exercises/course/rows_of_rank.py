"""17: the rows of a batch that each rank takes."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def shared(rows_of_rank: Callable, n: int, batch: int, k: int, ranks: int) -> np.ndarray:
    """All rows that the ranks take of batch k, sorted, and behind them how far the ranks' numbers of rows differ."""
    order = np.random.default_rng(n).permutation(n)
    each = [np.asarray(rows_of_rank(order, batch, k, rank, ranks), dtype=int).ravel() for rank in range(ranks)]
    sizes = [len(rows) for rows in each]
    return np.array([*sorted(np.concatenate(each)), max(sizes) - min(sizes)])


def truth(n: int, batch: int, k: int, ranks: int) -> np.ndarray:
    """Those of one process; the numbers differ by one where the ranks do not divide the batch."""
    rows = np.random.default_rng(n).permutation(n)[k * batch :][:batch]
    return np.array([*sorted(rows), int(len(rows) % ranks > 0)])


rows_of_rank = PythonExercise(
    "17",
    task="""
**Whose rows are these?** `order` has all rows in an order of chance, the same on every GPU. One GPU alone would take
`order[k * batch : (k + 1) * batch]` as its batch number k; the last batch may be smaller. Share this batch out: return
the rows of the GPU number `rank`, of `ranks` GPUs. No row may be missing, none may come twice, and no GPU may have more
than one row more than another.
""",
    solution="""
def rows_of_rank(order, batch, k, rank, ranks):
    rows = order[k * batch : (k + 1) * batch]
    #> return rows  # <- your code
    return rows[rank::ranks]
    #<
""",
    hints=[
        "all GPUs have the same `rows`. Each must choose its own, by `rank` and `ranks`.",
        "deal the rows out like cards: GPU 0 gets the first, GPU 1 the second, and so on around.",
        "a slice has a start and a step: rows[start::step].",
    ],
    wrong=[
        Wrong("rows[rank::ranks]", "rows[rank::2]", "shape", "The step 2 is right for two GPUs only."),
        Wrong("rows[rank::ranks]", "rows[::ranks]", "value", "All GPUs take the same rows: each must start elsewhere."),
        Wrong("rows[rank::ranks]", "rows[rank * len(rows) // ranks :][: len(rows) // ranks]", "shape",
              "Where the GPUs do not divide the batch, rows are left out."),
        Wrong("rows[rank::ranks]", "rows[rank * -(-len(rows) // ranks) :][: -(-len(rows) // ranks)]", "value",
              "No row is missing. But the last GPU may have much fewer than the others, and all wait for the largest."),
        Wrong("rows[rank::ranks]", "rows[rank]", "shape", "That is a single row: a slice takes several."),
    ],
    call=shared,
    truth=truth,
    given=("rows", "batch", "number of the batch", "GPUs"),
    cases=[(24, 8, 1, 2), (24, 12, 0, 4), (22, 8, 2, 4), (21, 9, 1, 4)],
)  # fmt: skip
