"""A pool of device memory: what is given back is kept by its size and handed out again.

A training loop asks for the same sizes in every step, so from the second step on it takes none from the driver.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

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
