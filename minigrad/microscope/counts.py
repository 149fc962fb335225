"""Accesses of threads made into requests of warps, and these into the counts that a profiler shows.

Threads do not run in lockstep on the simulator. The lanes of a warp are put together afterwards: one request is what
they do at one access in the same turn of the same loops, since the last barrier or warp operation. That is how a GPU
runs a warp whose lanes part and meet again as early as they can.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigrad.microscope.debug_info import Places, reads_back
from minigrad.microscope.native import Kind
from minigrad.microscope.variables import Variables

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


@dataclass(frozen=True)
class Branch:
    """A stretch of code that some lanes of a warp enter while others do not.

    lanes are the active ones of each execution by a warp, in order; their mean is what
    smsp__thread_inst_executed_per_inst_executed.ratio says for its instructions.
    """

    file: str
    line: int
    text: str
    lanes: tuple[int, ...]

    @property
    def executions(self) -> int:
        """How often a warp, or a part of one, entered."""
        return len(self.lanes)

    @property
    def active_lanes(self) -> float:
        """The mean number of lanes."""
        return sum(self.lanes) / len(self.lanes)


def branches(records: np.ndarray, places: Places, threads: int) -> list[Branch]:
    """The stretches that a warp did not enter as a whole, in the order of the source."""
    rows = records[records["access"] == Kind.ENTER]
    sites = places.sites(np.unique(rows["pc"]))
    # The block in which Clang leaves a loop has no line: the reader wrote none there.
    told = [pc for pc, site in sites.items() if site.written and site.place.line]
    rows = rows[np.isin(rows["pc"], told)]
    pcs, site = np.unique(rows["pc"], return_inverse=True)
    requests = group(rows, site)
    lanes, of_request = requests.lanes(), site[requests.first]
    whole = np.minimum(threads - rows["thread"][requests.first] // WARP * WARP, WARP)
    found: dict[Branch, None] = {}
    for i in np.unique(of_request[lanes < whole]):
        place = sites[int(pcs[i])].place
        found[Branch(*place, tuple(lanes[of_request == i].tolist()))] = None  # two with the same lanes are one
    # The step of a loop, ++i, stands in its first line; to Clang it is a stretch of its own, to GCC the body's end.
    bodies = {branch.lanes for branch in found if not branch.text.startswith("for")}
    kept = [branch for branch in found if branch.lanes not in bodies or not branch.text.startswith("for")]
    return sorted(kept, key=lambda branch: (branch.file, branch.line, -sum(branch.lanes), branch.lanes))


_LOOP = re.compile(r"\b(?:for|while|do)\b")


def encloses(code: str, first: int, last: int) -> bool:
    """Whether a loop has both lines in it, of which its head may be one. The code has no comments."""

    def line(at: int) -> int:
        return code.count("\n", 0, at) + 1

    return any(line(loop.start()) <= first and last <= line(_end(code, loop.end())) for loop in _LOOP.finditer(code))


def _end(code: str, start: int) -> int:
    """Where the statement ends that a loop's word begins: with its brace, or without one with the semicolon."""
    depth = 0
    for at, sign in enumerate(code[start:], start):
        depth += (sign in "({[") - (sign in ")}]")
        if depth <= 0 and sign in ";}":
            return at
    return len(code)


@dataclass(frozen=True)
class Line:
    """One access in the source: `a[i] * b[i]` has two. Counted in the blocks that were looked at closely.

    Definitions are those of Nsight Compute; OP is ld, st, or for atomics red, atom where what was there is used:
    requests         instructions of a warp: l1tex__t_requests_pipe_lsu_mem_global_op_OP.sum
    sectors          32-byte pieces of global memory: l1tex__t_sectors_pipe_lsu_mem_global_op_OP.sum
    wavefronts       passes over shared memory: l1tex__data_pipe_lsu_wavefronts_mem_shared_op_OP.sum
    bank_conflicts   passes beyond the fewest: l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_OP.sum
    active_lanes     of 32, a request: smsp__thread_inst_executed_per_inst_executed.ratio, of this instruction
    They are of the access as it is written; a GPU's compiler may join, move or drop some, as when it reads four words
    of a tile at once. A thread moves 1, 2, 4, 8 or 16 bytes at a time, from a multiple of as many: a struct goes in
    pieces as its alignment allows, float3 in three, each a request of its own. (Where the text names a vector of 8 or
    16 bytes, or aligns a struct so, every struct of that size goes whole.) Wavefronts of 8 and 16 bytes a lane are an
    upper bound: of lanes that want the same, as all of a warp one float4, a GPU may need fewer. Of atomics these are
    the distinct sectors; a GPU counts one for each lane that changes one word.
    """

    file: str
    line: int
    text: str
    space: str  # "global" or "shared"
    kind: str  # "read", "write" or "atomic"
    variable: str
    requests: int
    sectors: int  # of global memory; 0 for shared
    ideal_sectors: int  # the fewest that hold the bytes
    wavefronts: int  # of shared memory; 0 for global
    bank_conflicts: int
    lanes: int  # active in all requests together
    bytes: int  # asked for by all lanes
    per_thread: int  # executions by the thread that has most

    @property
    def sectors_per_request(self) -> float:
        """l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_OP.ratio: 4 for 32 neighbouring floats."""
        return self.sectors / self.requests

    @property
    def ideal_sectors_per_request(self) -> float:
        """What it would be if the same bytes lay side by side."""
        return self.ideal_sectors / self.requests

    @property
    def wavefronts_per_request(self) -> float:
        """1 where no two lanes want different words of one bank."""
        return self.wavefronts / self.requests

    @property
    def active_lanes(self) -> float:
        """The mean number of lanes that take part in a request."""
        return self.lanes / self.requests


