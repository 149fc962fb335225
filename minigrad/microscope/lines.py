"""Lines: what each access in the source costs, in the terms of NVIDIA's profiler, Nsight Compute."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigrad.microscope.echoes import reads_back
from minigrad.microscope.native import Kind
from minigrad.microscope.requests import Requests, group, sectors, wavefronts
from minigrad.microscope.sites import Places
from minigrad.microscope.variables import Variables


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
