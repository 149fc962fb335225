"""Prefetch: copy data to the GPU while it computes, on a second stream, from page-locked memory."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.cuda.libcuda import NON_BLOCKING
from minigrad.devices.cuda.pool import PooledBuffer

INSTEAD = "Take the batch from its iterator before the step."
KINDS = 16  # shapes and dtypes for which memory is kept
SPARE = 3  # pieces of a kind from which on no more are taken: the GPU may still work on the last two batches


class Prefetcher:
    """Copies host arrays to a GPU while kernels run.

    Pageable memory is copied twice while the host waits; page-locked memory is read by the GPU itself. There are two
    page-locked buffers for each shape and dtype: one is filled while the other is copied. Beyond 16 kinds the least
    recently used goes, since page-locked memory is taken from all other programs.

    The pieces on the GPU are those of earlier batches, and a copy waits until the GPU is done with the piece's own
    batch. With memory from the pool it would have to wait for all that is queued, the step that runs included.
    """

    def __init__(self, gpu: Any, driver: Any):
        self._gpu, self._driver = gpu, driver
        self._kinds: dict[tuple, Kind] = {}
        with gpu.context.guarded():
            self._stream = driver.Stream(NON_BLOCKING)

    def send(self, host: np.ndarray) -> tuple[Array, Any]:
        """Start to copy an array. It may be used after `arrive` with the event that is returned with it.

        The page-locked buffer is filled without the lock, so that other threads launch kernels meanwhile.
        """
        with self._gpu.context.uncaptured("sends a batch", INSTEAD):
            kind = self._kind(host)
            array, memory = self._piece(kind, host), self._locked(kind, host)
        memory[...] = host
        with self._gpu.context.uncaptured("sends a batch", INSTEAD):
            if host.size:
                self._driver.memcpy_htod_async(array.address, memory, self._stream)
            sent = self._driver.Event().record(self._stream)
            kind.locked.append(LockedBuffer(memory, sent))
        return array, sent

    def arrive(self, sent: list[Any]) -> None:
        """Let later launches wait for these copies; the host goes on. The list is emptied.

        PyCUDA frees an event only where its context is current, as it is here.
        """
        with self._gpu.context.uncaptured("takes a batch", INSTEAD):
            self._wait_for(sent)
            sent.clear()
            if any(kind.freed for kind in self._kinds.values()):
                event = self._driver.Event().record(self._gpu.stream)
                for kind in self._kinds.values():
                    kind.mark(event)

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

    def _kind(self, host: np.ndarray) -> "Kind":
        """The memory for arrays like this one, from now on the most recently used."""
        key = host.shape, host.dtype
        kind = self._kinds.pop(key, None) or Kind()
        if len(self._kinds) >= KINDS:
            for buffer in self._kinds.pop(next(iter(self._kinds))).locked:
                buffer.sent.synchronize()
        self._kinds[key] = kind
        return kind

    def _piece(self, kind: "Kind", host: np.ndarray) -> Array:
        """An array in a free piece; the stream of copies waits until the GPU is done with it."""
        if kind.free and (len(kind.free) >= SPARE or kind.free[0][1].query()):
            address, event = kind.free.popleft()
        else:
            piece = self._gpu.memory.allocate(max(host.nbytes, 1))
            address, event = piece.address, self._driver.Event().record(self._gpu.stream)
            kind.pieces[address] = piece
        self._stream.wait_for_event(event)
        return Array(self._gpu, host.shape, host.dtype, Landed(kind, address, host.nbytes), address)

    def _locked(self, kind: "Kind", host: np.ndarray) -> np.ndarray:
        """Page-locked memory for this array: the less recently used of its kind, once its last copy has ended."""
        if len(kind.locked) < 2:
            return self._driver.pagelocked_empty(host.shape, host.dtype)
        kind.locked[0].sent.synchronize()
        return kind.locked.popleft().memory


class LockedBuffer(NamedTuple):
    """Page-locked memory, and the event at the end of its last copy."""

    memory: np.ndarray
    sent: Any


class Kind:
    """The memory for arrays of one shape and dtype.

    A piece whose array has been collected is in `freed`, and with an event in `free`: by then the GPU is done with it.
    """

    def __init__(self) -> None:
        self.locked = deque[LockedBuffer]()
        self.pieces: dict[int, PooledBuffer] = {}  # by address
        self.freed: list[int] = []
        self.free = deque[tuple[int, Any]]()

    def mark(self, event: Any) -> None:
        """The event has been queued behind all that uses the freed pieces."""
        while self.freed:
            self.free.append((self.freed.pop(), event))


class Landed(PooledBuffer):
    """A piece in use. It keeps its kind, and with it the memory, even where the prefetcher has forgotten that."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind, address: int, nbytes: int):
        self.kind, self._free, self.address, self.nbytes = kind, kind.freed, address, nbytes
