"""02: rules written in a loop, which all share the loop's last value."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.lab.exercises.course.walk_back import Scalar, walk_back


def outcome(weighted_sum: Callable, weights: tuple[float, ...], numbers: tuple[float, ...]) -> list[float]:
    """The value of the reader's sum y, then the gradient of each of its values, with 2 y as the result."""
    values = [Scalar(number) for number in numbers]
    total = weighted_sum(Scalar, weights, values)
    WALK_BACK(total * Scalar(2.0))
    return [total.data, *(value.grad for value in values)]


WALK_BACK = walk_back._function(walk_back._solution)  # .solution() would count as help taken
weighted_sum = PythonExercise(
    "02",
    task=r"""
**The same rule for all.** This function adds up $y = \sum_i w_i x_i$ on a tape like yours. The weights are plain
numbers, so only the values $x_i$ get a gradient. The sum comes out right; the gradients do not, as soon as there are
two weights. Find the bug and mend it. What does a rule know about `weight` at the time when it is called? The check
brings a class `Value` of its own. It walks back from $2y$: the gradient that arrives at $y$ is 2, so $x_i$ should get
$2w_i$.
""",
    solution="""
def weighted_sum(Value, weights, values):
    total = Value(0.0)
    for weight, value in zip(weights, values):
        #> term = Value(weight * value.data, (value,), lambda dy: (dy * weight,))
        term = Value(weight * value.data, (value,), lambda dy, weight=weight: (dy * weight,))
        #<
        total = total + term
    return total
""",
    hints=[
        "let it run for the weights 1, 2, 3 and print the gradients. Which number do you see three times?",
        "the rules are called on the walk back, when the loop has ended. `weight` is one variable, and it holds the "
        "last weight by then.",
        "a default value is worked out when the lambda is made: `lambda dy, weight=weight:` keeps the weight of this "
        "turn.",
    ],
    wrong=[
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy: (dy * weight,)", "value",
              "All rules look up the same variable, after the loop, when it holds the last weight."),
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy, w=weight: (dy * weight,)", "value",
              "The default keeps the weight as `w`, but the rule still reads `weight`."),
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy, weight=weight: (weight,)", "value",
              "The gradient that arrives, dy, is missing. It is not 1 where the sum is used further."),
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy, value=value: (dy * value.data,)", "value",
              "That is the gradient for the weight. Each factor gets the other one: the value gets the weight."),
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy, weight=weights[0]: (dy * weight,)", "value",
              "Now all rules use the first weight. Each needs the weight of its own turn."),
        Wrong("lambda dy, weight=weight: (dy * weight,)", "lambda dy, weight=weight: dy * weight", "raised",
              "A rule returns one portion for each parent: a tuple, also where there is a single parent."),
        Wrong("total = total + term", "total = term", "value", "All terms are added up, not only the last one kept."),
    ],
    bug=True,
    truth=lambda weights, numbers: [np.dot(weights, numbers), *(2 * weight for weight in weights)],
    call=outcome,
    given=("weights", "values"),
    parts=("y", *(f"the gradient of values[{i}]" for i in range(4))),
    cases=[((2.0,), (3.0,)), ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0)), ((0.5, -4.0, 1.5, 8.0), (2.0, 1.0, -3.0, 0.25))],
)  # fmt: skip
