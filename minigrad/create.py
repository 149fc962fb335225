"""New tensors: from data, filled with one value, random."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from minigrad.devices import check, default_device
from minigrad.devices.array import elements
from minigrad.devices.dtypes import check_dtype, has_gradient, move, to_host
from minigrad.devices.random import Generator
from minigrad.errors import require_number
from minigrad.tensor import Tensor


def tensor(data: Any, requires_grad: bool = False, device: str | None = None, dtype: Any = None) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array or a tensor.

    Python floats become float32; NumPy arrays keep their dtype. device is `numpy`, `sim` or `cuda`; without it, `cuda`
    where there is a GPU and else `numpy`.
    """
    if isinstance(data, list | tuple) and any(isinstance(x, Tensor) and x.requires_grad for x in data):
        raise TypeError(
            "tensor: a list would cut its tensors off the tape; join them with mg.concatenate, or detach()."
        )
    if isinstance(data, Tensor):
        data, device = data.numpy(), data.device if device is None else device
    host = to_host(data, dtype)
    made = Tensor(move(host, default_device() if device is None else check(device)))
    made.requires_grad = requires_grad
    return made


def zeros(*shape: Any, requires_grad: bool = False, device: str | None = None, dtype: Any = "float32") -> Tensor:
    """A tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`."""
    return tensor(np.zeros(extents(shape), check_dtype(dtype)), requires_grad, device)


def ones(*shape: Any, requires_grad: bool = False, device: str | None = None, dtype: Any = "float32") -> Tensor:
    """A tensor of ones."""
    return tensor(np.ones(extents(shape), check_dtype(dtype)), requires_grad, device)


def randn(*shape: Any, requires_grad: bool = False, device: str | None = None, dtype: Any = "float32") -> Tensor:
    """A tensor of standard normal numbers, from the generator that `manual_seed` sets."""
    dtype = _of_floats("randn", dtype)
    return tensor(np.asarray(Generator.rng().standard_normal(extents(shape))), requires_grad, device, dtype)


def uniform(
    low: float, high: float, shape: Sequence[int], requires_grad: bool = False, device: str | None = None,
    dtype: Any = "float32",
) -> Tensor:  # fmt: skip
    """A tensor of uniform random numbers from low to high, from the generator that `manual_seed` sets."""
    low, high = require_number("uniform", "low", low, -inf), require_number("uniform", "high", high, -inf)
    dtype = _of_floats("uniform", dtype)
    numbers = np.asarray(low + (high - low) * Generator.rng().random(extents((shape,))))
    return tensor(numbers, requires_grad, device, dtype)


def _of_floats(who: str, dtype: Any) -> np.dtype:
    """The dtype. Raises TypeError where it is no floating-point type."""
    found = check_dtype(dtype)
    if not has_gradient(found):
        raise TypeError(f"{who} makes numbers with a fraction, in float32 or float64, not in {found}.")
    return found


def extents(shape: tuple) -> tuple[int, ...]:
    """A shape from numbers or one tuple. Raises ValueError for a negative or too large one."""
    given = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in given):
        raise ValueError(f"a shape is whole numbers of at least 0; got {given}.")
    elements(tuple(map(int, given)))  # as many as a kernel can count
    return given
