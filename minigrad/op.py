"""Case: one call to try an op with. A room lists its cases; tests and checks run them all."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, Union

import numpy as np

from minigrad import rounding, tape
from minigrad.call import Inputs, as_tensors, for_numbers, kinds
from minigrad.devices.array import Array
from minigrad.devices.caches import Memo
from minigrad.devices.dtypes import has_gradient, zero_like
from minigrad.kernels.kernel import Kernel
from minigrad.replay.launches import Unplanned

__all__ = ["OPS", "AnyArray", "Case", "Op", "unbroadcast"]


@dataclass(frozen=True)
class Case:
    """One call to try an op with: shapes or arrays as inputs, and its parameters.

    A shape stands for standard normal numbers; `positive` makes them positive and bounded away from 0.
    """

    inputs: tuple
    params: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False

    def arrays(self, dtype: Any = np.float64, seed: int = 0) -> list[np.ndarray]:
        """The inputs as NumPy arrays. Arrays given with an integer or bool dtype keep it."""
        rng = np.random.default_rng(seed)
        return [self._array(given, dtype, rng) for given in self.inputs]

    def _array(self, given: Any, dtype: Any, rng: np.random.Generator) -> np.ndarray:
        if isinstance(given, np.ndarray):
            return given.astype(dtype) if given.dtype.kind == "f" else given
        numbers = rng.standard_normal(given)
        return np.asarray(np.abs(numbers) + 0.5 if self.positive else numbers, dtype)

    def __str__(self) -> str:
        shapes = [str(g) if isinstance(g, tuple) else f"{g.dtype}{g.shape}" for g in self.inputs]
        return " ".join([*shapes, *(f"{key}={value}" for key, value in self.params.items())])


AnOp = TypeVar("AnOp", bound="Kernels")


class Kernels:
    """The part of an Op that holds its kernels, and what was planned with them."""

    name: str
    fast: Mapping[str, str]
    _plans: Memo

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The op's own kernels by name. With others, what was planned is worked out anew."""
        return self._kernels

    @kernels.setter
    def kernels(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels, self._plans = MappingProxyType(dict(kernels)), Memo()
        self.running = {**kernels, **{role: kernels[name] for role, name in self.fast.items()}}

    def using(self: AnOp, variant: str | None = None, **tunables: int) -> AnOp:
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

    def with_kernel(self: AnOp, name: str, kernel: Kernel) -> AnOp:
        """The same op with another kernel under that name, `matmul.with_kernel("tiled", mine)`: in all its roles.

        The fast kernels stand back, so that it runs; where it is one of them, it keeps its own roles.
        """
        other, old = copy.copy(self), self[name]
        other.fast = {role: fast for role, fast in self.fast.items() if self.kernels[fast] is old}
        other.kernels = {key: kernel if each is old else each for key, each in self.kernels.items()}
        return other

    def __getitem__(self, kernel: str) -> Kernel:
        """One of the op's kernels: `matmul["tiled"]` shows its source."""
        return self.kernels[self._kernel_name(kernel)]

    def _kernel_name(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.kernels:
            raise KeyError(f"{self.name} has no kernel {name!r}; it has {', '.join(self.kernels)}.")
        return name


AnyArray = Union[np.ndarray, "Array"]
OPS: dict[str, "Op"] = {}


class Op(Kernels):
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
    cuda: one element of y in CUDA C++, then of each input's gradient, in terms of the inputs, y and dy; None for none.
    What has it can be part of a fused kernel, see `mg.fuse`. listed: whether it joins the registry.
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
        cuda: Sequence[str | None] = (),
        cases: Sequence[Case] = (),
        listed: bool = True,
    ):
        self.name, self.forward, self.backward = name, forward, backward
        self.__name__, self.__doc__ = name, forward.__doc__
        self.fast, self.kernels = fast or {}, kernels
        self.launch, self.launch_backward = launch, launch_backward
        self.prepare, self.uses, self.cost, self.backward_flops = prepare, uses, cost, backward_flops
        self.broadcasts, self.integers, self.shares = broadcasts, integers, shares
        self.cuda, self.cases, self.listed = tuple(cuda), tuple(cases), listed
        self.inputs = Inputs(name, forward)
        wanted = list(inspect.signature(backward).parameters)[1:] if backward else []
        self.keeps, self._asks_needs = [key for key in wanted if key != "needs"], "needs" in wanted
        if listed:
            OPS.setdefault(name, self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        try:
            key = tuple([x.array.spec for x in given]) if not named else kinds(given, named)
        except AttributeError:  # a number among them
            key = kinds(given, named)
        if key and rounding.mode.precision != "float32":
            key = (rounding.mode.precision, *key)
        if call := self._plans.get(key):
            return call(given)
        inputs, params = self.inputs.split(given, named)
        if trace := tape.trace():
            return trace.note(self, inputs, params)
        tensors = as_tensors(self.name, inputs, self.integers)
        if self.prepare:
            params = self.prepare(*(t.array for t in tensors), **params)
        first = tensors[0].array
        if isinstance(first, Array) and first.device.repeats:
            plan = self._plan([t.array for t in tensors], params)
            call = plan.call if plan else partial(self._apply, params=params)
            if key and len(given) == len(inputs):  # no parameter by its place
                self._plans.keep(key, for_numbers(self.name, call, given))
            return call(tensors)
        return self._apply(tensors, params)

    def _apply(self, tensors: Sequence, params: Mapping[str, Any]) -> Any:
        """The op on tensors, recorded where one of them wants a gradient."""
        from minigrad.tensor import Tensor

        arrays = [t.array for t in tensors]
        y = self.run(arrays, params)
        needs = tuple(t.requires_grad for t in tensors)
        result = Tensor(y, version=tensors[0].version if self.shares else None)
        if self.backward and tape.grad_enabled() and any(needs):
            kept = self.keep(arrays, y, params, needs)
            vjp = partial(self.pull, kept, tuple(a.shape for a in arrays), needs)
            result.record(self.name, tensors, vjp, self._saved(kept, tensors, result))
        return result

    def _plan(self, arrays: Sequence[Array], params: Mapping[str, Any]) -> Any:
        """The op with its launches noted, for inputs like these; None where they cannot be repeated."""
        from minigrad.replay.plan import Plan

        inputs = [x.spec for x in arrays]
        named = ((name, type(v), str(v) if type(v) is float else v) for name, v in params.items())
        key = ("plan", *inputs, *named)  # no call has such a key; by name and type, for 1 is True and 0.0 is -0.0
        try:
            if (plan := self._plans.get(key)) is None:
                plan = self._plans.keep(key, Plan(self, inputs, params))
        except TypeError:  # a slice is no key of a dict before Python 3.12
            return None
        except Unplanned:
            plan = self._plans.keep(key, False)
        return plan

    def run(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> AnyArray:
        """The forward pass on arrays, on the device that they are on; nothing is recorded."""
        if isinstance(arrays[0], Array):
            if arrays[0].device.repeats and (plan := self._plan(arrays, params)):  # type: ignore[arg-type]
                return plan.forward(arrays)[0]
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

    def pullback(
        self, arrays: Sequence[AnyArray], params: Mapping[str, Any], needs: tuple[bool, ...] | None = None
    ) -> tuple[AnyArray, partial]:
        """The output, and what turns its gradient into those of the inputs: a node of the tape without the tape."""
        params = self.prepare(*arrays, **params) if self.prepare else params
        y = self.run(arrays, params)
        needs = needs or tuple(has_gradient(a.dtype) for a in arrays)
        return y, partial(self.pull, self.keep(arrays, y, params, needs), tuple(a.shape for a in arrays), needs)

    def vjp(self, arrays: Sequence[AnyArray], dy: AnyArray, params: Mapping[str, Any]) -> tuple:
        """The gradients of the inputs for an upstream gradient, with no tape: what `check` runs."""
        return self.pullback(arrays, params)[1](dy)

    def keep(self, arrays: Sequence[AnyArray], y: AnyArray, params: Mapping[str, Any], needs: tuple) -> dict[str, Any]:
        """What the wanted gradients name, and nothing else: the rest of the forward pass may be freed."""
        named = {} if self.inputs.variadic else dict(zip(self.inputs.names, arrays, strict=True))
        if self.uses:
            used = {name for names, need in zip(self.uses, needs, strict=True) if need for name in names.split()}
            named = {name: x if name in used else zero_like(x) for name, x in named.items()}
        available = {**named, **params, "y": y, "shapes": tuple(a.shape for a in arrays)}
        return {key: available[key] for key in self.keeps}

    def _saved(self, kept: dict, tensors: Sequence, result: Any) -> tuple[tape.Saved, ...]:
        named = [*zip(self.inputs.names, tensors, strict=False), ("y", result)]
        return tuple((name, t.version) for name, t in named if kept.get(name) is t.array)

    def __repr__(self) -> str:
        from minigrad.display import text

        return text(self)

    def _repr_html_(self) -> str:
        from minigrad.display import html

        return html(self)


def unbroadcast(grad: AnyArray | None, shape: tuple[int, ...]) -> AnyArray | None:
    """Sum a gradient over the axes along which its input was broadcast: what was copied is added up again."""
    if grad is None or grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < extra or (shape[i - extra] == 1 and grad.shape[i] != 1))
    total = OPS["sum"].run([grad], {"axis": axes, "keepdims": True})
    return total.reshape(shape)
