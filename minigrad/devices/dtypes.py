"""The dtypes of arrays, and conversions between dtypes, devices, layouts and host data."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import short

INTEGERS = tuple(map(np.dtype, ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")))
DTYPES = (*map(np.dtype, ("float32", "float64", "bool")), *INTEGERS)
FLOATS = DTYPES[:2]


def dtype_of(name: Any) -> np.dtype:
    """The dtype of that name, bfloat16 from ml_dtypes included. Raises TypeError or ImportError."""
    if isinstance(name, str) and name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError("bfloat16 is a dtype of ml_dtypes: pip install ml_dtypes.") from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def is_bfloat16(dtype: np.dtype) -> bool:
    """True for the bfloat16 of `ml_dtypes`, which need not be installed."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def wide(dtype: np.dtype) -> np.dtype:
    """The dtype of arithmetic and of sums: float32 for bfloat16, a dtype of memory alone, and else the dtype itself."""
    return FLOATS[0] if is_bfloat16(dtype) else dtype


def has_gradient(dtype: np.dtype) -> bool:
    return dtype in FLOATS or is_bfloat16(dtype)


def move(array: Any, device: str) -> Any:
    """A copy of an array on the device of that name, in the same layout."""
    last, host = is_last(array), array.numpy() if isinstance(array, Array) else array
    if device != "numpy":
        return Array.upload(get(device), host, last)
    return laid_out(host, True) if last else host.copy()


def is_last(array: Any) -> bool:
    """True where an array of images (N, C, H, W) has its channels last in memory, and not only there."""
    if isinstance(array, Array):
        return array.channels_last
    return array.ndim == 4 and not array.flags.c_contiguous and np.moveaxis(array, 1, -1).flags.c_contiguous


def laid_out(host: np.ndarray, last: bool) -> np.ndarray:
    """A copy of a NumPy array of images with the channels last in memory, or in C order."""
    return np.moveaxis(np.moveaxis(host, 1, -1).copy(), -1, 1) if last else host.copy()


def device_of(array: Any) -> str:
    return array.device.name if isinstance(array, Array) else "numpy"


def convert(array: Any, dtype: np.dtype) -> Any:
    """A copy of an array in another dtype, on its own device."""
    if isinstance(array, Array):
        return Array.upload(array.device, cast("astype", array.numpy(), dtype), array.channels_last)
    return cast("astype", array, dtype).copy("K")


