"""02: a rule that needs nothing but its own output, so that the tape keeps less."""

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong

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
        Wrong("dy * y * (1 - y)", "dy * np.exp(-y) / (1 + np.exp(-y)) ** 2", "value",
              "That is the formula for x with y put into it. y is the result of the function already."),
    ],
    truth=lambda dy, y: (lambda x: dy * np.exp(-x) / (1 + np.exp(-x)) ** 2)(np.log(y / (1 - y))),
    cases=[(1.0, 0.5), (2.0, 0.25), (-3.0, 0.9), (0.5, 0.01)],
)  # fmt: skip
