"""12: the logarithm that the forward pass keeps for each row, without the maximum."""

from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def scores(seed: int, rows: int, keys: int, scale: float) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal((rows, keys))


def called(function: Any, *case: Any) -> np.ndarray:
    """The weights, made again from what the function has kept: large scores show whether exp overflows."""
    s = scores(*case)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(s - np.asarray(function(s))[:, None])


def truth(*case: Any) -> np.ndarray:
    s = scores(*case)
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


log_of_total = PythonExercise(
    "12",
    task=r"""
**Forward right, backward wrong.** For each row of scores, the forward pass keeps one number $L$, so that the way back
can make the weights again as $p_j = e^{s_j - L}$. All results of the forward pass were right. But the weights that the
way back makes do not add up to 1, except in rows whose largest score happens to be 0. Mend the function. It has to work
for scores of 1000 as well.
""",
    solution="""
def log_of_total(s):
    most = s.max(axis=1)
    total = np.exp(s - most[:, None]).sum(axis=1)
    #> return np.log(total)
    return most + np.log(total)
    #<
""",
    bug=True,
    hints=[
        "p_j is exp(s_j - most) / total. Write the division as a difference in the exponent.",
        "1 / total is exp(-log(total)). So p_j = exp(s_j - most - log(total)).",
        "L is all that is taken off the score.",
    ],
    wrong=[
        Wrong("return most + np.log(total)", "return np.log(np.exp(s).sum(axis=1))", "value",
              "On paper this is the same. But exp(1000) is infinite: that is what the maximum is for."),
        Wrong("return most + np.log(total)", "return most - np.log(total)", "value",
              "Dividing by total takes log(total) off the exponent. L is taken off as a whole: most + log(total)."),
        Wrong("return most + np.log(total)", "return most", "value", "The division by total is missing: log(total)."),
        Wrong("return most + np.log(total)", "return most + total", "value",
              "A factor becomes an addend in the exponent by its logarithm: log(total)."),
        Wrong("return most + np.log(total)", "return most * np.log(total)", "value",
              "exp(a) exp(b) is exp(a + b): the two are added."),
        Wrong("most = s.max(axis=1)", "most = s.max()", "raised",
              "Each row has a largest score of its own: axis=1. That line was right."),
    ],
    call=called,
    truth=truth,
    given=("seed", "rows", "keys", "scale"),
    cases=[(0, 2, 3, 1.0), (1, 3, 5, 10.0), (2, 4, 4, 1000.0), (3, 1, 1, 5.0)],
)  # fmt: skip
