"""The context and the stream in which all of the device `cuda` happens, and what the driver's refusals mean.

Jupyter runs slider callbacks on other threads than cells, and CUDA's current context belongs to a thread. So what takes
memory, loads code, copies from or to the host, or waits holds one lock, makes the context current, and puts back what
was current before. It is the primary context, which PyTorch uses too. What is queued on the stream, launches, copies on
the device and fills, holds the lock alone: it goes to the stream's context, whichever is current. Only where a driver
refuses that is the context made current and the call made again; a thread that had none keeps it.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from minigrad.devices.cuda import libcuda
from minigrad.devices.device import Step
from minigrad.errors import KernelError, LaunchError


class Context:
    """The primary context of a GPU, and a stream in it."""

    def __init__(self, driver: Any, device: Any):
        self.driver, self.library, self.label = driver, libcuda.load(), device.name()
        self.lock = threading.RLock()
        self.capturing = False  # launches are noted, and nothing runs
        self.launched: deque[Sequence[Step]] = deque(maxlen=4)  # since the last wait, to name the culprit of a fault
        self.dead = ""
        self._primary = device.retain_primary_context()
        self._ours = libcuda.Context(self.library, self._primary.handle)
        with self.current():
            self.stream = driver.Stream(libcuda.NON_BLOCKING)

    @contextmanager
    def current(self) -> Iterator[None]:
        """The lock held and the context current on this thread."""
        with self.lock:
            self._primary.push()
            try:
                yield
            finally:
                self.driver.Context.pop()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Current, and the driver's errors in a sentence."""
        self.must_live()
        with self.current():
            try:
                yield
            except (self.driver.Error, libcuda.Refused) as error:
                raise self.failure(error, self.refusal(error)) from error

    def take(self, steps: Sequence[Step]) -> None:
        """Queue each step; the lock is held."""
        self.must_live()
        self.launched.append(steps)
        for step in steps:
            if step():  # a Queue, whose call the driver has refused
                self.again(step)

    def call(self, function: Any, *arguments: int) -> None:
        """Queue what a function of the driver does with these arguments and the stream."""
        queue = libcuda.Queue(function, *arguments, self.stream.handle)
        queue.refusal = self.refusal
        with self.lock:
            self.take([queue])

    def refusal(self, error: Exception) -> str:
        """What to say of a call that is no launch."""
        return f"{self.label} refused: {error}."

    def again(self, queue: Any) -> None:
        """Try again with our context current. Raises LaunchError where it is refused there, too."""
        with nullcontext() if self._ours.claim() else self.current():
            if status := queue():
                error = libcuda.why(self.library, queue.func.__name__, status)
                raise self.failure(error, queue.refusal(error))

    def must_live(self) -> None:
        """Raise KernelError where a kernel has destroyed the context."""
        if self.dead:
            raise self._lost()

    def wait(self) -> None:
        """Wait for the stream; the context is current. In a capture nothing runs: no wait."""
        if not self.capturing:
            self.stream.synchronize()
            self.launched.clear()

    def must_not_capture(self, what: str, instead: str) -> None:
        """Raise RuntimeError while this thread captures a graph; the lock is held, so another's capture has ended."""
        if self.capturing:
            raise RuntimeError(f"mg.graph: the step {what} while it is captured, and a replay would not. {instead}")

    def detach(self) -> None:
        """Give the context back."""
        self._primary.detach()

    def failure(self, error: Exception, refusal: str) -> Exception:
        """A LaunchError where a call was refused and no harm done; after a fault of a kernel every call fails."""
        if self.capturing:
            return LaunchError(refusal)  # nothing runs, so nothing can have failed, and to wait is not allowed
        try:
            self.wait()
        except self.driver.Error:
            self.dead = (
                f"{' or '.join(dict.fromkeys(self._culprits())) or 'a kernel'}: {error}. The GPU context is lost: "
                "restart the Jupyter kernel. On device 'sim' the same launch names the buffer, block and thread."
            )
            return self._lost()
        return LaunchError(refusal)

    def _lost(self) -> KernelError:
        return KernelError(self.dead, self._culprits()[-1], "illegal-access")

    def _culprits(self) -> list[str]:
        """The names of the kernels that were launched last."""
        names = [getattr(step, "name", "") for steps in self.launched for step in steps]
        return [name for name in names if name][-4:] or [""]
