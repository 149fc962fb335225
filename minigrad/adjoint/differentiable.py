"""A kernel as one operation on the tape: forward is the kernel, backward its adjoint."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.effects import mentioned
from minigrad.array import Array
from minigrad.convert import copied
from minigrad.errors import LaunchError
from minigrad.kernel import Kernel
from minigrad.limits import Extent
from minigrad.tensor import Tensor


class Differentiable:
    """A kernel to be called with tensors, which returns its outputs as new tensors and records itself."""

    def __init__(self, made: Adjoint):
        self.adjoint, self.primal = made, made.primal

    def __call__(self, *args: Any, grid: Extent, block: Extent) -> Any:
        """Run the kernel on copies of its outputs; these come back, a tuple where they are several.

        args are the kernel's own. A scalar parameter may be a tensor of one element. The result's `backward` runs the
        adjoint; it raises RuntimeError where an array that the adjoint reads has been changed in place since.
        """
        params = self.adjoint.module.kernel.params
        if len(args) != len(params):
            raise LaunchError(f"{self.primal.name} takes {len(params)} arguments; got {len(args)}.")
        named = dict(zip((p.name for p in params), args, strict=True))
        values = {p.name: _value(p.pointer, named[p.name]) for p in params}
        outputs = {name: copied(values[name]) for name in self.adjoint.outputs}
        with tape.no_grad():
            self.primal(*({**values, **outputs}[p.name] for p in params), grid=grid, block=block)
        results = tuple(Tensor(outputs[name]) for name in self.adjoint.outputs)
        if tape.grad_enabled():
            self._record(named, values, results, grid, block)
        return results if len(results) > 1 else results[0]

    def _record(self, named: dict, values: dict, results: tuple[Tensor, ...], grid: Extent, block: Extent) -> None:
        """One node for each output; the gradient of a scalar parameter goes to its tensor."""
        inputs = [named[n] for n in self.adjoint.wrt if isinstance(named[n], Tensor) and named[n].requires_grad]
        if not inputs:
            return
        wanted = [n for n in self.adjoint.wrt if isinstance(named[n], Tensor) and named[n].requires_grad]
        read = mentioned(self.adjoint.derived.body)
        saved = tuple((n, t.version) for n, t in named.items() if isinstance(t, Tensor) and n in read)
        for number, result in enumerate(results):
            rule = partial(self._pull, values, wanted, number, results, grid, block)
            result.record(self.primal.name, inputs, rule, saved)

    def _pull(
        self, values: dict, wanted: list[str], number: int, results: Sequence, grid: Any, block: Any, dy: Any
    ) -> tuple:
        """The gradients of the inputs that want one."""
        like = [values[name] for name in self.adjoint.outputs]
        dys = [dy if n == number else Array.zeros(a.device, a.shape, a.dtype) for n, a in enumerate(like)]
        found = dict(
            zip(self.adjoint.wrt, self.adjoint.vjp(*values.values(), dy=dys, grid=grid, block=block), strict=True)
        )
        return tuple(found[name] for name in wanted)

    def __repr__(self) -> str:
        return f"differentiable {self.primal.name}: {', '.join(self.adjoint.wrt)} -> {', '.join(self.adjoint.outputs)}"


def _value(pointer: bool, value: Any) -> Any:
    """What the kernel takes: the array of a tensor, the number of a tensor of one element."""
    if not isinstance(value, Tensor):
        return value
    return value.array if pointer else np.asarray(value.numpy()).item()


def differentiable(
    kernel: Kernel | str | Path, wrt: Sequence[str] | None = None, name: str | None = None
) -> Differentiable:
    """A kernel with its adjoint, as an operation: `f = mg.differentiable(k); y = f(x, y0, n, grid=4, block=256)`."""
    return Differentiable(adjoint(kernel, wrt, name))
