"""Prefetch: copy data to the GPU while it computes, on a second stream, from page-locked memory."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.cuda.libcuda import NON_BLOCKING

INSTEAD = "Take the batch from its iterator before the step."
KINDS = 16  # shapes and dtypes for which page-locked memory is kept


class Prefetcher:
    """Copies host arrays to a GPU while kernels run.

    Pageable memory is copied twice while the host waits; page-locked memory is read by the GPU itself. There are two
    page-locked buffers for each shape and dtype: one is filled while the other is copied. Beyond 16 kinds the least
    recently used goes, since page-locked memory is taken from all other programs.
    """

    def __init__(self, gpu: Any, driver: Any):
        self._gpu, self._driver = gpu, driver
        self._locked: dict[tuple, deque[LockedBuffer]] = {}
        with gpu.context.guarded():
            self._stream = driver.Stream(NON_BLOCKING)

    def send(self, host: np.ndarray) -> tuple[Array, Any]:
        """Start to copy an array. It may be used after `arrive` with the event that is returned with it.

        The page-locked buffer is filled without the lock, so that other threads launch kernels meanwhile.
        """
        with self._gpu.context.uncaptured("sends a batch", INSTEAD):
            array = Array.empty(self._gpu, host.shape, host.dtype)
            memory = self._next_buffer(host)
        memory[...] = host
        with self._gpu.context.uncaptured("sends a batch", INSTEAD):
            # Earlier launches may still read the memory that the pool has handed out again for this array.
            self._stream.wait_for_event(self._driver.Event().record(self._gpu.stream))
            if host.size:
                self._driver.memcpy_htod_async(array.address, memory, self._stream)
            sent = self._driver.Event().record(self._stream)
            self._locked.setdefault((host.shape, host.dtype), deque()).append(LockedBuffer(memory, sent))
        return array, sent

    def arrive(self, sent: list[Any]) -> None:
        """Let later launches wait for these copies; the host goes on. The list is emptied.

        PyCUDA frees an event only where its context is current, as it is here.
        """
        with self._gpu.context.uncaptured("takes a batch", INSTEAD):
            self._wait_for(sent)
            sent.clear()

    def must_not_capture(self) -> None:
        """Raise RuntimeError if this thread captures a graph: whoever sends a batch would wait for the end of it."""
        with self._gpu.context.uncaptured("takes a batch", INSTEAD):
            pass

    def let_go(self, sent: Sequence[Any]) -> None:
        """Keep the memory of batches that nobody wants from being reused before their copies have ended.

        After a fault, and once Python has closed the GPU as it exits, no copy is under way.
        """
        if self._gpu.context.dead or not hasattr(self._gpu, "stream"):
            return
        with self._gpu.context.guarded():
            if self._gpu.context.capturing:  # recorded work must not wait for work outside the graph
                for event in sent:
                    event.synchronize()
            else:
                self._wait_for(sent)

    def _wait_for(self, sent: Sequence[Any]) -> None:
        for event in sent:
            self._gpu.stream.wait_for_event(event)

    def _next_buffer(self, host: np.ndarray) -> np.ndarray:
        """Page-locked memory for this array: the less recently used of its kind, once its last copy has ended."""
        kind = host.shape, host.dtype
        buffers = self._locked.pop(kind, deque())
        if len(self._locked) >= KINDS:
            for buffer in self._locked.pop(next(iter(self._locked))):
                buffer.sent.synchronize()
        self._locked[kind] = buffers  # last: the first kind is the least recently used
        if len(buffers) < 2:
            return self._driver.pagelocked_empty(host.shape, host.dtype)
        buffers[0].sent.synchronize()
        return buffers.popleft().memory


class LockedBuffer(NamedTuple):
    """Page-locked memory, and the event at the end of its last copy."""

    memory: np.ndarray
    sent: Any
