"""A reader's kernel in place of one of an op's."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from minigrad.devices import check, get
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError, a
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.answer import Answer
from minigrad.lab.check.attempt import attempt, first_wrong
from minigrad.lab.check.compare import Pair, alone, an_op, expected, pairs, variants
from minigrad.op import Case, Op

ODD = 33  # threads of a block: a tree that halves forgets one, and the last warp has one lane


class OpTrial:
    """An op's own cases, with the reader's kernel under one of its names.

    The legal sizes of a block are whole warps and powers of two. One that is neither is tried beside them.
    """

    dtypes: tuple[str, ...] = ("float32", "float64")

    def __init__(self, op: Op, name: str):
        self.op, self.name, self.kernel = op, name, op[name]
        self.cases: Sequence[Case] = op.cases
        forward = name in variants(op) or self.kernel is op.kernels.get("forward")
        self.names = {"y": self.kernel.outputs[0]} if forward else {}  # the kernel's own name for it
        self.names |= {f"input {i + 1}": f"the input {name}" for i, name in enumerate(op.inputs.names)}

    @cached_property
    def tunables(self) -> dict[str, tuple[int, ...]]:
        """The kernel's own, and a block that is odd."""
        legal = self.kernel.tunables
        odd = "BLOCK" in legal and self._right(self.kernel.using(BLOCK=ODD))
        return legal | {"BLOCK": (*legal["BLOCK"], ODD)} if odd else legal

    def refused(self) -> str:
        """Why the simulator does not even run the file's own kernel; empty where it does."""
        own = self.kernel
        if not any("asm" in text for text in own.source.texts):
            return ""
        try:
            get(check("sim")).build(own.source, own.macros(own.values, np.dtype(self.dtypes[0])))
        except CompileError as error:
            return f"{own.name} cannot be tried here. Of the file's own the simulator says:\n{error}"
        except DeviceError as error:  # this machine has no compiler
            return str(error)
        return ""

    def _right(self, own: Kernel) -> bool:
        """Whether the file's own kernel is right in every case, with these tunables; then the reader's must be, too."""
        try:
            return not any(first_wrong(self.pairs(own, case, self.dtypes[0])) for case in self.cases)
        except (KernelError, LaunchError):
            return False

    def through(self, kernel: Kernel) -> Op:
        """The op with this kernel. One of the forward pass runs wherever it can, as if asked for by its name."""
        other = self.op.with_kernel(self.name, kernel)
        return other if "backward" in self.name else other.using(self.name)

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
    a("check.kernel", text, str, "the text of a kernel")
    if why := trial.refused():
        return Answer(False, f"Not yet: {why}", "device")
    found = attempt(trial, text)
    if not found.correct:
        return found
    mine = trial.through(found.result)
    mine.name = mine.__name__ = f"my_{op.name}"  # times and tapes are told from those of the package's own
    return replace(found, result=mine)
