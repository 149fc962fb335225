"""Op: one operation, from its NumPy truth to its CUDA kernels, and the registry of all of them.

A room in `minigrad/ops/` makes one Op. The registry then gives dispatch, tests, checks and the notebook card.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Union

import numpy as np

from minigrad import tape
from minigrad.array import Array
from minigrad.convert import FLOATS
from minigrad.kernel import Kernel

AnyArray = Union[np.ndarray, "Array"]
OPS: dict[str, "Op"] = {}


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


class Op:
    """An operation on tensors.

    forward(*arrays, **params) is the NumPy reference and its docstring the formula. backward(dy, ...) is the gradient
    rule: it names what it wants of the forward pass, and only that is kept: an input by its name, `y` the output,
    `shapes` of the inputs, a parameter, or `needs`, a tuple that says which inputs want a gradient.
    launch(kernels, *arrays, **params) and launch_backward(kernels, needs, dy, *kept) do the same on a device that runs
    kernels; kernels are the op's own, by name. prepare(*arrays, **params) checks shapes and completes the parameters,
    for every device alike. broadcasts: gradients are summed over what was broadcast. integers: any dtype will do.
    shares: the output is the input's memory, as in reshape.
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
        cost: Callable | None = None,
        broadcasts: bool = False,
        integers: bool = False,
        shares: bool = False,
        cases: Sequence[Case] = (),
    ):
        self.name, self.forward, self.backward = name, forward, backward
        self.__name__, self.__doc__ = name, forward.__doc__
        self.kernels = dict(kernels)
        self.launch, self.launch_backward = launch, launch_backward
        self.prepare, self.cost = prepare, cost
        self.broadcasts, self.integers, self.shares = broadcasts, integers, shares
        self.cases = tuple(cases)
        self._inputs = [p.name for p in inspect.signature(forward).parameters.values() if _is_input(p)]
        self._params = [p.name for p in inspect.signature(forward).parameters.values() if not _is_input(p)]
        self._variadic = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(forward).parameters.values())
        wanted = list(inspect.signature(backward).parameters)[1:] if backward else []
        self.keeps = [key for key in wanted if key != "needs"]
        self._asks_needs = "needs" in wanted
        OPS.setdefault(name, self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        from minigrad.tensor import Tensor

        inputs, params = self._split(given, named)
        tensors = as_tensors(self, inputs)
        arrays = [t.array for t in tensors]
        if self.prepare:
            params = self.prepare(*arrays, **params)
        y = self.run(arrays, params)
        needs = tuple(t.requires_grad for t in tensors)
        result = Tensor(y, version=tensors[0].version if self.shares else None)
        if not (self.backward and tape.grad_enabled() and any(needs)):
            return result
        kept = self._keep(arrays, y, params)
        vjp = partial(self.pull, kept, tuple(a.shape for a in arrays), needs)
        result.record(self.name, tensors, vjp, self._saved(kept, tensors, result))
        return result

    def run(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> AnyArray:
        """The forward pass on arrays, on the device that they are on; nothing is recorded."""
        if isinstance(arrays[0], Array):
            return self.launch(self.kernels, *arrays, **params)
        with np.errstate(all="ignore"):  # as a GPU does: 1/0 is inf and log(-1) is nan, in silence
            return np.asarray(self.forward(*arrays, **params))

    def pull(self, kept: dict, shapes: tuple, needs: tuple, dy: AnyArray) -> tuple:
        """The gradients of the inputs, from the gradient of the output and what was kept."""
        if isinstance(dy, Array):
            grads = self.launch_backward(self.kernels, needs, dy, *kept.values())  # type: ignore[misc]
        else:
            asked = {"needs": needs} if self._asks_needs else {}
            with np.errstate(all="ignore"):
                grads = self.backward(dy, **kept, **asked)  # type: ignore[misc]
            grads = tuple(None if g is None else np.asarray(g) for g in grads)  # NumPy makes scalars where ndim is 0
        if self.broadcasts:
            grads = tuple(unbroadcast(g, s) if n else None for g, s, n in zip(grads, shapes, needs, strict=True))
        return grads

    def vjp(self, arrays: Sequence[AnyArray], dy: AnyArray, params: Mapping[str, Any]) -> tuple:
        """The gradients of the inputs for an upstream gradient, with no tape: what `check` and `bench` run."""
        params = self.prepare(*arrays, **params) if self.prepare else params
        y = self.run(arrays, params)
        needs = tuple(a.dtype.kind == "f" for a in arrays)
        return self.pull(self._keep(arrays, y, params), tuple(a.shape for a in arrays), needs, dy)

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
            kernels["forward"] = kernels[self._kernel_name(variant)]
        other.kernels = kernels
        return other

    def __getitem__(self, kernel: str) -> Kernel:
        """One of the op's kernels: `matmul["tiled"]` shows its source."""
        return self.kernels[self._kernel_name(kernel)]

    def _kernel_name(self, name: str) -> str:
        if name not in self.kernels:
            raise KeyError(f"{self.name} has no kernel {name!r}; it has {', '.join(self.kernels)}.")
        return name

    def _split(self, given: Sequence[Any], named: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Inputs and parameters of a call written as NumPy's: `reshape(x, (2, 3))`, `concatenate([a, b], 1)`."""
        if not self._variadic:
            inputs, rest = given[: len(self._inputs)], given[len(self._inputs) :]
        elif given and isinstance(given[0], list | tuple):
            inputs, rest = given[0], given[1:]
        else:
            inputs, rest = given, ()
        if len(rest) > len(self._params) or (len(inputs) < len(self._inputs) and not self._variadic):
            takes = ", ".join([*self._inputs, *self._params])
            raise TypeError(f"{self.name} takes ({takes}); got {len(given)} arguments.")
        return inputs, {**dict(zip(self._params, rest, strict=False)), **named}

    def _keep(self, arrays: Sequence[AnyArray], y: AnyArray, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the gradient rule names, and nothing else: the rest of the forward pass may be freed."""
        named = {} if self._variadic else dict(zip(self._inputs, arrays, strict=True))
        available = {**named, **params, "y": y, "shapes": tuple(a.shape for a in arrays)}
        return {key: available[key] for key in self.keeps}

    def _saved(self, kept: dict, tensors: Sequence, result: Any) -> tuple[tape.Saved, ...]:
        versions = dict(zip(self._inputs, (t.version for t in tensors), strict=False)) | {"y": result.version}
        return tuple(tape.Saved(name, versions[name]) for name in kept if name in versions)

    def __repr__(self) -> str:
        from minigrad.card import text

        return text(self)

    def _repr_html_(self) -> str:
        from minigrad.card import html

        return html(self)


def _is_input(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY


def unbroadcast(grad: AnyArray | None, shape: tuple[int, ...]) -> AnyArray | None:
    """Sum a gradient over the axes along which its input was broadcast: what was copied is added up again."""
    if grad is None or grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < extra or (shape[i - extra] == 1 and grad.shape[i] != 1))
    total = OPS["sum"].run([grad], {"axis": axes, "keepdims": True})
    return total.reshape(shape)


def as_tensors(op: Op, inputs: Sequence[Any]) -> list:
    """The inputs of an op as tensors of one device; numbers follow the last tensor. Raises TypeError, ValueError."""
    from minigrad.tensor import Tensor, as_tensor

    like = next((x for x in reversed(inputs) if isinstance(x, Tensor)), None)  # the last: in `where` the first is bool
    if like is None:
        raise TypeError(f"{op.name} takes tensors; make one with mg.tensor(...).")
    tensors = [x if isinstance(x, Tensor) else as_tensor(x, like) for x in inputs]
    _check_together(op, tensors)
    return tensors


def _check_together(op: Op, tensors: list) -> None:
    first = tensors[0]
    for other in tensors:
        if other.device != first.device:
            raise ValueError(
                f"{op.name}: one input is on {first.device}, another on {other.device}; "
                f"move one with .to({first.device!r})."
            )
        if not op.integers and other.dtype not in FLOATS:
            raise TypeError(
                f"{op.name} takes float32 or float64; got {other.dtype}. Use .astype('float32'), or write 1.0 for 1."
            )
        if not op.integers and other.dtype != first.dtype:
            raise TypeError(
                f"{op.name}: one input is {first.dtype}, another {other.dtype}; "
                f"make them one with .astype({first.dtype.name!r})."
            )
