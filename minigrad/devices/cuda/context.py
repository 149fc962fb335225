"""The context and the stream of one GPU, and the meaning of the driver's errors.

Jupyter runs slider callbacks on other threads than cells, and CUDA's current context belongs to a thread. So whatever
allocates memory, loads code, copies from or to the host, or waits holds the GPU's lock, makes its context current, and
puts back the one that was current before. It is the primary context, which PyTorch uses too. What is only queued on the
stream (launches, copies on the device and fills) holds the lock alone: it goes to the stream's context, whichever is
current. Only where a driver rejects that is the context made current and the call made again; a thread that had none
keeps it.
"""

import ctypes
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar
from weakref import WeakSet

from minigrad.devices.cuda import libcuda
from minigrad.devices.device import Step
from minigrad.errors import KernelError, LaunchError


class Context:
    """The primary context of a GPU, and a stream in it."""

    every: ClassVar[WeakSet["Context"]] = WeakSet()

    def __init__(self, driver: Any, device: Any):
        self.driver, self.library, self.label = driver, libcuda.load(), device.name()
        self.lock = threading.RLock()
        self.capturing = False  # launches are recorded, and nothing runs
        self.launched: deque[Sequence[Step]] = deque(maxlen=4)  # since the last wait, to name the culprit of a fault
        self.dead = ""  # the message after a fault, which every later call repeats
        self.barred = 0  # the thread that captures a graph on another GPU: its work here would not be in the graph
        self.primary = device.retain_primary_context()
        with self.current():
            self.stream = driver.Stream(libcuda.NON_BLOCKING)
        self.every.add(self)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Hold the lock, with the context current on this thread."""
        with self.lock:
            self.primary.push()
            try:
                yield
            finally:
                self.driver.Context.pop()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Like `current`; the driver's errors become LaunchError or KernelError."""
        self.must_live()
        with self.current():
            try:
                yield
            except (self.driver.Error, libcuda.DriverError) as error:
                raise self.failure(error, self.message(error)) from error

    def queue(self, steps: Sequence[Step]) -> None:
        """Queue each step; the caller holds the lock."""
        self.must_live()
        self.launched.append(steps)
        for step in steps:
            if step():  # the driver has rejected a DriverCall
                self.retry(step)

    def call(self, function: Any, *arguments: int) -> None:
        """Queue a driver function with these arguments and the stream."""
        call = libcuda.DriverCall(function, *arguments, self.stream.handle)
        call.message = self.message
        with self.lock:
            self.queue([call])

    def message(self, error: Exception) -> str:
        """The error message of a driver call other than a launch."""
        return f"{self.label} rejected: {error}."

    def retry(self, call: Any) -> None:
        """Make a rejected call again with the context current. Raises LaunchError if it is rejected again."""
        with nullcontext() if self.claim() else self.current():
            if status := call():
                error = libcuda.error_of(self.library, call.func.__name__, status)
                raise self.failure(error, call.message(error))

    def claim(self) -> bool:
        """Make the context current if this thread has none; False where another context is current."""
        found, own = ctypes.c_void_p(), self.primary.handle
        self.library.cuCtxGetCurrent(ctypes.byref(found))
        if found.value is None:
            self.library.cuCtxSetCurrent(ctypes.c_void_p(own))
        return found.value in (None, own)

    def must_live(self) -> None:
        """Raise KernelError if a kernel has destroyed the context, RuntimeError if a graph cannot contain its work."""
        if self.dead:
            raise self._lost()
        if self.barred == threading.get_ident():
            raise RuntimeError(
                f"mg.graph: the step also works on {self.label}, another GPU than that of its first argument, and a "
                "replay would not. Make one graph for each GPU."
            )

    def wait(self) -> None:
        """Wait for the stream; the context is current. During a capture nothing runs, so there is no wait."""
        if not self.capturing:
            self.stream.synchronize()
            self.launched.clear()

    @contextmanager
    def uncaptured(self, what: str, instead: str) -> Iterator[None]:
        """Like `guarded`. Raises RuntimeError while this thread captures a graph; another's has ended at the lock."""
        with self.guarded():
            if self.capturing:
                raise RuntimeError(f"mg.graph: the step {what} while it is captured, and a replay would not. {instead}")
            yield

    def failure(self, error: Exception, message: str) -> Exception:
        """A LaunchError where a call was rejected and no harm done; after a fault of a kernel every call fails."""
        if self.capturing:
            return LaunchError(message)  # nothing runs, so nothing can have failed, and waiting is forbidden
        try:
            self.wait()
        except self.driver.Error:
            self.dead = (
                f"{' or '.join(dict.fromkeys(self._culprits())) or 'a kernel'}: {error}. The GPU context is lost: "
                "restart the Jupyter kernel. On device 'sim' the same launch names the buffer, block and thread."
            )
            return self._lost()
        return LaunchError(message)

    def _lost(self) -> KernelError:
        return KernelError(self.dead, self._culprits()[-1], "illegal-access")

    def _culprits(self) -> list[str]:
        """The names of the kernels that were launched last."""
        names = [getattr(step, "name", "") for steps in self.launched for step in steps]
        return [name for name in names if name][-4:] or [""]
