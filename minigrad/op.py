"""Op: one operation, from its NumPy reference to its CUDA kernels, and the call of it that the tape records.

A room in `minigrad/ops/` makes one Op; the registry OPS then gives dispatch, tests, checks and the notebook card.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from minigrad import display, tape
from minigrad.call import CallSignature, as_tensors, key_of, kinds_of, taking_numbers
from minigrad.devices.array import Array, Spec
from minigrad.devices.caches import Cache
from minigrad.devices.dtypes import has_gradient, zero_like
from minigrad.kernels.kernel import Epoch, Kernel
from minigrad.operators import OPS
from minigrad.replay.launches import replayed, replayed_one
from minigrad.tensor import Tensor, output

AnyArray = np.ndarray | Array
__all__ = ["OPS", "AnyArray", "Case", "Op", "unbroadcast"]


@dataclass(frozen=True)
class Case:
    """One call to test an op with: shapes or arrays as inputs, and its parameters.

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
    rule. It names what it needs of the forward pass, and only that is saved: an input by its name, `y` the output,
    `shapes` of the inputs, a parameter, or `needs`, a tuple with True for each input that requires a gradient.
    uses: for each input, the names of the inputs that its gradient uses, where that is not all; one that no required
    gradient uses is not saved, and a 0 stands in for it.
    outputs: an op with several returns a tuple; its rule gets a tuple dy, and the outputs by the names y0, y1, ...
    launch(kernels, *arrays, **params) and launch_backward(kernels, needs, dy, *saved) do the same on a device that runs
    kernels; kernels are the op's own, by name, those of the gradient by names with "backward" in them.
    prepare(*arrays, **params) checks shapes and completes the parameters, on every device alike. broadcasts: gradients
    are summed over the axes along which an input was broadcast. integers: any dtype is accepted.
    shares: the output is the input's memory, as in reshape. cost(*arrays, **params) counts FLOPs and bytes: each input
    read once, the output written once; backward_flops: FLOPs of the gradient as a multiple of those, where counted.
    fast, role -> name: kernels that run in these roles until `using` asks for others. They need not be those to read.
    cuda: one element of y in CUDA C++, then of each input's gradient, in terms of the inputs, y and dy; None for none.
    An op that has it can become part of a fused kernel, see `mg.fuse`. listed: True where it joins the registry.
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
        outputs: int = 1,
        fast: Mapping[str, str] | None = None,
        cuda: Sequence[str | None] = (),
        cases: Sequence[Case] = (),
        listed: bool = True,
    ):
        self.name, self.forward, self.backward = name, forward, backward
        self.__name__, self.__doc__ = name, forward.__doc__
        self.fast, self._epoch = fast or {}, Epoch.number
        self.kernels = kernels
        self.launch, self.launch_backward = launch, launch_backward
        self.prepare, self.uses, self.cost, self.backward_flops = prepare, uses, cost, backward_flops
        self.broadcasts, self.integers, self.shares, self.outputs = broadcasts, integers, shares, outputs
        self.cuda, self.cases, self.listed = tuple(cuda), tuple(cases), listed
        self.inputs = CallSignature(name, forward)
        wanted = list(inspect.signature(backward).parameters)[1:] if backward else []
        self.saves, self._asks_needs = [key for key in wanted if key != "needs"], "needs" in wanted
        if listed:
            OPS.setdefault(name, self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The op on tensors and numbers: find or prepare the call for inputs like these, then run it."""
        if self._epoch != Epoch.number:
            self._calls.clear()
            self._epoch = Epoch.number
        try:
            key = tuple([x.array.spec for x in args]) if not named else self._key(args, named)
        except AttributeError:  # a number or a NumPy array among them
            key = self._key(args, named)
        if call := self._calls.get(key):
            return call(args)
        inputs, params = self.inputs.split(args, named)
        if tracer := tape.mode.tracer:
            return tracer.trace(self, inputs, params)
        tensors = as_tensors(self.name, inputs, self.integers)
        arrays = [t.array for t in tensors]
        call = self._call(arrays, self.prepare(*arrays, **params) if self.prepare else params)
        if key and call.replays and len(args) == len(inputs):  # no parameter by its place
            self._calls.keep(key, taking_numbers(self.name, call, args))
        return call(tensors)

    def _key(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple | None:
        kinds = kinds_of(args)
        return None if kinds is None else key_of(kinds, named)

    def _call(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> "Call":
        """The call for arrays like these; it is kept where the device replays launches."""
        key = key_of([x.spec for x in arrays], params) if _replays(arrays) else None  # type: ignore[union-attr]
        if key is None:
            return Call(self, arrays, params, replays=False)
        return self._calls.get(key) or self._calls.keep(key, Call(self, arrays, params, replays=True))

    def run(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> Any:
        """The forward pass on arrays, on their device, by its fastest way; nothing is recorded."""
        return self._call(arrays, params).run(arrays) if _replays(arrays) else self.execute(arrays, params)

    def execute(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> Any:
        """The forward pass: the NumPy reference, or one launch after the other."""
        if isinstance(arrays[0], Array):
            return self.launch(self.running, *arrays, **params)
        with np.errstate(all="ignore"):  # as a GPU does: 1/0 is inf and log(-1) is nan, in silence
            y = self.forward(*arrays, **params)
        return np.asarray(y) if self.outputs == 1 else tuple(map(np.asarray, y))

    def pull(self, saved: dict, shapes: tuple, needs: tuple, dy: Any) -> tuple:
        """The gradients of the inputs, from that of the output and what the forward pass saved."""
        if isinstance(dy[0] if isinstance(dy, tuple) else dy, Array):
            grads = self.launch_backward(self.running, needs, dy, *saved.values())  # type: ignore[misc]
        else:
            asked = {"needs": needs} if self._asks_needs else {}
            with np.errstate(all="ignore"):
                grads = self.backward(dy, **saved, **asked)  # type: ignore[misc]
            grads = tuple(None if g is None else np.asarray(g) for g in grads)  # NumPy makes scalars where ndim is 0
        if self.broadcasts:
            grads = tuple(unbroadcast(g, s) if n else None for g, s, n in zip(grads, shapes, needs, strict=True))
        return grads

    def pullback(
        self, arrays: Sequence[AnyArray], params: Mapping[str, Any], needs: tuple[bool, ...] | None = None
    ) -> tuple[Any, partial]:
        """The output, and the function from its gradient to those of the inputs: a node without the tape."""
        params = self.prepare(*arrays, **params) if self.prepare else params
        y = self.run(arrays, params)
        needs = needs or tuple(has_gradient(a.dtype) for a in arrays)
        places, constants = self.saved(arrays, params, needs)
        everything = [*arrays, *(y if self.outputs > 1 else (y,))]
        named = {name: everything[i] for name, i in places.items()} | constants
        saved = {name: named[name] for name in self.saves}
        return y, partial(self.pull, saved, tuple(a.shape for a in arrays), needs)

    def vjp(self, arrays: Sequence[AnyArray], dy: AnyArray, params: Mapping[str, Any]) -> tuple:
        """The gradients of the inputs for an upstream gradient, without a tape."""
        return self.pullback(arrays, params)[1](dy)

    def saved(
        self, arrays: Sequence[AnyArray], params: Mapping[str, Any], needs: tuple[bool, ...]
    ) -> tuple[dict[str, int], dict[str, Any]]:
        """Where the rule finds what it names: arrays by number, inputs first and then outputs; all else by value."""
        inputs = [] if self.inputs.variadic else self.inputs.names
        outputs = ["y"] if self.outputs == 1 else [f"y{i}" for i in range(self.outputs)]
        places = dict(
            zip(
                [*inputs, *outputs], [*range(len(inputs)), *range(len(arrays), len(arrays) + self.outputs)], strict=True
            )
        )
        constants: dict[str, Any] = {**params, "shapes": tuple(a.shape for a in arrays)}
        if self.uses:
            used = {name for names, need in zip(self.uses, needs, strict=True) if need for name in names.split()}
            constants |= {name: zero_like(x) for name, x in zip(inputs, arrays, strict=True) if name not in used}
            places = {name: i for name, i in places.items() if name in used or name not in inputs}
        by_number = {name: places[name] for name in self.saves if name in places}
        return by_number, {name: constants[name] for name in self.saves if name not in places}

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The op's own kernels by name. Setting others drops the prepared calls."""
        return self._kernels

    @kernels.setter
    def kernels(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels, self._calls = MappingProxyType(dict(kernels)), Cache()
        self.running = {**kernels, **{role: kernels[name] for role, name in self.fast.items()}}

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

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


class Call:
    """An op for inputs of certain specs and certain parameters: runs it, and records it where a gradient is required.

    Only `run` depends on the device. It is `Op.execute`; where the device replays launches, those of `Op.execute` are
    recorded once and replayed from then on.
    """

    def __init__(self, op: Op, arrays: Sequence[AnyArray], params: Mapping[str, Any], replays: bool):
        self.op, self.params, self.replays = op, params, replays
        self.shapes = tuple([x.shape for x in arrays])
        self.run: Callable[[Sequence[AnyArray]], Any] = lambda arrays: op.execute(arrays, params)
        if replays:
            specs = [x.spec for x in arrays]  # type: ignore[union-attr]
            self.run = replayed_one(self.run, specs) if op.outputs == 1 else replayed(self.run, specs)
        self._shares, self._single, self._differentiable = op.shares, op.outputs == 1, op.backward is not None
        self._rules: dict[tuple[bool, ...], Rule] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """The op on these tensors: one tensor, or a tuple of an op with several outputs."""
        y = self.run([t.array for t in tensors])
        if self._single:
            result: Any = output(y, tensors[0].version if self._shares else None)
        else:
            result = tuple([output(each, None) for each in y])
        if self._differentiable:
            for t in tensors:
                if t.node is not None or t._requires_grad:
                    if tape.mode.enabled:
                        self._record(tensors, result)
                    break
        if (recorder := tape.mode.recorder) is not None:
            recorder.uses(tensors)
        return result

    def _record(self, tensors: Sequence[Tensor], result: Any) -> None:
        """Put a node on the tape."""
        parents = tuple([t.node or (t if t._requires_grad else None) for t in tensors])
        needs = tuple([parent is not None for parent in parents])
        rule = self._rules.get(needs)
        if rule is None:
            outputs = (result,) if self._single else result
            rule = self._rules[needs] = Rule(self, needs, [t.array for t in tensors], [r.array for r in outputs])
        if self._single:
            result.node = rule.node(tensors, parents, (result,))
        else:
            node = rule.node(tensors, parents, result)
            for each, own in zip(result, tape.outputs(self.op.name, node, [r.array for r in result]), strict=True):
                each.node = own


class Rule:
    """The gradient rule of a call, for the inputs that require a gradient: which arrays it saves, and the pull."""

    def __init__(self, call: Call, needs: tuple[bool, ...], inputs: Sequence[AnyArray], outputs: Sequence[AnyArray]):
        self.op, self.needs, self.shapes, self.replays = call.op, needs, call.shapes, call.replays
        self._places, self._constants = call.op.saved(inputs, call.params, needs)
        self._numbers = list(self._places.values())
        self._arrays = {name: x for name, x in self._constants.items() if isinstance(x, Array)}
        self._outputs = [(y.shape, y.dtype) for y in outputs]
        self._pulls: dict[tuple[Spec, ...], Callable] = {}  # where launches are replayed, by the specs of dy
        self._saves_nothing = partial(self.pull, ())

    def node(self, tensors: Sequence[Tensor], parents: tuple, results: Sequence[Tensor]) -> tape.Node:
        """The node for these inputs and outputs."""
        if not self._numbers:
            return tape.Node(self.op.name, parents, self._saves_nothing, (), results[0].array)
        everything = (*tensors, *results)
        arrays = [everything[i].array for i in self._numbers]
        saved = [(name, everything[i].version) for name, i in self._places.items()]
        return tape.Node(self.op.name, parents, partial(self.pull, arrays), saved, results[0].array)

    def pull(self, saved: Sequence[AnyArray], dy: Any) -> Sequence[AnyArray | None]:
        """The gradients of the inputs, from that of the output, or from a tuple with those of several."""
        dys = self._complete(dy) if isinstance(dy, tuple) else (dy,)
        arrays = [*dys, *saved, *self._arrays.values()]
        if not self.replays:
            return self._gradients(arrays)
        key = tuple([d.spec for d in dys])
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = replayed(self._gradients, [x.spec for x in arrays])
        return pull(arrays)

    def _complete(self, dys: tuple) -> tuple:
        """The gradients of all outputs: zeros where none has arrived."""
        device = next(d for d in dys if d is not None)
        return tuple(
            (Array.zeros(device.device, *like) if isinstance(device, Array) else np.zeros(*like)) if d is None else d
            for d, like in zip(dys, self._outputs, strict=True)
        )

    def _gradients(self, arrays: Sequence[AnyArray]) -> tuple:
        count = self.op.outputs
        named = self._constants | dict(zip([*self._places, *self._arrays], arrays[count:], strict=True))
        saved = {name: named[name] for name in self.op.saves}
        return self.op.pull(saved, self.shapes, self.needs, arrays[0] if count == 1 else tuple(arrays[:count]))


def _replays(arrays: Sequence[AnyArray]) -> bool:
    """True on a device that records launches once and replays them."""
    return isinstance(arrays[0], Array) and arrays[0].device.repeats


def unbroadcast(grad: AnyArray | None, shape: tuple[int, ...]) -> AnyArray | None:
    """Sum a gradient over the axes along which its input was broadcast: the gradients of all copies add up."""
    if grad is None or grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < extra or (shape[i - extra] == 1 and grad.shape[i] != 1))
    total = OPS["sum"].run([grad], {"axis": axes, "keepdims": True})
    return total.reshape(shape)
