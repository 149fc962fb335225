"""Accesses of threads made into requests of warps, and these into the counts that a profiler shows.

Threads do not run in lockstep on the simulator. The lanes of a warp are put together afterwards: one request is what
they do at one access in the same turn of the same loops, since the last barrier or warp operation. That is how a GPU
runs a warp whose lanes part and meet again as early as they can.
"""

from dataclasses import dataclass

import numpy as np

SECTOR = 32  # bytes, the unit in which global memory is read and written
WARP = 32
BANKS = 32  # of shared memory; neighbouring 4-byte words lie in neighbouring banks


@dataclass
class Requests:
    """The request that each row belongs to, and the first row of each request."""

    of_row: np.ndarray
    first: np.ndarray

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self.first)

    def lanes(self) -> np.ndarray:
        """The active lanes of each request."""
        return np.bincount(self.of_row, minlength=self.count)


def group(rows: np.ndarray, site: np.ndarray) -> Requests:
    """Put lanes together; requests are numbered in the order in which their first lane comes to them."""
    warp, lane = np.divmod(rows["thread"], WARP)
    turn = np.unique(rows["turn"], return_inverse=True)[1]
    stretch = _combine(rows["block"], warp, rows["phase"], rows["sync"], turn)  # of a warp, in one turn of its loops
    order, start = _grouped(_combine(stretch, lane, site))
    index = np.arange(len(rows))
    nth = np.empty(len(rows), np.int64)
    nth[order] = index - np.maximum.accumulate(np.where(start, index, 0)) if len(rows) else index
    order, start = _grouped(_combine(stretch, site, nth))
    first = order[start]  # in time, as equal keys keep their order
    rank = np.empty(len(first), np.int64)
    in_time = np.argsort(first)
    rank[in_time] = np.arange(len(first))
    of_row = np.empty(len(rows), np.int64)
    of_row[order] = rank[np.cumsum(start) - 1]
    return Requests(of_row, first[in_time])


def sectors(requests: Requests, rows: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the chosen rows, the 32-byte sectors that each request touches, and the fewest that could hold its bytes."""
    owner, at, size = requests.of_row[chosen], rows["offset"][chosen], rows["bytes"][chosen]
    touched = _pairs(*_spread(owner, at // SECTOR, (at + size - 1) // SECTOR))[0]
    elements = np.bincount(_pairs(owner, at)[0], minlength=requests.count)
    asked = elements * rows["bytes"][requests.first]
    return np.bincount(touched, minlength=requests.count), -(-asked // SECTOR)


def wavefronts(
    requests: Requests, rows: np.ndarray, chosen: np.ndarray, atomic: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of the chosen rows, the passes that each request to shared memory takes, and the fewest for its width.

    A pass takes one word from each bank; lanes that want the same word share it, but for atomics, which take turns.
    Accesses of 8 bytes go by half warps, of 16 by quarters.
    """
    at, size = rows["offset"][chosen], np.maximum(rows["bytes"][chosen].astype(np.int64), 4)
    lane = rows["thread"][chosen] % WARP
    part = requests.of_row[chosen] * WARP + lane // np.maximum(WARP * 4 // size, 1)
    alone = atomic[chosen]
    spread = [_spread(part[which], at[which] // 4, (at + size - 1)[which] // 4) for which in (~alone, alone)]
    shared, turns = _pairs(*spread[0]), spread[1]
    part, word = (np.concatenate(both) for both in zip(shared, turns, strict=True))
    bank, count = np.unique(part * BANKS + word % BANKS, return_counts=True)
    part = bank // BANKS
    start = _starts(part)
    worst = np.maximum.reduceat(count, np.flatnonzero(start)) if len(part) else count
    request = part[start] // WARP
    passes = np.bincount(request, worst, requests.count).astype(np.int64)
    return passes, np.bincount(request, minlength=requests.count)


def _spread(owner: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every unit from first to last, with its owner."""
    spans = last - first + 1
    if (spans == 1).all():
        return owner, first
    row = np.repeat(np.arange(len(owner)), spans)
    return owner[row], first[row] + np.arange(len(row)) - np.repeat(np.cumsum(spans) - spans, spans)


def _pairs(owner: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The combinations that occur, once each."""
    low = unit.min(initial=0)
    extent = int(unit.max(initial=0) - low) + 1
    pair = np.sort(owner * extent + (unit - low))
    owner, unit = np.divmod(pair[_starts(pair)], extent)
    return owner, unit + low


def _combine(*keys: np.ndarray) -> np.ndarray:
    """One number for each combination, ordered as they are."""
    combined = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        extent = int(key.max(initial=0)) + 1
        if int(combined.max(initial=0)) >= 2**62 // extent:
            combined = np.unique(combined, return_inverse=True)[1]
        combined = combined * extent + key
    return combined


def _grouped(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order that brings equal keys together, in which they keep their own; and where another one begins.

    The index is put below the key, as sorting numbers is ten times as fast as sorting an index by them.
    """
    count = max(len(key), 1)
    if int(key.max(initial=0)) >= 2**62 // count:
        key = np.unique(key, return_inverse=True)[1]
    key, order = np.divmod(np.sort(key * count + np.arange(len(key))), count)
    return order, _starts(key)


def _starts(key: np.ndarray) -> np.ndarray:
    """In a sorted key, where another one begins."""
    start = np.ones(len(key), bool)
    start[1:] = key[1:] != key[:-1]
    return start
