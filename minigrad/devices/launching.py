"""How the device `cuda` launches kernels: queued on its stream, one by one or as the steps of a program."""

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from minigrad.array import Array
from minigrad.devices.base import MAX_SHARED, Arguments, Dim3, Step
from minigrad.devices.libcuda import REGISTERS, SHARED, LaunchConfig, Queue, Refused, why
from minigrad.devices.pool import Pool, PooledBuffer


class Launching:
    """The part of the device `cuda` that launches."""

    label: str
    _library: Any
    _ours: Any
    _lock: Any
    _functions: dict[tuple, Any]
    _launched: deque[Sequence[Step]]
    _dead: str
    _capture: Any
    guarded: Callable[[], AbstractContextManager[None]]
    current: Callable[[], AbstractContextManager[None]]
    _failure: Callable[[Exception, str], Exception]
    _lost: Callable[[], Exception]
    touch: Callable[..., None]
    pool: Pool
    stream: Any

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Queue a kernel on the stream."""
        packed = arguments.packed
        at = [ctypes.addressof(packed) + getattr(type(packed), field).offset for field, *_ in packed._fields_]
        queue = self.queued(module, name, grid, block, shared, packed, at)
        with self._lock:
            self.touch(*(array for _, array in arguments.arrays))
            self.take([queue])

    def queued(
        self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, packed: ctypes.Structure, at: Sequence[int]
    ) -> "Queue":
        """What queues a launch, with the values of its parameters that are found at these places then."""
        function = self._functions.get((module, name))
        if function is None:
            with self.guarded():
                function = self._functions[module, name] = module.function(name)
        if shared > MAX_SHARED:  # more than every GPU has must be asked for
            self._allow(function, name, shared)
        config = LaunchConfig(*grid, *block, shared, self.stream.handle)
        parameters = (ctypes.c_void_p * len(at))(*at)
        queue = Queue(self._library.cuLaunchKernelEx, ctypes.byref(config), function.handle, parameters, None)
        queue.name, queue.refusal, queue.keep = name, partial(_too_much, name, function, config), packed
        return queue

    def repeat(self, program: Any, arrays: Sequence[Array]) -> list[PooledBuffer]:
        """Queue a program's launches, copies and fills on these arrays and on new memory, which is returned."""
        with self._lock:
            made = [self.pool.allocate(nbytes) for nbytes in program.sizes]
            addresses = [x.address for x in arrays] + [x.address for x in made]
            if program.moved:
                addresses += [addresses[number] + offset for number, offset in program.moved]
            program.table[:] = addresses
            if self._capture is not None:
                self.touch(*arrays)
            self.take(program.steps)
        return made

    def take(self, steps: Sequence[Step]) -> None:
        """Queue each step; the lock is held."""
        if self._dead:
            raise self._lost()
        self._launched.append(steps)
        for step in steps:
            if step():  # a Queue, whose call the driver has refused
                self._again(step)

    def _again(self, queue: Any) -> None:
        """On a thread where another context is current, try in ours. Raises LaunchError where it is refused there."""
        with nullcontext() if self._ours.is_current() else self.current():
            if status := queue():
                error = why(self._library, queue.func.__name__, status)
                raise self._failure(error, queue.refusal(error))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self._plain(self._library.cuMemcpyDtoDAsync_v2, target, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
        self._plain(self._library.cuMemsetD8Async, address, 0, nbytes)

    def _plain(self, call: Callable, *arguments: int) -> None:
        queue = Queue(call, *arguments, self.stream.handle)
        queue.refusal = lambda error: f"{self.label} refused: {error}."
        with self._lock:
            self.take([queue])

    def _allow(self, function: Any, name: str, shared: int) -> None:
        with self._lock, self.current():
            try:
                function.allow_shared(shared)
            except Refused as error:
                text = f"{name}: this GPU has no {shared} bytes of shared memory for a block: {error}."
                raise self._failure(error, f"{text} Choose another kernel.") from error


def _too_much(name: str, function: Any, config: LaunchConfig, error: Exception) -> str:
    """What to say of a launch that was refused."""
    grid, block = (config.grid_x, config.grid_y, config.grid_z), (config.block_x, config.block_y, config.block_z)
    return (
        f"{name}: the GPU refused grid={grid}, block={block}: {error}. It needs {function.attribute(REGISTERS)} "
        f"registers a thread, {function.attribute(SHARED) + config.shared} bytes of shared memory a block. "
        "Choose a smaller block."
    )
