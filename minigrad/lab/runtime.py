"""The calls of the CUDA runtime in Python: memory of the device's own, copies in bytes, an error for each wrong call.

A host program in C++ makes the same calls in the same order. There each of them returns an error code; here a wrong
call raises.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.display import Table, Tabular, table
from minigrad.errors import LaunchError, require, require_int
from minigrad.kernels.extents import Extent, ceil_div
from minigrad.kernels.kernel import Kernel

FLOAT = np.dtype(np.float32)
KINDS = {  # of a copy: where it writes, and where it reads
    "cudaMemcpyHostToDevice": ("device", "host"),
    "cudaMemcpyDeviceToHost": ("host", "device"),
    "cudaMemcpyDeviceToDevice": ("device", "device"),
}


class CudaError(RuntimeError):
    """A call that CUDA rejects; the message begins with the name of its error code."""


@dataclass(eq=False)
class DevicePointer:
    """A `float*` into device memory, which the host cannot read. Freed, it has no array."""

    nbytes: int
    array: Array | None

    def __repr__(self) -> str:
        return f"<pointer to {self.nbytes} bytes of device memory{'' if self.array else ', freed'}>"


@dataclass(repr=False)
class Runtime(Tabular):
    """A program's view of a device, by default `sim`. `calls` lists its calls: the name, the extent, the bytes copied;
    `launches` those of kernels: the name, the blocks, and the threads of each.

    Host arrays are contiguous NumPy arrays of float32, 4 bytes an element. New device memory is full of nan; a
    GPU's holds anything. Raises CudaError for a call that CUDA rejects, and KernelError for a kernel that fails.
    """

    device: str = "sim"
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    launches: list[tuple[str, int, int]] = field(default_factory=list)
    live: list[DevicePointer] = field(default_factory=list)  # allocated and not freed
    cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice = KINDS

    def cudaMalloc(self, nbytes: int) -> DevicePointer:
        """New memory of that many bytes on the device."""
        size = ceil_div(require_int("cudaMalloc", "nbytes", nbytes), FLOAT.itemsize)
        pointer = DevicePointer(nbytes, Array.upload(get(check(self.device)), np.full(size, np.nan, FLOAT)))
        self.live.append(pointer)
        self.calls.append(("cudaMalloc", f"{nbytes} bytes", 0))
        return pointer

    def cudaFree(self, pointer: DevicePointer) -> None:
        """Give the memory back."""
        self._array("cudaFree", pointer)
        self.live.remove(pointer)
        pointer.array = None
        self.calls.append(("cudaFree", f"{pointer.nbytes} bytes", 0))

    def cudaMemcpy(self, to: Any, source: Any, nbytes: int, kind: str) -> None:
        """Copy so many bytes to `to` from `source`; kind is one of KINDS, and says on which side each of them lies."""
        if kind not in KINDS:
            raise CudaError(f"cudaErrorInvalidMemcpyDirection: a copy is {' or '.join(KINDS)}.")
        nbytes = require_int("cudaMemcpy", "nbytes", nbytes)
        for name, end, side in zip(("to", "source"), (to, source), KINDS[kind], strict=True):
            if not isinstance(end, DevicePointer if side == "device" else np.ndarray):
                raise CudaError(f"cudaErrorInvalidValue: {kind}: `{name}` has to be memory of the {side}; it is not.")
            if isinstance(end, np.ndarray) and not end.flags.c_contiguous:
                raise CudaError(f"cudaErrorInvalidValue: `{name}` has its elements apart; give x.copy().")
            if nbytes > end.nbytes:
                raise CudaError(f"cudaErrorInvalidValue: a copy of {nbytes} bytes, and `{name}` has {end.nbytes}.")
        device, content = get(check(self.device)), np.empty(nbytes, np.uint8)
        if isinstance(source, np.ndarray):
            content[:] = _bytes(source)[:nbytes]
        else:
            device.download(self._array("cudaMemcpy", source).address, content)
        if isinstance(to, np.ndarray):
            _bytes(to)[:nbytes] = content
        else:
            device.upload(self._array("cudaMemcpy", to).address, content)
        self.calls.append((kind, f"{nbytes} bytes", nbytes))

    def launch(self, kernel: Kernel, blocks: Extent, threads: Extent, *arguments: Any) -> None:
        """In C++ `kernel<<<blocks, threads>>>(arguments)`; arrays are passed as device pointers."""
        require("launch", kernel, Kernel, "a kernel, e.g. mg.kernel(text, 'scale')")
        if any(isinstance(argument, np.ndarray) for argument in arguments):
            where = f"{kernel.name} was given an array of the host; a kernel reaches memory of the device only"
            raise CudaError(f"cudaErrorIllegalAddress: {where}.")
        for param, given in zip(kernel.signature.params, arguments, strict=False):
            if param.pointer != isinstance(given, DevicePointer):
                wanted = "a pointer, from cudaMalloc" if param.pointer else f"a number, {param.type}"
                raise TypeError(f"{kernel.name} takes {wanted}, as {param.name}; got {given!r:.60}.")
        values = [self._array(kernel.name, a) if isinstance(a, DevicePointer) else a for a in arguments]
        try:
            kernel(*values, grid=blocks, block=threads)
        except LaunchError as error:
            raise CudaError(f"cudaErrorInvalidConfiguration: {error}") from None
        self.calls.append((kernel.name, f"<<<{blocks}, {threads}>>>", 0))
        self.launches.append((kernel.name, int(np.prod(blocks)), int(np.prod(threads))))

    def copied(self, kind: str | None = None) -> int:
        """The bytes of all copies between host and device, or of one kind."""
        across = ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost")
        return sum(nbytes for name, _, nbytes in self.calls if (name == kind if kind else name in across))

    def table(self) -> Table:
        rows = [(name, words) for name, words, _ in self.calls]
        return table(rows, ("call", ""), f"{len(rows)} calls, {self.copied()} bytes between host and device")

    def _array(self, who: str, pointer: Any) -> Array:
        array = require(who, pointer, DevicePointer, "memory of the device, from cudaMalloc").array
        if array is None:
            first = "free each pointer once" if who == "cudaFree" else "use it before cudaFree, not after"
            raise CudaError(f"cudaErrorInvalidValue: {who} was given memory that is freed: {first}.")
        return array


def _bytes(host: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, to read and to write."""
    return host.reshape(-1).view(np.uint8)