def cast(who: str, host: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Like astype, but a value that an integer dtype cannot hold raises ValueError; NumPy would wrap it around."""
    if dtype.kind in "iu" and host.dtype != dtype and host.size:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for extreme in (host.min().item(), host.max().item()):  # NaN, if any, is both
            if not low - 1 < extreme < high + 1:  # a float is truncated
                raise ValueError(
                    f"{who}: {extreme} does not fit into {dtype}, which holds {low} to {high}. Choose another dtype."
                )
    with np.errstate(over="ignore", invalid="ignore"):  # too large a value becomes inf, as on a GPU; NaN stays
        return host.astype(dtype, copy=False)


def check_dtype(dtype: Any, among: Sequence[np.dtype] = DTYPES) -> np.dtype:
    """The dtype of that name, if kernels know it. Raises TypeError with the list."""
    try:
        found = None if dtype is None else dtype_of(dtype)
    except TypeError:
        found = None
    in_memory = found is not None and among is DTYPES and (is_bfloat16(found) or found.names or found == np.float16)
    if found is None or not (found in among or in_memory):  # those in memory are for kernels of the reader's own
        raise TypeError(
            f"dtype {found or repr(dtype)} is not one of {', '.join(map(str, among))}; "
            "choose one of these, and convert arrays with x.astype('float32')."
        )
    return found


def must_be_floats(op: str, first: Any, *others: Any) -> None:
    """Raise TypeError where arrays or tensors are not all float32 or all float64."""
    for other in (first, *others):
        if not has_gradient(other.dtype):
            struct = "Structs are for kernels of your own."
            way_out = struct if other.dtype.names else "Use .astype('float32'), or write 1.0 for 1."
            raise TypeError(f"{op} takes float32 or float64; got {other.dtype}. {way_out}")
        if other.dtype != first.dtype:
            raise TypeError(
                f"{op}: one input is {first.dtype}, another {other.dtype}; "
                f"make them one with .astype({first.dtype.name!r})."
            )


def to_host(data: Any, dtype: Any = None, who: str = "tensor") -> np.ndarray:
    """The data as a NumPy array of a dtype that kernels know. Raises TypeError or ValueError."""
    try:
        host = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{who}: the nested lists are ragged; every row needs the same length.") from error
    known = host.dtype.kind in "biuf" or is_bfloat16(host.dtype) or (isinstance(data, np.ndarray) and host.dtype.names)
    if not known or np.ma.isMaskedArray(data):
        raise TypeError(
            f"{who}: cannot make numbers of {short(data)} ({host.dtype}). Give a number, nested lists of numbers, "
            "a NumPy array or a tensor."
        )
    if dtype is None and host.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
        dtype = np.float32
    return cast(who, host, check_dtype(host.dtype if dtype is None else dtype))


def memory(array: Any) -> int:
    """The address of an array's first element, on its device."""
    return array.address if isinstance(array, Array) else array.__array_interface__["data"][0]


def sized(name: str, host: np.ndarray, size: int) -> np.ndarray:
    """The value of a variable of so many bytes: float64 and int64 become 4 bytes where that fits. Raises ValueError."""
    if host.nbytes == 2 * size and host.dtype in (np.dtype(float), np.dtype(int)):
        host = host.astype(np.dtype(f"{host.dtype.kind}4"))
    if host.nbytes != size:
        way = "its own dtype" if size % host.itemsize else f"{size // host.itemsize} elements"
        raise ValueError(f"{name} has {size} bytes; {host.size} of {host.dtype} are {host.nbytes}. Give {way}.")
    return np.ascontiguousarray(host)


def copied(array: Any) -> Any:
    """A copy on the same device."""
    if not isinstance(array, Array):
        return array.copy("K")
    other = Array.empty(array.device, array.shape, array.dtype, array.channels_last)
    other.copy_from(array)
    return other


def number(who: str, value: bool | int | float, dtype: np.dtype, device: str) -> Any:
    """A Python number as a 0-d array: in this dtype if that is of its kind or wider, else in its own."""
    own = "bif"[(bool, int, float).index(type(value))]
    if not has_gradient(dtype) and "biuf".find(dtype.kind) < "biuf".find(own):
        dtype = np.dtype({"i": np.int64, "f": np.float32}[own])
    return _constant(who, repr(int(value) if isinstance(value, bool) else value), own, dtype, device)


def zero_like(array: Any) -> Any:
    """A cached 0-d array of 0, of the same dtype on the same device: it broadcasts to any shape."""
    if not isinstance(array, Array):
        return _constant("zero_like", "0", "i", array.dtype, "numpy")
    device = array.device
    return _zero(getattr(device, "device", device), array.dtype)  # a device that records launches stands for its own


@lru_cache(maxsize=64)
def _zero(device: Any, dtype: np.dtype) -> Array:
    return Array.upload(device, np.zeros((), dtype))


@lru_cache(maxsize=256)
def _constant(who: str, text: str, kind: str, dtype: np.dtype, device: str) -> Any:
    """Cached, since a loop uses the same few; `text` tells -0.0 from 0.0."""
    value = float(text) if kind == "f" else int(text)
    try:
        host = np.asarray(value, np.float64 if has_gradient(dtype) else np.int64)
    except OverflowError:
        raise ValueError(f"{who}: {text:.40} does not fit into {dtype}; the dtype is that of the tensor.") from None
    return move(cast(who, host, dtype), device)
