"""The operators and methods of a Tensor: each is one line and names the op that does the work."""

from collections.abc import Sequence
from typing import Any

from minigrad.op import OPS

Axis = int | Sequence[int] | None


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
