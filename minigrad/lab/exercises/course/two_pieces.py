"""07b: a float32 as the sum of two numbers that a tensor core can read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong, numbers
from minigrad.rounding import rounded


class Factor(np.ndarray):
    """An array whose products with @ are counted. Their factors must be numbers of TF32."""

    products = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(x) for x in inputs]
        options = {key: np.asarray(value[0]) if key == "out" else value for key, value in options.items()}
        if ufunc is not np.matmul:
            return np.asarray(getattr(ufunc, method)(*plain, **options)).view(Factor)
        if any(np.any(rounded(x.astype(np.float32), "tf32") != x) for x in plain):
            raise Refused("a factor of @ is not rounded: a tensor core reads numbers of TF32 alone", "unused")
        Factor.products += 1
        return np.matmul(*plain)


def tf32(x: np.ndarray) -> Factor:
    """The nearest numbers with 10 bits after the point, in float64, so that sums of them are exact."""
    return rounded(np.asarray(x, np.float32), "tf32").astype(np.float64).view(Factor)


def watched(function: Callable, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The result of the function. Raises Refused where a product takes other numbers, or is not needed."""
    Factor.products = 0
    result = function(p.view(Factor), q.view(Factor), tf32)
    if not Factor.products:
        raise Refused("no two matrices are multiplied with @", "unused")
    if Factor.products > 3:
        raise Refused(f"it makes {Factor.products} products of two matrices, where 3 are enough", "wasteful")
    return result


def truth(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The three largest of the four products of the pieces, summed in float64 and rounded once."""
    (p1, p2), (q1, q2) = ((rounded(x, "tf32"), rounded(x - rounded(x, "tf32"), "tf32")) for x in (p, q))
    return sum(np.einsum("ij,jk->ik", x.astype(np.float64), y) for x, y in ((p1, q1), (p1, q2), (p2, q1)))


PAIRS = [
    (numbers(3, 4) / np.float32(3), numbers(4, 2, seed=1) / np.float32(7)),
    (np.array([[1 + 2**-11 + 2**-13]], np.float32), np.array([[1 - 2**-12 + 2**-15]], np.float32)),
    (np.array([[3000.1, -1e-3]], np.float32), np.array([[1 / 3], [1e5 / 7]], np.float32)),
]

two_pieces = PythonExercise(
    "07b",
    task=r"""
**Get the lost bits back.** A float32 has 23 bits after the point, and TF32 keeps 10 of them. What is lost is a
number, too: `x - tf32(x)`, and it can be rounded to TF32 in turn. So $x$ is nearly the sum of two numbers that a
tensor core can read, $x \approx x_1 + x_2$. Multiply such a sum for $p$ by one for $q$: of the four products, one is so
small that it can be left out.

Write the product of two matrices in this way, by three products of rounded matrices. `tf32(x)` rounds an array to TF32.
""",
    solution="""
def two_pieces(p, q, tf32):
    #> return tf32(p) @ tf32(q)  # <- your code: what is lost comes back
    p1, q1 = tf32(p), tf32(q)
    p2, q2 = tf32(p - p1), tf32(q - q1)
    return p1 @ q1 + p1 @ q2 + p2 @ q1
    #<
""",
    hints=[
        "p1 is tf32(p), and p2 is what it leaves of p, rounded as well.",
        "what p1 leaves of p is p - p1, and tf32 rounds it as any other array.",
        "three products with @: p1 with q1, p1 with q2, p2 with q1.",
    ],
    wrong=[
        Wrong("p1 @ q1 + p1 @ q2 + p2 @ q1", "p1 @ q1", "value",
              "That is the product in TF32 alone: p2 and q2 are not in it."),
        Wrong(" + p2 @ q1", "", "value", "p2 is left out."),
        Wrong(" + p1 @ q2", "", "value", "q2 is left out."),
        Wrong("p1 @ q2 + p2 @ q1", "p2 @ q2", "value",
              "This is the one product that is too small to matter; the two mixed ones are missing."),
        Wrong("p2 @ q1", "p2 @ q2", "value",
              "p2 is multiplied by q1."),
        Wrong("tf32(p - p1)", "tf32(p1 - p)", "value",
              "The sign: p is p1 plus p2, so p2 is p - p1."),
        Wrong("p1 @ q1 + p1 @ q2 + p2 @ q1", "p @ q", "unused",
              "A tensor core cannot read p and q as they are: multiply their pieces."),
        Wrong("p1 @ q1 + p1 @ q2 + p2 @ q1", "(p1 + p2) @ (q1 + q2)",
              "unused", "The sum of two pieces is no number of TF32: that is why there are three products."),
        Wrong("p2 @ q1", "p2 @ q1 + p2 @ q2", "wasteful",
              "The fourth product is too small to matter, and takes as long as the others."),
        Wrong("tf32(p - p1)", "p - p1", "unused", "What is lost of p has to be rounded, too."),
        Wrong("tf32(q - q1)", "tf32(q - p1)", "raised", "What is lost of q is q - q1."),
    ],
    truth=truth,
    call=watched,
    cases=PAIRS,
)  # fmt: skip
