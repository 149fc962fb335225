"""DeviceNumber: a number that kernels read from the memory of their device, so that a captured step follows it."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.tape import mode


class DeviceNumber:
    """A float64 in the memory of each device that reads it. Another value changes the memory, and no launch."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Array, float]] = {}  # by device, with the value there

    def on(self, device: Any, value: float) -> Array:
        """The number as an array (1,) on a device; while a step is captured, it gets its value before each replay."""
        held = self._held.get(device.name)
        if held is None:
            held = self._held[device.name] = Array.upload(device, np.array([value])), value
        elif held[1] != value and not mode.recorder:
            self.send(value)
        return held[0]

    def send(self, value: float) -> None:
        """Write the value wherever another one is."""
        for name, (array, held) in self._held.items():
            if held != value:
                array.device.upload(array.address, np.array([value]))
                self._held[name] = array, value
