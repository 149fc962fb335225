"""`mg.differentiable`: a kernel as one operation on the tape; backward launches its adjoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minigrad import tape
from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.language.ast import is_float, own_name
from minigrad.adjoint.language.dataflow import names_used, written
from minigrad.adjoint.run import arguments, fitted, named
from minigrad.devices.dtypes import copied, device_of, move
from minigrad.kernels.extents import Extent
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import refuse_names
from minigrad.tensor import Tensor


class Differentiable:
    """A kernel called with tensors, which returns its outputs as new tensors and records itself on the tape.

    adjoint is with respect to `wrt`; without it, others are derived where more of the tensors want a gradient.
    """

    def __init__(self, made: Adjoint):
        self.adjoint, self.primal = made, made.primal
        self._adjoints = {made.wrt: made}
        kernel = made.file.kernel
        stored = written(kernel.body)
        inner = [p for p in kernel.params if p.pointer and p.name in stored and not is_float(p.type)]
        self._in_place = {own_name(p.name) for p in inner} - set(made.outputs)

    def __call__(
        self, *args: Any, grid: Extent | None = None, block: Extent | None = None, shared: int = 0, **other: Any
    ) -> Any:
        """Run the kernel on copies of its outputs and return these, a tuple if there are several.

        args are the kernel's own; a scalar parameter may be a tensor of one element. An array of integers or bools that
        the kernel writes is changed in place, and the adjoint starts from a copy of its old values. Raises TypeError or
        LaunchError as `vjp` does. The result's `backward` runs the adjoint; it raises RuntimeError where an array that
        the adjoint reads has been changed in place since.
        """
        refuse_names(self.primal, other)
        run = self.adjoint.prepared(args, grid, block, shared)
        outputs = {name: copied(run.arrays[name]) for name in self.adjoint.given(args).outputs}
        tensors = {n: t for n, t in named(self.primal, run.file.kernel, args).items() if isinstance(t, Tensor)}
        after = run.arrays | outputs | {n: tensors[n] for n in self._in_place if n in tensors}
        before = dict(run.arrays)
        if tape.grad_enabled():
            before |= {n: copied(run.arrays[n]) for n in self._in_place & run.arrays.keys()}
        extents: dict[str, Any] = {"grid": grid, "block": block, "shared": shared}
        with tape.no_grad():
            self.primal(*arguments(self.primal, run, after), **extents)
        results = tuple(map(Tensor, outputs.values()))
        if tape.grad_enabled():
            self._record(tensors, results, arguments(self.primal, run, before), extents)
        return results if len(results) > 1 else results[0]

    def _record(self, tensors: dict[str, Tensor], results: Sequence[Tensor], values: list, extents: dict) -> None:
        """Record one node for the kernel, and after it one for each of several outputs, so that the adjoint runs once.

        values: the arguments with which the adjoint starts. The gradient of a scalar parameter goes to its tensor.
        """
        made = self._adjoint_of([n for n, t in tensors.items() if t.requires_grad]).given(values)
        wanted = {n: tensors[n] for n in made.wrt if n in tensors and tensors[n].requires_grad}
        if not wanted:
            return

        def pull(dy: Any) -> list:
            gradients = made.vjp(*values, dy=dy if isinstance(dy, tuple) else [dy], **extents)
            found = {n: fitted(d, wanted[n]) for n, d in zip(made.wrt, gradients, strict=True) if n in wanted}
            return [d if device_of(d) == wanted[n].device else move(d, wanted[n].device) for n, d in found.items()]

        read = set(map(own_name, names_used(made.derived.body))) - self._in_place
        saved = [(n, t.version) for n, t in tensors.items() if n in read]
        results[0].record(self.primal.name, [*wanted.values()], pull, saved)
        if results[0].node and len(results) > 1:
            nodes = tape.outputs(results[0].node, [t.array for t in results])
            for result, own in zip(results, nodes, strict=True):
                result.node = own

    def _adjoint_of(self, names: list[str]) -> Adjoint:
        """The adjoint with respect to these parameters at least, unless `wrt` was passed."""
        if self.adjoint.narrowed or set(names) <= set(self.adjoint.wrt):
            return self.adjoint
        wrt = tuple(p.name for p in self.adjoint.file.kernel.own if p.name in {*names, *self.adjoint.wrt})
        if wrt not in self._adjoints:
            self._adjoints[wrt] = Adjoint(self.primal, wrt)
        return self._adjoints[wrt]

    def __repr__(self) -> str:
        return f"differentiable {self.primal.name}: {', '.join(self.adjoint.wrt)} -> {', '.join(self.adjoint.outputs)}"


def differentiable(
    kernel: Kernel | str | Path, name: str | Sequence[str] | None = None, wrt: Sequence[str] | None = None
) -> Differentiable:
    """A kernel as a differentiable operation: `f = mg.differentiable(k); y = f(x, y0, n, grid=4, block=256)`.

    The arguments are those of `mg.adjoint`. Every tensor that requires a gradient gets one, the initial values of an
    output and arrays to which a struct points included, but no number in a struct; with `wrt`, only those it names.
    """
    return Differentiable(adjoint(kernel, name, wrt))
