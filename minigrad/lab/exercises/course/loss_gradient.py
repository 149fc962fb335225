"""09: the gradient of the loss, predicted for a network that knows nothing."""

import numpy as np

from minigrad.create import tensor
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.op import OPS

ROWS, DIGITS = 5, 10


def measure() -> np.ndarray:
    """The gradient of the logits of 5 pictures, all of them 0, for the right answers 0 to 4."""
    logits = tensor(np.zeros((ROWS, DIGITS)), requires_grad=True, device="numpy")
    OPS["cross_entropy"](logits, tensor(np.arange(ROWS), device="numpy")).backward()
    assert logits.grad is not None
    return logits.grad.numpy()


loss_gradient = Prediction(
    "09",
    "loss_gradient",
    task="""
**Before it has learned anything.** All logits of 5 pictures are 0, for each of the 10 digits. Predict the gradient of
their loss with respect to the logits of the first picture: at the digit that is right, at every other digit, and added
up over its ten digits.
""",
    solution="""
#> right = ...  # at the right digit
right = (0.1 - 1) / 5
#<
#> other = ...  # at every other digit
other = 0.1 / 5
#<
#> total = ...  # the sum over the ten digits
total = 0
#<
""",
    hints=[
        "equal logits are equal probabilities: what is the probability of each of ten digits?",
        "the rule is probability minus 1 at the right digit, and probability elsewhere. Then comes the mean.",
        "the mean over 5 pictures divides by 5. For the sum, add one right digit and nine others.",
    ],
    wrong=[
        Wrong("right = (0.1 - 1) / 5", "right = 0.1 - 1", "value", "The loss is a mean over 5 pictures: divide by 5."),
        Wrong("other = 0.1 / 5", "other = 0.1", "value", "The loss is a mean over 5 pictures: divide by 5, here too."),
        Wrong("right = (0.1 - 1) / 5", "right = (1 - 0.1) / 5", "value",
              "A larger logit at the right digit makes the loss smaller, so this gradient is negative."),
        Wrong("right = (0.1 - 1) / 5", "right = 0.1 / 5", "value",
              "At the right digit 1 is taken off the probability."),
        Wrong("right = (0.1 - 1) / 5", "right = -1 / 5", "value", "The probability is missing: 0.1 - 1."),
        Wrong("other = 0.1 / 5", "other = 0", "value",
              "The other logits count as well: each of them takes probability from the right digit."),
        Wrong("other = 0.1 / 5", "other = -0.1 / 5", "value",
              "A larger logit at a wrong digit makes the loss larger: this gradient is positive."),
        Wrong("total = 0", "total = -1 / 5", "value",
              "Nine others are 0.9 / 5 together. Add them to what you have for the right digit."),
        Wrong("total = 0", "total = right + other", "value", "There are nine other digits: right + 9 * other."),
        Wrong("total = 0", "total = 1", "value",
              "The probabilities add up to 1, but at the right digit 1 is taken off."),
        Wrong("total = 0", "total = 1 / 5", "value",
              "The probabilities add up to 1, but at the right digit 1 is taken off."),
    ],
    run=measure,
    truth=lambda grad: {
        "right": float(grad[0, 0]), "other": float(grad[0, 1]), "total": float(np.round(grad[0].sum(), 6)) + 0.0,
    },
)  # fmt: skip
