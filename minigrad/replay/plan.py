"""Plan: an op on inputs of certain specs, with its launches noted: what a call does from the second time on.

It does what `Op.__call__` does, in the same order, without the parts whose answers follow from the specs.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from minigrad import tape
from minigrad.devices.array import Array, Spec
from minigrad.replay.launches import Notes, Program
from minigrad.tensor import Tensor

if TYPE_CHECKING:
    from minigrad.op import Op

Needs = tuple[bool, ...]


class Plan:
    """An op on inputs of these specs, with these parameters."""

    def __init__(self, op: "Op", specs: Sequence[Spec], params: Mapping[str, Any]):
        self.op, self.specs, self.params = op, specs, params
        self.forward = Program(lambda *xs: (op.run(xs, params),), specs)
        self._repeat, self._output = self.forward.device.repeat, self.forward.outputs[0]
        self._shares = op.shares
        self._rules: dict[Needs, Rule] | None = {} if op.backward else None

    def call(self, tensors: Sequence[Tensor]) -> Tensor:
        """The op on these tensors, recorded where one of them wants a gradient."""
        arrays = [t.array for t in tensors]
        y = self._output(arrays, self._repeat(self.forward, arrays))  # type: ignore[misc]
        result = _tensor(y, tensors[0].version if self._shares else None)
        if self._rules is not None:
            for t in tensors:
                if t.node is not None or t._requires_grad:
                    if tape.mode.enabled:
                        self._record(tensors, result)
                    break
        return result

    def _record(self, tensors: Sequence[Tensor], result: Tensor) -> None:
        parents = tuple([t.node or (t if t._requires_grad else None) for t in tensors])
        needs = tuple([parent is not None for parent in parents])
        rule = self._rules.get(needs)  # type: ignore[union-attr]
        if rule is None:
            rule = self._rules[needs] = Rule(self, needs, result.array.spec)  # type: ignore[index]
        result.node = rule.node(tensors, parents, result)


class Rule:
    """The gradient rule of a plan, for the inputs that want a gradient."""

    def __init__(self, plan: Plan, needs: Needs, output: Spec):
        self.op, self.needs, self.shapes = plan.op, needs, tuple(spec.shape for spec in plan.specs)
        notes = Notes(output.device, 0)
        arrays = [notes.input(i, spec) for i, spec in enumerate([*plan.specs, output])]
        self.kept = self.op.keep(arrays[:-1], arrays[-1], plan.params, needs)
        self._tensors = {name: i for name, x in self.kept.items() for i, array in enumerate(arrays) if x is array}
        self._places = list(self._tensors.values())
        self._constants = {name: x for name, x in self.kept.items() if isinstance(x, Array) and x.device is not notes}
        self._programs: dict[Spec, Program] = {}  # by the spec of dy
        self._alone = partial(self.pull, ())

    def node(self, tensors: Sequence[Tensor], parents: tuple, result: Tensor) -> tape.Node:
        """The op on these tensors, recorded."""
        if not self._places:
            return tape.Node(self.op.name, parents, self._alone, (), result.array)
        all_of_it = (*tensors, result)
        kept = [all_of_it[i].array for i in self._places]
        saved = [(name, all_of_it[i].version) for name, i in self._tensors.items()]
        return tape.Node(self.op.name, parents, partial(self.pull, kept), saved, result.array)

    def pull(self, kept: Sequence[Array], dy: Array) -> Sequence[Array | None]:
        """The gradients of the inputs, from the gradient of the output and what was kept."""
        arrays = [dy, *kept, *self._constants.values()]
        program = self._programs.get(dy.spec)
        if program is None:
            program = self._programs[dy.spec] = Program(self._gradients, [array.spec for array in arrays])
        return program(arrays)

    def _gradients(self, dy: Array, *arrays: Array) -> tuple:
        named = zip([*self._tensors, *self._constants], arrays, strict=True)
        return self.op.pull(self.kept | dict(named), self.shapes, self.needs, dy)


def _tensor(array: Array, version: tape.Version | None, new: Any = object.__new__) -> Tensor:
    """Tensor(array, version=version), in half the time: every op makes one."""
    result = new(Tensor)
    result.array, result._version = array, version
    result._grad = result.node = None
    result._requires_grad = False
    return result
