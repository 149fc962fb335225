"""What a GPU tells of itself: its chip, what a kernel takes of it, and when it came to an event."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from minigrad.devices.chip import Chip, chip_of
from minigrad.devices.libcuda import LOCAL, REGISTERS, SHARED


class Measured:
    """The part of the device `cuda` that measures."""

    _driver: Any
    _device: Any
    guarded: Callable[[], AbstractContextManager[None]]
    stream: Any

    @cached_property
    def chip(self) -> Chip:
        """What the driver says of this GPU."""
        return chip_of(self)

    def attribute(self, name: str) -> int:
        """One number of the GPU by the driver's name for it: `MULTIPROCESSOR_COUNT`."""
        return self._device.get_attribute(getattr(self._driver.device_attribute, name))

    def resources(self, module: Any, name: str) -> tuple[int, int, int]:
        """What a compiled kernel takes: registers a thread, bytes of static shared memory, bytes of local memory."""
        with self.guarded():
            function = module.function(name)
            return function.attribute(REGISTERS), function.attribute(SHARED), function.attribute(LOCAL)

    def mark(self) -> Any:
        """An event at this place in the stream."""
        with self.guarded():
            return self._driver.Event().record(self.stream)

    def passed(self, event: Any) -> bool:
        """Whether the GPU has come to the event."""
        with self.guarded():
            return bool(event.query())

    def between(self, start: Any, stop: Any) -> float:
        """The seconds from one event to another, once the GPU has come to both."""
        with self.guarded():
            stop.synchronize()
            return float(start.time_till(stop)) * 1e-3
