"""TensorMap: boxes in an array, which a GPU of the Hopper generation fetches as a whole."""

import ctypes
from collections.abc import Sequence
from typing import Any

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
        self.stored = self.shape  # in memory: it gives the strides


class ImageMap(TensorMap):
    """A map of images (N, C, H, W) whose channels are last in memory, fetched by pixels with some of their channels.

    The pixels are those at which a window begins, one after the other through rows and images; they may lie in the
    padding. A copy moves them all by one tap of the window. A window with more channels than the array has takes those
    of the next pixels, too: then its images are narrower than the array.
    """

    def __init__(self, array: Array, at: Any, channels: int, pixels: int):
        super().__init__(array, (array.shape[0], at.height, at.width, at.channels), (pixels, channels))
        self.stored = array.spec.stored
        self.stride, (self.lower, self.upper) = (at.stride_y, at.stride_x), corners(at)


def corners(at: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Row and column of a window's first place, and of its last, as distances from the image's first and last pixel."""
    lower, outs = (-at.top, -at.left), (at.out_height, at.out_width)
    steps, extents = (at.stride_y, at.stride_x), (at.height, at.width)
    down, across = (
        low + (count - 1) * step - extent + 1
        for low, count, step, extent in zip(lower, outs, steps, extents, strict=True)
    )
    return lower, (down, across)
