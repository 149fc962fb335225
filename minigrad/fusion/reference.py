"""A trace run operation by operation: the truth for its kernels, and what they are measured against."""

from collections.abc import Callable, Sequence
from typing import Any

from minigrad.array import Array
from minigrad.fusion.trace import Trace
from minigrad.fusion.values import Constant, Value
from minigrad.op import OPS

Pull = Callable[[Any], tuple]


def value(trace: Trace, arrays: Sequence[Any]) -> Any:
    """The output for these arrays, by the ops themselves."""
    return pullback(trace, arrays)[0]


def pullback(trace: Trace, arrays: Sequence[Any]) -> tuple[Any, Pull]:
    """The output, and what turns its gradient into those of the inputs; None for one that it does not reach."""
    made = dict(zip(map(id, trace.inputs), arrays, strict=True))
    steps = [*trace.steps, *([trace.closing] if trace.closing is not None else [])]
    pulls: list[Pull] = []
    for step in steps:
        inputs = [constant(x, arrays[0]) if isinstance(x, Constant) else made[id(x)] for x in step.inputs]
        wanted = tuple(isinstance(x, Value) and x.sample.dtype.kind == "f" for x in step.inputs)
        made[id(step)], pull = step.op.pullback(inputs, step.params, wanted)
        pulls.append(pull)

    def backward(dy: Any) -> tuple:
        arrived = {id(steps[-1] if steps else trace.output): dy}
        for step, pull in zip(reversed(steps), reversed(pulls), strict=True):
            if step.op.backward is None or (total := arrived.pop(id(step), None)) is None:
                continue
            for x, part in zip(step.inputs, pull(total), strict=True):
                if part is not None and isinstance(x, Value):
                    known = arrived.get(id(x))
                    arrived[id(x)] = part if known is None else OPS["add"].run([known, part], {})
        return tuple(arrived.get(id(x)) for x in trace.inputs)

    return made[id(steps[-1] if steps else trace.output)], backward


def constant(x: Constant, like: Any) -> Any:
    """A number of the function as an array beside this one."""
    host = x.sample.astype(like.dtype) if x.sample.dtype.kind == "f" else x.sample
    return Array.upload(like.device, host) if isinstance(like, Array) else host
