"""NumPy's functions that are no op, as np.argmax: they take the values of tensors and record no gradient."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.operators import OPS, Operators


def call(function: Callable, inputs: Any, named: Mapping[str, Any]) -> Any:
    """The function of the values. Raises TypeError where its result would lack a gradient that a tensor requires."""
    tensors: list[Any] = []
    result = function(*_values(inputs, tensors), **{name: _values(x, tensors) for name, x in named.items()})
    lost = _has_floats(result) and tape.grad_enabled() and any(t.requires_grad for t in tensors)
    if lost and not function.__name__.endswith("_like"):  # zeros_like and its kin: their gradient is 0
        name = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
        why = "its op takes no such arguments" if function.__name__ in OPS else "no op has that name"
        raise TypeError(
            f"{name} of a tensor that requires a gradient: {why}, so the result would have no gradient. "
            f"Write it with ops, as a @ b, or {name}(x.detach()) for the values alone."
        )
    return result


def _values(given: Any, tensors: list[Any]) -> Any:
    """The arguments with tensors replaced by arrays, in lists too; collects the tensors."""
    if isinstance(given, list | tuple):
        return (list if isinstance(given, list) else tuple)(_values(x, tensors) for x in given)
    if isinstance(given, Operators):
        tensors.append(given)
        return given.numpy()  # type: ignore[attr-defined]
    return given


def _has_floats(result: Any) -> bool:
    """True where a result holds floating-point or complex numbers."""
    if isinstance(result, list | tuple):
        return any(map(_has_floats, result))
    return isinstance(result, np.ndarray | np.generic) and result.dtype.kind in "fc"
