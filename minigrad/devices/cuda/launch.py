"""How the device `cuda` hands tensor maps to a kernel: the driver makes them, for the addresses of each launch."""

import ctypes
from functools import partial
from math import prod
from typing import Any

from minigrad.devices.array import TensorMap
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.libcuda import REGISTERS, SHARED, LaunchConfig, Queue, Refused
from minigrad.devices.device import MAX_SHARED, Placed

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


def prepared(context: Context, launch: Placed) -> list[Queue]:
    """What queues a launch, with the values of its parameters that are found at their places then."""
    module, name, grid, block, shared, packed, at, maps = launch
    function = module.functions.get(name)
    if function is None or shared > MAX_SHARED:
        with context.guarded():
            function = module.function(name)
            if shared > MAX_SHARED:  # more than every GPU has must be asked for
                _allow(context, function, name, shared)
    config = LaunchConfig(*grid, *block, shared, context.stream.handle)
    parameters, makers = (ctypes.c_void_p * len(at))(*at), []
    for i, of in maps:
        make, parameters[i] = mapped(context.library, of, at[i])
        makers.append(make)
    given = ctypes.byref(config), function.handle, ctypes.byref(parameters), None  # as C takes them: nothing to convert
    queue = Queue(context.library.cuLaunchKernelEx, *given)
    queue.name, queue.refusal, queue.keep = name, partial(_too_much, name, function, config), packed
    return [*makers, queue]


def _allow(context: Context, function: Any, name: str, shared: int) -> None:
    """Let launches of a kernel ask for so much dynamic shared memory."""
    try:
        function.allow_shared(shared)
    except Refused as error:
        text = f"{name}: this GPU has no {shared} bytes of shared memory for a block: {error}."
        raise context.failure(error, f"{text} Choose another kernel.") from error


def _too_much(name: str, function: Any, config: LaunchConfig, error: Exception) -> str:
    """What to say of a launch that was refused."""
    grid, block = (config.grid_x, config.grid_y, config.grid_z), (config.block_x, config.block_y, config.block_z)
    return (
        f"{name}: the GPU refused grid={grid}, block={block}: {error}. It needs {function.attribute(REGISTERS)} "
        f"registers a thread, {function.attribute(SHARED) + config.shared} bytes of shared memory a block. "
        "Choose a smaller block."
    )
