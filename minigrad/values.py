"""The values of a Tensor: as a NumPy array, as a number, as text."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.convert import device_of
from minigrad.devices import default_device


class Values:
    """What a tensor is, and what it holds, brought to the host."""

    __slots__ = ()
    array: Any
    node: Any
    _requires_grad: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    @property
    def dtype(self) -> np.dtype:
        """The type of an element."""
        return self.array.dtype

    @property
    def device(self) -> str:
        """`numpy`, `sim` or `cuda`."""
        return device_of(self.array)

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array, from any device."""
        return self.array.numpy() if isinstance(self.array, Array) else self.array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def _without_op(self, function: Any, given: Any, named: Mapping[str, Any]) -> Any:
        """A function of NumPy that is no op takes the values, as np.linalg.norm(x) does."""
        return function(*_arrays(given), **{name: _arrays(x) for name, x in named.items()})

    def item(self) -> float | int | bool:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() needs a tensor of one element; this one has shape {self.shape}. Use .numpy().")
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"a tensor of shape {self.shape} has no one truth. Ask its .numpy() for .all() or .any(), or choose "
                "element by element: mg.where(x > 0, a, b)."
            )
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor with no axes.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        tensor: Any = self
        return (tensor[i] for i in range(len(self)))

    def __repr__(self) -> str:
        body = np.array2string(self.numpy(), separator=", ", prefix="tensor(", threshold=64, edgeitems=3)
        notes = [] if self.dtype in (np.float32, np.int64, np.bool_) else [f"dtype={self.dtype}"]
        notes += [] if self.device == default_device() else [f"device={self.device!r}"]
        notes += [f"op={self.node.op}"] if self.node else ["requires_grad=True"] if self._requires_grad else []
        return f"tensor({', '.join([body, *notes])})"


def _arrays(given: Any) -> Any:
    """The same with arrays for tensors, also within lists and tuples."""
    if isinstance(given, list | tuple):
        return (list if isinstance(given, list) else tuple)(map(_arrays, given))
    return given.numpy() if isinstance(given, Values) else given
