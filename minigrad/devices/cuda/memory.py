"""A pool of device memory: what is given back is kept by its size and handed out again.

A training loop asks for the same sizes in every step, so from the second step on it takes none from the driver.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet, ref

from minigrad.devices.array import Array
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.libcuda import Capture, Replay

SMALLEST = 512  # bytes, and what every piece starts at a multiple of


class Pool:
    """Memory in pieces. `take(nbytes)` gives a new one: an object whose int() is its address and that has free()."""

    def __init__(self, take: Callable[[int], Any]):
        self._take = take
        self.pieces: dict[int, tuple[Any, int]] = {}  # all that was taken, with its size, by address
        self._free: dict[int, list[int]] = {}  # addresses by the size of the piece
        self.fitting: dict[int, list[int]] = {}  # the same lists by the bytes that are asked for
        self._adopted: list[tuple[int, list[int], int]] = []  # size, the list of another pool, pieces that it lacks

    def allocate(self, nbytes: int) -> "PooledBuffer":
        """A buffer of at least so many bytes."""
        free = self.fitting.get(nbytes) or self._free_for(nbytes)
        buffer = PooledBuffer()
        buffer._free, buffer.address, buffer.nbytes = free, free.pop(), nbytes
        return buffer

    def _free_for(self, nbytes: int) -> list[int]:
        """The addresses of pieces for so many bytes, one at least."""
        self._collect()
        size = piece_size(nbytes)
        free = self.fitting[nbytes] = self._free.setdefault(size, [])
        if not free:
            piece = self._take(size)
            self.pieces[int(piece)] = piece, size
            free.append(int(piece))
        return free

    def lend(self, size: int) -> Any:
        """A piece for a pool that takes its memory here: one that waits, or a new one."""
        self._collect()
        free = self._free.get(size)
        return self.pieces.pop(free.pop())[0] if free else self._take(size)

    @property
    def held(self) -> int:
        """All bytes that were taken from the driver."""
        return sum(size for _, size in self.pieces.values())

    @property
    def free(self) -> int:
        """Those of them that wait to be handed out."""
        self._collect()
        return sum(size * len(free) for size, free in self._free.items())

    def adopt(self, other: "Pool") -> None:
        """Take over the memory of a pool that has adopted none; what is in use comes in when it is given back."""
        counts = Counter(size for _, size in other.pieces.values())
        self.pieces |= other.pieces
        self._adopted += [(size, theirs, counts[size]) for size, theirs in other._free.items()]

    def _collect(self) -> None:
        """Bring in what was given back to pools that were taken over."""
        lacking = []
        for size, theirs, out in self._adopted:
            free = self._free.setdefault(size, [])
            while theirs:
                free.append(theirs.pop())
                out -= 1
            if out:
                lacking.append((size, theirs, out))
        self._adopted = lacking

    def release(self) -> None:
        """Give everything that waits back to the driver."""
        self._collect()
        for free in self._free.values():
            while free:
                self.pieces.pop(free.pop())[0].free()

    def close(self) -> None:
        """Give all of it back, also what is in use."""
        self._free.clear()
        self.fitting.clear()
        while self.pieces:
            self.pieces.popitem()[1][0].free()


class PooledBuffer:
    """A piece of a pool, which makes it; it goes back when this object is collected."""

    __slots__ = ("__weakref__", "_free", "address", "nbytes")
    _free: list[int]
    address: int
    nbytes: int

    def __del__(self) -> None:
        self._free.append(self.address)


def piece_size(nbytes: int) -> int:
    """The bytes of the piece that holds so many: 8 sizes for each doubling, so at most an eighth is wasted."""
    step = max(SMALLEST, 2 ** nbytes.bit_length() // 16)
    return -(-nbytes // step) * step


class Captured:
    """A graph, the memory that it works in, and the buffers of others that it reads or writes: they stay as long."""

    def __init__(self, pool: Pool):
        self.pool, self.touched, self.held = pool, set[ref](), list[Any]()
        self.replay: Replay | None = None

    def touch(self, arrays: Sequence[Array]) -> None:
        """Note what is worked on beside the graph's own memory."""
        self.touched.update(ref(x.buffer) for x in arrays if x.buffer.address not in self.pool.pieces)

    def hold(self) -> None:
        """Keep what is worked on. Raises RuntimeError where the step has let go of some of it."""
        self.held = [buffer() for buffer in self.touched]
        if None in self.held:
            raise RuntimeError(
                "mg.graph: the step lets go of a tensor that it works on, and a replay would read the old one. "
                "Overwrite it instead: x.assign(new), under `with mg.no_grad():`."
            )

    def close(self) -> None:
        """Give the graph back."""
        if self.replay:
            self.replay.close()
            self.replay = None


class Memory:
    """Hands out memory, to graphs too; it takes more from the driver when there is none."""

    def __init__(self, context: Context):
        self._context, self._shared = context, Pool(self._take)
        self.pool = self._shared  # or that of a graph, while it is being captured
        self._graphs: WeakSet[Captured] = WeakSet()
        self._dropped: deque[Captured] = deque()
        self._capture: Captured | None = None

    def allocate(self, nbytes: int) -> PooledBuffer:
        """Memory from the pool. Raises MemoryError with the number."""
        with self._context.lock:  # a graph that another thread captures has a pool of its own
            return self.pool.allocate(nbytes)

    def _take(self, nbytes: int) -> Any:
        """New memory from the driver; the pool of all gives up what it holds before that fails."""
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
    def capture(self) -> Iterator[Captured]:
        """Within it launches are noted, in memory from a pool of the graph's own; other threads wait."""
        context = self._context
        with context.current():
            captured = Captured(Pool(self._shared.lend))
            noting = Capture(context.library, context.stream.handle)
            try:
                self.pool, self._capture, context.capturing = captured.pool, captured, True
                try:  # Ctrl-C may come between any two lines
                    noting.begin()
                    yield captured
                    captured.hold()
                    captured.replay = noting.end()
                except BaseException:
                    noting.abandon()
                    raise
                self._graphs.add(captured)
            except BaseException:
                self._shared.adopt(captured.pool)  # somebody may hold a piece of it
                raise
            finally:
                self.pool, self._capture, context.capturing = self._shared, None, False

    @property
    def usage(self) -> tuple[int, int]:
        """The bytes that were taken from the driver, for all and for graphs, and those of them that wait to be used."""
        with self._context.lock:
            if self._dropped and not self._context.dead:
                with self._context.current():
                    self._clear()
            return self._shared.held + sum(graph.pool.held for graph in self._graphs), self._shared.free

    def touch(self, arrays: Sequence[Array]) -> None:
        """Note what a graph that is being captured works on."""
        if self._capture is not None:
            self._capture.touch(arrays)

    def drop(self, captured: Captured) -> None:
        """Give a graph back; its memory goes to the pool of all when that needs some.

        Destructors call this. Python runs them anywhere, also where this thread has what the owner of the lock waits
        for, so it takes no lock and only notes the graph.
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
        """Give everything back, also what is in use."""
        for captured in self._graphs:
            captured.close()
            captured.pool.close()
        self._shared.close()
