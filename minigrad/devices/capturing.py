"""How the device `cuda` captures launches into a graph, and replays them."""

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from minigrad.devices.base import Step
from minigrad.devices.libcuda import Capture, Replay
from minigrad.devices.pool import Pool, PooledBuffer
from minigrad.errors import LaunchError


class Captured:
    """A graph, the memory that it works in, and the buffers of others that it reads or writes: they stay as long."""

    replay: Replay

    def __init__(self, pool: Pool):
        self.pool, self.touched, self.held = pool, set[int](), list[PooledBuffer]()

    def queue(self, addresses: Sequence[int]) -> None:
        """Queue the whole graph."""
        if status := self.replay.launch():
            raise LaunchError(f"the GPU refused to replay a graph: the driver says {status}. Make a new mg.graph.")


class Capturing:
    """The part of the device `cuda` that makes graphs."""

    pool: Pool
    stream: Any
    _library: Any
    _take: Callable[[int], Any]
    _capture: Captured | None
    current: Callable[[], AbstractContextManager[None]]
    repeat: Callable[[Sequence[Step], list[int]], None]

    @contextmanager
    def capture(self) -> Iterator[Captured]:
        """Within it nothing runs: launches are noted, in memory from a pool of the graph's own.

        Other threads wait meanwhile. Reading and sending data raises RuntimeError.
        """
        with self.current():
            outside, captured = self.pool, Captured(Pool(self._take))
            noting = Capture(self._library, self.stream.handle)
            self.pool, self._capture = captured.pool, captured
            try:
                yield captured
                captured.replay = noting.end()
            except BaseException:
                noting.abandon()
                outside.adopt(captured.pool)  # somebody may hold a piece of it
                raise
            finally:
                self.pool, self._capture = outside, None
        captured.held = _alive(outside, captured.touched)

    def replay(self, captured: Captured) -> None:
        """Queue a captured graph."""
        self.repeat([captured.queue], [])

    def drop(self, captured: Captured) -> None:
        """Give a graph back; its memory goes to the pool of all."""
        captured.replay.close()
        self.pool.adopt(captured.pool)

    def touch(self, *addresses: int) -> None:
        """Note what a graph that is being captured works on."""
        if self._capture is not None:
            self._capture.touched.update(addresses)

    def must_not_capture(self, what: str, instead: str) -> None:
        """Raise RuntimeError while a graph is being captured."""
        if self._capture is not None:
            raise RuntimeError(f"mg.graph: the step {what} while it is captured, and a replay would not. {instead}")


def _alive(pool: Pool, addresses: Iterable[int]) -> list[PooledBuffer]:
    """The buffers of a pool that lie at these addresses and are in use."""
    starts = sorted(pool.pieces)
    used = {starts[max(bisect_right(starts, address) - 1, 0)] for address in addresses} if starts else set()
    return [found for found in gc.get_objects() if type(found) is PooledBuffer and found.address in used]
