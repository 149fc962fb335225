"""The device `cuda`: PyCUDA's memory and launches. The only file that imports pycuda.

Jupyter runs slider callbacks on other threads than cells, and CUDA's current context belongs to a thread. So every
entry takes one lock, makes the context current, and puts back what was current before. It is the primary context,
which PyTorch uses too; a launch on a thread where it is current already has nothing to do.
"""

import atexit
import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from minigrad.devices import libcuda, nvcc
from minigrad.devices.base import Step
from minigrad.devices.capturing import Captured, Capturing
from minigrad.devices.launching import Launching
from minigrad.devices.measured import Measured
from minigrad.devices.pool import Pool, PooledBuffer
from minigrad.devices.sending import Sender
from minigrad.errors import DeviceError, KernelError, LaunchError
from minigrad.source import Source


class GPU(Launching, Capturing, Measured):
    """One NVIDIA GPU: its primary context, a stream, a memory pool, and what has been compiled for it."""

    name = "cuda"
    repeats = True

    def __init__(self) -> None:
        self._driver = _driver()
        self._lock = threading.RLock()
        self._functions: dict[tuple, Any] = {}
        self._modules: dict[tuple, Any] = {}
        self._launched: deque[Sequence[Step]] = deque(maxlen=4)  # since the last wait, to name the culprit of a fault
        self._dead = ""
        self._device = self._driver.Device(int(os.environ.get("CUDA_DEVICE", "0")))
        self.label: str = self._device.name()
        self.arch = "sm_{}{}".format(*self._device.compute_capability())
        self._context = self._device.retain_primary_context()
        self._library, self._outside = libcuda.load(), Pool(self._take)
        self.pool = self._outside  # or that of a graph, while it is being captured
        self._graphs: WeakSet[Captured] = WeakSet()
        self._ours = libcuda.Context(self._library, self._context.handle)
        self._capture: Captured | None = None
        with self.current():
            self.stream = self._driver.Stream(libcuda.NON_BLOCKING)
            self.sender = Sender(self, self._driver)
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
        with self._lock:  # a graph that another thread captures has a pool of its own
            return self.pool.allocate(nbytes)

    def _take(self, nbytes: int) -> Any:
        """New memory from the driver; the pool of all gives up what it holds before that fails."""
        with self.guarded():
            try:
                return self._driver.mem_alloc(nbytes)
            except self._driver.MemoryError:
                self._outside.release()
            try:
                return self._driver.mem_alloc(nbytes)
            except self._driver.MemoryError as error:
                free, total = self._driver.mem_get_info()
                raise MemoryError(
                    f"{nbytes} bytes asked for; {self.label} has {free} of {total} bytes free. "
                    "Use smaller arrays, or del some."
                ) from error

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a host array to the device, in the order of the stream."""
        self.must_not_capture("sends data to the GPU", "Pass what changes as an argument; numbers stay the same.")
        with self.guarded():
            self._driver.memcpy_htod_async(address, host, self.stream)

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy to the host, after every launch before it."""
        self.must_not_capture("reads a tensor on the host", "Return the tensor, and read it after the step.")
        with self.guarded():
            self._driver.memcpy_dtoh_async(host, address, self.stream)
            self.stream.synchronize()
            self._launched.clear()

    def build(self, source: Source, defines: Mapping[str, str]) -> Any:
        """Compile for this GPU and load; what has been compiled is kept in memory and on disk."""
        key = (source, tuple(sorted(defines.items())), *(path.stat().st_mtime_ns for path in source.included))
        if key not in self._modules:
            image = nvcc.cubin(source, defines, self.arch)
            with self.guarded():
                self._modules[key] = libcuda.Module(self._library, image)
        return self._modules[key]

    def synchronize(self) -> None:
        """Wait for the stream. Raises KernelError where a kernel went wrong. In a capture nothing runs: no wait."""
        if self._capture is not None:
            return
        with self.guarded():
            self.stream.synchronize()
            self._launched.clear()

    def finish(self) -> None:
        """Wait for all that this process has queued on the GPU, on streams of other libraries too."""
        with self.guarded():
            self._driver.Context.synchronize()

    def close(self) -> None:
        """Give everything back, in order: at exit nothing may be left to be freed without a context."""
        if self._dead:  # nothing can be given back; PyCUDA would complain of each piece as it goes, so they never go
            for lost in (self.pool, self.stream):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
            return
        with self.current():
            self._functions.clear()
            while self._modules:
                self._modules.popitem()[1].unload()
            for graph in self._graphs:
                graph.close()
                graph.pool.close()
            self.pool.close()
            del self.stream, self.sender
        self._context.detach()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Current, and the driver's errors in a sentence."""
        if self._dead:
            raise self._lost()
        with self.current():
            try:
                yield
            except (self._driver.Error, libcuda.Refused) as error:
                raise self._failure(error, f"{self.label} refused: {error}.") from error

    def _failure(self, error: Exception, refusal: str) -> Exception:
        """A LaunchError where a call was refused and no harm done; after a fault of a kernel every call fails."""
        if self._capture is not None:
            return LaunchError(refusal)  # nothing runs, so nothing can have failed, and to wait is not allowed
        try:
            self.stream.synchronize()
        except self._driver.Error:
            self._dead = (
                f"{' or '.join(dict.fromkeys(self._culprits())) or 'a kernel'}: {error}. The GPU context is lost: "
                "restart the Jupyter kernel. On device 'sim' the same launch names the buffer, block and thread."
            )
            return self._lost()
        self._launched.clear()
        return LaunchError(refusal)

    def _lost(self) -> KernelError:
        return KernelError(self._dead, self._culprits()[-1], "illegal-access")

    def _culprits(self) -> list[str]:
        """The names of the kernels that were launched last."""
        names = [getattr(step, "name", "") for steps in self._launched for step in steps]
        return [name for name in names if name][-4:] or [""]


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
