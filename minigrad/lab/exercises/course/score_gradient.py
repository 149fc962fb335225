"""12: the gradient of softmax, row by row, with respect to the scores of attention."""

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong

STEP = 1e-20  # the imaginary part of f(x + i h) is f'(x) h, without a rounding error


def case(seed: int, rows: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and the upstream gradient of their softmax."""
    return tuple(np.random.default_rng(seed).standard_normal((2, rows, keys)))


def called(function: object, seed: int, rows: int, keys: int) -> object:
    s, dp = case(seed, rows, keys)
    weights = np.exp(s)
    return function(weights / weights.sum(axis=1, keepdims=True), dp)  # type: ignore[operator]


def truth(seed: int, rows: int, keys: int) -> np.ndarray:
    """Each score changed in turn: the slope of the sum of dp * p, without any rule for it."""
    s, dp = case(seed, rows, keys)
    ds = np.empty(s.shape)
    for at in np.ndindex(*s.shape):
        z = s.astype(complex)
        z[at] += STEP * 1j
        weights = np.exp(z)
        ds[at] = (dp * weights / weights.sum(axis=1, keepdims=True)).sum().imag / STEP
    return ds


score_gradient = PythonExercise(
    "12",
    task=r"""
**Back through the softmax.** `p` holds the weights, a row for each query, and each row adds up to 1. `dp` is the
gradient with respect to the weights. Write the gradient with respect to the scores,

$$ds_{ij} = p_{ij} \Big( dp_{ij} - \sum_t p_{it}\, dp_{it} \Big)$$

for all rows at once. `axis=1, keepdims=True` gives one sum for each row, in a column.
""",
    solution="""
def score_gradient(p, dp):
    #> return np.zeros(p.shape)  # <- your code
    mean = (p * dp).sum(axis=1, keepdims=True)
    return p * (dp - mean)
    #<
""",
    hints=[
        "first the sum of the bracket: p * dp, added up along each row. It is a mean of dp, with the weights p.",
        "keepdims=True leaves the sums as a column of shape (rows, 1), which broadcasts to all columns of dp.",
        "p * (dp - mean)",
    ],
    wrong=[
        Wrong("return p * (dp - mean)", "return p * dp", "value",
              "The sum is missing: a larger score makes the other weights of its row smaller."),
        Wrong("return p * (dp - mean)", "return dp - mean", "value",
              "The factor p is missing: a weight of nearly 0 hardly moves with its score."),
        Wrong("(p * dp).sum(axis=1, keepdims=True)", "dp.mean(axis=1, keepdims=True)", "value",
              "It is a mean with the weights p, and not with equal ones."),
        Wrong("(p * dp).sum(axis=1, keepdims=True)", "(p * dp).sum()", "value",
              "Each row has a sum of its own: axis=1, keepdims=True."),
        Wrong("axis=1", "axis=0", "value", "axis=0 adds up over the queries. The softmax goes along a row."),
        Wrong("return p * (dp - mean)", "return p * (dp + mean)", "value", "The sum is taken off: a minus."),
        Wrong("return p * (dp - mean)", "return p * (1 - p) * dp", "value",
              "That is the slope of a weight with its own score. Each score moves all weights of its row."),
    ],
    call=called,
    truth=truth,
    given=("seed", "rows", "keys"),
    cases=[(0, 2, 3), (1, 1, 1), (2, 4, 4), (3, 3, 6)],
)  # fmt: skip
