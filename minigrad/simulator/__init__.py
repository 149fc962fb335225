"""The device `sim`: CUDA C++ compiled for the CPU and run thread by thread.

A kernel's file goes through `rewrite`, the host's C++ compiler (options in `compiler`) and the disk cache. The runtime
in `native/` then runs it: blocks over the processor's cores, the threads of a block as fibers that switch at
barriers. Its memory (`memory`) is guarded, and what goes wrong becomes a KernelError (`report`).
"""

import copy
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minigrad.devices.caches import once
from minigrad.devices.device import PROCESSORS, Arguments, Dim3
from minigrad.devices.host_compiler import find_compiler
from minigrad.errors import DeviceError, KernelError
from minigrad.simulator import messages
from minigrad.simulator.module import Module, Modules
from minigrad.simulator.runtime import GuardedBuffer, Order, Pool, runtime
from minigrad.source import Source


class Simulator:
    """The CPU as a device that runs CUDA kernels. Raises DeviceError where there is no C++ compiler.

    timeout: seconds after which a kernel is stopped. workers: OS threads that run blocks; with 1 their order is fixed.
    tell: what is done with the text that a kernel has printed.
    """

    name = "sim"
    repeats = False
    arch, processors = "", PROCESSORS

    def __init__(self) -> None:
        if sys.platform == "win32":
            raise DeviceError("device 'sim' does not run on Windows itself; use it in WSL2.")
        self.timeout = 20.0
        self.workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.tell: Callable[[str], Any] = lambda text: sys.stdout.write(text)  # which a notebook replaces
        find_compiler()
        self._modules = Modules()
        self._pool = once(lambda: Pool(runtime()))  # at its first use, for it may compile the runtime

    def using(self, **settings: Any) -> "Simulator":
        """The same device and memory with another timeout, number of workers or tell."""
        other = copy.copy(self)
        vars(other).update(settings)
        return other

    # --- memory ---

    def allocate(self, nbytes: int) -> GuardedBuffer:
        """Memory that ends at an unmapped page; it reads as NaN until it is written."""
        return self._pool().allocate(nbytes)

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to the device."""
        ctypes.memmove(address, _address(host), host.nbytes)

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy device memory into a contiguous host array."""
        ctypes.memmove(_address(host), address, host.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        ctypes.memmove(target, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
        ctypes.memset(address, 0, nbytes)

    # --- kernels ---

    def build(self, source: Source, defines: Mapping[str, str]) -> Module:
        """Compile for this CPU and load; what has been compiled is kept in memory and on disk. Raises CompileError."""
        return self._modules.get(source, defines)

    def launch(self, module: Module, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run a kernel to its end. Raises KernelError, LaunchError or KeyboardInterrupt; the process lives on."""
        library = runtime()
        main = threading.get_ident() == threading.main_thread().ident  # the one that Ctrl-C is meant for
        packed = ctypes.addressof(arguments.packed)
        order = Order(module.entry(name), packed, grid, block, shared, max(self.workers, 1), main, 0, self.timeout)
        printed, error = b"", None
        with library.launching:
            failed = library.minigrad_launch(ctypes.addressof(order))
            if order.printed:
                printed = ctypes.string_at(library.minigrad_output(), order.printed)
            if failed:
                error = messages.explain(
                    library.minigrad_report().contents, module, name, shared, self.timeout, arguments
                )
        if printed:
            self.tell(printed.decode(errors="replace"))
        damage = self._damage(name, arguments)  # looked for after a fault too, or the next kernel would be blamed
        if error:
            ctypes.pythonapi.PyErr_CheckSignals()  # a Ctrl-C raises here, from Python's own handler
            raise error
        if damage:
            raise damage

    def _damage(self, kernel: str, arguments: Arguments) -> KernelError | None:
        """What the canaries beside the arrays tell."""
        if not arguments.arrays:
            return None
        buffers = [array.buffer for _, array in arguments.arrays]
        damaged = self._pool().damaged(buffers)
        return messages.damage(kernel, *arguments.arrays[damaged]) if damaged >= 0 else None

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when its kernel has ended."""


def _address(host: np.ndarray) -> int:
    return host.__array_interface__["data"][0]
