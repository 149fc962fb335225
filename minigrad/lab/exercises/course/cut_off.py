"""16: the gradient of a kernel with branches, predicted below the cut-off, above it, and for gas that is squeezed."""

from typing import Any

import numpy as np

from minigrad.adjoint import adjoint, ladder
from minigrad.lab.exercises import Prediction, Wrong


def slopes_of_the_pressure(energies: list[float], changes: list[float]) -> np.ndarray:
    """The gradient of the pressure with respect to each energy, for a volume of 1, each change of it, and one round."""
    n = len(energies)
    zero, one, once = np.zeros(n), np.ones(n), np.ones(n, np.int32)
    arguments = [np.array(energies), zero, zero, one, np.array(changes), once, 0.2, -1e3, np.zeros(n), np.zeros(n), n]
    return adjoint(ladder("equation_of_state"), wrt=["e_old"]).vjp(*arguments, dy=[None, one], grid=1, block=n)[0]


def answers(slopes: np.ndarray) -> dict[str, Any]:
    cold, warm, squeezed = slopes
    word = "same" if np.isclose(squeezed, warm) else "more" if squeezed > warm else "less"
    return {"cold": cold, "warm": warm, "squeezed": word}


cut_off = Prediction(
    "16",
    "cut_off",
    task=r"""
**Which branch was taken?** The volume of the gas is 1. Where it does not change, the kernel reduces to this: the
pressure is $p = \frac23 e$, or 0 where that is below 0.2.

How fast does the pressure grow with the energy? Predict the gradient of $p$ with respect to $e$ at two energies. An
error of 1 % is allowed. A third gas is squeezed: its `change` is $-0.3$. The full step then adds to its energy
$0.6 \cdot$ (`p_half` + `q_half`), which both grow with the energy. Is its gradient less than that of the gas at rest
with the same energy, the same, or more?
""",
    solution="""
#> cold = ...  # at e = 0.25
cold = 0
#<
#> warm = ...  # at e = 0.9
warm = 2 / 3
#<
#> squeezed = ...  # "less", "same" or "more" than warm, at e = 0.9 and a change of -0.3
squeezed = "more"
#<
""",
    hints=[
        "For each energy, ask first which branch the kernel takes: is two thirds of e below 0.2?",
        "Draw the pressure over the energy, from 0 to 2. `cold` and `warm` are the slope of the drawing at two places.",
        "`p_half` and `q_half` come from the energy as well. Do they grow with it or fall?",
    ],
    wrong=[
        Wrong("cold = 0", "cold = 2 / 3", "value",
              "Two thirds of 0.25 are below 0.2: the pressure is 0, and a little more energy leaves it at 0."),
        Wrong("cold = 0", "cold = 0.25 * 2 / 3", "value", "That is a pressure, before the cut-off. What is its slope?"),
        Wrong("cold = 0", "cold = 0.2", "value", "0.2 is the cut-off itself, not a slope."),
        Wrong("warm = 2 / 3", "warm = 0.9 * 2 / 3", "value", "That is the pressure. The gradient is its slope."),
        Wrong("warm = 2 / 3", "warm = 2 / 3 - 0.2", "value",
              "The cut-off decides which branch is taken. It takes nothing away from the pressure."),
        Wrong('squeezed = "more"', 'squeezed = "same"', "value",
              "p_half and q_half depend on the energy, too. What they add to it grows with it."),
        Wrong('squeezed = "more"', 'squeezed = "less"', "value",
              "With more energy, p_half and q_half are larger, and the full step adds more to the energy, not less."),
    ],
    run=lambda: slopes_of_the_pressure([0.25, 0.9, 0.9], [0, 0, -0.3]),
    rtol=0.01,
    truth=answers,
)  # fmt: skip
