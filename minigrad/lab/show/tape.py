"""The tape behind a tensor, as a drawing and as text: every operation with its value and its gradient."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.devices.array import Array
from minigrad.devices.dtypes import move
from minigrad.display import plural, table
from minigrad.errors import require
from minigrad.lab.show.draw.svg import Box, drawing
from minigrad.op import OPS
from minigrad.tensor import Tensor

SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"}
FEW = 6  # numbers that are written out; of more, only their count


@dataclass(frozen=True)
class TapeRow:
    """A leaf, or an operation on rows before it; an input is None where it needs no gradient."""

    name: str
    op: str
    inputs: tuple[int | None, ...]
    shape: tuple[int, ...]
    value: str
    gradient: str


@dataclass(frozen=True, repr=False)
class TapeDrawing:
    """The tape behind a tensor. In a notebook a drawing, as text a table with the same facts."""

    title: str
    rows: list[TapeRow]

    def formula(self, row: TapeRow) -> str:
        """The operation in the names of its inputs: a * b."""
        names = ["constant" if i is None else self.rows[i].name for i in row.inputs]
        if row.op in SIGNS and len(names) == 2:
            return f"{names[0]} {SIGNS[row.op]} {names[1]}"
        return f"{row.op}({', '.join(names)})" if row.op else "leaf"

    @property
    def svg(self) -> str:
        """The drawing: inputs above, the result below."""
        scalars = all(row.shape == () for row in self.rows)
        boxes = []
        for row in self.rows:
            head = f"{row.name} = {self.formula(row)}" if row.op else f"{row.name} (leaf)"
            shape = () if scalars else (("shape", str(row.shape)),)
            lines = (*shape, ("value", row.value), ("gradient", row.gradient))
            boxes.append(Box(head, lines, row.inputs, "operation" if row.op else "leaf"))
        return drawing(self.title, boxes)

    def __repr__(self) -> str:
        rows = [(r.name, self.formula(r), r.shape, r.value, r.gradient) for r in self.rows]
        return f"{self.title}\n{table(rows, ('name', 'made by', 'shape', 'value', 'gradient'))!r}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}


def graph(
    tensor: Tensor, names: Mapping[str, Any] | None = None, grad: Tensor | None = None, **named: Tensor
) -> TapeDrawing:
    """The tape behind a tensor, with names for its parts: `graph(y, a=a, b=b)`, or every name, `graph(y, locals())`.

    The gradients are those that `backward(grad)` would compute, and no `.grad` changes; without grad, a tensor that is
    no scalar is summed first. A value is shown while its tensor is alive: the tape itself saves only the values that a
    gradient needs.
    """
    root = require("graph", tensor, Tensor, "a tensor").node or tensor
    topo = tape.topological_order(root)[::-1]
    position = {id(at): i for i, at in enumerate(topo)}
    freed = any(isinstance(at, tape.Node) and at.vjp is None for at in topo)
    gradients = {} if freed or not tensor.requires_grad else _gradients(tensor, root, grad)
    known: dict[int, str] = {}  # names by id of node or leaf, of several the first; IPython's own begin with _
    for name, value in {**named, **(names or {})}.items():
        if isinstance(value, Tensor) and not name.startswith("_"):
            known.setdefault(id(value.node or value), name)
    rows, number = [], 0
    for at in topo:
        number += id(at) not in known
        name = known.get(id(at), f"v{number}")
        inputs = tuple(None if p is None else position[id(p)] for p in getattr(at, "parents", ()))
        gradient = _numbers(gradients[id(at)]) if id(at) in gradients else "freed" if freed else "none"
        if id(at) not in gradients and isinstance(at, Tensor) and at.grad is not None:  # from an earlier backward
            gradient = f"{_numbers(at.grad.array)} in .grad"
        output, op = (at.output(), at.op) if isinstance(at, tape.Node) else (at.array, "")
        rows.append(TapeRow(name, op, inputs, tuple(at.shape), _numbers(output), gradient))
    return TapeDrawing(_title(rows, tensor, freed, grad), rows)


def _gradients(tensor: Tensor, root: tape.Parent, grad: Tensor | None) -> dict[int, Any]:
    """The gradient of each node and leaf, by id. Changes no `.grad` and frees nothing."""
    ones = move(np.ones(tensor.shape, tensor.dtype), tensor.device)
    seed = ones if grad is None else tensor._seed(grad)
    return {id(at): total for at, total in tape.gradients(root, seed, lambda a, b: OPS["add"].run([a, b], {}))}


def _numbers(array: Any) -> str:
    """Few numbers written out, many as their count."""
    if array is None:
        return "not kept"
    if array.size > FEW:
        return f"{array.size} numbers"
    return _nested((array.numpy() if isinstance(array, Array) else array).tolist())


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else f"{value + 0:.4g}"


def _title(rows: list[TapeRow], tensor: Tensor, freed: bool, grad: Tensor | None) -> str:
    operations = sum(bool(row.op) for row in rows)
    leaves = plural(len(rows) - operations, "leaf", "leaves")
    head = f"The tape behind {rows[-1].name}: {plural(operations, 'operation')}, {leaves}"
    if freed:
        return f"{head}. An earlier backward has freed it: no gradient can be computed from it again"
    if tensor.requires_grad and tensor.shape != () and grad is None:
        return f"{head}. Gradients of {rows[-1].name}.sum()"
    return head
