"""Op: one operation, from its NumPy truth to its CUDA kernels, and the registry of all of them.

A room in `minigrad/ops/` makes one Op. The registry then gives dispatch, tests, checks and the notebook card.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Union

import numpy as np

from minigrad import tape
from minigrad.array import Array
from minigrad.case import Case
from minigrad.convert import zero_like
from minigrad.inputs import Inputs, as_tensors
from minigrad.kernel import Kernel

AnyArray = Union[np.ndarray, "Array"]
OPS: dict[str, "Op"] = {}
__all__ = ["OPS", "AnyArray", "Case", "Op", "unbroadcast"]


class Op:
    """An operation on tensors.

    forward(*arrays, **params) is the NumPy reference and its docstring the formula. backward(dy, ...) is the gradient
    rule: it names what it wants of the forward pass, and only that is kept: an input by its name, `y` the output,
    `shapes` of the inputs, a parameter, or `needs`, a tuple that says which inputs want a gradient. uses: for each
    input, the inputs that its gradient uses, where that is not all; one that no wanted gradient uses is not kept, and a
    number stands in for it.
    launch(kernels, *arrays, **params) and launch_backward(kernels, needs, dy, *kept) do the same on a device that runs
    kernels; kernels are the op's own, by name, those of the gradient by names that say "backward".
    prepare(*arrays, **params) checks shapes and completes the parameters, for every device alike. broadcasts: gradients
    are summed over what was broadcast. integers: any dtype will do.
    shares: the output is the input's memory, as in reshape. cost(*arrays, **params) counts FLOPs and bytes: each input
    read once, the output written once; backward_flops is how many times these FLOPs the gradient takes, if counted.
    fast, role -> name: kernels that run in these roles until `using` asks for others. They need not be those to read.
    """

    def __init__(
        self,
        name: str,
        forward: Callable,
        backward: Callable | None = None,
        *,
        kernels: Mapping[str, Kernel],
        launch: Callable,
        launch_backward: Callable | None = None,
        prepare: Callable | None = None,
        uses: Sequence[str] = (),
        cost: Callable | None = None,
        backward_flops: int = 0,
        broadcasts: bool = False,
        integers: bool = False,
        shares: bool = False,
        fast: Mapping[str, str] | None = None,
        cases: Sequence[Case] = (),
    ):
        self.name, self.forward, self.backward = name, forward, backward
        self.__name__, self.__doc__ = name, forward.__doc__
        self.fast = fast or {}
        self.kernels = dict(kernels)
        self.launch, self.launch_backward = launch, launch_backward
        self.prepare, self.uses, self.cost = prepare, uses, cost
        self.backward_flops = backward_flops
        self.broadcasts, self.integers, self.shares = broadcasts, integers, shares
        self.cases = tuple(cases)
        self.inputs = Inputs(name, forward)
        wanted = list(inspect.signature(backward).parameters)[1:] if backward else []
        self.keeps = [key for key in wanted if key != "needs"]
        self._asks_needs = "needs" in wanted
        OPS.setdefault(name, self)

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by name."""
        return self._kernels

    @kernels.setter
    def kernels(self, kernels: dict[str, Kernel]) -> None:
        self._kernels = kernels
        self.running = kernels | {role: kernels[name] for role, name in self.fast.items()}

    def __call__(self, *given: Any, **named: Any) -> Any:
        from minigrad.tensor import Tensor

        inputs, params = self.inputs.split(given, named)
        tensors = as_tensors(self.name, inputs, self.integers)
        arrays = [t.array for t in tensors]
        if self.prepare:
            params = self.prepare(*arrays, **params)
        y = self.run(arrays, params)
        needs = tuple(t.requires_grad for t in tensors)
        result = Tensor(y, version=tensors[0].version if self.shares else None)
        if not (self.backward and tape.grad_enabled() and any(needs)):
            return result
        kept = self._keep(arrays, y, params, needs)
        vjp = partial(self.pull, kept, tuple(a.shape for a in arrays), needs)
        result.record(self.name, tensors, vjp, self._saved(kept, tensors, result))
        return result

    def run(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> AnyArray:
        """The forward pass on arrays, on the device that they are on; nothing is recorded."""
        if isinstance(arrays[0], Array):
            return self.launch(self.running, *arrays, **params)
        with np.errstate(all="ignore"):  # as a GPU does: 1/0 is inf and log(-1) is nan, in silence
            return np.asarray(self.forward(*arrays, **params))

    def pull(self, kept: dict, shapes: tuple, needs: tuple, dy: AnyArray) -> tuple:
        """The gradients of the inputs, from the gradient of the output and what was kept."""
        if isinstance(dy, Array):
            grads = self.launch_backward(self.running, needs, dy, *kept.values())  # type: ignore[misc]
        else:
            asked = {"needs": needs} if self._asks_needs else {}
            with np.errstate(all="ignore"):
                grads = self.backward(dy, **kept, **asked)  # type: ignore[misc]
            grads = tuple(None if g is None else np.asarray(g) for g in grads)  # NumPy makes scalars where ndim is 0
        if self.broadcasts:
            grads = tuple(unbroadcast(g, s) if n else None for g, s, n in zip(grads, shapes, needs, strict=True))
        return grads

    def pullback(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> tuple[AnyArray, partial]:
        """The output, and what turns its gradient into those of the inputs: a node of the tape without the tape."""
        params = self.prepare(*arrays, **params) if self.prepare else params
        y = self.run(arrays, params)
        needs = tuple(a.dtype.kind == "f" for a in arrays)
        return y, partial(self.pull, self._keep(arrays, y, params, needs), tuple(a.shape for a in arrays), needs)

    def vjp(self, arrays: Sequence[AnyArray], dy: AnyArray, params: Mapping[str, Any]) -> tuple:
        """The gradients of the inputs for an upstream gradient, with no tape: what `check` runs."""
        return self.pullback(arrays, params)[1](dy)

    def using(self, variant: str | None = None, **tunables: int) -> "Op":
        """The same op through another kernel or block size: `matmul.using("naive")`, `relu.using(BLOCK=64)`."""
        other = copy.copy(self)
        kernels = {
            name: kernel.using(**{key: value for key, value in tunables.items() if key in kernel.tunables})
            for name, kernel in self.kernels.items()
        }
        known = {key for kernel in kernels.values() for key in kernel.tunables}
        if unknown := [key for key in tunables if key not in known]:
            raise ValueError(f"{self.name} has no tunable {unknown[0]}; it has {', '.join(sorted(known)) or 'none'}.")
        if variant is not None:
            if "backward" in self._kernel_name(variant):
                raise ValueError(f"{self.name}: {variant} is a kernel of the gradient; choose one of the forward pass.")
            kernels["forward"] = kernels[variant]
        other.fast = {} if variant or tunables else self.fast
        other.kernels = kernels
        return other

    def with_kernel(self, name: str, kernel: Kernel) -> "Op":
        """The same op with another kernel under that name: `matmul.with_kernel("tiled", mine)`."""
        other = copy.copy(self)
        other.fast, other.kernels = {}, {**self.kernels, self._kernel_name(name): kernel}
        return other

    def __getitem__(self, kernel: str) -> Kernel:
        """One of the op's kernels: `matmul["tiled"]` shows its source."""
        return self.kernels[self._kernel_name(kernel)]

    def _kernel_name(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.kernels:
            raise KeyError(f"{self.name} has no kernel {name!r}; it has {', '.join(self.kernels)}.")
        return name

    def _keep(self, arrays: Sequence[AnyArray], y: AnyArray, params: Mapping[str, Any], needs: tuple) -> dict[str, Any]:
        """What the wanted gradients name, and nothing else: the rest of the forward pass may be freed."""
        named = {} if self.inputs.variadic else dict(zip(self.inputs.names, arrays, strict=True))
        if self.uses:
            used = {name for names, need in zip(self.uses, needs, strict=True) if need for name in names.split()}
            named = {name: x if name in used else zero_like(x) for name, x in named.items()}
        available = {**named, **params, "y": y, "shapes": tuple(a.shape for a in arrays)}
        return {key: available[key] for key in self.keeps}

    def _saved(self, kept: dict, tensors: Sequence, result: Any) -> tuple[tape.Saved, ...]:
        named = [*zip(self.inputs.names, tensors, strict=False), ("y", result)]
        return tuple(tape.Saved(name, t.version) for name, t in named if kept.get(name) is t.array)

    def __repr__(self) -> str:
        from minigrad.card import text

        return text(self)

    def _repr_html_(self) -> str:
        from minigrad.card import html

        return html(self)


def unbroadcast(grad: AnyArray | None, shape: tuple[int, ...]) -> AnyArray | None:
    """Sum a gradient over the axes along which its input was broadcast: what was copied is added up again."""
    if grad is None or grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < extra or (shape[i - extra] == 1 and grad.shape[i] != 1))
    total = OPS["sum"].run([grad], {"axis": axes, "keepdims": True})
    return total.reshape(shape)
