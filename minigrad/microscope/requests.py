"""Accesses of threads made into requests of warps, and these into the counts that a profiler shows.

Threads do not run in lockstep on the simulator. The lanes of a warp are put together afterwards: the n-th execution of
an access by each lane, since the last barrier or warp operation, is one request. For loops of equal length that is
what the hardware does; where lanes loop a different number of times it is an approximation.
"""

from dataclasses import dataclass

import numpy as np

SECTOR = 32  # bytes, the unit in which global memory is read and written
WARP = 32
BANKS = 32  # of shared memory; neighbouring 4-byte words lie in neighbouring banks


@dataclass
class Requests:
    """Rows of accesses with the request that each belongs to, and what each request costs."""

    of_row: np.ndarray  # the request of each row
    nth: np.ndarray  # which execution of its site it is for its thread
    first: np.ndarray  # a row of each request

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self.first)

    def lanes(self) -> np.ndarray:
        """The active lanes of each request."""
        return np.bincount(self.of_row, minlength=self.count)


def group(rows: np.ndarray, site: np.ndarray) -> Requests:
    """Put lanes together; requests are numbered in the order in which their first lane comes to them."""
    keys = (site, rows["sync"], rows["phase"])
    by_thread = np.lexsort((*keys, rows["thread"], rows["block"]))
    nth = np.empty(len(rows), np.int64)
    nth[by_thread] = _position(*(key[by_thread] for key in (*keys, rows["thread"], rows["block"])))
    together = (nth, *keys, rows["thread"] // WARP, rows["block"])
    by_request = np.lexsort(together)
    start = _starts(*(key[by_request] for key in together))
    number = np.cumsum(start) - 1
    first = np.minimum.reduceat(by_request, np.flatnonzero(start)) if len(rows) else by_request
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first, kind="stable")
    rank[order] = np.arange(len(first))
    of_row = np.empty(len(rows), np.int64)
    of_row[by_request] = rank[number]
    return Requests(of_row, nth, first[order])


def sectors(requests: Requests, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 32-byte sectors that each request touches, and the fewest that could hold the bytes that it asks for."""
    at = rows["offset"]
    touched = _spread(requests.of_row, at // SECTOR, (at + rows["bytes"] - 1) // SECTOR)
    distinct = _distinct(requests.of_row, at)
    asked = np.bincount(requests.of_row[distinct], rows["bytes"][distinct], requests.count)
    return np.bincount(touched[0], minlength=requests.count), np.ceil(asked / SECTOR).astype(np.int64)


def wavefronts(requests: Requests, rows: np.ndarray, atomic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The passes that each request to shared memory takes, and the fewest for its width.

    A pass takes one word from each bank; lanes that want the same word share it, but for atomics, which take turns.
    Accesses of 8 bytes go by half warps, of 16 by quarters.
    """
    lane, width = rows["thread"] % WARP, np.maximum(rows["bytes"].astype(np.int64), 4)
    part = requests.of_row * WARP + lane // np.maximum(WARP * 4 // width, 1)
    words = rows["offset"] // 4
    owner, word, _ = _spread(part, words, (rows["offset"] + rows["bytes"] - 1) // 4, ~atomic)
    pair, per_bank = np.unique(owner * BANKS + word % BANKS, return_counts=True)
    parts, at = np.unique(pair // BANKS, return_index=True)
    worst = np.maximum.reduceat(per_bank, at) if len(at) else per_bank
    passes = np.bincount(parts // WARP, worst, requests.count).astype(np.int64)
    return passes, np.bincount(parts // WARP, minlength=requests.count)


def _spread(
    owner: np.ndarray, first: np.ndarray, last: np.ndarray, once: np.ndarray | bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every unit from first to last with its owner and row; a unit that an owner has twice counts once where asked."""
    spans = last - first + 1
    row = np.repeat(np.arange(len(owner)), spans)
    unit = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(spans) - spans, spans)
    keep = _distinct(owner[row], unit) | ~np.broadcast_to(once, len(owner))[row]
    return owner[row][keep], unit[keep], row[keep]


def _distinct(owner: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Which entries are the first of their kind."""
    order = np.lexsort((unit, owner))
    first = np.zeros(len(owner), bool)
    first[order] = _starts(unit[order], owner[order])
    return first


def _starts(*keys: np.ndarray) -> np.ndarray:
    """In sorted keys, where another combination begins."""
    start = np.ones(len(keys[0]), bool)
    if len(start):
        start[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return start


def _position(*keys: np.ndarray) -> np.ndarray:
    """In sorted keys, the place of each entry among its equals, from 0."""
    start = _starts(*keys)
    index = np.arange(len(start))
    return index - np.maximum.accumulate(np.where(start, index, 0)) if len(start) else index
