"""16: the gradient of a kernel with branches, predicted at one point of each branch."""

import numpy as np

from minigrad.adjoint import adjoint, ladder
from minigrad.lab.exercises import Prediction, Wrong


def slopes_of_the_pressure(*energies: float) -> np.ndarray:
    """The gradient of the pressure with respect to each energy, for a constant volume of 1 and one round."""
    n = len(energies)
    zero, one, once = np.zeros(n), np.ones(n), np.ones(n, np.int32)
    arguments = [np.array(energies), zero, zero, one, zero, once, 0.2, -1e3, np.zeros(n), np.zeros(n), n]
    return adjoint(ladder("equation_of_state"), wrt=["e_old"]).vjp(*arguments, dy=[None, one], grid=1, block=n)[0]


cut_off = Prediction(
    "16",
    "cut_off",
    task=r"""
**Which branch was taken?** The volume of the gas is 1 and does not change, so the kernel reduces to this: the pressure
is $p = \frac23 e$, or 0 where that is below 0.2.

How fast does the pressure grow with the energy? Predict the gradient of $p$ with respect to $e$ at three energies. An
error of 1 % is allowed.
""",
    solution="""
#> cold = ...  # at e = 0.1
cold = 0
#<
#> warm = ...  # at e = 0.9
warm = 2 / 3
#<
#> hot = ...  # at e = 1.8
hot = 2 / 3
#<
""",
    hints=[
        "For each energy, ask first which branch the kernel takes: is two thirds of e below 0.2?",
        "Draw the pressure over the energy, from 0 to 2. Asked for is the slope of the drawing at three places.",
    ],
    wrong=[
        Wrong("cold = 0", "cold = 2 / 3", "value",
              "Two thirds of 0.1 is below the cut-off: the pressure is 0, and a little more energy leaves it at 0."),
        Wrong("cold = 0", "cold = 0.1 * 2 / 3", "value", "That is a pressure, before the cut-off. What is its slope?"),
        Wrong("cold = 0", "cold = 0.2", "value", "0.2 is the cut-off itself, not a slope."),
        Wrong("warm = 2 / 3", "warm = 0.9 * 2 / 3", "value", "That is the pressure. The gradient is its slope."),
        Wrong("warm = 2 / 3", "warm = 2 / 3 - 0.2", "value",
              "The cut-off decides which branch is taken. It takes nothing away from the pressure."),
        Wrong("hot = 2 / 3", "hot = 2 * 2 / 3", "value",
              "Twice the energy has twice the pressure, and the same slope: the line is straight."),
    ],
    run=lambda: slopes_of_the_pressure(0.1, 0.9, 1.8),
    rtol=0.01,
    truth=lambda slopes: dict(zip(("cold", "warm", "hot"), slopes, strict=True)),
)  # fmt: skip
