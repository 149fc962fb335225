"""Prepare launches: a cuLaunchKernelEx call for each, and the tensor maps that the driver encodes for its addresses."""

import ctypes
from functools import partial
from math import prod
from typing import Any

from minigrad.devices.cuda import libcuda
from minigrad.devices.cuda.context import Context
from minigrad.devices.device import MAX_SHARED, PlacedLaunch
from minigrad.devices.tensor_map import ImageMap, TensorMap
from minigrad.errors import require_resident

# CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 and _TFLOAT32, which rounds floats on their way, by the bytes of an element.
TYPES = {2: 9, 4: 11}
LAYOUT = (0, 3, 2, 0)  # rows not interleaved, SWIZZLE_128B, L2_PROMOTION_128B, zeros outside
SIZE, ALIGNED = 128, 64  # bytes of a map and its alignment


def prepared(context: Context, launch: PlacedLaunch, processors: int) -> list[libcuda.DriverCall]:
    """The driver calls that queue a launch; each time they read its parameters at the launch's places."""
    module, name, grid, block, shared, arguments, places = launch
    function = module.functions.get(name)
    config = libcuda.LaunchConfig(*grid, *block, shared, context.stream.handle)
    if function is None or shared > MAX_SHARED or arguments.cooperative:
        with context.guarded():
            function = module.function(name)
            if shared > MAX_SHARED:  # more than every GPU has must be asked for
                _allow_shared(context, function, name, shared)
            if arguments.cooperative:
                most = processors * libcuda.blocks_at_once(context.library, function, prod(block), shared)
                require_resident(name, prod(grid), most, context.label)
                config.attributes, config.count = ctypes.addressof(libcuda.COOPERATIVE), 1
    parameters, calls = (ctypes.c_void_p * len(places))(*places), []
    for i, tensor_map in arguments.maps:
        encode, parameters[i] = _encoded(context.library, tensor_map, places[i])
        calls.append(encode)
    given = ctypes.byref(config), function, ctypes.byref(parameters), None  # as C takes them: no conversion
    call = libcuda.DriverCall(context.library.cuLaunchKernelEx, *given)
    call.name, call.keep = name, arguments.packed
    call.message = partial(_message, context.library, name, function, config)
    return [*calls, call]


def _encoded(library: Any, tensor_map: TensorMap, place: int) -> tuple[libcuda.DriverCall, int]:
    """The call that encodes the map of the array whose address it finds at `place`, and the address of that map."""
    shape, stored = tensor_map.shape[::-1], tensor_map.stored[::-1]  # the innermost axis first
    rank = len(shape)
    uint64s, uint32s = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    itemsize = tensor_map.array.dtype.itemsize
    strides = [prod(stored[:axis]) * itemsize for axis in range(1, rank)]  # in bytes; the innermost axis has none
    extents = uint64s(*shape), uint64s(*strides)
    if isinstance(tensor_map, ImageMap):
        lower, upper = ((ctypes.c_int * 2)(*corner[::-1]) for corner in (tensor_map.lower, tensor_map.upper))
        pixels, channels = tensor_map.box
        steps = uint32s(1, *tensor_map.stride[::-1], 1)
        encode, places = library.cuTensorMapEncodeIm2col, [lower, upper, channels, pixels, steps]
    else:
        encode, places = library.cuTensorMapEncodeTiled, [uint32s(*tensor_map.box[::-1]), uint32s(*[1] * rank)]
    memory = ctypes.create_string_buffer(SIZE + ALIGNED)
    target = -(-ctypes.addressof(memory) // ALIGNED) * ALIGNED
    address = ctypes.c_void_p.from_address(place)
    target_type = ctypes.c_void_p(target), TYPES[itemsize]
    call = libcuda.DriverCall(encode, *target_type, rank, address, *extents, *places, *LAYOUT)
    call.keep = memory
    call.message = lambda error: (
        f"no tensor map of {tensor_map.shape} in boxes of {tensor_map.box}: {error}. "
        "Rows must be multiples of 16 bytes."
    )
    return call, target


def _allow_shared(context: Context, function: Any, name: str, shared: int) -> None:
    try:
        libcuda.checked(context.library, "cuFuncSetAttribute", function, libcuda.MAX_DYNAMIC_SHARED, shared)
    except libcuda.DriverError as error:
        text = f"{name}: this GPU has no {shared} bytes of shared memory for a block: {error}."
        raise context.failure(error, f"{text} Choose another kernel.") from error


def _message(library: Any, name: str, function: Any, config: libcuda.LaunchConfig, error: Exception) -> str:
    """The error message of a launch that the driver rejects."""
    grid, block = (config.grid_x, config.grid_y, config.grid_z), (config.block_x, config.block_y, config.block_z)
    registers, shared = (libcuda.attribute(library, function, number) for number in (libcuda.REGISTERS, libcuda.SHARED))
    return (
        f"{name}: the GPU rejected grid={grid}, block={block}: {error}. It needs {registers} registers per thread, "
        f"{shared + config.shared} bytes of shared memory per block. "
        "Choose a smaller block."
    )
