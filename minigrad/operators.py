"""The registry of ops, and the operators and methods of a tensor: each one calls the op of its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Axis = int | tuple[int, ...] | None
OPS: dict[str, Any] = {}  # every listed op by its name; `minigrad.op.Op` adds itself


def op_named(name: str) -> Any:
    """The op with the name of a NumPy function. Raises TypeError where there is none."""
    if name not in OPS:
        raise TypeError(
            f"np.{name} of a tensor: no op has that name; there is {', '.join(OPS)}. "
            f"Of its values it is np.{name}(x.numpy())."
        )
    return OPS[name]


def _binary(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: OPS[name](self, other)


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    """The operator for a number on the left: 2 - x."""
    return lambda self, other: OPS[name](other, self)


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._in_place(name, other)


def _unary(name: str, doc: str = "") -> Callable[[Any], Any]:
    """A method that calls an op on the tensor alone."""

    def method(self: Any) -> Any:
        return OPS[name](self)

    method.__name__, method.__doc__ = name, doc
    return method


class Operators:
    """The operators and methods that a tensor and a traced value share: `a + b`, `a @ b`, `a.sum(axis=0)`."""

    __slots__ = ()
    __hash__ = object.__hash__  # `==` compares elements, so a tensor is hashed by identity

    __add__, __radd__, __iadd__ = _binary("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _binary("multiply"), _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _binary("divide"), _reflected("divide"), _in_place("divide")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __neg__ = _unary("negative")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")

    exp = _unary("exp", "e to the power of each element.")
    log = _unary("log", "The natural logarithm of each element.")
    sqrt = _unary("sqrt", "The square root of each element.")
    tanh = _unary("tanh", "The hyperbolic tangent of each element.")
    sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)) of each element.")
    relu = _unary("relu", "Each element where it is positive, else 0.")

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """The sum over some axes, or over all."""
        return OPS["sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """The mean over some axes, or over all."""
        return OPS["mean"](self, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """The largest element over some axes, or over all."""
        return OPS["max"](self, axis=axis, keepdims=keepdims)

    def transpose(self, *axes: int) -> Any:
        """The axes in another order: reversed, or in the order given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return OPS["transpose"](self, axes=order if axes else None)

    T = property(lambda self: OPS["transpose"](self, axes=None), doc="The tensor with its axes reversed.")

    def reshape(self, *shape: int) -> Any:
        """The same elements in another shape; one extent may be -1. Shares memory with this tensor."""
        extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return OPS["reshape"](self, shape=extents)

    def __getitem__(self, key: Any) -> Any:
        return OPS["getitem"](self, key=key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "a tensor is not written element by element; use mg.where(condition, a, b), or assign(values) for all."
        )

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """np.exp(x) and np.float32(2) * x call the op of that name."""
        name = function.__name__ if method == "__call__" else f"{function.__name__}.{method}"
        numbers = [x.item() if isinstance(x, np.ndarray) and not x.ndim else x for x in inputs]  # NumPy's own numbers
        return op_named(name)(*numbers, **named)

    def __array_function__(self, function: Any, types: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """np.sum(x, axis=1) calls the op of that name, where it takes such arguments."""
        try:
            OPS[function.__name__].inputs.split(inputs, named)
        except (KeyError, TypeError):
            return self._numpy_function(function, inputs, named)
        return OPS[function.__name__](*inputs, **named)

    def _numpy_function(self, function: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """A NumPy function that is no op. Raises TypeError; a tensor calls it on its values instead."""
        return op_named(function.__name__)(*inputs, **named)
