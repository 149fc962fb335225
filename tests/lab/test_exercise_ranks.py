"""Exercises about ranks: other right ways, and calls that ranks do not make together."""

import numpy as np
import pytest

from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.exercises.course.rank_step import together

EXERCISES = all_exercises()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows_of_rank", "    return np.array_split(order[k * batch :][:batch], ranks)[rank]"),
        ("rank_step", "    n = all_reduce(len(x))\n    return w - 0.1 * all_reduce(x.T @ (x @ w - y) / n)"),
        ("send_in_order", "    return [(1 + max(arrivals.index(a) for b in buckets[: n + 1] for a in b), n) "
                          "for n in range(len(buckets))]"),
    ],
)  # fmt: skip
def test_another_way_is_right(name, text):
    exercise = EXERCISES[name]
    assert exercise.check(f"{exercise.skeleton.partition(chr(10))[0]}\n{text}\n").correct


def test_a_rank_that_leaves_a_collective_out_is_known():
    exercise = EXERCISES["rank_step"]
    text = exercise.solution().replace("    dw =", "    if len(x) < 3:\n        return w\n    dw =")
    found = exercise.check(text)
    assert found.kind == "raised" and "a rank has ended, and others wait at all_reduce number 1" in found.text


def test_ranks_that_run_together_get_sums_of_equal_shapes():
    assert together(lambda x, all_reduce: all_reduce(x) + all_reduce(1), [(2,), (5,), (1,)]) == [11, 11, 11]
    with pytest.raises(RuntimeError, match="all_reduce was called with arrays of different shapes"):
        together(lambda n, all_reduce: all_reduce(np.ones(n)), [(2,), (3,)])
