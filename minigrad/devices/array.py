"""Array: device memory with a shape and a dtype, and its Spec: device, shape, dtype, alignment and layout."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minigrad.devices.device import Buffer, Device

# A kernel counts elements in an int. A thread that steps by a whole block, of up to 1024 threads, takes one last step
# before it finds itself outside: that must not overflow either.
MAX_ELEMENTS = 2**31 - 1024
ALIGNED = 16  # bytes, the longest load of a thread


class Spec:
    """Device, shape and dtype of an array, its offset in bytes from a multiple of 16, and its layout.

    `stored` is the shape in the order of memory. Specs are unique: two arrays are alike where `x.spec is y.spec`.
    """

    __slots__ = ("__weakref__", "channels_last", "device", "dtype", "nbytes", "offset", "shape", "size", "stored")

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype, offset: int, channels_last: bool):
        self.device, self.shape, self.dtype, self.offset = device, shape, dtype, offset
        self.channels_last, self.stored = channels_last, (shape[0], *shape[2:], shape[1]) if channels_last else shape
        self.size = elements(shape)
        self.nbytes = self.size * dtype.itemsize


_SPECS: WeakValueDictionary[tuple, Spec] = WeakValueDictionary()


def spec_of(
    device: Device, shape: tuple[int, ...], dtype: np.dtype, address: int = 0, channels_last: bool = False
) -> Spec:
    """The unique Spec of such arrays. Images of one channel or of one pixel are the same in both layouts."""
    last = channels_last and len(shape) == 4 and shape[1] > 1 and shape[2] * shape[3] > 1
    key = (device, shape, dtype, address % ALIGNED, last)
    return _SPECS.get(key) or _SPECS.setdefault(key, Spec(*key))


def elements(shape: Sequence[int]) -> int:
    """The number of elements in this shape. Raises ValueError beyond MAX_ELEMENTS."""
    size = math.prod(shape)
    if size > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {tuple(shape)} has {size} elements; make it at most {MAX_ELEMENTS}.")
    return size


class Array:
    """Device memory with a shape and a dtype, contiguous in C order or, of images, with the channels last."""

    __slots__ = ("__weakref__", "address", "buffer", "spec")
    device = property(attrgetter("spec.device"))
    shape = property(attrgetter("spec.shape"))
    dtype = property(attrgetter("spec.dtype"))
    size = property(attrgetter("spec.size"))
    nbytes = property(attrgetter("spec.nbytes"))
    channels_last = property(attrgetter("spec.channels_last"))
    ndim = property(lambda self: len(self.spec.shape))

    def __init__(
        self, device: Device, shape: tuple[int, ...], dtype: np.dtype, buffer: Buffer, address: int = 0,
        channels_last: bool = False,
    ):  # fmt: skip
        self.buffer, self.address = buffer, address or buffer.address
        self.spec = spec_of(device, shape, dtype, self.address, channels_last)

    @classmethod
    def empty(cls, device: Device, shape: tuple[int, ...], dtype: np.dtype, channels_last: bool = False) -> "Array":
        """Uninitialised memory. A zero-size array owns a few bytes, so its address is valid."""
        buffer = device.allocate(max(elements(shape) * dtype.itemsize, 1))
        return cls(device, shape, dtype, buffer, 0, channels_last)

    @classmethod
    def zeros(cls, device: Device, shape: tuple[int, ...], dtype: np.dtype) -> "Array":
        array = cls.empty(device, shape, dtype)
        device.zero(array.address, array.nbytes)
        return array

    @classmethod
    def upload(cls, device: Device, host: np.ndarray, channels_last: bool = False) -> "Array":
        """A copy of a NumPy array, of any strides, on the device."""
        array = cls.empty(device, host.shape, host.dtype, channels_last)
        if host.size:
            device.upload(
                array.address, np.ascontiguousarray(np.moveaxis(host, 1, -1) if array.channels_last else host)
            )
        return array

    def numpy(self) -> np.ndarray:
        """A copy in host memory; waits for the kernels that write this array."""
        host = np.empty(self.spec.stored, self.dtype)
        if self.size:
            self.device.download(self.address, host)
        return np.ascontiguousarray(np.moveaxis(host, -1, 1)) if self.channels_last else host

    def reshape(self, shape: tuple[int, ...]) -> "Array":
        """A view of the same memory in another shape of the same size, in C order."""
        return Array(self.device, shape, self.dtype, self.buffer, self.address)

    def rows(self, start: int, count: int) -> "Array":
        """A view of `count` rows of a matrix."""
        address = self.address + start * self.shape[1] * self.dtype.itemsize
        return Array(self.device, (count, self.shape[1]), self.dtype, self.buffer, address)

    def copy_from(self, other: "Array") -> None:
        """Overwrite this array with another of the same shape, dtype and layout."""
        if self.size and self.address != other.address:
            if self.device.repeats:
                self.device.touch(self, other)
            self.device.copy(self.address, other.address, self.nbytes)

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype}, device={self.device.name})"


def array_over(buffer: Buffer, spec: Spec, new: Any = object.__new__) -> Array:
    """The array of this spec in a buffer; `spec` must fit its address."""
    array = new(Array)
    array.spec, array.buffer, array.address = spec, buffer, buffer.address
    return array
