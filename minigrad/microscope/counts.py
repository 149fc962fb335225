"""The counts of a profiler: accesses of threads grouped into requests of warps, sectors, wavefronts and branches.

Threads do not run in lockstep on the simulator, so lanes are grouped into requests afterwards: the lanes of a warp at
one access, in the same iteration of the same loops, since the same barrier or warp operation. A GPU does the same where
diverged lanes reconverge as early as they can.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.microscope.debug_info import DebugInfo, is_read_back
from minigrad.microscope.native import Kind, Rows
from minigrad.microscope.variables import Variables

SECTOR = 32  # bytes, the unit in which global memory is read and written
WARP = 32
BANKS = 32  # of shared memory; successive 4-byte words are in successive banks


@dataclass
class Requests:
    """The request of each row, and the first row of each request."""

    of_row: np.ndarray
    first: np.ndarray

    @property
    def count(self) -> int:
        return len(self.first)

    def lanes(self) -> np.ndarray:
        """The active lanes of each request."""
        return np.bincount(self.of_row, minlength=self.count)


def group(rows: Rows, access: np.ndarray) -> Requests:
    """Group lanes into requests, numbered by the time of their first lane."""
    warp, lane = np.divmod(rows["thread"], WARP)
    iteration = np.unique(rows["iteration"], return_inverse=True)[1]
    interval = _combine(rows["block"], warp, rows["phase"], rows["warp_ops"], iteration)  # between convergence points
    order, start = _grouped(_combine(interval, lane, access))
    index = np.arange(len(rows))
    nth = np.empty(len(rows), np.int64)
    nth[order] = index - np.maximum.accumulate(np.where(start, index, 0)) if len(rows) else index
    order, start = _grouped(_combine(interval, access, nth))
    first = order[start]  # the earliest, as the sort is stable
    rank = np.empty(len(first), np.int64)
    in_time = np.argsort(first)
    rank[in_time] = np.arange(len(first))
    of_row = np.empty(len(rows), np.int64)
    of_row[order] = rank[np.cumsum(start) - 1]
    return Requests(of_row, first[in_time])


def sectors(requests: Requests, rows: Rows, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By request, from the chosen rows: the 32-byte sectors touched, and the fewest that could hold the bytes."""
    owner, at, size = requests.of_row[chosen], rows["offset"][chosen], rows["bytes"][chosen]
    touched = _pairs(*_spread(owner, at // SECTOR, (at + size - 1) // SECTOR))[0]
    elements = np.bincount(_pairs(owner, at)[0], minlength=requests.count)
    requested = elements * rows["bytes"][requests.first]
    return np.bincount(touched, minlength=requests.count), -(-requested // SECTOR)


def wavefronts(requests: Requests, rows: Rows, chosen: np.ndarray, atomic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By request to shared memory, from the chosen rows: the wavefronts, and the fewest for its width.

    A wavefront takes one word from each bank. Lanes share a word, except in atomics, which are serialised. Accesses of
    8 bytes go by half warps, of 16 bytes by quarters.
    """
    at, size = rows["offset"][chosen], np.maximum(rows["bytes"][chosen].astype(np.int64), 4)
    lane = rows["thread"][chosen] % WARP
    part = requests.of_row[chosen] * WARP + lane // np.maximum(WARP * 4 // size, 1)
    alone = atomic[chosen]
    spread = [_spread(part[which], at[which] // 4, (at + size - 1)[which] // 4) for which in (~alone, alone)]
    shared, serial = _pairs(*spread[0]), spread[1]
    part, word = (np.concatenate(both) for both in zip(shared, serial, strict=True))
    bank, count = np.unique(part * BANKS + word % BANKS, return_counts=True)
    part = bank // BANKS
    start = _starts(part)
    worst = np.maximum.reduceat(count, np.flatnonzero(start)) if len(part) else count
    request = part[start] // WARP
    passes = np.bincount(request, worst, requests.count).astype(np.int64)
    return passes, np.bincount(request, minlength=requests.count)


def _spread(owner: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each unit from first to last, with its owner."""
    spans = last - first + 1
    if (spans == 1).all():
        return owner, first
    row = np.repeat(np.arange(len(owner)), spans)
    return owner[row], first[row] + np.arange(len(row)) - np.repeat(np.cumsum(spans) - spans, spans)


def _pairs(owner: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs, sorted."""
    low = unit.min(initial=0)
    extent = int(unit.max(initial=0) - low) + 1
    pair = np.sort(owner * extent + (unit - low))
    owner, unit = np.divmod(pair[_starts(pair)], extent)
    return owner, unit + low


def _combine(*keys: np.ndarray) -> np.ndarray:
    """One number for each combination of keys, in lexicographic order."""
    combined = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        extent = int(key.max(initial=0)) + 1
        if int(combined.max(initial=0)) >= 2**62 // extent:
            combined = np.unique(combined, return_inverse=True)[1]
        combined = combined * extent + key
    return combined


def _grouped(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A stable sort: the order of the rows, and a mask of the first row of each key.

    The index becomes the low digits of the key, as sorting numbers is ten times as fast as argsort.
    """
    count = max(len(key), 1)
    if int(key.max(initial=0)) >= 2**62 // count:
        key = np.unique(key, return_inverse=True)[1]
    key, order = np.divmod(np.sort(key * count + np.arange(len(key))), count)
    return order, _starts(key)


def _starts(key: np.ndarray) -> np.ndarray:
    """The mask of the first row of each key, which is sorted."""
    start = np.ones(len(key), bool)
    start[1:] = key[1:] != key[:-1]
    return start


@dataclass(frozen=True)
class Branch:
    """A basic block that some lanes of a warp enter while others do not.

    lanes: the active lanes of each execution by a warp, in order; their mean is
    smsp__thread_inst_executed_per_inst_executed.ratio of its instructions.
    """

    file: str
    line: int
    text: str
    lanes: tuple[int, ...]

    @property
    def executions(self) -> int:
        """Entries by a warp, or by part of one."""
        return len(self.lanes)

    @property
    def active_lanes(self) -> float:
        """The mean number of lanes."""
        return sum(self.lanes) / len(self.lanes)


def branches(records: Rows, info: DebugInfo, threads: int) -> list[Branch]:
    """The basic blocks that a warp entered with some of its lanes, in the order of the source."""
    rows = records[records["access"] == Kind.ENTER]
    locations = info.locations(np.unique(rows["pc"]))
    # The basic block in which Clang leaves a loop has no line.
    written = [pc for pc, location in locations.items() if location.written and location.place.line]
    rows = rows[np.isin(rows["pc"], written)]
    pcs, block = np.unique(rows["pc"], return_inverse=True)
    requests = group(rows, block)
    lanes, of_request = requests.lanes(), block[requests.first]
    whole = np.minimum(threads - rows["thread"][requests.first] // WARP * WARP, WARP)
    found: dict[Branch, None] = {}
    for i in np.unique(of_request[lanes < whole]):
        place = locations[int(pcs[i])].place
        found[Branch(*place, tuple(lanes[of_request == i].tolist()))] = None  # blocks with the same lanes are one
    # The step of a loop, ++i, is in its first line; Clang makes it a basic block, GCC the end of the body.
    bodies = {branch.lanes for branch in found if not branch.text.startswith("for")}
    kept = [branch for branch in found if branch.lanes not in bodies or not branch.text.startswith("for")]
    return sorted(kept, key=lambda branch: (branch.file, branch.line, -sum(branch.lanes), branch.lanes))


@dataclass(frozen=True)
class Line:
    """One access in the source: `a[i] * b[i]` has two. Counted in the recorded blocks.

    The definitions are Nsight Compute's; OP is ld, st, or for atomics red, or atom if the old value is used:
    requests         instructions of a warp: l1tex__t_requests_pipe_lsu_mem_global_op_OP.sum
    sectors          32 bytes of global memory each: l1tex__t_sectors_pipe_lsu_mem_global_op_OP.sum
    wavefronts       passes over shared memory: l1tex__data_pipe_lsu_wavefronts_mem_shared_op_OP.sum
    bank_conflicts   wavefronts beyond the fewest: l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_OP.sum
    active_lanes     of 32, per request: smsp__thread_inst_executed_per_inst_executed.ratio of this instruction
    They describe the access as written; a GPU's compiler may merge, move or drop accesses, for example read four words
    of a tile at once. A thread moves 1, 2, 4, 8 or 16 bytes at a time, aligned to that size: a struct is split as its
    alignment demands, float3 into three, each a request of its own. (Where the text names a vector of 8 or 16 bytes, or
    aligns a struct to that, every struct of the size is one access.) Wavefronts of 8 and 16 bytes a lane are an upper
    bound: where lanes share data, for example one float4 for the warp, a GPU may need fewer. Atomics count distinct
    sectors; a GPU counts one for each lane that changes the same word.
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
    bytes: int  # requested by all lanes
    per_thread: int  # the most executions by one thread

    @property
    def sectors_per_request(self) -> float:
        """l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_OP.ratio: 4 for 32 neighboring floats."""
        return self.sectors / self.requests

    @property
    def ideal_sectors_per_request(self) -> float:
        """The same if the bytes were contiguous."""
        return self.ideal_sectors / self.requests

    @property
    def wavefronts_per_request(self) -> float:
        """1 without bank conflicts, up to 4 bytes a lane."""
        return self.wavefronts / self.requests

    @property
    def active_lanes(self) -> float:
        """The mean number of active lanes in a request."""
        return self.lanes / self.requests


class Accesses:
    """The accesses of the recorded blocks, grouped into requests; their lines are in the order of the source."""

    def __init__(self, records: Rows, info: DebugInfo, variables: Variables):
        rows = records.compress(records["access"] != Kind.ENTER)
        code = rows["pc"].astype(np.int64) << 16 | rows["access"].astype(np.int64) << 8 | rows["variable"]
        codes, line = np.unique(code, return_inverse=True)
        keys, kept = _keys(codes.tolist(), info, variables)
        rows, line = rows.compress(kept[line]), line[kept[line]]
        ordered = sorted({key for key, keep in zip(keys, kept, strict=True) if keep})
        number = {key: i for i, key in enumerate(ordered)}
        line = np.array([number.get(key, 0) for key in keys] or [0])[line]
        shared = np.array([key[3] == "shared" for key in ordered], bool)
        self.rows, self.line, self.variables = rows, line, variables  # line: the index in lines of each row
        self.requests = group(rows, line)
        costs = _costs(self.requests, rows, line, shared)
        self.lines = [Line(*key[:6], *(int(cost[i]) for cost in costs)) for i, key in enumerate(ordered)]

    def per_thread(self) -> dict[str, int]:
        """The most accesses by one thread, as {"global read": 2, "shared write": 1}."""
        groups = [f"{line.space} {line.kind}" for line in self.lines]
        thread = self.rows["block"].astype(np.int64) << 10 | self.rows["thread"]
        most = {}
        for name in dict.fromkeys(groups):
            mine = np.isin(self.line, [i for i, group in enumerate(groups) if group == name])
            most[name] = int(np.unique(thread[mine], return_counts=True)[1].max())
        return most

    def traffic(self) -> Rows:
        """A row for each access of a thread, sorted by request and thread, and so by block and phase."""
        width = max((len(line.variable) for line in self.lines), default=1)
        names = [("space", "U6"), ("kind", "U6"), ("variable", f"U{width}")]
        numbers = [(name, "i4") for name in ("phase", "block", "thread", "line")]
        more = [("element", "i8"), ("offset", "i8"), ("bytes", "i4"), ("request", "i4"), ("site", "i4"), ("time", "i4")]
        order = np.lexsort((self.rows["thread"], self.requests.of_row))
        rows, line = self.rows[order], self.line[order]
        traffic = np.zeros(len(rows), [*numbers, *names, *more])
        for name in ("phase", "block", "thread", "offset", "bytes"):
            traffic[name] = rows[name]
        for name in ("line", "space", "kind", "variable") if self.lines else ():
            traffic[name] = np.array([getattr(each, name) for each in self.lines])[line]
        traffic["element"] = rows["offset"] // self.variables.itemsize[rows["variable"]]
        traffic["request"], traffic["site"], traffic["time"] = self.requests.of_row[order], line, order
        return traffic


# An access in the source: file, line, text, space, kind, variable, column (minus the address where unknown), and
# number among the accesses of one column, such as GCC's arguments of a call. Instances of a template share one.
Key = tuple[str, int, str, str, str, str, int, int]


def _keys(codes: Sequence[int], info: DebugInfo, variables: Variables) -> tuple[list[Key], np.ndarray]:
    """The key of each code (pc, access, variable), sorted by address, and a mask of the codes to keep."""
    locations = info.locations(code >> 16 for code in codes)
    keys, kept = [], []
    same: Counter[tuple] = Counter()
    written: dict[tuple, int] = {}  # the column of the last write to a variable, by line and function
    for code in codes:
        pc, number = code >> 16, code & 255
        location, column = locations[pc], info.column(pc)
        variable = variables.find(number, location.place.text, column)
        assert variable
        kind = Kind(code >> 8 & 255).name.lower()
        key = *location.place, variable.space, kind, variable.name, column or -pc
        here = location.place, location.function, number
        stored = written.get(here, 0)
        kept.append(not (kind == "read" and stored and is_read_back(location.place.text, column, stored)))
        if kind == "write":
            written[here] = column
        keys.append((*key, same[key, location.function]))
        same[key, location.function] += kept[-1]
    return keys, np.array(kept, bool)


def _costs(requests: Requests, rows: Rows, line: np.ndarray, shared: np.ndarray) -> list[np.ndarray]:
    """By line: requests, sectors, ideal sectors, wavefronts, conflicts, lanes, bytes, executions by one thread."""
    of_request, count = line[requests.first], len(shared)

    def total(per_request: np.ndarray) -> np.ndarray:
        return np.bincount(of_request, per_request, count)

    in_shared = shared[line]
    touched, ideal = sectors(requests, rows, ~in_shared)
    passes, fewest = wavefronts(requests, rows, in_shared, rows["access"] == Kind.ATOMIC)
    threads, executions = np.unique(
        (line << 42) | rows["block"].astype(np.int64) << 10 | rows["thread"], return_counts=True
    )
    most = np.zeros(count, np.int64)
    np.maximum.at(most, threads >> 42, executions)
    return [
        np.bincount(of_request, minlength=count),
        *map(total, (touched, ideal, passes, passes - fewest)),
        np.bincount(line, minlength=count),
        np.bincount(line, rows["bytes"], count),
        most,
    ]
