"""A caching allocator: freed device memory is kept by its size and handed out again.

A training loop asks for the same sizes in every step, so from the second step on it takes none from the driver.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from weakref import WeakSet, ref

from minigrad.devices.array import Array
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.libcuda import GraphExec, StreamCapture

SMALLEST = 512  # bytes, and the alignment of every piece


class CachingPool:
    """Memory in pieces. `take(nbytes)` gives a new one: an object whose int() is its address and that has free()."""

    def __init__(self, take: Callable[[int], Any]):
        self._take = take
        self.pieces: dict[int, tuple[Any, int]] = {}  # every piece with its size, by address
        self._free: dict[int, list[int]] = {}  # free addresses by the size of the piece
        self.fitting: dict[int, list[int]] = {}  # the same lists by the requested number of bytes
        self._adopted: list[tuple[int, list[int], int]] = []  # size, another pool's free list, its pieces in use

    def allocate(self, nbytes: int) -> "PooledBuffer":
        """A buffer of at least nbytes."""
        free = self.fitting.get(nbytes) or self._free_for(nbytes)
        buffer = PooledBuffer()
        buffer._free, buffer.address, buffer.nbytes = free, free.pop(), nbytes
        return buffer

    def _free_for(self, nbytes: int) -> list[int]:
        """The free pieces for nbytes, at least one."""
        self._collect()
        size = piece_size(nbytes)
        free = self.fitting[nbytes] = self._free.setdefault(size, [])
        if not free:
            piece = self._take(size)
            self.pieces[int(piece)] = piece, size
            free.append(int(piece))
        return free

    def lend(self, size: int) -> Any:
        """A piece for a pool that takes its memory here: a free one or a new one."""
        self._collect()
        free = self._free.get(size)
        return self.pieces.pop(free.pop())[0] if free else self._take(size)

    @property
    def held(self) -> int:
        """Bytes taken from the driver."""
        return sum(size for _, size in self.pieces.values())

    @property
    def free(self) -> int:
        """Bytes of them that are not in use."""
        self._collect()
        return sum(size * len(free) for size, free in self._free.items())

    def adopt(self, other: "CachingPool") -> None:
        """Take over the memory of a pool that has adopted none; pieces in use follow when they are freed."""
        counts = Counter(size for _, size in other.pieces.values())
        self.pieces |= other.pieces
        self._adopted += [(size, theirs, counts[size]) for size, theirs in other._free.items()]

    def _collect(self) -> None:
        """Move the free pieces of adopted pools to this one."""
        unfinished = []
        for size, theirs, count in self._adopted:
            free = self._free.setdefault(size, [])
            while theirs:
                free.append(theirs.pop())
                count -= 1
            if count:
                unfinished.append((size, theirs, count))
        self._adopted = unfinished

    def release(self) -> None:
        """Return every free piece to the driver."""
        self._collect()
        for free in self._free.values():
            while free:
                self.pieces.pop(free.pop())[0].free()

    def close(self) -> None:
        """Return every piece to the driver, those in use included."""
        self._free.clear()
        self.fitting.clear()
        while self.pieces:
            self.pieces.popitem()[1][0].free()


class PooledBuffer:
    """A piece of the pool that made this buffer; it is free again when the buffer is collected."""

    __slots__ = ("__weakref__", "_free", "address", "nbytes")
    _free: list[int]
    address: int
    nbytes: int

    def __del__(self) -> None:
        self._free.append(self.address)


def piece_size(nbytes: int) -> int:
    """The size of the piece for nbytes: 8 sizes per power of two, so it wastes at most an eighth."""
    step = max(SMALLEST, 2 ** nbytes.bit_length() // 16)
    return -(-nbytes // step) * step


class CapturedGraph:
    """A graph, its pool of memory, and the buffers outside it that it reads or writes: they live as long as it."""

    def __init__(self, pool: CachingPool):
        self.pool, self.touched, self.held = pool, set[ref](), list[Any]()
        self.replay: GraphExec | None = None

    def touch(self, arrays: Sequence[Array]) -> None:
        """Record the buffers in use that are not in the graph's own pool."""
        self.touched.update(ref(x.buffer) for x in arrays if x.buffer.address not in self.pool.pieces)

    def hold(self) -> None:
        """Keep those buffers. Raises RuntimeError if the step has dropped one."""
        self.held = [buffer() for buffer in self.touched]
        if None in self.held:
            raise RuntimeError(
                "mg.graph: the step lets go of a tensor that it works on, and a replay would read the old one. "
                "Overwrite it instead: x.assign(new), under `with mg.no_grad():`."
            )

    def close(self) -> None:
        """Return the graph to the driver."""
        if self.replay:
            self.replay.close()
            self.replay = None


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
            captured = CapturedGraph(CachingPool(self._shared.lend))
            recording = StreamCapture(context.library, context.stream.handle)
            try:
                self.pool, self._capture, context.capturing = captured.pool, captured, True
                for other in others:
                    other.barred = get_ident()
                try:  # Ctrl-C may come between any two lines
                    recording.begin()
                    yield captured
                    captured.hold()
                    captured.replay = recording.end()
                except BaseException:
                    recording.abandon()
                    raise
                self._graphs.add(captured)
            except BaseException:
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