@dataclass
class Accesses:
    """The accesses of the blocks that were looked at closely, put together into requests."""

    rows: np.ndarray
    site: np.ndarray  # of each row, the index of its line
    requests: Requests
    lines: list[Line]
    variables: Variables

    @staticmethod
    def read(records: np.ndarray, places: Places, variables: Variables) -> "Accesses":
        """From what the runtime recorded; lines are in the order of the source."""
        rows = records.compress(records["access"] != Kind.ENTER)
        code = rows["pc"].astype(np.int64) << 16 | rows["access"].astype(np.int64) << 8 | rows["variable"]
        codes, site = np.unique(code, return_inverse=True)
        keys, kept = _keys(codes.tolist(), places, variables)
        rows, site = rows.compress(kept[site]), site[kept[site]]
        ordered = sorted({key for key, keep in zip(keys, kept, strict=True) if keep})
        number = {key: i for i, key in enumerate(ordered)}
        site = np.array([number.get(key, 0) for key in keys] or [0])[site]
        shared = np.array([key.space == "shared" for key in ordered], bool)
        requests = group(rows, site)
        costs = _costs(requests, rows, site, shared)
        lines = [Line(*key[:6], *(int(cost[i]) for cost in costs)) for i, key in enumerate(ordered)]
        return Accesses(rows, site, requests, lines, variables)

    def per_thread(self) -> dict[str, int]:
        """The most accesses by one thread, as {"global read": 2, "shared write": 1}."""
        groups = [f"{line.space} {line.kind}" for line in self.lines]
        thread = self.rows["block"].astype(np.int64) << 10 | self.rows["thread"]
        most = {}
        for name in dict.fromkeys(groups):
            mine = np.isin(self.site, [i for i, group in enumerate(groups) if group == name])
            most[name] = int(np.unique(thread[mine], return_counts=True)[1].max())
        return most

    def traffic(self) -> np.ndarray:
        """A row for each access of a thread, sorted by request and thread: so by block and phase too."""
        width = max((len(line.variable) for line in self.lines), default=1)
        names = [("space", "U6"), ("kind", "U6"), ("variable", f"U{width}")]
        numbers = [(name, "i4") for name in ("phase", "block", "thread", "line")]
        more = [("element", "i8"), ("offset", "i8"), ("bytes", "i4"), ("request", "i4"), ("site", "i4")]
        order = np.lexsort((self.rows["thread"], self.requests.of_row))
        rows, site = self.rows[order], self.site[order]
        traffic = np.zeros(len(rows), [*numbers, *names, *more])
        for name in ("phase", "block", "thread", "offset", "bytes"):
            traffic[name] = rows[name]
        for name in ("line", "space", "kind", "variable") if self.lines else ():
            traffic[name] = np.array([getattr(line, name) for line in self.lines])[site]
        traffic["element"] = rows["offset"] // self.variables.itemsize[rows["variable"]]
        traffic["request"], traffic["site"] = self.requests.of_row[order], site
        return traffic


class _Key(NamedTuple):
    """What tells an access in the source from others: of a template, all instances are one."""

    file: str
    line: int
    text: str
    space: str
    kind: str
    variable: str
    column: int  # or, where that is unknown, the address
    turn: int  # among those of one column, as the arguments of a call are to GCC


def _keys(codes: Sequence[int], places: Places, variables: Variables) -> tuple[list[_Key], np.ndarray]:
    """The key of each code, (pc, access, variable), and which codes to keep; they come in the order of the code."""
    sites = places.sites(code >> 16 for code in codes)
    keys, kept = [], []
    turns: Counter[tuple] = Counter()
    written: dict[tuple, int] = {}  # where the last write to a variable stands, in a line of a function
    for code in codes:
        site, number = sites[code >> 16], code & 255
        name = variables.name(number, site.place.text, site.column)
        kind = Kind(code >> 8 & 255).name.lower()
        column = *site.place, variables.space(number), kind, name, site.column or -(code >> 16)
        stored = written.get((site.place, site.function, number), 0)
        kept.append(not (kind == "read" and stored and reads_back(site, stored)))
        if kind == "write":
            written[site.place, site.function, number] = site.column
        keys.append(_Key(*column, turns[column, site.function]))
        turns[column, site.function] += kept[-1]
    return keys, np.array(kept, bool)


def _costs(requests: Requests, rows: np.ndarray, site: np.ndarray, shared: np.ndarray) -> list[np.ndarray]:
    """By site: requests, sectors, ideal sectors, wavefronts, conflicts, lanes, bytes, executions by one thread."""
    of_request, count = site[requests.first], len(shared)

    def total(per_request: np.ndarray) -> np.ndarray:
        return np.bincount(of_request, per_request, count)

    in_shared = shared[site]
    touched, ideal = sectors(requests, rows, ~in_shared)
    passes, fewest = wavefronts(requests, rows, in_shared, rows["access"] == Kind.ATOMIC)
    threads, executions = np.unique(
        (site << 42) | rows["block"].astype(np.int64) << 10 | rows["thread"], return_counts=True
    )
    most = np.zeros(count, np.int64)
    np.maximum.at(most, threads >> 42, executions)
    return [
        np.bincount(of_request, minlength=count),
        total(touched),
        total(ideal),
        total(passes),
        total(passes - fewest),
        np.bincount(site, minlength=count),
        np.bincount(site, rows["bytes"], count),
        most,
    ]
