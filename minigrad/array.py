"""Array: contiguous memory on a device that runs kernels. NumPy's own arrays are the arrays of `numpy`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.spec import Spec, elements, spec_of

if TYPE_CHECKING:
    from minigrad.devices.base import Buffer, Device


class Array:
    """A shape and a dtype over device memory, always contiguous in C order."""

    __slots__ = ("__weakref__", "address", "buffer", "spec")

    def __init__(self, device: "Device", shape: tuple[int, ...], dtype: np.dtype, buffer: "Buffer", address: int = 0):
        self.buffer, self.address = buffer, address or buffer.address
        self.spec = spec_of(device, shape, dtype, self.address)

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
    def device(self) -> "Device":
        """Where the memory is."""
        return self.spec.device

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of an element."""
        return self.spec.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.spec.size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.spec.nbytes

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
            if self.device.repeats:
                self.device.touch(self, other)  # type: ignore[attr-defined]
            self.device.copy(self.address, other.address, self.nbytes)

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype}, device={self.device.name})"


def array_over(buffer: "Buffer", spec: Spec, new: Any = object.__new__) -> Array:
    """The array of this spec that a buffer holds, with nothing to be worked out."""
    array = new(Array)
    array.spec, array.buffer, array.address = spec, buffer, buffer.address
    return array
