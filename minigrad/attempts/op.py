"""A reader's kernel in place of one of an op's."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from minigrad.answer import Answer
from minigrad.attempts import attempt
from minigrad.devices import check, get
from minigrad.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.outcome import Pair, alone, an_op, expected, pairs, variants
from minigrad.require import a


class OpTrial:
    """An op's own cases, with the reader's kernel under one of its names."""

    dtypes: tuple[str, ...] = ("float32", "float64")
    thorough = False

    def __init__(self, op: Op, name: str):
        self.op, self.name, self.kernel = op, name, op[name]
        self.cases: Sequence[Case] = op.cases
        forward = name in variants(op) or self.kernel is op.kernels.get("forward")
        self.names = {"y": self.kernel.outputs[0]} if forward else {}  # the kernel's own name for it
        self.names |= {f"input {i + 1}": f"the input {name}" for i, name in enumerate(op.inputs.names)}

    def through(self, kernel: Kernel) -> Op:
        """The op with this kernel; where it can stand in for the forward one, it does."""
        other = self.op.with_kernel(self.name, kernel)
        return other.using(self.name) if self.name in variants(other) else other

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """Values and gradients beside NumPy's in float64."""
        op, wanted = self.through(kernel), expected(self.op, case, dtype)
        sim = get(check("sim"))
        for name, *pair in chain(pairs(op, wanted, case, sim, dtype), alone(op, wanted, case, sim, dtype)):
            yield self.names.get(name.partition(",")[0], name), *pair


def kernel(op: Op, name: str, text: str) -> Answer:
    """Your text in place of one of the op's kernels, over all cases and block sizes on `sim`; the file stays as it is.

    The answer says what is wrong first, on which line of the text, and why. After a pass its `result` is the op with
    your kernel: `check.kernel(mg.matmul, "tiled", text).result(a, b)`.
    """
    trial = OpTrial(an_op(op), a("check.kernel", name, str, "the name of one of the op's kernels"))
    found = attempt(trial, a("check.kernel", text, str, "the text of a kernel"))
    if not found.correct:
        return found
    mine = trial.through(found.result)
    mine.name = mine.__name__ = f"my_{op.name}"  # times and tapes are told from those of the package's own
    return replace(found, result=mine)
