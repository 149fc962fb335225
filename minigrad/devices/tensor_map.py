"""TensorMap: boxes in an array, which a GPU of the Hopper generation fetches as a whole."""

import ctypes
from collections.abc import Sequence

from minigrad.devices.array import Array


class TensorMap(ctypes.Structure):
    """The argument of a kernel that takes a `const __grid_constant__ TensorMap`.

    The array is viewed in `shape`, in C order, and fetched in boxes of shape `box`; elements outside the array are 0.
    Rows must be multiples of 16 bytes, and the rows of a box 128 bytes: they arrive in shared memory swizzled. This is
    a description; a launch on the device `cuda` replaces it by the driver's 128 bytes.
    """

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 15))

    def __init__(self, array: Array, shape: Sequence[int], box: Sequence[int]):
        super().__init__(array.address)
        self.array, self.shape, self.box = array, tuple(shape), tuple(box)
