"""Op: one operation, from its NumPy reference to its CUDA kernels, and the call of it that the tape records.

A room in `minigrad/ops/` makes one Op; the registry OPS then gives dispatch, tests, checks and the notebook card.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from minigrad import display, rounding, tape
from minigrad.call import CallSignature, as_tensors, call_key, key_of, taking_numbers
from minigrad.case import Case
from minigrad.devices.array import Array
from minigrad.devices.caches import Cache
from minigrad.devices.dtypes import has_gradient, is_last, zero_like
from minigrad.devices.layouts import agreeing, typed
from minigrad.kernels import variants
from minigrad.kernels.kernel import RETUNED, Kernel
from minigrad.operators import OPS
from minigrad.replay.launches import replayed, replayed_one
from minigrad.tensor import Tensor, output

AnyArray = np.ndarray | Array
_generation = [0]  # grows with each change of preferred tunables: calls of an older one are prepared again
__all__ = ["OPS", "AnyArray", "Case", "Op", "unbroadcast"]


@dataclass(eq=False, repr=False)
class Op:
    """An operation on tensors.

    forward(*arrays, **params) is the NumPy reference and its docstring the formula. backward(dy, ...) is the gradient
    rule. It names what it needs of the forward pass, and only that is saved: an input by its name, `y` the output, a
    parameter, or of all inputs `shapes`, `lasts` (channels last in memory) and `needs` (a gradient is required).
    launch(kernels, *arrays, **params) and launch_backward(kernels, needs, dy, *saved) do the same on a device that runs
    kernels; kernels are the op's own, by name, those of the gradient by names with "backward" in them.
    """

    name: str
    forward: Callable
    backward: Callable | None = None
    _: KW_ONLY
    kernels: Mapping[str, Kernel]
    launch: Callable
    launch_backward: Callable | None = None
    prepare: Callable | None = None  # (*arrays, **params): checks shapes and completes the parameters, on every device
    uses: Sequence[str] = ()  # for each input, the inputs that its gradient uses, by name; others are replaced by a 0
    cost: Callable | None = None  # (*arrays, **params): FLOPs and bytes, each input read once, the output written once
    backward_flops: int = 0  # of the gradient, as a multiple of the forward pass's, where counted
    broadcasts: bool = False  # gradients are summed over the axes along which an input was broadcast
    integers: bool = False  # any dtype is accepted
    shares: bool = False  # the output is the input's memory, as in reshape
    outputs: int = 1  # several: a tuple is returned; the rule gets a tuple dy, and the outputs by the names y0, y1, ...
    saves: Sequence[str] = ()  # names of arrays that forward and launch give after y, for the rule alone
    updates: Callable | None = None  # (*arrays, **params): the numbers of the inputs that a call changes in place
    after: Callable | None = None  # (inputs, those arrays, **params): what a call of tensors does with them
    fast: Mapping[str, str] = field(default_factory=dict)  # role -> kernel to run in it until `using` selects another
    cuda: Sequence[str | None] = ()  # for mg.fuse: an element of y in CUDA C++, then of each gradient, by x, y and dy
    cases: Sequence[Case] = ()
    layouts: str = "NCHW"  # of images: "alike" where one kernel takes all, "any" where launch looks; see `agreeing`
    rounds: bool = False  # it takes the precision of `mg.precision` as a parameter
    widens: bool = True  # bfloat16 is computed in float32 by NumPy, and rounded at the end; else any dtype is as it is
    listed: bool = True  # it joins the registry
    running: dict[str, Kernel] = field(init=False)  # the kernel of each role

    def __post_init__(self) -> None:
        self.__name__, self.__doc__ = self.name, self.forward.__doc__
        self.inputs = CallSignature(self.name, self.forward)
        wanted = list(inspect.signature(self.backward).parameters)[1:] if self.backward else []
        self.keeps, self._takes_needs = [key for key in wanted if key != "needs"], "needs" in wanted
        self.single = self.outputs == 1 and not self.saves
        self.forward, self.backward = rounding.bfloat16.references(self)
        self._choose(self.kernels, self.fast)
        if self.listed:
            OPS.setdefault(self.name, self)

    def _choose(self, kernels: Mapping[str, Kernel], fast: Mapping[str, str]) -> None:
        running = {**kernels, **{role: kernels[name] for role, name in fast.items()}}
        object.__setattr__(self, "kernels", MappingProxyType(dict(kernels)))  # not by vars(): that slows every read
        self.fast, self.running = fast, running
        self._forget()

    def _forget(self) -> None:
        """Drop the prepared calls: kernels have other tunables."""
        self._by_arguments, self._prepared, self._generation = Cache(), Cache(), _generation[0]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "kernels" and hasattr(self, "running"):
            raise AttributeError(f"{self.name}.kernels cannot be set; with_kernels(kernels) gives an op that has them.")
        super().__setattr__(name, value)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The op on tensors and numbers: find or prepare the call for inputs like these, then run it."""
        if casts := rounding.autocast.current():
            args, named = casts.inputs(self.name, args, named)
        if self._generation != _generation[0]:
            self._forget()
        try:
            key = tuple([x.array.spec for x in args]) if not named else call_key(args, named)
        except AttributeError:  # a number or a NumPy array among them
            key = call_key(args, named)
        if self.rounds and key and (precision := rounding.current()) != "float32":
            key = (precision, *key)
        if apply := self._by_arguments.get(key):
            return apply(args)
        inputs, params = self.inputs.split(args, named)
        if tracer := tape.mode.tracer:
            return tracer.trace(self, inputs, params)
        tensors = as_tensors(self.name, inputs, self.integers)
        arrays = [t.array for t in tensors]
        call = self._call(arrays, self.prepare(*arrays, **params) if self.prepare else params)
        if key and call.replays and len(args) == len(inputs):  # all parameters by name
            self._by_arguments.keep(key, taking_numbers(self.name, call.apply, args))
        return call.apply(tensors)

    def _call(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> "PreparedCall":
        """The call for arrays like these, cached where the device replays launches."""
        if self._generation != _generation[0]:
            self._forget()
        replays = isinstance(arrays[0], Array) and arrays[0].device.repeats
        key = key_of([x.spec for x in arrays], params) if replays else None  # type: ignore[union-attr]
        if key is None:
            return PreparedCall(self, arrays, params, replays=False)
        return self._prepared.get(key) or self._prepared.keep(key, PreparedCall(self, arrays, params, replays=True))

    def run(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> Any:
        """The forward pass on arrays, replayed where the device replays launches; the tape records nothing."""
        y = self._call(arrays, params).run(arrays)
        return y[0] if self.saves else y

    def execute(self, arrays: Sequence[AnyArray], params: Mapping[str, Any]) -> Any:
        """The forward pass: the NumPy reference, or one launch after the other."""
        if isinstance(arrays[0], Array):
            return self.launch(self.running, *agreeing(self.layouts, arrays), **params)
        with np.errstate(all="ignore"):  # as on a GPU, 1/0 is inf and log(-1) is nan without a warning
            y = self.forward(*arrays, **params)
        return np.asarray(y) if self.single else tuple(map(np.asarray, y))

    def pull(self, saved: dict, shapes: tuple, needs: tuple, dy: Any) -> tuple:
        """The gradients of the inputs, from that of the output and what the forward pass saved."""
        dys = dy if isinstance(dy, tuple) else (dy,)
        if isinstance(dys[0], Array):
            values = agreeing(self.layouts, [*dys, *saved.values()])
            dy = tuple(values[: len(dys)]) if isinstance(dy, tuple) else values[0]
            grads = self.launch_backward(self.running, needs, dy, *values[len(dys) :])  # type: ignore[misc]
        else:
            named = {**saved, "needs": needs} if self._takes_needs else saved
            with np.errstate(all="ignore"):
                grads = self.backward(dy, **named)  # type: ignore[misc]
            grads = tuple(None if g is None else np.asarray(g) for g in grads)  # NumPy makes scalars where ndim is 0
        if self.broadcasts:
            grads = tuple(unbroadcast(g, s) if n else None for g, s, n in zip(grads, shapes, needs, strict=True))
        return grads

    def pullback(
        self, arrays: Sequence[AnyArray], params: Mapping[str, Any], needs: tuple[bool, ...] | None = None
    ) -> tuple[Any, partial]:
        """The output, and the function from its gradient to those of the inputs: a node without the tape."""
        params = self.prepare(*arrays, **params) if self.prepare else params
        call = PreparedCall(self, arrays, params, replays=False)
        made = call.run(arrays)
        y = made[0] if self.saves else made
        rule = Rule(call, needs or tuple(has_gradient(a.dtype) for a in arrays), arrays, y)
        everything = (*arrays, made) if self.single else (*arrays, *made)
        return y, partial(rule.pull, [everything[i] for i in rule.numbers])

    def vjp(self, arrays: Sequence[AnyArray], dy: AnyArray, params: Mapping[str, Any]) -> tuple:
        """The gradients of the inputs for an upstream gradient, without a tape."""
        return self.pullback(arrays, params)[1](dy)

    def saved(
        self, arrays: Sequence[AnyArray], params: Mapping[str, Any], needs: tuple[bool, ...]
    ) -> tuple[dict[str, int], dict[str, Any]]:
        """The sources of the names in the rule: arrays by number, inputs before outputs; all else by value."""
        inputs = [] if self.inputs.variadic else self.inputs.names[: len(arrays)]
        outputs = ["y", *self.saves] if self.outputs == 1 else [f"y{i}" for i in range(self.outputs)]
        places = {name: i for i, name in enumerate(inputs)}
        places |= {name: i for i, name in enumerate(outputs, len(arrays))}
        constants: dict[str, Any] = dict.fromkeys(self.inputs.names)  # None for one that was left out
        constants |= {**params, "shapes": tuple(a.shape for a in arrays), "lasts": tuple(map(is_last, arrays))}
        if self.uses:
            used = {name for names, need in zip(self.uses, needs, strict=False) if need for name in names.split()}
            constants |= {name: zero_like(x) for name, x in zip(inputs, arrays, strict=True) if name not in used}
            places = {name: i for name, i in places.items() if name in used or name not in inputs}
        by_number = {name: places[name] for name in self.keeps if name in places}
        return by_number, {name: constants[name] for name in self.keeps if name not in places}

    def using(self, variant: str | None = None, **tunables: int) -> "Op":
        """The same op through another kernel or block size: `matmul.using("naive")`, `relu.using(BLOCK=64)`."""
        kernels = variants.using(self.name, self.kernels, variant, tunables)
        return self.with_kernels(kernels, {} if variant or tunables else self.fast)

    def with_kernels(self, kernels: Mapping[str, Kernel], fast: Mapping[str, str] | None = None) -> "Op":
        """The same op with these kernels, and these fast ones; it shares no prepared call with this one."""
        other = copy.copy(self)
        other._choose(kernels, self.fast if fast is None else fast)
        return other

    def with_kernel(self, name: str, kernel: Kernel) -> "Op":
        """The same op with another kernel under that name, `matmul.with_kernel("tiled", mine)`: in all its roles.

        Fast kernels no longer replace it; one that is replaced itself keeps its roles.
        """
        old = self[name]
        kernels = {key: kernel if each is old else each for key, each in self.kernels.items()}
        return self.with_kernels(kernels, {r: fast for r, fast in self.fast.items() if self.kernels[fast] is old})

    def __getitem__(self, name: str) -> Kernel:
        """One of the op's kernels: `matmul["tiled"]` shows its source."""
        return variants.named(self.name, self.kernels, name)

    def __repr__(self) -> str:
        return display.card_text(self)

    def _repr_html_(self) -> str:
        return display.card_html(self)


class PreparedCall:
    """An op for inputs of certain specs, with its parameters: `run` replays launches where the device does that."""

    def __init__(self, op: Op, arrays: Sequence[AnyArray], params: Mapping[str, Any], replays: bool):
        self.op, self.params, self.replays = op, params, replays
        self.shapes = tuple([x.shape for x in arrays])
        self.run: Callable[[Sequence[AnyArray]], Any] = lambda arrays: op.execute(arrays, params)
        if replays:
            specs = [x.spec for x in arrays]  # type: ignore[union-attr]
            self.run = replayed_one(self.run, specs) if op.single else replayed(self.run, specs)
        self._tensors: Callable = output if op.outputs == 1 else lambda ys, _: tuple([output(y, None) for y in ys])
        self._shares, self._differentiable, self._saves = op.shares, op.backward is not None, bool(op.saves)
        self._updates = op.updates(*arrays, **params) if op.updates else ()
        self._rules: dict[tuple[bool, ...], Rule] = {}

    def apply(self, tensors: Sequence[Tensor]) -> Any:
        """The op on these tensors: one tensor, or a tuple of an op with several outputs."""
        made = self.run([t.array for t in tensors])
        y, *extra = made if self._saves else (made,)
        if self.op.after:
            self.op.after(tensors, extra, **self.params)
        for i in self._updates:
            with tape.no_grad():
                tensors[i].written_by(self.op.name)
        result: Any = self._tensors(y, tensors[0].version if self._shares else None)
        if self._differentiable:
            for t in tensors:
                if t.node is not None or t._requires_grad:
                    if tape.mode.enabled:
                        saved = [next((t for t in tensors if t.array is x), output(x, None)) for x in extra]
                        self._record(tensors, result, saved)
                    break
        return result

    def _record(self, tensors: Sequence[Tensor], result: Any, extra: Sequence[Tensor]) -> None:
        """Put a node on the tape; with several outputs, one for each as well."""
        parents = tuple([t.node or (t if t._requires_grad else None) for t in tensors])
        needs = tuple([parent is not None for parent in parents])
        rule = self._rules.get(needs)
        if rule is None:
            rule = self._rules[needs] = Rule(self, needs, [t.array for t in tensors], result)
        if rule.single:
            result.node = rule.node(tensors, parents, result, *extra)
        else:
            node = rule.node((*tensors, *result[:-1]), parents, result[-1])
            for each, own in zip(result, tape.outputs(node, [r.array for r in result]), strict=True):
                each.node = own if has_gradient(each.dtype) else None


class Rule:
    """The gradient rule of a call, for the inputs that require a gradient: which arrays it saves, and the pull."""

    def __init__(self, call: PreparedCall, needs: tuple[bool, ...], arrays: Sequence[AnyArray], result: Any):
        self.op, self.needs, self.shapes, self.replays = call.op, needs, call.shapes, call.replays
        self.single = call.op.outputs == 1
        self._places, self._constants = call.op.saved(arrays, call.params, needs)
        self.numbers = list(self._places.values())
        self._arrays = {name: x for name, x in self._constants.items() if isinstance(x, Array)}
        self._values = list(self._arrays.values())
        self._outputs = [(y.shape, y.dtype) for y in ((result,) if self.single else result)]
        self._pulls: dict[Any, Callable] = {}  # where launches are replayed, by the specs of dy
        self._saves_nothing = partial(self.pull, ()) if call.replays else None  # a cycle, so only for a cached rule

    def node(self, tensors: Sequence[Tensor], parents: tuple, result: Tensor, *extra: Tensor) -> tape.Node:
        """The node for these tensors: the inputs and, before the last output `result`, any others; extra is saved."""
        if not self.numbers:
            return tape.Node(self.op.name, parents, self._saves_nothing or partial(self.pull, ()), (), result.array)
        everything = (*tensors, result, *extra)
        saved = [(name, everything[i].version) for name, i in self._places.items()]
        pull = partial(self.pull, [everything[i].array for i in self.numbers])
        return tape.Node(self.op.name, parents, pull, saved, result.array)

    def pull(self, saved: Sequence[AnyArray], dy: Any) -> Sequence[AnyArray | None]:
        """The gradients of the inputs, from that of the output, or from a tuple with those of several."""
        dys = (dy,) if self.single else self._complete(dy)
        arrays = [*dys, *saved, *self._values]
        if not self.replays:
            return self._gradients(arrays)
        key = dy.spec if self.single else tuple([d.spec for d in dys])
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = replayed(self._gradients, [x.spec for x in arrays])
        return pull(arrays)

    def _complete(self, dys: tuple) -> tuple:
        """The gradients of all outputs: zeros where none has arrived."""
        known = next(d for d in dys if d is not None)
        return tuple(
            (Array.zeros(known.device, *like) if isinstance(known, Array) else np.zeros(*like)) if d is None else d
            for d, like in zip(dys, self._outputs, strict=True)
        )

    def _gradients(self, arrays: Sequence[AnyArray]) -> tuple:
        count = self.op.outputs
        named = self._constants | dict(zip([*self._places, *self._arrays], arrays[count:], strict=True))
        saved = {name: named[name] for name in self.op.keeps}
        dys = [typed(x, y[1]) if self.op.widens else x for x, y in zip(arrays[:count], self._outputs, strict=True)]
        return self.op.pull(saved, self.shapes, self.needs, dys[0] if count == 1 else tuple(dys))


def unbroadcast(grad: AnyArray | None, shape: tuple[int, ...]) -> AnyArray | None:
    """Sum a gradient over the axes along which its input was broadcast: the gradients of all copies add up."""
    if grad is None or grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    axes = tuple(i for i in range(grad.ndim) if i < extra or (shape[i - extra] == 1 and grad.shape[i] != 1))
    total = OPS["sum"].run([grad], {"axis": axes, "keepdims": True})
    return total.reshape(shape)


RETUNED.append(lambda: _generation.append(_generation.pop() + 1))
