"""00: a first gradient."""

from collections.abc import Callable

import numpy as np

from minigrad.create import tensor
from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong


def gradient_of(function: Callable, numbers: np.ndarray) -> np.ndarray:
    """x.grad after the reader's function. Raises Refused where it called no backward()."""
    x = tensor(numbers, requires_grad=True)
    function(x)
    if x.grad is None:
        raise Refused("no backward() walked back to x, so x.grad is still empty", "empty")
    return x.grad.numpy()


cube_gradient = PythonExercise(
    "00",
    task=r"""
**A gradient of your own.** Let the tape find the gradient of $y = \sum x^3$. The rate of $x^3$ is $3x^2$, so for the
tensor `x = [1, 2, 3]` it should be `[3, 12, 27]`. Change the marked line and run the cell. The answer comes at once.
""",
    solution="""
def cube_gradient(x):
    #> y = (x * x).sum()  # <- change this line
    y = (x**3).sum()
    #<
    y.backward()
    return x.grad
""",
    hints=[
        "the line makes y from x. The tape works out the rate by itself.",
        "x ** 3 works on tensors, as it does in NumPy. Keep the .sum().",
    ],
    wrong=[
        Wrong("(x**3).sum()", "(x**3).mean()", "value", "This is the mean: it divides every rate, too."),
        Wrong("(x**3).sum()", "x**3", "raised", "A gradient starts from one number: add the elements up with .sum()."),
        Wrong("(x**3).sum()", "3 * (x**2).sum()", "value",
              "This writes down the rate. Write y itself, and leave the rate to the tape."),
        Wrong("(x**3)", "(x ^ 3)", "raised", "In Python a power is `**`; `^` is for the bits of whole numbers."),
        Wrong("(x**3)", "(x.detach() ** 3)", "raised", "This y does not come from x anymore: leave x on the tape."),
        Wrong("    y.backward()\n    return x.grad", "    return 3 * x**2", "empty",
              "This is the rate, worked out by hand. Make y and let y.backward() find it."),
    ],
    truth=lambda x: 3 * x**2,
    call=gradient_of,
    cases=[([1.0, 2.0, 3.0],), ([-2.0, 0.5],)],
)  # fmt: skip
