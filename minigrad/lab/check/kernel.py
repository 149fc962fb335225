"""Check a reader's kernel in place of one of an op's kernels."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError, UnfitKernel, require
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.answer import Answer, SharedRace
from minigrad.lab.check.attempt import NOT_RUN, ReaderKernel, attempt, drawn, first_wrong, observe, race_drawn
from minigrad.lab.check.compare import Pair, alone, an_op, expected, pairs, variants
from minigrad.microscope.op_kernel import OpKernel
from minigrad.op import Case, Op
from minigrad.ops.matmul.kernels import OF_BFLOAT16, TENSOR_CORES
from minigrad.rounding import rounded

ODD = 33  # threads of a block: a reduction that halves forgets one, and the last warp has one lane


class OpTrial:
    """An op's cases, with the reader's kernel in place of the op's kernel `name`.

    Legal block sizes are powers of two and whole warps; BLOCK=33, which is neither, is tried as well. A kernel that
    rounds its inputs to TF32 gets rounded ones, and those on tensor cores float32 alone.
    """

    dtypes: tuple[str, ...] = ("float32", "float64")

    def __init__(self, op: Op, name: str):
        self.op, self.name, self.kernel = op, name, op[name]
        self.cases: Sequence[Case] = op.cases
        self.precision = "tf32" if name.startswith("mma_tf32") else "float32"
        if name.startswith(TENSOR_CORES):
            inputs = (tuple(rounded(x, self.precision) for x in case.arrays("float32")) for case in op.cases)
            self.cases = [replace(case, inputs=given) for case, given in zip(op.cases, inputs, strict=True)]
            self.dtypes = ("float32",)
        forward = name in variants(op) or self.kernel is op.kernels.get("forward")
        self.names = {"y": self.kernel.outputs[0]} if forward else {}  # the name in the kernel
        self.names |= {f"input {i + 1}": f"the input {name}" for i, name in enumerate(op.inputs.names)}

    @cached_property
    def tunables(self) -> dict[str, tuple[int, ...]]:
        """The tunables of the op's kernel, with an odd block size if that kernel allows it."""
        if "BLOCK" not in (legal := self.kernel.tunables):
            return legal
        odd = self.kernel.using(BLOCK=ODD)
        try:
            wrong = any(first_wrong(self.pairs(odd, case, self.dtypes[0])) for case in self.cases)
        except (KernelError, LaunchError):
            return legal
        return legal if wrong else legal | {"BLOCK": (*legal["BLOCK"], ODD)}

    def unsupported(self) -> str:
        """The reason why the op's own kernel cannot be tried; empty if it can."""
        own = self.kernel
        if not any("asm" in text for text in own.source.texts):
            return ""
        try:
            get(check("sim")).build(own.source, own.macros(own.values, np.dtype(self.dtypes[0])), own.name)
        except CompileError as error:
            return f"{own.name} cannot be tried here. The simulator says about the one in the file:\n{error}"
        except DeviceError as error:  # this machine has no compiler
            return str(error)
        if self.name.startswith(OF_BFLOAT16) or (self.name.startswith(TENSOR_CORES) and own.tunables):
            return f"{own.name} cannot be tried here: the cases are of float32, with each tunable changed alone."
        return ""

    def through(self, kernel: Kernel) -> Op:
        """The op with this kernel, which runs wherever it can, as if chosen by its name."""
        return OpKernel(self.kernel, self.op, self.name).in_its_role(kernel)

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """Results and gradients on `sim`, paired with NumPy's in float64; none of a case that the kernel is not for."""
        op, wanted = self.through(kernel), expected(self.op, case, dtype, self.precision)
        sim = get(check("sim"))
        with suppress(UnfitKernel):
            for name, *pair in chain(pairs(op, wanted, case, sim, dtype), alone(op, wanted, case, sim, dtype)):
                yield self.names.get(name.partition(",")[0], name), *pair


def _view(trial: OpTrial, text: str, race: SharedRace | None) -> list[Any]:
    kernel = ReaderKernel(trial.kernel, text)
    return race_drawn(trial, kernel, race) or drawn(observe(trial, kernel, {}, blocks=1))


def kernel(op: Op, name: str, text: str) -> Answer:
    """Try your text in place of one of the op's kernels, in all cases and block sizes on `sim`.

    The answer names the first error, its line in the text, and the cause. After a pass its `result` is the op with your
    kernel: `check.kernel(mg.matmul, "tiled", text).result(a, b)`. The op itself does not change.
    """
    trial = OpTrial(an_op(op), require("check.kernel", name, str, "the name of one of the op's kernels"))
    require("check.kernel", text, str, "the text of a kernel")
    if why := trial.unsupported():
        return Answer(False, f"Not yet: {why}", "device")
    found = attempt(trial, text)
    if found.kind not in NOT_RUN:
        found = replace(found, view=partial(_view, trial, text, found.race), closed=not found.race)
    if not found.correct:
        return found
    mine = trial.through(found.result)
    mine.name = mine.__name__ = f"my_{op.name}"  # a name of its own on tapes and in records
    return replace(found, result=mine)
