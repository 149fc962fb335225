"""Adjoint: the reverse-mode derivative of a kernel, as CUDA C++ and as something to launch."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adjoint import activity, launching
from minigrad.adjoint.assemble import assemble
from minigrad.adjoint.decisions import Decisions, decisions
from minigrad.adjoint.derive import KernelAdjoint
from minigrad.adjoint.examine import examine
from minigrad.adjoint.module import read
from minigrad.kernel import Kernel
from minigrad.kernel import kernel as compiled
from minigrad.limits import Extent
from minigrad.source import Source
from minigrad.tensor import Tensor


class Adjoint:
    """The adjoint of a kernel: given the gradients of its outputs, it adds up those of its inputs.

    source is its CUDA C++, kernel the compiled kernel, decisions the table of what is recomputed, kept or taped and of
    how each gradient is added up. outputs and wrt name the parameters whose gradients go in and come out.
    """

    def __init__(self, primal: Kernel, wrt: Sequence[str] | None = None):
        self.primal, self._examined = primal, set[tuple]()
        self.slots = launching.SLOTS
        values = {k: v for k, v in primal.values.items() if k in primal.source.tunables}
        self.defines = {**primal.defines, **values}
        self.module = read(primal.source.text, primal.source.name, primal.name, self.defines)
        self.outputs = tuple(activity.outputs(self.module.kernel))
        self.wrt = tuple(activity.default_wrt(self.module.kernel) if wrt is None else self._checked(wrt))
        made = KernelAdjoint(self.module, self.wrt)
        self.derived = made.derive()
        self.assembled = assemble(self.module, self.derived)
        self.decisions: Decisions = decisions(made, self.derived)

    def _checked(self, wrt: Sequence[str]) -> list[str]:
        """Raise ValueError where a name is no parameter with a derivative."""
        floats = [p.name for p in self.module.kernel.params if p.type in ("float", "real", "double")]
        for name in [wrt] if isinstance(wrt, str) else wrt:
            if name not in floats:
                raise ValueError(
                    f"wrt: {self.primal.name} has no floating-point parameter {name!r}; it has {', '.join(floats)}."
                )
        return [wrt] if isinstance(wrt, str) else list(wrt)

    @property
    def source(self) -> str:
        """The CUDA C++ of the adjoint, a whole `.cu` file."""
        return self.assembled.text

    @cached_property
    def kernel(self) -> Kernel:
        """The adjoint as a kernel."""
        source = Source(self.source, f"{self.assembled.name}.cu", self.primal.source.folder)
        made = Kernel(source, self.assembled.name, defines=self.defines)
        made.waits = True
        return made

    def vjp(self, *args: Any, dy: Sequence[Any], grid: Extent, block: Extent) -> list[Any]:
        """The gradients of `wrt`, in order: v^T J for v the gradients `dy` of the outputs.

        args are those of the kernel, with the values that it would start from; nothing of them is changed. They are
        tensors or arrays, and so is what comes back. grid and block are those of the kernel's own launch.

        A kernel in which two threads race for an element has no gradient. Of one without a race the adjoint has none
        either, whatever the data: it adds plainly only where the source proves that an index belongs to one thread, or
        where the kernel itself stores into the element. Whether a store such as `y[index[i]] = x[i]` races lies in the
        data. A launch on `sim` of at most 4096 threads is therefore run under the microscope first, anew for each grid,
        block and content of its integer arguments; a larger one, or one on `cuda`, is taken as free of races.

        Raises Refused at a race, and LaunchError where the number of arguments or gradients is wrong, where an array
        that is written shares memory with another, or where the launch has not the extents on which the adjoint relies.
        """
        run = launching.prepare(self.module, args, grid, block)
        launching.check_conditions(run, self.derived)
        examine(self.primal, run, self._examined)
        while True:
            made = launching.gradients_of(run, self.derived, self.outputs, dy, self.assembled.params)
            needed = launching.launch(self.kernel, run, self.assembled, self.derived, made, self.slots)
            if needed is None or (slots := int(needed.numpy()[0])) <= self.slots:
                break
            self.slots = slots  # the tapes were too short: nothing of this run counts
        made = launching.summed(run, self.derived, made)
        found = [made[name] for name in self.wrt]
        return [_like(d, args) for d in found]

    def __repr__(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        from minigrad.adjoint.page import page

        return page(self)


def _like(d: Any, args: Sequence[Any]) -> Any:
    """A gradient as the arguments are: tensor, array of a device, or NumPy array."""
    if any(isinstance(a, Tensor) for a in args):
        return Tensor(d)
    return d.numpy() if any(isinstance(a, np.ndarray) for a in args) else d


def adjoint(
    source_or_kernel: Kernel | str | Path, wrt: Sequence[str] | None = None, name: str | None = None
) -> Adjoint:
    """The reverse-mode adjoint of a kernel: `mg.adjoint(kernel, wrt=["x"])`.

    source_or_kernel is a kernel, or CUDA C++ or the path of a `.cu` file, of whose kernels `name` says which. wrt names
    the floating-point parameters to differentiate with respect to; without it, all that reach an output. Through a
    `__device__ float detach(float x) { return x; }` of the file goes no gradient. Raises Refused, with line and column,
    where the kernel is outside the differentiable subset.
    """
    if not isinstance(source_or_kernel, Kernel):
        text = str(source_or_kernel)
        source = Source(text if "__global__" in text else Path(text).read_text(), "kernel.cu")
        if name is None and len(source.kernels) != 1:
            raise ValueError(f"the source has {len(source.kernels)} kernels ({', '.join(source.kernels)}); say name=.")
        source_or_kernel = compiled(source_or_kernel, name or next(iter(source.kernels)))
    return Adjoint(source_or_kernel, wrt)
