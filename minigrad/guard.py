"""Guard: a device whose arrays lie between guard bands, so that a kernel that leaves them is caught on any device."""

from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.devices.base import Arguments, Buffer, Device, Dim3

BAND = 8192  # bytes on either side: a block of 1024 threads that runs over by one element each stays within
POISON = 0xFF  # a float of these bytes is NaN: what was read outside, or never written, shows in the result


class BoundsError(AssertionError):
    """A kernel that wrote outside its arrays."""


class GuardedBuffer:
    """Memory with a band before and behind it."""

    def __init__(self, whole: Buffer, nbytes: int):
        self.whole, self.nbytes = whole, nbytes
        self.address = whole.address + BAND


class Guard:
    """Another device, with every allocation poisoned and guarded, and the bands looked at after each launch."""

    def __init__(self, device: Device):
        self.device, self.name = device, device.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)  # upload, download, copy, zero, build, synchronize

    def allocate(self, nbytes: int) -> GuardedBuffer:
        """Memory full of NaN, between bands of the same."""
        whole = self.device.allocate(nbytes + 2 * BAND)
        self.device.upload(whole.address, np.full(nbytes + 2 * BAND, POISON, np.uint8))
        return GuardedBuffer(whole, nbytes)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run the kernel, then look at the bands of every array that it was given."""
        self.device.launch(module, name, grid, block, shared, arguments)
        for parameter, array in arguments.arrays:
            self.look(name, parameter, array)

    def look(self, kernel: str, parameter: str, array: Array) -> None:
        """Raise BoundsError where a byte of the array's bands has changed."""
        buffer, itemsize = array.buffer, array.dtype.itemsize
        bytes_ = np.empty(buffer.nbytes + 2 * BAND, np.uint8)
        self.device.download(buffer.address - BAND, bytes_)
        before = np.flatnonzero(bytes_[:BAND] != POISON)
        behind = np.flatnonzero(bytes_[BAND + buffer.nbytes :] != POISON)
        if behind.size:
            element = (buffer.nbytes + int(behind[0])) // itemsize
        elif before.size:
            element = (int(before[-1]) - BAND) // itemsize
        else:
            return
        raise BoundsError(
            f"{kernel} wrote {parameter}[{element}], and {parameter} has {array.size} elements. "
            "Guard the write, e.g. with if (i < n)."
        )
