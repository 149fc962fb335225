"""02: the backward walk along a tape, where gradients add up."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong, slopes


class Scalar:
    """A number on a tape with its parents, and the rule that passes its gradient on to them."""

    def __init__(self, tape: list, data: float, parents: tuple = (), rule: Callable = lambda dy: ()):
        self.tape, self.data, self.parents, self.rule, self.grad = tape, data, parents, rule, 0.0
        tape.append(self)

    def __add__(self, other: "Scalar") -> "Scalar":
        return Scalar(self.tape, self.data + other.data, (self, other), lambda dy: (dy, dy))

    def __mul__(self, other: "Scalar") -> "Scalar":
        return Scalar(self.tape, self.data * other.data, (self, other), lambda dy: (dy * other.data, dy * self.data))


def gradients(walk_back: Callable, formula: str, a: float, b: float) -> np.ndarray:
    """Both gradients of a formula by the reader's walk."""
    tape: list[Scalar] = []
    eval(formula, {"a": Scalar(tape, a), "b": Scalar(tape, b)})
    walk_back(tape[::-1])
    return np.array([value.grad for value in tape[:2]])


walk_back = PythonExercise(
    "02",
    task="""
**The walk back.** You are given the values of a tape: the result first, and each value before those that it was made
from. A value has `parents`, a `grad` that starts at 0, and a `rule`: `rule(dy)` gives one portion for each parent. Hand
every gradient on. The check makes tapes of several formulas and compares with central differences.
""",
    solution="""
def walk_back(values):
    values[0].grad = 1.0
    for value in values:
        #> value.rule(value.grad)  # <- your code: where do these portions go?
        for parent, portion in zip(value.parents, value.rule(value.grad)):
            parent.grad += portion
        #<
""",
    hints=[
        "value.rule(value.grad) gives as many portions as value has parents.",
        "zip(value.parents, portions) goes through both side by side.",
        "a value that is used twice gets two portions, and they are added up.",
    ],
    wrong=[
        Wrong("    values[0].grad = 1.0\n", "", "value", "The walk starts with the gradient of the result, 1.0."),
        Wrong("parent.grad += portion", "parent.grad = portion", "value",
              "`=` forgets the portion that came before. A value that is used twice gets two: `+=`."),
        Wrong("value.rule(value.grad)", "value.rule(1.0)", "value",
              "Only the result has the gradient 1. The rule takes what has arrived here: value.grad."),
        Wrong("value.rule(value.grad)", "value.rule(value.data)", "value",
              "The rule takes the gradient that has arrived, value.grad, and not the number itself."),
        Wrong("+= portion", "+= value.grad", "value", "Each parent gets the portion that the rule has worked out."),
        Wrong("in values:", "in reversed(values):", "value",
              "A value may hand its gradient on when all of it has arrived: start with the result."),
        Wrong("zip(value.parents,", "zip(reversed(value.parents),", "value",
              "The portions come in the order of the parents."),
    ],
    truth=lambda formula, a, b: slopes(eval(f"lambda a, b: {formula}"), a, b),
    call=gradients,
    cases=[("a + b", 2.0, 3.0), ("a * b", 2.0, 3.0), ("a * a + b", 2.0, 3.0), ("(a * b + a) * b", 2.0, -3.0)],
)  # fmt: skip
