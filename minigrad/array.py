"""Array: contiguous memory on a device that runs kernels. NumPy's own arrays are the arrays of `numpy`."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from minigrad.devices.base import Buffer, Device

# A kernel counts elements in an int. A thread that steps on by a whole block, of up to 1024 threads, does so once more
# at the end, before it finds itself outside: that must not overflow either.
MAX_ELEMENTS = 2**31 - 1024


class Array:
    """A shape and a dtype over device memory, always contiguous in C order."""

    __slots__ = ("__weakref__", "address", "buffer", "device", "dtype", "shape", "size")

    def __init__(self, device: "Device", shape: tuple[int, ...], dtype: np.dtype, buffer: "Buffer", address: int = 0):
        self.device, self.shape, self.dtype, self.buffer = device, shape, dtype, buffer
        self.size = elements(shape)
        self.address = address or buffer.address

    @classmethod
    def empty(cls, device: "Device", shape: tuple[int, ...], dtype: np.dtype) -> "Array":
        """Uninitialised memory. A zero-size array owns a few bytes, so its address is valid."""
        return cls(device, shape, dtype, device.allocate(max(elements(shape) * dtype.itemsize, 1)))

    @classmethod
    def zeros(cls, device: "Device", shape: tuple[int, ...], dtype: np.dtype) -> "Array":
        """Memory filled with zero bytes."""
        array = cls.empty(device, shape, dtype)
        device.zero(array.address, array.nbytes)
        return array

    @classmethod
    def upload(cls, device: "Device", host: np.ndarray) -> "Array":
        """A copy of a NumPy array, of any strides, on the device."""
        array = cls.empty(device, host.shape, host.dtype)
        if host.size:
            device.upload(array.address, np.ascontiguousarray(host))
        return array

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """A copy in host memory; waits for the kernels that write this array."""
        host = np.empty(self.shape, self.dtype)
        if self.size:
            self.device.download(self.address, host)
        return host

    def reshape(self, shape: tuple[int, ...]) -> "Array":
        """The same memory under another shape of the same size."""
        return Array(self.device, shape, self.dtype, self.buffer, self.address)

    def rows(self, start: int, count: int) -> "Array":
        """Some rows of a matrix, in the same memory."""
        columns = self.shape[1]
        address = self.address + start * columns * self.dtype.itemsize
        return Array(self.device, (count, columns), self.dtype, self.buffer, address)

    def copy_from(self, other: "Array") -> None:
        """Overwrite this array with another of the same shape and dtype."""
        if self.size and self.address != other.address:
            self.device.copy(self.address, other.address, self.nbytes)

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype}, device={self.device.name})"


def elements(shape: Sequence[int]) -> int:
    """The number of elements in an array of this shape. Raises ValueError beyond what a kernel can count."""
    size = math.prod(shape)
    if size > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {tuple(shape)} has {size} elements; make it at most {MAX_ELEMENTS}.")
    return size
