"""17: a data-parallel step that forgets to average, for batches of different sizes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


class Waits(BaseException):
    """A rank has come to a call of all_reduce whose result is not known yet; no `except` of a reader takes it."""


def together(function: Callable, each: list[tuple]) -> list[Any]:
    """The results of a function on ranks with these arguments, and all_reduce behind them.

    Each rank runs from its start again until the sum is known at which it waited before. Raises RuntimeError where a
    rank has ended and another waits.
    """
    sums: list[Any] = []
    while True:
        waiting, results = list[Any](), list[Any]()
        for arguments in each:
            try:
                results.append(function(*arguments, partial(_all_reduce, iter(sums), waiting)))
            except Waits:
                continue
        if not waiting:
            return results
        if results:
            raise RuntimeError(f"a rank has ended, and others wait at all_reduce number {len(sums) + 1}")
        if len({np.shape(x) for x in waiting}) > 1:
            raise RuntimeError("all_reduce was called with arrays of different shapes")
        sums.append(sum(waiting))


def _all_reduce(known: Iterator[Any], waiting: list[Any], x: Any) -> Any:
    """The next known sum; without one the rank waits with its x."""
    for total in known:
        return total
    waiting.append(x)
    raise Waits


def batches(sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, list[tuple]]:
    """Weights, and the rows and wanted values of each rank."""
    rng = np.random.default_rng(seed)
    w = rng.integers(-3, 4, 3).astype(float)
    return w, [(rng.integers(-3, 4, (n, 3)).astype(float), rng.integers(-3, 4, n).astype(float)) for n in sizes]


def run(rank_step: Callable, sizes: tuple[int, ...], seed: int) -> np.ndarray:
    """The new weights on every rank."""
    w, parts = batches(sizes, seed)
    return np.array(together(partial(rank_step, w, len(sizes)), parts))


def truth(sizes: tuple[int, ...], seed: int) -> np.ndarray:
    """One process with all rows."""
    w, parts = batches(sizes, seed)
    x, y = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    return np.tile(w - 0.1 * (x * (x @ w - y)[:, None]).mean(axis=0), (len(sizes), 1))


rank_step = PythonExercise(
    "17",
    task="""
**Forgot to average.** All ranks run this function, each with rows of its own: a step of gradient descent for the loss
$(x \\cdot w - y)^2 / 2$, averaged over the rows. `all_reduce(a)` is the sum of `a` over all ranks. It was
written in a hurry, and with more ranks the training explodes. Mend it: the new `w` must be that of one process with
the rows of all ranks, also in the last step of an epoch, in which some ranks have fewer rows than others.
""",
    solution="""
def rank_step(w, ranks, x, y, all_reduce):
    #> dw = x.T @ (x @ w - y) / len(x)
    #> dw = all_reduce(dw)
    dw = all_reduce(x.T @ (x @ w - y)) / all_reduce(len(x))
    #<
    return w - 0.1 * dw
""",
    bug=True,
    hints=[
        "with two ranks and two rows each: what does one process divide by, and what do these two lines divide by?",
        "the sum of two means is twice the mean. So the step is as many times too long as there are ranks.",
        "dividing by the number of ranks is right where all have equally many rows. A rank with one row must count "
        "less than one with three.",
        "the mean over all rows is the sum over all rows, divided by the number of all rows. Both are sums over the "
        "ranks.",
    ],
    wrong=[
        Wrong("all_reduce(x.T @ (x @ w - y)) / all_reduce(len(x))", "all_reduce(x.T @ (x @ w - y) / len(x)) / ranks",
              "value", "That is the mean of the ranks' means. It is right where all have equally many rows; here a row "
              "of a small batch counts more than one of a large batch."),
        Wrong("all_reduce(len(x))", "ranks", "value",
              "The sum over all rows is divided by the number of ranks, and not by that of the rows."),
        Wrong("all_reduce(len(x))", "len(x)", "value",
              "Each rank divides by the number of its own rows, so the ranks get different weights."),
        Wrong("all_reduce(x.T @ (x @ w - y)) / all_reduce(len(x))", "x.T @ (x @ w - y) / len(x)", "value",
              "Without all_reduce each rank trains alone, and the ranks' weights drift apart."),
        Wrong("    dw = all_reduce(x.T", "    if len(x) < 2:\n        return w\n    dw = all_reduce(x.T", "raised",
              "A rank that leaves out a collective lets all others wait for ever."),
    ],
    call=run,
    truth=truth,
    given=("rows of each rank", "seed"),
    parts=(),
    cases=[((4, 4), 0), ((3, 1), 1), ((2, 2, 1), 2)],
)  # fmt: skip
