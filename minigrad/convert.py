"""Arrays from one place and type to another: host data, dtypes, devices."""

from functools import lru_cache
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.devices import get

DTYPES = tuple(map(np.dtype, ("float32", "float64", "bool", "uint8", "int32", "int64")))
FLOATS = DTYPES[:2]


def move(array: Any, device: str) -> Any:
    """An array on another device."""
    host = array.numpy() if isinstance(array, Array) else array
    return host.copy() if device == "numpy" else Array.upload(get(device), host)


def convert(array: Any, dtype: np.dtype) -> Any:
    """An array in another dtype, on its own device."""
    if isinstance(array, Array):
        return Array.upload(array.device, array.numpy().astype(dtype))
    return array.astype(dtype)


def check_dtype(dtype: Any) -> np.dtype:
    """A dtype that kernels know. Raises TypeError with the list."""
    found = np.dtype(dtype)
    if found not in DTYPES:
        raise TypeError(
            f"dtype {found} is not one of {', '.join(map(str, DTYPES))}; convert it, e.g. x.astype('float32')."
        )
    return found


def to_host(data: Any, dtype: Any = None) -> np.ndarray:
    """The data as a NumPy array of a dtype that kernels know. Raises TypeError or ValueError in a sentence."""
    try:
        host = np.asarray(data)
    except ValueError as error:
        raise ValueError("tensor: the nested lists are ragged; every row needs the same length.") from error
    if host.dtype == object or host.dtype.kind in "USmMVc":
        raise TypeError(f"tensor: cannot make numbers of {type(data).__name__} ({host.dtype}).")
    if dtype is None and host.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
        dtype = np.float32
    return host.astype(check_dtype(host.dtype if dtype is None else dtype), copy=False)


def memory(array: Any) -> int:
    """The address of an array's first element, on its device."""
    return array.address if isinstance(array, Array) else array.__array_interface__["data"][0]


def copied(array: Any) -> Any:
    """The same values in memory of their own, on the same device."""
    if not isinstance(array, Array):
        return array.copy()
    other = Array.empty(array.device, array.shape, array.dtype)
    other.copy_from(array)
    return other


@lru_cache(maxsize=256)
def constant(written: str, dtype: np.dtype, device: str) -> Any:
    """A number as an array with no axes. Kept, since a loop uses the same few; `written` tells -0.0 from 0.0."""
    return move(np.asarray(complex(written).real).astype(dtype), device)
