"""02: a rule that needs nothing but its own output, so that the tape keeps less."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


class Plain:
    """A number that can be added, subtracted, multiplied and divided, and that no function of NumPy takes."""

    def __init__(self, number: Any):
        self.number = getattr(number, "number", number)

    def __array_ufunc__(self, function: np.ufunc, *_: Any) -> None:
        raise TypeError(f"np.{function.__name__} is not needed: the rule is made of +, - and * alone")

    def __add__(self, other: Any) -> "Plain":
        return Plain(self.number + Plain(other).number)

    def __mul__(self, other: Any) -> "Plain":
        return Plain(self.number * Plain(other).number)

    def __pow__(self, other: Any) -> "Plain":
        return Plain(self.number ** Plain(other).number)

    def __truediv__(self, other: Any) -> "Plain":
        return self * Plain(other) ** -1

    def __neg__(self) -> "Plain":
        return self * -1

    def __sub__(self, other: Any) -> "Plain":
        return self + -Plain(other)

    def __rsub__(self, other: Any) -> "Plain":
        return -self + other

    def __rtruediv__(self, other: Any) -> "Plain":
        return self**-1 * other

    __radd__, __rmul__ = __add__, __mul__


def called(logistic_backward: Callable, dy: float, y: float) -> Any:
    """The reader's rule of two plain numbers."""
    return Plain(logistic_backward(Plain(dy), Plain(y))).number


logistic_backward = PythonExercise(
    "02",
    task=r"""
**Keep less.** The logistic function $y = 1 / (1 + e^{-x})$ squeezes any number between 0 and 1. Its slope is
$e^{-x} / (1 + e^{-x})^2$, for which a tape would have to keep $x$. But $y$ is in memory anyway: the next operation uses
it. Write the rule from `dy` and `y` alone, without an exponential.
""",
    solution="""
def logistic_backward(dy, y):
    #> return dy  # <- your rule, from dy and y alone
    return dy * y * (1 - y)
    #<
""",
    hints=[
        "what is 1 - y? Write it as one fraction over 1 + exp(-x).",
        "the slope is the product of two fractions: 1 / (1 + e^-x) and e^-x / (1 + e^-x). You know both by name.",
        "one of them is y, the other one is 1 - y. Do not forget what arrives.",
    ],
    wrong=[
        Wrong("dy * y * (1 - y)", "y * (1 - y)", "value", "This is the slope alone. Multiply it by what arrives: dy."),
        Wrong("dy * y * (1 - y)", "dy * (1 - y)", "value",
              "This is one of the two fractions. The slope is their product, y times 1 - y."),
        Wrong("dy * y * (1 - y)", "dy * (1 - y * y)", "value", "That is the rule of tanh, which also needs only y."),
        Wrong("dy * y * (1 - y)", "dy * y", "value", "That is the rule of exp. Here the other fraction is missing."),
        Wrong("dy * y * (1 - y)", "dy * y * (y - 1)", "value",
              "The function grows everywhere, so its slope is above 0. Turn the difference round."),
        Wrong("dy * y * (1 - y)", "dy * np.exp(-y) / (1 + np.exp(-y)) ** 2", "raised",
              "That is the formula for x with y put into it. y is the result of the function already."),
        Wrong("return dy * y * (1 - y)", "x = np.log(y / (1 - y))\n    return dy * np.exp(-x) / (1 + np.exp(-x)) ** 2",
              "raised", "This works x out again and starts anew. What is 1 - y, written as a fraction?"),
    ],
    call=called,
    truth=lambda dy, y: (lambda x: dy * np.exp(-x) / (1 + np.exp(-x)) ** 2)(np.log(y / (1 - y))),
    cases=[(1.0, 0.5), (2.0, 0.25), (-3.0, 0.9), (0.5, 0.01)],
)  # fmt: skip
