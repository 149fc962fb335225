"""The allocator of a GPU: the shared pool, and the pools of the graphs that are captured."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from weakref import WeakSet

from minigrad.devices.array import Array
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.graph import CapturedGraph
from minigrad.devices.cuda.pool import CachingPool, PooledBuffer


class Allocator:
    """Allocates from the shared pool, or during a capture from the graph's own."""

    def __init__(self, context: Context):
        self._context, self._shared = context, CachingPool(self._take)
        self.pool = self._shared  # or that of a graph, while it is being captured
        self._graphs: WeakSet[CapturedGraph] = WeakSet()
        self._dropped: deque[CapturedGraph] = deque()
        self._capture: CapturedGraph | None = None

    def allocate(self, nbytes: int) -> PooledBuffer:
        """Memory from the pool. Raises MemoryError with the number."""
        with self._context.lock:  # a graph that another thread captures has a pool of its own
            return self.pool.allocate(nbytes)

    def _take(self, nbytes: int) -> Any:
        """New memory from the driver; where it has none, the shared pool first returns its free pieces."""
        driver = self._context.driver
        with self._context.guarded():
            if self._dropped:
                self._clear()
                return self._shared.lend(nbytes)
            try:
                return driver.mem_alloc(nbytes)
            except driver.MemoryError:
                self._shared.release()
            try:
                return driver.mem_alloc(nbytes)
            except driver.MemoryError as error:
                free, total = driver.mem_get_info()
                raise MemoryError(
                    f"{nbytes} bytes asked for; {self._context.label} has {free} of {total} bytes free. "
                    "Use smaller arrays, or del some."
                ) from error

    @contextmanager
    def capture(self) -> Iterator[CapturedGraph]:
        """Record launches instead of running them, in memory from the graph's own pool; other threads wait."""
        context = self._context
        others = [other for other in Context.every if other is not context]
        with context.current():
            captured = CapturedGraph(context, CachingPool(self._shared.lend))
            try:
                self.pool, self._capture, context.capturing = captured.pool, captured, True
                for other in others:
                    other.barred = get_ident()
                captured.begin()
                yield captured
                captured.end()
                self._graphs.add(captured)
            except BaseException:  # Ctrl-C may come between any two lines
                captured.abandon()
                self._shared.adopt(captured.pool)  # a piece of it may be in use
                raise
            finally:
                self.pool, self._capture, context.capturing = self._shared, None, False
                for other in others:
                    other.barred = 0

    @property
    def usage(self) -> tuple[int, int]:
        """Bytes taken from the driver, graphs included, and bytes of the shared pool that are free."""
        with self._context.lock:
            if self._dropped and not self._context.dead:
                with self._context.current():
                    self._clear()
            return self._shared.held + sum(graph.pool.held for graph in self._graphs), self._shared.free

    def touch(self, arrays: Sequence[Array]) -> None:
        """Let the graph that is being captured, if any, keep these arrays."""
        if self._capture is not None:
            self._capture.touch(arrays)

    def drop(self, captured: CapturedGraph) -> None:
        """Mark a graph as no longer used; its memory goes to the shared pool at the next allocation from the driver.

        Destructors call this. Python runs them anywhere, even where this thread holds something that the owner of the
        lock waits for, so it takes no lock.
        """
        self._dropped.append(captured)

    def _clear(self) -> None:
        """Close the graphs that were dropped; the context is current."""
        while self._dropped:
            captured = self._dropped.popleft()
            captured.close()
            self._graphs.discard(captured)
            self._shared.adopt(captured.pool)

    def close(self) -> None:
        """Return everything to the driver, memory in use included."""
        for captured in self._graphs:
            captured.close()
            captured.pool.close()
        self._shared.close()
