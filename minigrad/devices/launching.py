"""A launch on the device `cuda`, prepared once: one call of the driver with all of its arguments."""

import ctypes
from functools import partial
from typing import Any

from minigrad.devices.base import MAX_SHARED, Placed
from minigrad.devices.context import Context
from minigrad.devices.libcuda import REGISTERS, SHARED, LaunchConfig, Queue, Refused
from minigrad.devices.tensor_maps import mapped


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
