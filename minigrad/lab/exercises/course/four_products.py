"""10: Winograd's two outputs of a window of three by four multiplications, counted by numbers that count."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong

MOST = 4


@dataclass(frozen=True)
class CountingNumber:
    """A number that was made of x, of w, or of products of both, and a list that grows with each such product."""

    value: float
    made_of: str
    products: list

    def __add__(self, other: Any) -> "CountingNumber":
        return self._combined(other, self.value + getattr(other, "value", other))

    def __sub__(self, other: Any) -> "CountingNumber":
        return self._combined(other, self.value - getattr(other, "value", other))

    def __neg__(self) -> "CountingNumber":
        return self * -1

    def __mul__(self, other: Any) -> "CountingNumber":
        if not isinstance(other, CountingNumber):
            return CountingNumber(self.value * other, self.made_of, self.products)
        self.products.append(1)
        return CountingNumber(self.value * other.value, "products", self.products)

    def __truediv__(self, number: float) -> "CountingNumber":
        return self * (1 / number)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> "CountingNumber":
        return -self + other

    def _combined(self, other: Any, value: float) -> "CountingNumber":
        if isinstance(other, CountingNumber) and other.made_of != self.made_of:
            raise Refused(f"it adds a number made of {self.made_of} to one made of {other.made_of}", "value")
        return CountingNumber(value, self.made_of, self.products)


def counted(function: Callable, x: list[float], w: list[float]) -> list[float]:
    """The two outputs. Raises Refused for more than four multiplications of an x by a w."""
    products: list[int] = []
    y = function(*([CountingNumber(v, name, products) for v in values] for name, values in (("x", x), ("w", w))))
    if len(products) > MOST:
        raise Refused(f"it makes {len(products)} multiplications of a number of x by one of w, and 4 are enough",
                      "wasteful")  # fmt: skip
    return [each.value for each in y]


def truth(x: Any, w: Any) -> Any:
    return np.correlate(x, w, "valid")


four_products = PythonExercise(
    "10",
    task=r"""
**Two outputs for four multiplications.** Four neighbors $x_0 \ldots x_3$ of a row and a window $w_0, w_1, w_2$ give
the two outputs

$$y_0 = x_0 w_0 + x_1 w_1 + x_2 w_2, \qquad y_1 = x_1 w_0 + x_2 w_1 + x_3 w_2$$

which takes six multiplications. Use the four products $m_1 \ldots m_4$ of the page. The check counts: a number made of
$x$ times a number made of $w$ is a multiplication; sums, and factors such as 2 or 1/2, are free.
""",
    solution="""
def four_products(x, w):
    #> y0 = x[0] * w[0] + x[1] * w[1] + x[2] * w[2]
    #> y1 = x[1] * w[0] + x[2] * w[1] + x[3] * w[2]
    m1 = (x[0] - x[2]) * w[0]
    m2 = (x[1] + x[2]) * ((w[0] + w[1] + w[2]) / 2)
    m3 = (x[2] - x[1]) * ((w[0] - w[1] + w[2]) / 2)
    m4 = (x[1] - x[3]) * w[2]
    y0 = m1 + m2 + m3
    y1 = m2 - m3 - m4
    #<
    return y0, y1
""",
    bug=True,
    hints=[
        "m2 and m3 are in both outputs: that is where the two multiplications are saved.",
        "write m1 to m4 as four lines, each with one multiplication of a bracket of x by a bracket of w.",
        "y0 = m1 + m2 + m3 and y1 = m2 - m3 - m4.",
    ],
    wrong=[
        Wrong("(w[0] - w[1] + w[2]) / 2", "(w[0] + w[1] - w[2]) / 2", "value",
              "In m3 the middle number of the window has the minus."),
        Wrong("(w[0] + w[1] + w[2]) / 2", "w[0] + w[1] + w[2]", "value", "The half of m2 is missing."),
        Wrong("(x[2] - x[1])", "(x[1] - x[2])", "value", "m3 begins with x[2] - x[1]."),
        Wrong("y1 = m2 - m3 - m4", "y1 = m2 + m3 - m4", "value", "In y1, m3 is subtracted."),
        Wrong("y1 = m2 - m3 - m4", "y1 = m2 - m3 + m4", "value", "In y1, m4 is subtracted."),
        Wrong("y1 = m2 - m3 - m4", "y1 = x[1] * w[0] + x[2] * w[1] + x[3] * w[2]", "wasteful",
              "y1 has m2 and m3 in common with y0: use them again."),
        Wrong("m1 + m2 + m3\n", "m1 + m2 + m3 + m4\n", "value", "y0 does without m4: it knows nothing of x[3]."),
    ],
    truth=truth,
    cases=[([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0]), ([0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0]),
           ([2.0, -1.0, 0.5, 3.0], [-1.0, 4.0, 2.0]), ([5.0, 5.0, 5.0, 5.0], [0.0, 0.0, 2.0])],
    call=counted,
    parts=("y0", "y1"),
)  # fmt: skip
