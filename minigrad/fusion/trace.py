"""Trace: the operations of a function in their order, noted while it is called once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.convert import FLOATS, number
from minigrad.fusion.names import inputs_of
from minigrad.fusion.values import Constant, Step, Value
from minigrad.inputs import NUMBERS
from minigrad.op import Op
from minigrad.require import short

CLOSING = ("sum", "mean")  # the operations that may come last


class Trace:
    """The steps from the inputs to the output, and the sum or mean that closes them, if one does.

    Raises TypeError or ValueError for what cannot be fused.
    """

    def __init__(self, fn: Callable):
        self.own = inputs_of(fn)
        self.inputs = [Value(name, np.array(1.0)) for name in self.own.values()]
        self._noted: dict[int, Value] = {id(x): x for x in self.inputs}
        with tape.traced(self):
            output = self._checked(fn(*self.inputs))
        self.closing = output if isinstance(output, Step) and output.op.name in CLOSING else None
        self.output = self.closing.inputs[0] if self.closing is not None else output
        self.steps = self._behind(self.output)
        for number_, step in enumerate(self.steps, 1):
            step.name = f"t{number_}"

    def note(self, op: Op, inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """An operation of the function."""
        if fn := getattr(op, "fn", None):
            return fn(*inputs)  # a fused function within another
        if not op.cuda and op.name not in CLOSING:
            raise TypeError(
                f"mg.fuse: {op.name} cannot be fused: it does not make each element from one element of each input. "
                f"Fuse what is elementwise, and call {op.name} outside, before or after."
            )
        operands = self._operands(op, inputs)
        samples = [x.sample for x in operands]
        if not op.integers and (wrong := [x.dtype for x in samples if x.dtype not in FLOATS]):
            raise TypeError(
                f"mg.fuse: {op.name} takes floats; got {wrong[0]}. Write 1.0 for 1, and mg.where(x > 0, 1.0, 0.0) "
                "for the numbers of a condition."
            )
        if op.cuda:
            sample = op.run(samples, op.prepare(*samples, **params) if op.prepare else params)
        made = Step(op, operands, params, np.asarray(sample if op.cuda else samples[0]))
        self._noted[id(made)] = made
        return made

    def _operands(self, op: Op, inputs: Sequence[Any]) -> list[Value | Constant]:
        """The inputs of an operation, with numbers in the type that they would take among tensors."""
        plain = [x.item() if isinstance(x, np.generic | np.ndarray) and not x.ndim else x for x in inputs]
        values = [x for x in plain if id(x) in self._noted]
        for x in plain:
            if id(x) not in self._noted and (type(x) not in NUMBERS or not values):
                raise TypeError(
                    f"mg.fuse: {op.name} takes {short(x)}, which is no value of the function. Pass a tensor as an "
                    "argument, and random numbers too: here they would be drawn once and for all."
                )
        for x in values:
            if isinstance(x, Step) and x.op.name in CLOSING:
                raise TypeError(
                    f"mg.fuse: {op.name} comes after {x.op.name}, and a {x.op.name} comes last. "
                    f"Return the {x.op.name}, and call {op.name} on the result."
                )
        kind = values[-1].sample.dtype

        def constant(x: bool | int | float) -> Constant:
            return Constant(number(op.name, x, FLOATS[1] if type(x) is float else kind, "numpy"))

        return [constant(x) if type(x) in NUMBERS else x for x in plain]

    def _checked(self, output: Any) -> Value:
        """What the function returned. Raises TypeError where no kernel can make it."""
        if id(output) not in self._noted:
            raise TypeError(f"mg.fuse: the function returned {short(output)}; return one value, made of its arguments.")
        if output.sample.dtype not in FLOATS:
            raise TypeError(f"mg.fuse: the function returned {output.sample.dtype}; return mg.where(x > 0, 1.0, 0.0).")
        used = {id(x) for step in self._behind(output) for x in step.inputs} | {id(output)}
        if unused := [own for own, x in zip(self.own, self.inputs, strict=True) if id(x) not in used]:
            raise TypeError(f"mg.fuse: the result does not depend on {unused[0]}; leave that argument out.")
        return output

    def _behind(self, output: Any) -> list[Step]:
        """The steps that a value depends on, and itself, in their order."""
        wanted = {id(output)}
        for value in reversed(self._noted.values()):
            if id(value) in wanted and isinstance(value, Step):
                wanted |= {id(x) for x in value.inputs}
        return [x for x in self._noted.values() if id(x) in wanted and isinstance(x, Step)]
