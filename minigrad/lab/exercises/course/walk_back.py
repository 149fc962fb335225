"""02: the backward walk without a sorted tape: a value hands its gradient on when every use of it has reported."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong, slopes


class Scalar:
    """A number with its parents, the rule that passes its gradient on to them, and the number of its uses.

    A rule may be called once: a value that hands on each portion as it comes has everything behind it walked again.

    Its parents are for a walk that follows the gradients: they can be asked for when a portion has arrived.
    """

    def __init__(self, data: float, parents: tuple = (), rule: Callable = lambda dy: ()):
        self.data, self.uses = data, 0
        self._parents, self._rule, self._grad, self._waits, self._done = parents, rule, 0.0, False, False
        for parent in parents:
            parent.uses += 1
            parent._waits = True

    @property
    def parents(self) -> "tuple[Scalar, ...]":
        if self._waits:
            raise RuntimeError("the parents of a value were asked for before any gradient had arrived there")
        return self._parents

    def rule(self, dy: float) -> tuple[float, ...]:
        """One portion for each parent."""
        if self._done:
            raise RuntimeError("the rule of a value was called a second time: call it once, with the whole gradient")
        self._done = True
        return self._rule(dy)

    @property
    def grad(self) -> float:
        return self._grad

    @grad.setter
    def grad(self, value: float) -> None:
        self._grad, self._waits = value, False

    def __add__(self, other: "Scalar") -> "Scalar":
        return Scalar(self.data + other.data, (self, other), lambda dy: (dy, dy))

    def __mul__(self, other: "Scalar") -> "Scalar":
        return Scalar(self.data * other.data, (self, other), lambda dy: (dy * other.data, dy * self.data))


def gradients(walk_back: Callable, formula: str, a: float, b: float) -> np.ndarray:
    """Both gradients of a formula by the reader's walk."""
    inputs = Scalar(a), Scalar(b)
    walk_back(eval(formula, dict(zip("ab", inputs, strict=True))))
    return np.array([value.grad for value in inputs])


walk_back = PythonExercise(
    "02",
    task="""
**The walk back, without a sorted list.** You get the result alone. The check brings values of its own: each has
`parents`, a `rule` (`rule(dy)` gives one portion for each parent; a leaf's gives none), and `grad`, which starts at 0.
They have one thing more, `uses`: the number of portions that a value will be sent. `a * a` uses `a` twice, and
`(a * b + a) * b` uses `a` twice and `a * b` once.

`ready` holds the values that may hand their gradient on. Write what happens to a parent when a portion arrives: which
number changes, and when is the parent ready? No rule may be called twice. PyTorch walks its tapes this way. The check
compares with central differences.
""",
    solution="""
def walk_back(result):
    result.grad = 1.0
    ready = [result]
    while ready:
        value = ready.pop()
        for parent, portion in zip(value.parents, value.rule(value.grad)):
            #> parent.grad = portion  # <- your code: is that all?
            parent.grad += portion
            parent.uses -= 1
            if parent.uses == 0:
                ready.append(parent)
            #<
""",
    hints=[
        "a value that is used twice is sent two portions, at different times. What is its gradient?",
        "a value may hand its gradient on when the last of its portions has arrived. uses says how many there will be: "
        "count them down.",
        "three lines: add the portion, count it, and where none is missing anymore, put the parent on the list.",
    ],
    wrong=[
        Wrong("    result.grad = 1.0\n", "", "value", "The walk starts with the gradient of the result, 1.0."),
        Wrong("parent.grad += portion", "parent.grad = portion", "value",
              "`=` forgets the portion that came before. A value that is used twice gets two: `+=`."),
        Wrong("            if parent.uses == 0:\n                ready.append(parent)",
              "            ready.append(parent)", "raised",
              "A parent that is used twice goes on the list twice, and hands its first portion on two times. Wait "
              "until the last portion has arrived."),
        Wrong("            parent.uses -= 1\n", "", "value",
              "No line counts the portions, so `uses` never comes down to 0, and the walk ends too early."),
        Wrong("parent.uses -= 1", "value.uses -= 1", "value",
              "A portion has arrived at the parent: it is the parent's count that goes down."),
        Wrong("parent.uses == 0", "parent.uses <= 1", "raised",
              "With one portion still missing the parent is not ready: its gradient is not complete."),
        Wrong("            parent.uses -= 1\n            if parent.uses == 0:\n                ready.append(parent)",
              "            if parent.uses == 0:\n                ready.append(parent)\n            parent.uses -= 1",
              "value", "Count the portion first. Asked before, `uses` is still 1 when the last one arrives."),
        Wrong("    ready = [result]\n    while ready:\n        value = ready.pop()\n",
              "    tape = [result]\n    for value in tape:\n        tape += value.parents\n    for value in tape:\n",
              "raised", "This lists the tape first. Start from the result, and go on where a gradient is complete."),
        Wrong("    result.grad = 1.0\n    ready = [result]\n    while ready:\n        value = ready.pop()\n"
              "        for parent, portion in zip(value.parents, value.rule(value.grad)):\n"
              "            parent.grad += portion\n            parent.uses -= 1\n"
              "            if parent.uses == 0:\n                ready.append(parent)\n",
              "    ready = [(result, 1.0)]\n    while ready:\n        value, dy = ready.pop()\n"
              "        value.grad += dy\n        ready += zip(value.parents, value.rule(dy))\n", "raised",
              "Each portion is handed on as it comes, so everything before it is walked again and again: a chain of 30 "
              "doublings would take a billion steps. Wait until `uses` says that all have arrived."),
        Wrong("value.rule(value.grad)", "value.rule(1.0)", "value",
              "Only the result has the gradient 1. The rule takes what has arrived here: value.grad."),
        Wrong("value.rule(value.grad)", "value.rule(value.data)", "value",
              "The rule takes the gradient that has arrived, value.grad, and not the number itself."),
        Wrong("+= portion", "+= value.grad", "value", "Each parent gets the portion that the rule has worked out."),
        Wrong("zip(value.parents,", "zip(reversed(value.parents),", "value",
              "The portions come in the order of the parents."),
    ],
    truth=lambda formula, a, b: slopes(eval(f"lambda a, b: {formula}"), a, b),
    call=gradients,
    cases=[("a + b", 2.0, 3.0), ("a * b", 2.0, 3.0), ("a * a + b", 2.0, 3.0), ("(a * b + a) * b", 2.0, -3.0),
           ("(s := a * b) * s + s", 2.0, -1.0)],
)  # fmt: skip
