"""The operators and methods of a Tensor: each is one line and names the op that does the work."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.op import OPS, Op

Axis = int | Sequence[int] | None


def op_of(name: str) -> Op:
    """The op that goes by the name of a function of NumPy. Raises TypeError where there is none."""
    if name not in OPS:
        raise TypeError(
            f"np.{name} of a tensor: no op has that name; there is {', '.join(OPS)}. "
            f"Of its values it is np.{name}(x.numpy())."
        )
    return OPS[name]


class Operators:
    """What can be written on a tensor: `a + b`, `a @ b`, `a.sum(axis=0)`."""

    __slots__ = ()
    __hash__ = object.__hash__  # `==` compares elements, so a tensor is hashed by identity

    def __add__(self, other: Any) -> Any:
        return OPS["add"](self, other)

    def __radd__(self, other: Any) -> Any:
        return OPS["add"](other, self)

    def __sub__(self, other: Any) -> Any:
        return OPS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return OPS["subtract"](other, self)

    def __mul__(self, other: Any) -> Any:
        return OPS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return OPS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return OPS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return OPS["divide"](other, self)

    def __pow__(self, other: Any) -> Any:
        return OPS["power"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return OPS["power"](other, self)

    def __matmul__(self, other: Any) -> Any:
        return OPS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return OPS["matmul"](other, self)

    def __neg__(self) -> Any:
        return OPS["negative"](self)

    def __iadd__(self, other: Any) -> Any:
        return self._in_place("add", other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place("subtract", other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place("multiply", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place("divide", other)

    def _in_place(self, op: str, other: Any) -> Any:
        return self.assign(OPS[op](self, other), f"in-place {op}")  # type: ignore[attr-defined]

    def __lt__(self, other: Any) -> Any:
        return OPS["less"](self, other)

    def __le__(self, other: Any) -> Any:
        return OPS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Any:
        return OPS["greater"](self, other)

    def __ge__(self, other: Any) -> Any:
        return OPS["greater_equal"](self, other)

    def __eq__(self, other: Any) -> Any:
        return OPS["equal"](self, other)

    def __ne__(self, other: Any) -> Any:
        return OPS["not_equal"](self, other)

    def __getitem__(self, key: Any) -> Any:
        return OPS["getitem"](self, key=key)

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **named: Any) -> Any:
        """np.exp(x) and np.float32(2) * x are the ops of these names."""
        name = function.__name__ if method == "__call__" else f"{function.__name__}.{method}"
        inputs = [x.item() if isinstance(x, np.ndarray) and not x.ndim else x for x in given]  # NumPy's own numbers
        return op_of(name)(*inputs, **named)

    def __array_function__(self, function: Any, types: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """np.sum(x, axis=1) is the op of that name, if it takes such arguments."""
        op = OPS.get(function.__name__)
        if op and op.inputs.fit(given, named):
            return op(*given, **named)
        return self._without_op(function, given, named)

    def _without_op(self, function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a function of NumPy does that no op does. Raises TypeError."""
        return op_of(function.__name__)(*given, **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "a tensor is not written element by element; use mg.where(condition, a, b), or assign(values) for all."
        )

    def exp(self) -> Any:
        """e to the power of each element."""
        return OPS["exp"](self)

    def log(self) -> Any:
        """The natural logarithm of each element."""
        return OPS["log"](self)

    def sqrt(self) -> Any:
        """The square root of each element."""
        return OPS["sqrt"](self)

    def tanh(self) -> Any:
        """The hyperbolic tangent of each element."""
        return OPS["tanh"](self)

    def sigmoid(self) -> Any:
        """1 / (1 + exp(-x)) of each element."""
        return OPS["sigmoid"](self)

    def relu(self) -> Any:
        """Each element where it is positive, else 0."""
        return OPS["relu"](self)

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
        """The axes in another order: reversed, or as given."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return OPS["transpose"](self, axes=given if axes else None)

    @property
    def T(self) -> Any:
        """The tensor with its axes reversed."""
        return OPS["transpose"](self, axes=None)

    def reshape(self, *shape: int) -> Any:
        """The same elements in another shape; one extent may be -1. Shares memory with this tensor."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return OPS["reshape"](self, shape=given)
