"""How the device `cuda` hands tensor maps to a kernel: the driver makes them, for the addresses of each launch."""

import ctypes
from math import prod
from typing import Any

from minigrad.devices.libcuda import Queue
from minigrad.tensor_map import TensorMap

BFLOAT16 = 9  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
HOW = (0, 3, 2, 0)  # rows not interleaved, SWIZZLE_128B, L2_PROMOTION_128B, zeros outside
SIZE, ALIGNED = 128, 64  # bytes of a map, and where it lies


def mapped(library: Any, given: TensorMap, at: int) -> tuple[Queue, int]:
    """What makes the map of the array whose address is found at this place then, and the place where it will be."""
    shape, rank, size = given.shape[::-1], len(given.shape), given.array.dtype.itemsize  # the innermost axis first
    wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    strides = [prod(shape[:axis]) * size for axis in range(1, rank)]  # in bytes; the innermost axis has none
    layout = (wide(*shape), wide(*strides), narrow(*given.box[::-1]), narrow(*[1] * rank), *HOW)
    room = ctypes.create_string_buffer(SIZE + ALIGNED)
    place = -(-ctypes.addressof(room) // ALIGNED) * ALIGNED
    address = ctypes.c_void_p.from_address(at)
    queue = Queue(library.cuTensorMapEncodeTiled, ctypes.c_void_p(place), BFLOAT16, rank, address, *layout)
    queue.refusal, queue.keep = lambda error: _refusal(given, error), room
    return queue, place


def _refusal(given: TensorMap, error: Exception) -> str:
    """What to say of an array that the driver makes no map of."""
    return f"no tensor map of {given.shape} in boxes of {given.box}: {error}. Rows must be multiples of 16 bytes."
