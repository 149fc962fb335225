"""The device `sim`: CUDA C++ compiled for the CPU and run thread by thread.

`translate` turns a kernel's file into C++ for the host compiler; `compiled_file` builds and loads it. The C++ runtime
in `native/`, loaded by `runtime`, runs it: blocks on the processor's cores, a block's threads as fibers that switch at
barriers. In a cooperative launch the blocks of a core take turns, too. Device memory is bounded by unmapped pages. The
instructions of tensor cores in `cuda/matmul/mma.cuh` are functions of the runtime, the fragments of `mma.h` are made of
shuffles; a block has as much shared memory for them as on an H100. Where C++ leaves a result open, of a float converted
to an integer that cannot hold it or of a shift by all bits or more, it is the processor's, not a GPU's; the microscope
tells of it. `faults` turns a failed launch into a KernelError, `diagnostics` the host compiler's errors into a
CompileError.
"""

import copy
import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.caches import once
from minigrad.devices.device import PROCESSORS, Arguments, Dim3
from minigrad.devices.dtypes import memory, sized
from minigrad.devices.host_compiler import cores, find_compiler
from minigrad.errors import DeviceError, require_resident
from minigrad.simulator import faults
from minigrad.simulator.compiled_file import CompiledFile, compile_file
from minigrad.simulator.runtime import MAX_RESIDENT, LaunchRequest, PageBuffer, PagePool, runtime
from minigrad.source import Source


class Simulator:
    """The CPU as a device that runs CUDA kernels. Raises DeviceError where there is no C++ compiler.

    timeout: seconds until a kernel is stopped. workers: OS threads that run blocks; one runs them in order. write:
    receives the text that a kernel prints.
    """

    name = "sim"
    is_gpu = repeats = False
    arch, processors = "", PROCESSORS

    def __init__(self) -> None:
        if sys.platform == "win32":
            raise DeviceError("device 'sim' does not run on Windows itself; use it in WSL2.")
        self.timeout = 20.0
        self.workers = len(cores())
        # sys.stdout is looked up at each call, as notebooks replace it.
        self.write: Callable[[str], Any] = lambda text: sys.stdout.write(text)
        find_compiler()
        self._pool = once(lambda: PagePool(runtime()))  # at its first use, as it may compile the runtime

    def using(self, **settings: Any) -> "Simulator":
        """The same device and memory with another timeout, number of workers or `write`."""
        other = copy.copy(self)
        vars(other).update(settings)
        return other

    # --- memory ---

    def allocate(self, nbytes: int) -> PageBuffer:
        """Memory that ends at an unmapped page; it reads as NaN until it is written."""
        return self._pool().allocate(nbytes)

    def upload(self, address: int, host: np.ndarray) -> None:
        ctypes.memmove(address, memory(host), host.nbytes)

    def download(self, address: int, host: np.ndarray) -> None:
        ctypes.memmove(memory(host), address, host.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        ctypes.memset(address, 0, nbytes)

    # --- kernels ---

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> CompiledFile:
        return compile_file(source, defines, kernel)

    def store(self, module: CompiledFile, name: str, host: np.ndarray) -> np.ndarray:
        """Set a __constant__ or __device__ variable. Returns the bytes that it had."""
        address, size = module.variable(name)
        before = np.frombuffer(ctypes.string_at(address, size), np.uint8)
        self.upload(address, sized(name, host, size))
        return before

    def launch(
        self, module: CompiledFile, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments
    ) -> None:
        """Run a kernel to its end. Raises KernelError, LaunchError or KeyboardInterrupt; the process survives."""
        library = runtime()
        main = threading.get_ident() == threading.main_thread().ident  # the only thread that Ctrl-C may interrupt
        packed = ctypes.addressof(arguments.packed)
        entry, workers = module.entry(name), max(self.workers, 1)
        if arguments.cooperative:
            require_resident(name, prod(grid), min(PROCESSORS, MAX_RESIDENT // prod(block)), "'sim'")
        together = arguments.cooperative
        request = LaunchRequest(entry, packed, grid, block, shared, workers, main, together, 0, self.timeout)
        printed, error = b"", None
        with library.launching:
            failed = library.minigrad_launch(ctypes.addressof(request))
            if request.printed:
                printed = ctypes.string_at(library.minigrad_output(), request.printed)
            if failed:
                report = library.minigrad_report().contents
                error = faults.explain(report, module, name, shared, self.timeout, arguments)
        if printed:
            self.write(printed.decode(errors="replace"))
        buffers = [array.buffer for _, array in arguments.arrays]
        # Checked after a fault too, or the next kernel would be blamed.
        damaged = self._pool().damaged(buffers) if buffers else -1
        if error:
            ctypes.pythonapi.PyErr_CheckSignals()  # a Ctrl-C raises here, from Python's own handler
            raise error
        if damaged >= 0:
            raise faults.damage(name, *arguments.arrays[damaged])

    def synchronize(self) -> None:
        """Return at once: a launch returns when its kernel has ended."""
