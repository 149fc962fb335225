"""Adjoint: the reverse-mode derivative of a kernel, as CUDA C++ and as something to launch."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adjoint import activity, given, launching
from minigrad.adjoint.assemble import assemble
from minigrad.adjoint.decisions import Decisions, decisions
from minigrad.adjoint.derive_kernel import KernelAdjoint
from minigrad.adjoint.given import examine
from minigrad.adjoint.module import DEEP, parse
from minigrad.adjoint.reach import chosen, floats_decide
from minigrad.kernel import Kernel, source_of
from minigrad.kernel import kernel as compiled
from minigrad.limits import Extent
from minigrad.source import Source
from minigrad.tensor import Tensor


class Adjoint:
    """The adjoint of a kernel: given the gradients of its outputs, it adds up those of its inputs.

    source is its CUDA C++, kernels what is launched of it, decisions the table of what is recomputed, kept or taped and
    of how each gradient is added up. outputs and wrt name the parameters whose gradients go in and come out.
    """

    def __init__(self, primal: Kernel, wrt: Sequence[str] | None = None):
        self.primal, self._examined = primal, set[tuple]()
        self.slots = launching.SLOTS
        values = {k: v for k, v in primal.values.items() if k in primal.source.tunables}
        self.defines = {**primal.defines, **values}
        self.module = parse(primal.source.text, primal.source.name, primal.name, self.defines)
        try:
            self._derive(wrt)
        except RecursionError:
            raise self.module.refuse(self.module.kernel.place, DEEP) from None

    def _derive(self, wrt: Sequence[str] | None) -> None:
        self._deciding = "iubf" if floats_decide(self.module.kernel) else "iub"  # over the elements that it touches
        self.outputs = tuple(activity.outputs(self.module.kernel))
        self.wrt = chosen(self.module, wrt)
        made = KernelAdjoint(self.module, self.wrt)
        self.derived = made.derive()
        self.assembled = assemble(self.module, self.derived)
        self.decisions: Decisions = decisions(made, self.derived)

    @property
    def source(self) -> str:
        """The CUDA C++ of the adjoint, a whole `.cu` file."""
        return self.assembled.text

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The adjoint as kernels: one, or where blocks change their owner one for each such gradient."""
        source = Source(self.source, f"{self.primal.name}_adjoint.cu", self.primal.source.folder)
        made = tuple(Kernel(source, entry.name, defines=self.defines) for entry in self.assembled.entries)
        for kernel in made:
            kernel.waits = True
        return made

    def vjp(self, *args: Any, dy: Any = None, grid: Extent | None = None, block: Extent | None = None) -> list[Any]:
        """The gradients of `wrt`, in order: v^T J for v the gradients `dy` of the outputs.

        args are those of the kernel, with the values that it would start from; nothing of them is changed. They are
        tensors or arrays, and so is what comes back; a number in a tensor has a gradient of that tensor's shape and
        dtype. dy has the gradient of each of `outputs`, in order; None stands for zeros. grid and block are those of
        the kernel's own launch.

        A kernel in which two threads race for an element has no gradient. Of one without a race the adjoint has none
        either, whatever the data: it adds plainly only where the source proves that an index belongs to one thread, or
        where the kernel itself stores into the element. Whether a store such as `y[index[i]] = x[i]` races lies in the
        data. A launch on `sim` of at most 4096 threads is therefore run under the microscope first, anew for each grid,
        block and content of its integer arguments, and of its floating-point ones where these decide which elements are
        touched, as in `if (x[i] > 0) y[0] = x[i]`; a larger one, or one on `cuda`, is taken as free of races.

        Raises Refused at a race; TypeError and LaunchError for arguments and gradients that do not fit the kernel, as
        a launch of it does, and LaunchError where an array that is written shares memory with another or where the
        launch has not the extents on which the adjoint relies.
        """
        run = self.prepared(args, grid, block)
        upstream = given.upstream(run, self.outputs, dy)
        examine(self.primal, run, self._deciding, self._examined)
        while True:
            made = launching.gradients_of(run, self.derived, upstream, self.assembled)
            needed = launching.launch(self.kernels, run, self.assembled, self.derived, made, self.slots)
            if needed is None or (slots := int(needed.numpy()[0])) <= self.slots:
                break
            self.slots = slots  # the tapes were too short: nothing of this run counts
        made = launching.summed(run, self.derived, made)
        values = dict(zip((p.name for p in self.module.kernel.params), args, strict=True))
        return [_like(launching.fitted(made[name], values[name]), args) for name in self.wrt]

    def prepared(self, args: Sequence[Any], grid: Extent | None, block: Extent | None) -> launching.Run:
        """A launch of the kernel, checked. Raises TypeError or LaunchError."""
        run = given.prepare(self.primal, self.module, args, grid, block)
        launching.check_conditions(run, self.derived)
        return run

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
    the floating-point parameters to differentiate with respect to; without it, all that reach an output. An output that
    is only written counts where the data decide which of its elements are: with `if (x[i] > 0) y[i] = x[i]`, not with
    `if (i < n) y[i] = x[i]`. Of such a y, wrt=["x", "y"] gives the gradient too, that of the elements left alone.
    Through a `__device__ float detach(float x) { return x; }` of the file goes no gradient. Raises Refused, with line
    and column, where the kernel is outside the differentiable subset.
    """
    if isinstance(source_or_kernel, Kernel):
        if name not in (None, source_or_kernel.name):
            raise ValueError(f"mg.adjoint: the kernel given is {source_or_kernel.name}; name={name!r} is for a source.")
        return Adjoint(source_or_kernel, wrt)
    kernels = source_of("mg.adjoint", source_or_kernel).kernels
    if name is None and len(kernels) != 1:
        which = f"{len(kernels)} kernels ({', '.join(kernels)}); say name=" if kernels else "no kernel to differentiate"
        raise ValueError(f"the source has {which}. A kernel is `__global__ void name(...)`.")
    return Adjoint(compiled(source_or_kernel, next(iter(kernels)) if name is None else name), wrt)
