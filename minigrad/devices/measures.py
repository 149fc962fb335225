"""What can be read off the device `cuda`: its chip, what a kernel takes, and how far its stream has come."""

from functools import cached_property
from typing import Any

from minigrad.devices import libcuda
from minigrad.devices.chip import Chip, chip_of
from minigrad.devices.context import Context


class Measures:
    """The part of a GPU that measures; `_driver` is PyCUDA's, `_device` its device."""

    context: Context
    stream: Any
    _driver: Any
    _device: Any

    @cached_property
    def chip(self) -> Chip:
        """What the driver says of this GPU."""
        return chip_of(self)

    def attribute(self, name: str) -> int:
        """One number of the GPU by the driver's name for it: `MULTIPROCESSOR_COUNT`."""
        return self._device.get_attribute(getattr(self._driver.device_attribute, name))

    def resources(self, module: Any, name: str) -> tuple[int, int, int]:
        """What a compiled kernel takes: registers a thread, bytes of static shared memory, bytes of local memory."""
        with self.context.guarded():
            function = module.function(name)
            return tuple(map(function.attribute, (libcuda.REGISTERS, libcuda.SHARED, libcuda.LOCAL)))

    def mark(self) -> Any:
        """An event at this place in the stream."""
        with self.context.guarded():
            return self._driver.Event().record(self.stream)

    def passed(self, event: Any) -> bool:
        """Whether the GPU has come to the event."""
        with self.context.guarded():
            return bool(event.query())

    def between(self, start: Any, stop: Any) -> float:
        """The seconds from one event to another, once the GPU has come to both."""
        with self.context.guarded():
            stop.synchronize()
            return float(start.time_till(stop)) * 1e-3
