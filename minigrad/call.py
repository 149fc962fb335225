"""The arguments of an op's call: which are inputs, which are parameters, and whether the inputs go together."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minigrad.devices.dtypes import FLOATS
from minigrad.errors import short

NUMBERS = (int, float, bool)
PLAIN = (type(None), bool, int, str)  # not floats: 0.0 is -0.0


class Inputs:
    """What a forward function takes: inputs without a default, or any number of them (*xs), then parameters."""

    def __init__(self, op: str, forward: Callable):
        takes = inspect.signature(forward).parameters.values()
        self.op = op
        self.names = [p.name for p in takes if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
        self.params = [p.name for p in takes if p.name not in self.names]
        self.asked = {p.name for p in takes if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in takes)

    def split(self, given: Sequence[Any], named: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Inputs and parameters of a call written as NumPy's: `reshape(x, (2, 3))`, `concatenate([a, b], 1)`."""
        inputs, rest = given[: len(self.names)], given[len(self.names) :]
        if self.variadic:
            inputs, rest = (given[0], given[1:]) if given and isinstance(given[0], list | tuple) else (given, ())
        params = dict(zip(self.params, rest, strict=False))
        if twice := params.keys() & named.keys():
            raise TypeError(f"{self.op}: {', '.join(sorted(twice))} is given twice, by place and by name.")
        params |= named
        short = len(inputs) < len(self.names) and not self.variadic
        if short or len(rest) > len(self.params) or not self.asked <= params.keys() <= set(self.params):
            takes, got = ", ".join([*self.names, *self.params]), ", ".join([f"{len(given)} arguments", *named])
            way_out = " Give inputs by their place, without a name." if {*self.names} & named.keys() else ""
            raise TypeError(f"{self.op} takes ({takes}); got {got}.{way_out}")
        return inputs, params

    def fit(self, given: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether a call may be written so."""
        try:
            self.split(given, dict(named))
        except TypeError:
            return False
        return True


def as_tensors(op: str, inputs: Sequence[Any], any_dtype: bool) -> list:
    """The inputs of an op as tensors of one device; numbers follow the last tensor. Raises TypeError, ValueError."""
    from minigrad.tensor import Tensor, as_tensor

    like = next((x for x in reversed(inputs) if isinstance(x, Tensor)), None)  # the last: in `where` the first is bool
    if like is None:
        got = " and ".join(short(x) for x in inputs) or "none"
        raise TypeError(f"{op} takes tensors; got {got}. Make one with mg.tensor(...).")
    tensors = [as_tensor(x, like, op) for x in inputs]
    _check_together(op, tensors, any_dtype)
    return tensors


def _check_together(op: str, tensors: list, any_dtype: bool) -> None:
    first = tensors[0]
    for other in tensors:
        if other.device != first.device:
            raise ValueError(
                f"{op}: one input is on {first.device}, another on {other.device}; move one with .to({first.device!r})."
            )
    if not any_dtype:
        must_be_floats(op, *tensors)


def must_be_floats(op: str, first: Any, *others: Any) -> None:
    """Raise TypeError where arrays or tensors are not float32, or not all float64."""
    for other in (first, *others):
        if other.dtype not in FLOATS:
            raise TypeError(
                f"{op} takes float32 or float64; got {other.dtype}. Use .astype('float32'), or write 1.0 for 1."
            )
        if other.dtype != first.dtype:
            raise TypeError(
                f"{op}: one input is {first.dtype}, another {other.dtype}; "
                f"make them one with .astype({first.dtype.name!r})."
            )


def kinds(given: Sequence[Any], named: Mapping[str, Any]) -> tuple | None:
    """What a call is given: the specs of tensors, the types of numbers, named parameters; None for anything else."""
    try:
        inputs = tuple([x.array.spec for x in given])
    except AttributeError:
        try:
            inputs = tuple([type(x) if type(x) in NUMBERS else x.array.spec for x in given])
        except AttributeError:
            return None
    return _with(inputs, named) if named else inputs


def _with(inputs: tuple, named: Mapping[str, Any]) -> tuple | None:
    """A key that knows parameters by name, type and value, for 1 is True; None where that is not enough."""
    for value in named.values():
        kind = type(value)
        if kind not in PLAIN and not (kind is tuple and {*map(type, value)} <= {int}):
            return None
    return (*inputs, *named.items(), *map(type, named.values()))


def for_numbers(op: str, plan: Callable[[Sequence], Any], given: Sequence[Any]) -> Callable[[Sequence], Any]:
    """A plan for tensors that takes numbers as well, where there are such among the inputs."""
    from minigrad.tensor import Tensor, as_tensor

    if all(isinstance(x, Tensor) for x in given):
        return plan
    like = max(i for i, x in enumerate(given) if isinstance(x, Tensor))  # as in `as_tensors`
    return lambda given: plan([x if isinstance(x, Tensor) else as_tensor(x, given[like], op) for x in given])
