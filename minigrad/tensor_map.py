"""TensorMap: a matrix as the copy engine of a Hopper GPU reads it, box by box."""

import ctypes
from collections.abc import Sequence

from minigrad.arguments import struct
from minigrad.array import Array


@struct
class TensorMap(ctypes.Structure):
    """The argument of a kernel that takes a `const __grid_constant__ TensorMap`.

    The array is seen in this shape, in C order, and fetched in boxes of this shape; what a box has outside of the array
    is 0. Rows must be multiples of 16 bytes, and the rows of a box 128 bytes: they arrive in shared memory swizzled.
    Here it is a description; the device `cuda` puts the driver's 128 bytes in its place when it launches.
    """

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 15))

    def __init__(self, array: Array, shape: Sequence[int], box: Sequence[int]):
        super().__init__(array.address)
        self.array, self.shape, self.box = array, tuple(shape), tuple(box)
