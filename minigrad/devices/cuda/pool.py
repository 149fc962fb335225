"""A caching pool: freed device memory stays in it, by size, and is reused.

A training loop asks for the same sizes in every step, so from the second step on it takes none from the driver.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

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
