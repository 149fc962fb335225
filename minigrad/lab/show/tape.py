"""The tape behind a tensor, as a drawing and as text: every operation with its value and its gradient."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.devices.array import Array
from minigrad.devices.dtypes import move
from minigrad.display import table
from minigrad.errors import a
from minigrad.lab.show.draw.picture import plural
from minigrad.lab.show.draw.svg import Box, drawing
from minigrad.op import OPS
from minigrad.tensor import Tensor

SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"}
FEW = 6  # as many numbers are written out; of more, the shape is enough
CONSTANT = "constant"


@dataclass(frozen=True)
class Step:
    """One line of the tape: a leaf, or an operation on lines before it; None is an input without a gradient."""

    name: str
    op: str
    inputs: tuple[int | None, ...]
    shape: tuple[int, ...]
    value: str
    gradient: str


class Graph:
    """The tape behind a tensor. In a notebook a drawing, as text a table with the same facts."""

    def __init__(self, title: str, steps: list[Step]):
        self.title, self.steps = title, steps

    def formula(self, step: Step) -> str:
        """What was computed, in the names of the inputs: a * b."""
        names = [CONSTANT if i is None else self.steps[i].name for i in step.inputs]
        if step.op in SIGNS and len(names) == 2:
            return f"{names[0]} {SIGNS[step.op]} {names[1]}"
        return f"{step.op}({', '.join(names)})" if step.op else "leaf"

    @property
    def svg(self) -> str:
        """The drawing: inputs above, the result below."""
        scalars = all(step.shape == () for step in self.steps)
        boxes = []
        for step in self.steps:
            head = f"{step.name} = {self.formula(step)}" if step.op else f"{step.name} (leaf)"
            shape = () if scalars else (("shape", str(step.shape)),)
            rows = (*shape, ("value", step.value), ("gradient", step.gradient))
            boxes.append(Box(head, rows, step.inputs, "operation" if step.op else "leaf"))
        return drawing(self.title, boxes)

    def __repr__(self) -> str:
        rows = [(s.name, self.formula(s), s.shape, s.value, s.gradient) for s in self.steps]
        return f"{self.title}\n{table(rows, ('name', 'made by', 'shape', 'value', 'gradient'))!r}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}


def graph(tensor: Tensor, names: Mapping[str, Any] | None = None, grad: Tensor | None = None, **named: Tensor) -> Graph:
    """The tape behind a tensor, with names for its parts: `graph(y, a=a, b=b)`, or all there are, `graph(y, locals())`.

    The gradients are those that `backward(grad)` would find, and no `.grad` changes; without grad, of a tensor that is
    no scalar, those of its sum. A value is shown where somebody still holds it: the tape itself keeps only what a
    gradient needs.
    """
    root = a("graph", tensor, Tensor, "a tensor").node or tensor
    walk = tape.topological_order(root)[::-1]
    place = {id(at): i for i, at in enumerate(walk)}
    freed = any(isinstance(at, tape.Node) and at.vjp is None for at in walk)
    found = {} if freed or not tensor.requires_grad else _gradients(tensor, root, grad)
    called = _names({**named, **(names or {})})
    steps, number = [], 0
    for at in walk:
        number += id(at) not in called
        name = called.get(id(at), f"v{number}")
        inputs = tuple(None if p is None else place[id(p)] for p in getattr(at, "parents", ()))
        gradient = _numbers(found[id(at)]) if id(at) in found else _without(at, freed)
        value = at.output() if isinstance(at, tape.Node) else at.array
        op = at.op if isinstance(at, tape.Node) else ""
        steps.append(Step(name, op, inputs, tuple(at.shape), _numbers(value), gradient))
    return Graph(_title(steps, tensor, freed, grad), steps)


def _gradients(tensor: Tensor, root: tape.Parent, grad: Tensor | None) -> dict[int, Any]:
    """The gradient that reaches each node and leaf. Nothing is stored and nothing is freed."""
    ones = move(np.ones(tensor.shape, tensor.dtype), tensor.device)
    seed = ones if grad is None else tensor._seed(grad)
    return {id(at): total for at, total in tape.gradients(root, seed, lambda a, b: OPS["add"].run([a, b], {}))}


def _without(at: Any, freed: bool) -> str:
    """What to say where no gradient was computed: a leaf may still hold one of earlier."""
    if isinstance(at, Tensor) and at.grad is not None:
        return f"{_numbers(at.grad.array)} in .grad"
    return "freed" if freed else "none"


def _names(names: Mapping[str, Any]) -> dict[int, str]:
    """Names by node or leaf. The first name of a tensor counts; those that begin with _ are IPython's own."""
    called: dict[int, str] = {}
    for name, value in names.items():
        if isinstance(value, Tensor) and not name.startswith("_"):
            called.setdefault(id(value.node or value), name)
    return called


def _numbers(array: Any) -> str:
    """Few numbers as they are, many as their count."""
    if array is None:
        return "not kept"
    if array.size > FEW:
        return f"{array.size} numbers"
    host = array.numpy() if isinstance(array, Array) else array
    return _nested(host.tolist())


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return f"{value + 0:.4g}"


def _title(steps: list[Step], tensor: Tensor, freed: bool, grad: Tensor | None) -> str:
    operations = sum(bool(step.op) for step in steps)
    leaves = plural(len(steps) - operations, "leaf", "leaves")
    head = f"The tape behind {steps[-1].name}: {plural(operations, 'operation')}, {leaves}"
    if freed:
        return f"{head}. An earlier backward has freed it: no gradient can be computed from it again"
    if tensor.requires_grad and tensor.shape != () and grad is None:
        return f"{head}. Gradients of {steps[-1].name}.sum()"
    return head
