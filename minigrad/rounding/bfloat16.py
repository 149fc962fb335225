"""References in bfloat16: NumPy computes in float32 and rounds each result once, as the kernels do."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from minigrad.devices.dtypes import has_gradient, is_bfloat16

FLOAT32 = np.dtype(np.float32)


def references(op: Any) -> tuple[Callable, Callable | None]:
    """The reference and the gradient rule of an op, for arrays of bfloat16 as well."""
    if not op.widens:
        return op.forward, op.backward
    return in_float32(op.forward), op.backward and in_float32(op.backward)


def in_float32(reference: Callable) -> Callable:
    """The reference, or the gradient rule, for arrays of bfloat16 as well; others it gets as they are.

    One that takes bfloat16 together with float32, as batch_norm does, says itself which result is which.
    """

    @wraps(reference)
    def rounded(*arrays: Any, **named: Any) -> Any:
        floats = [x.dtype for x in _arrays((*arrays, *named.values())) if has_gradient(x.dtype)]
        if not floats or not all(map(is_bfloat16, floats)):
            return reference(*arrays, **named)
        widened = (_cast(x, floats[0], FLOAT32) for x in arrays)
        result = reference(*widened, **{name: _cast(x, floats[0], FLOAT32) for name, x in named.items()})
        return _cast(result, FLOAT32, floats[0])

    return rounded


def _arrays(values: Any) -> list[np.ndarray]:
    """The arrays among values, of which a gradient may be a tuple of several."""
    nested = [x if isinstance(x, tuple) else (x,) for x in values]
    return [x for group in nested for x in group if isinstance(x, np.ndarray)]


def _cast(value: Any, before: np.dtype, after: np.dtype) -> Any:
    """The value with its arrays of one dtype in another one."""
    if isinstance(value, tuple):
        return tuple(_cast(x, before, after) for x in value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype == before:
        return np.asarray(value).astype(after)
    return value
