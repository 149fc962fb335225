"""Sending data to the GPU while it computes: on a second stream, from memory that the GPU can read by itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.cuda.libcuda import NON_BLOCKING

KINDS = 16  # shapes and dtypes, of which memory is kept


class Sender:
    """Copies host arrays to the device `cuda` beside the launches.

    Memory that the host may swap out is copied twice, and the host waits; page-locked memory is read by the GPU itself.
    There are two such pieces for each kind of array: one is filled while the other travels. Of many kinds that which
    was used the longest ago goes, for page-locked memory is taken from all other programs.
    """

    def __init__(self, gpu: Any, driver: Any):
        self._gpu, self._driver = gpu, driver
        self._locked: dict[tuple, list[Locked]] = {}
        with gpu.context.guarded():
            self._stream = driver.Stream(NON_BLOCKING)

    def send(self, host: np.ndarray) -> tuple[Array, Any]:
        """Start to copy an array. It may be used once `arrive` was called with the event that is returned with it."""
        with self._gpu.context.guarded():
            self._gpu.context.must_not_capture("sends a batch", "Take the batch from its iterator before the step.")
            array = Array.empty(self._gpu, host.shape, host.dtype)
            piece = self._piece(host)
            piece.memory[...] = host
            # What was launched until now may still read the memory that this array has got from the pool.
            self._stream.wait_for_event(self._driver.Event().record(self._gpu.stream))
            if host.size:
                self._driver.memcpy_htod_async(array.address, piece.memory, self._stream)
            piece.sent = self._driver.Event().record(self._stream)
        return array, piece.sent

    def arrive(self, sent: Sequence[Any]) -> None:
        """Let the launches that come wait for copies; the host goes on."""
        with self._gpu.context.guarded():
            self._gpu.context.must_not_capture("takes a batch", "Take it from its iterator before the step.")
            self._wait_for(sent)

    def let_go(self, sent: Sequence[Any]) -> None:
        """Let nobody get the memory of batches that are not wanted before their copies have ended."""
        with self._gpu.context.guarded():
            if self._gpu.context.capturing:  # what is noted now must not wait for what is not
                for event in sent:
                    event.synchronize()
            else:
                self._wait_for(sent)

    def _wait_for(self, sent: Sequence[Any]) -> None:
        for event in sent:
            self._gpu.stream.wait_for_event(event)

    def _piece(self, host: np.ndarray) -> "Locked":
        """The piece of memory whose turn it is, once its last copy has ended."""
        kind = host.shape, host.dtype
        pieces = self._locked.pop(kind, [])
        if len(self._locked) >= KINDS:
            for piece in self._locked.pop(next(iter(self._locked))):
                piece.wait()
        self._locked[kind] = pieces  # behind all others: the first is the one that was used the longest ago
        if len(pieces) < 2:
            pieces.append(Locked(self._driver.pagelocked_empty(host.shape, host.dtype)))
        else:
            pieces.append(pieces.pop(0))
        pieces[-1].wait()
        return pieces[-1]


class Locked:
    """Page-locked memory, and the event at the end of its last copy."""

    def __init__(self, memory: np.ndarray):
        self.memory = memory
        self.sent: Any = None

    def wait(self) -> None:
        """Until it may be filled again."""
        if self.sent:
            self.sent.synchronize()
