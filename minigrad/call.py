"""The arguments of an op's call: inputs apart from parameters, numbers as tensors, and the key of a prepared call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from minigrad.devices.dtypes import must_be_floats
from minigrad.errors import short
from minigrad.tensor import Tensor, as_tensor

NUMBERS = (int, float, bool)
PLAIN = {type(None), bool, int, str}  # parameters that a key takes as they are, with their types, for 1 == True


class CallSignature:
    """The arguments of a forward function: arrays, or any number of them (*xs), then parameters.

    An input that may be left out is annotated as one: `bias: np.ndarray | None = None`.
    """

    def __init__(self, op: str, forward: Callable):
        takes = inspect.signature(forward).parameters.values()
        needed = {p.name: p.kind is not p.KEYWORD_ONLY for p in takes if p.default is p.empty}
        inputs = [p.name for p in takes if needed.get(p.name) and p.annotation in (np.ndarray, p.empty)]
        optional = [p.name for p in takes if p.default is None and np.ndarray in get_args(p.annotation)]
        self.op, self.names, self.least = op, inputs + optional, len(inputs)
        self.params = [p.name for p in takes if p.name not in self.names]
        self.required = needed.keys() - {*inputs}
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in takes)
        self.takes = ", ".join([*self.names, *self.params])  # for a reader

    def split(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Inputs and parameters of a call in NumPy's style: `reshape(x, (2, 3))`, `concatenate([a, b], 1)`.

        Raises TypeError for arguments that are missing, unknown or given twice.
        """
        inputs, rest = args[: len(self.names)], args[len(self.names) :]
        if self.variadic:
            inputs, rest = (args[0], args[1:]) if args and isinstance(args[0], list | tuple) else (args, ())
        elif len(self.names) > self.least <= len(inputs):
            inputs, named = self._optional(inputs, dict(named))
        params = dict(zip(self.params, rest, strict=False))
        if twice := params.keys() & named.keys():
            raise TypeError(f"{self.op}: {', '.join(sorted(twice))} is given twice, by position and by name.")
        params |= named
        missing = "" if self.variadic or len(inputs) >= self.least else f" {self.names[len(inputs)]} is missing."
        if missing or len(rest) > len(self.params) or not self.required <= params.keys() <= set(self.params):
            got = ", ".join([f"{len(args)} arguments", *named])
            way_out = " Give inputs by position, without a name." if {*self.names} & named.keys() else missing
            raise TypeError(f"{self.op} takes ({self.takes}); got {got}.{way_out}")
        return inputs, params

    def _optional(self, given: Sequence[Any], named: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The inputs with the optional ones by name, without those that are None, which must be the last."""
        inputs = [*given, *(named.pop(name, None) for name in self.names[len(given) :])]
        while len(inputs) > self.least and inputs[-1] is None:
            inputs.pop()
        if gap := next((name for name, x in zip(self.names, inputs, strict=False) if x is None), ""):
            if gap in self.names[: self.least]:
                free = " and ".join(self.names[self.least :])
                raise TypeError(f"{self.op}: {gap} is None, and only {free} may be; the docstring says what to give.")
            raise TypeError(f"{self.op}: {gap} is None, so the inputs after it must be None, too.")
        return inputs, named


def as_tensors(op: str, inputs: Sequence[Any], any_dtype: bool) -> list[Tensor]:
    """Inputs as tensors of one device; a number takes the dtype of the last tensor. Raises TypeError, ValueError."""
    like = next((x for x in reversed(inputs) if isinstance(x, Tensor)), None)  # the last: in `where` the first is bool
    if like is None:
        got = " and ".join(short(x) for x in inputs) or "none"
        raise TypeError(f"{op} takes tensors; got {got}. Make one with mg.tensor(...).")
    first, *others = tensors = [as_tensor(x, like, op) for x in inputs]
    for other in others:
        if other.device != first.device:
            raise ValueError(
                f"{op}: one input is on {first.device}, another on {other.device}; move one with .to({first.device!r})."
            )
    if not any_dtype:
        must_be_floats(op, *tensors)
    return tensors


def key_of(kinds: Sequence[Any], params: Mapping[str, Any]) -> tuple | None:
    """The key of a call in an op's cache: the specs of its inputs, or types of numbers, and its parameters.

    None where a parameter cannot be hashed, such as a list.
    """
    types = [*map(type, params.values())]
    if PLAIN.issuperset(types):
        return (*kinds, *params.items(), *types)
    key = (*kinds, *((name, tagged(x)) for name, x in params.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def tagged(value: Any) -> tuple:
    """A parameter with its type; a float as text, for 0.0 == -0.0, a slice as a tuple, which every Python can hash."""
    if isinstance(value, tuple):
        return tuple, *map(tagged, value)
    if isinstance(value, slice):
        return slice, *map(tagged, (value.start, value.stop, value.step))
    return type(value), repr(value) if isinstance(value, float | np.floating) else value


def call_key(args: Sequence[Any], named: Mapping[str, Any]) -> tuple | None:
    """The key of a call of tensors and numbers with named parameters; None with anything else, such as NumPy arrays."""
    try:
        return key_of([type(x) if type(x) in NUMBERS else x.array.spec for x in args], named)
    except AttributeError:
        return None


def taking_numbers(op: str, call: Callable[[Sequence], Any], args: Sequence[Any]) -> Callable[[Sequence], Any]:
    """A call of tensors that takes numbers where `args` has numbers."""
    if all(isinstance(x, Tensor) for x in args):
        return call
    like = max(i for i, x in enumerate(args) if isinstance(x, Tensor))  # as in `as_tensors`
    return lambda args: call([x if isinstance(x, Tensor) else as_tensor(x, args[like], op) for x in args])
