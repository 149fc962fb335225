"""How the device `cuda` launches kernels: queued on its stream, one by one or as the steps of a program."""

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from minigrad.devices.base import MAX_SHARED, Arguments, Dim3, Step


class Launching:
    """The part of the device `cuda` that launches."""

    _driver: Any
    _ours: Any
    _lock: Any
    _functions: dict[tuple, Any]
    _launched: deque[str]
    _dead: str
    _capture: Any
    guarded: Callable[[], AbstractContextManager[None]]
    current: Callable[[], AbstractContextManager[None]]
    _failure: Callable[[Exception, str], Exception]
    _lost: Callable[[], Exception]
    touch: Callable[..., None]
    stream: Any

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Queue a kernel on the stream."""
        queue = self.queued(module, name, grid, block, shared, arguments)
        self.repeat([lambda addresses: queue()], [array.address for _, array in arguments.arrays])

    def queued(
        self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments
    ) -> Callable[[], None]:
        """What queues a launch, with the arguments that are packed at that time."""
        function = self._functions.get((module, name))
        if function is None:
            with self.guarded():
                function = self._functions[module, name] = module.get_function(name)
        if shared > MAX_SHARED:  # more than every GPU has must be asked for
            self._allow(function, name, shared)
        packed = (ctypes.c_ubyte * arguments.size).from_buffer(arguments.packed)

        def queue() -> None:
            self._launched.append(name)
            try:
                function._launch_kernel(grid, block, packed, shared, self.stream)
            except self._driver.Error as error:
                needs = f"{function.num_regs} registers a thread, {function.shared_size_bytes + shared} bytes of shared"
                raise self._failure(
                    error,
                    f"{name}: the GPU refused grid={grid}, block={block}: {error}. It needs {needs} memory a block. "
                    "Choose a smaller block.",
                ) from error

        return queue

    def _allow(self, function: Any, name: str, shared: int) -> None:
        with self._lock, self.current():
            try:
                function.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            except self._driver.Error as error:
                text = f"{name}: this GPU has no {shared} bytes of shared memory for a block: {error}."
                raise self._failure(error, f"{text} Choose another kernel.") from error

    def repeat(self, steps: Sequence[Step], addresses: list[int]) -> None:
        """Queue launches, copies and fills on arrays at these addresses."""
        with self._lock:
            if self._dead:
                raise self._lost()
            if self._capture is not None:
                self.touch(*addresses)
            if self._ours.is_current():
                for step in steps:
                    step(addresses)
            else:
                with self.current():
                    for step in steps:
                        step(addresses)
