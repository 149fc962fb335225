"""The device `cuda`: PyCUDA's memory and launches. The only file that imports pycuda.

Jupyter runs slider callbacks on other threads than cells, and CUDA's current context belongs to a thread. So every
entry takes one lock, makes the context current, and puts it back. It is the primary context, which PyTorch uses too.
"""

import atexit
import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from minigrad.devices import nvcc
from minigrad.devices.base import Arguments, Dim3
from minigrad.devices.measured import Measured
from minigrad.devices.pooled import PooledBuffer
from minigrad.errors import DeviceError, KernelError, LaunchError
from minigrad.source import Source


class GPU(Measured):
    """One NVIDIA GPU: its primary context, a stream, a memory pool, and what has been compiled for it."""

    name = "cuda"

    def __init__(self) -> None:
        self._driver = _driver()
        self._lock = threading.RLock()
        self._open: WeakSet[PooledBuffer] = WeakSet()
        self._functions: dict[tuple, Any] = {}
        self._modules: dict[tuple, Any] = {}
        self._launched: deque[str] = deque(maxlen=4)  # since the last wait, to name the culprit of a fault
        self._dead = ""
        self._device = self._driver.Device(int(os.environ.get("CUDA_DEVICE", "0")))
        self.label: str = self._device.name()
        self.arch = "sm_{}{}".format(*self._device.compute_capability())
        self._context = self._device.retain_primary_context()
        with self.current():
            from pycuda.tools import DeviceMemoryPool

            self.stream, self._pool = self._driver.Stream(), DeviceMemoryPool()
        atexit.register(self.close)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The lock held and the context current on this thread."""
        with self._lock:
            self._context.push()
            try:
                yield
            finally:
                self._driver.Context.pop()

    def allocate(self, nbytes: int) -> PooledBuffer:
        """Memory from the pool. Raises MemoryError with the number."""
        with self._guarded():
            try:
                buffer = PooledBuffer(self, self._pool.allocate(nbytes), nbytes)
            except self._driver.MemoryError as error:
                free, total = self._driver.mem_get_info()
                raise MemoryError(
                    f"{nbytes} bytes asked for; {self.label} has {free} of {total} bytes free. "
                    "Use smaller arrays, or del some."
                ) from error
        self._open.add(buffer)
        return buffer

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a host array to the device, in the order of the stream."""
        with self._guarded():
            self._driver.memcpy_htod_async(address, host, self.stream)

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy to the host, after every launch before it."""
        with self._guarded():
            self._driver.memcpy_dtoh_async(host, address, self.stream)
            self.stream.synchronize()
            self._launched.clear()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        with self._guarded():
            self._driver.memcpy_dtod_async(target, source, nbytes, self.stream)

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
        with self._guarded():
            self._driver.memset_d8_async(address, 0, nbytes, self.stream)

    def build(self, source: Source, defines: Mapping[str, str]) -> Any:
        """Compile for this GPU and load; what has been compiled is kept in memory and on disk."""
        key = (source, tuple(sorted(defines.items())), *(path.stat().st_mtime_ns for path in source.included))
        if key not in self._modules:
            image = nvcc.cubin(source, defines, self.arch)
            with self._guarded():
                self._modules[key] = self._driver.module_from_buffer(image)
        return self._modules[key]

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Queue a kernel on the stream."""
        packed = bytes(arguments.packed)[: arguments.size]
        with self._guarded():
            function = self._functions.get((module, name))
            if function is None:
                function = self._functions[module, name] = module.get_function(name)
                function.prepare([f"{arguments.size}s"])
            self._launched.append(name)
            try:
                function.prepared_async_call(grid, block, self.stream, packed, shared_size=shared)
            except self._driver.Error as error:
                needs = f"{function.num_regs} registers a thread, {function.shared_size_bytes + shared} bytes of shared"
                refusal = (
                    f"{name}: the GPU refused grid={grid}, block={block}: {error}. It needs {needs} memory a block."
                )
                raise self._failure(error, f"{refusal} Choose a smaller block.") from error

    def synchronize(self) -> None:
        """Wait for the stream. Raises KernelError where a kernel went wrong."""
        with self._guarded():
            self.stream.synchronize()
            self._launched.clear()

    def close(self) -> None:
        """Give everything back, in order: at exit nothing may be left to be freed without a context."""
        if self._dead:  # nothing can be given back; PyCUDA would complain of each piece as it goes, so they never go
            for lost in (self._pool, self.stream, *self._modules.values()):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
            return
        for buffer in list(self._open):
            buffer.release()
        with self.current():
            self._functions.clear()
            self._modules.clear()
            self._pool.stop_holding()
            del self._pool, self.stream
        self._context.detach()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Current, and the driver's errors in a sentence."""
        if self._dead:
            raise self._lost()
        with self.current():
            try:
                yield
            except self._driver.Error as error:
                raise self._failure(error, f"{self.label} refused: {error}.") from error

    def _failure(self, error: Exception, refusal: str) -> Exception:
        """A LaunchError where a call was refused and no harm done; after a fault of a kernel every call fails."""
        try:
            self.stream.synchronize()
        except self._driver.Error:
            self._dead = (
                f"{' or '.join(dict.fromkeys(self._launched)) or 'a kernel'}: {error}. The GPU context is lost: "
                "restart the Jupyter kernel. On device 'sim' the same launch names the buffer, block and thread."
            )
            return self._lost()
        self._launched.clear()
        return LaunchError(refusal)

    def _lost(self) -> KernelError:
        return KernelError(self._dead, self._launched[-1] if self._launched else "", "illegal-access")


def _driver() -> Any:
    """pycuda.driver, initialised. Raises DeviceError with what is missing."""
    try:
        import pycuda.driver as driver
    except ImportError as error:
        raise DeviceError(
            f"device 'cuda' needs PyCUDA, which does not load here ({error}). "
            "With an NVIDIA GPU: python -m minigrad.install_cuda. Without: use device='sim'."
        ) from error
    try:
        driver.init()
        driver.Device(0)
    except driver.Error as error:
        raise DeviceError(f"device 'cuda': the driver finds no GPU ({error}). Use device='sim'.") from error
    return driver
