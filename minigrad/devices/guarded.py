"""Guard: a GPU whose arrays lie between guard bands, so that a kernel that writes outside them is caught.

`sim` needs none: its own memory is guarded, and its processor stops the thread at the line.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Buffer, Device, Dim3
from minigrad.errors import KernelError

BAND = 8192  # bytes on either side: a block of 1024 threads that runs over by one element each stays within
POISON = 0xFF  # a float of these bytes is NaN, so a value read outside, or never written, shows in the result


def guarded(name: str) -> Device:
    """The device of that name, with guarded memory. Raises ValueError or DeviceError."""
    device = get(check(name))
    guard: Any = Guard(device)
    return guard if device.is_gpu else device


@dataclass
class BandedBuffer:
    """Memory with a band before and behind it."""

    whole: Buffer
    address: int  # behind the first band
    nbytes: int


class Guard:
    """A device with every allocation poisoned and guarded; it checks the bands after each launch."""

    repeats = False

    def __init__(self, device: Device):
        self.device, self.name, self.is_gpu = device, device.name, device.is_gpu
        self.arch, self.processors = device.arch, device.processors

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)  # upload, download, copy, zero, build, synchronize

    def allocate(self, nbytes: int) -> BandedBuffer:
        """Memory full of NaN, between bands of the same."""
        whole = self.device.allocate(nbytes + 2 * BAND)
        self.device.upload(whole.address, np.full(nbytes + 2 * BAND, POISON, np.uint8))
        return BandedBuffer(whole, whole.address + BAND, nbytes)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run the kernel, then check the bands of every array among its arguments. Raises KernelError."""
        self.device.launch(module, name, grid, block, shared, arguments)
        for parameter, array in arguments.arrays:
            self._check_bands(name, parameter, array)

    def _check_bands(self, kernel: str, parameter: str, array: Array) -> None:
        start, nbytes = array.buffer.address, array.buffer.nbytes
        memory = np.empty(nbytes + 2 * BAND, np.uint8)
        self.device.download(start - BAND, memory)
        memory[BAND : BAND + nbytes] = POISON  # its own bytes may be anything
        touched = np.flatnonzero(memory != POISON)
        if touched.size:
            nearest = touched[np.abs(touched - BAND - nbytes / 2).argmin()]
            element = (int(nearest) - BAND) // array.dtype.itemsize
            raise KernelError(
                f"{kernel}: wrote {parameter}[{element}], and {parameter} has {array.size} elements. "
                "Guard the access, as in if (i < n), and look for a negative index.",
                kernel, "out-of-bounds", parameter,
            )  # fmt: skip
