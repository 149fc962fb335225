"""11: the gradient of batch norm as three numbers for each channel."""

from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong

STEP = 1e-20  # the imaginary part of f(x + i h) is f'(x) h, without a rounding error


def channel(seed: int, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and an upstream gradient; few values with a small spread show whether eps is used."""
    rng = np.random.default_rng(seed)
    return spread * rng.standard_normal(n) + seed, rng.standard_normal(n)


def by_three(function: Any, seed: int, n: int, weight: float, spread: float, eps: float) -> Any:
    """The gradient that the reader's numbers give."""
    x, dy = channel(seed, n, spread)
    a, b, c = function(x, dy, weight, eps)
    return a * dy + b * x + c


def truth(seed: int, n: int, weight: float, spread: float, eps: float) -> np.ndarray:
    """Each value changed in turn: the slope of the sum of dy * y, without any rule for it."""
    x, dy = channel(seed, n, spread)
    slopes = np.empty(n)
    for i in range(n):
        z = x.astype(complex)
        z[i] += STEP * 1j
        distance = z - z.mean()
        y = weight * distance / np.sqrt((distance * distance).mean() + eps)
        slopes[i] = (dy * y).sum().imag / STEP
    return slopes


three_numbers = PythonExercise(
    "11",
    task=r"""
**Three numbers for each channel.** Write the gradient of batch norm as

$$dx_i = a\, dy_i + b\, x_i + c$$

with three numbers $a$, $b$ and $c$, which are the same for all values of the channel. `x` and `dy` are the $n$ values
of one channel and their upstream gradients, and `weight` is $\gamma$.
""",
    solution="""
def three_numbers(x, dy, weight, eps):
    mean = x.mean()
    sigma = np.sqrt(x.var() + eps)
    normalized = (x - mean) / sigma
    #> a, b, c = 0.0, 0.0, 0.0  # <- your code
    a = weight / sigma
    b = -a / sigma * (dy * normalized).mean()
    c = -a * dy.mean() - b * mean
    #<
    return a, b, c
""",
    hints=[
        "multiply the formula of dx out. Which terms have dy_i in them, and which have x_i?",
        "the third term holds (x_i - mean) / sigma. Its x_i belongs to b, and its mean to c.",
        "a is weight / sigma. b is -a / sigma times the mean of dy * normalized. For c, two terms are left.",
    ],
    wrong=[
        Wrong("c = -a * dy.mean() - b * mean", "c = -b * mean", "value",
              "The mean of dy is missing: every x_i moves the mean of the channel, and with it all values."),
        Wrong("c = -a * dy.mean() - b * mean", "c = -a * dy.mean()", "value",
              "b is multiplied by x_i here, and in the formula by x_i - mean: c has to take the mean off again."),
        Wrong("c = -a * dy.mean() - b * mean", "c = -a * dy.mean() + b * mean", "value",
              "b (x_i - mean) is b x_i - b mean: the sign of the last term."),
        Wrong("-a * dy.mean()", "-dy.mean()", "value",
              "The factor weight / sigma stands in front of all three terms: it belongs to the mean of dy as well."),
        Wrong("b = -a / sigma * (dy * normalized).mean()", "b = -a * (dy * normalized).mean()", "value",
              "The last term has (x_i - mean) / sigma: b needs this 1 / sigma."),
        Wrong("b = -a / sigma * (dy * normalized).mean()", "b = -a / sigma * (dy * normalized).sum()", "value",
              "It is the mean of dy * normalized: each x_i has one n-th of the standard deviation."),
        Wrong("b = -a / sigma * (dy * normalized).mean()", "b = a / sigma * (dy * normalized).mean()", "value",
              "b is negative where dy grows with x: that part of dy is taken off."),
        Wrong("a = weight / sigma", "a = 1 / sigma", "value", "weight multiplies y, and so the gradient, too."),
        Wrong("    a = weight / sigma\n", "    a = weight\n", "value",
              "A step of x_i moves the normalized value by a part of 1 / sigma."),
    ],
    call=by_three,
    truth=truth,
    given=("seed", "values", "weight", "spread", "eps"),
    cases=[(3, 5, 1.0, 1.0, 0.0), (1, 12, 2.5, 3.0, 0.1), (2, 2, -0.5, 0.1, 0.5), (0, 40, 1.5, 1.0, 1e-5)],
)  # fmt: skip
