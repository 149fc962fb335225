"""What is wrong with a kernel, in the reader's terms; and lists of that, in which each is told once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minigrad.devices.base import Dim3
from minigrad.prose import folded

# The most serious first: what follows from it comes later.
ORDER = (
    "null-pointer", "misaligned", "out-of-bounds", "illegal-access", "division", "assert", "timeout",
    "barrier-divergence", "race", "uninitialised", "never-written", "nan",
)  # fmt: skip


@dataclass(frozen=True)
class Access:
    """One access of one thread: the other side of a race."""

    kind: str  # "read", "write" or "atomic"
    file: str
    line: int
    text: str
    block: Dim3
    thread: Dim3


@dataclass(frozen=True)
class Problem:
    """Something wrong, where it was found first, and how often the same was found."""

    kind: str
    message: str
    file: str = ""
    line: int | None = None
    text: str = ""
    variable: str | None = None
    element: int | None = None
    access: str | None = None
    block: Dim3 | None = None
    thread: Dim3 | None = None
    other: Access | None = None
    count: int = 1

    def __repr__(self) -> str:
        place = f"{self.file}({self.line}): " if self.line else ""
        times = f" [{self.count} times]" if self.count > 1 else ""
        return folded(f"{place}{self.kind}: {self.message}{times}" + (f"\n    {self.text}" if self.text else ""))


def sort(problems: Sequence[Problem]) -> list[Problem]:
    """The most serious first, then in the order of the source."""

    def key(problem: Problem) -> tuple:
        rank = ORDER.index(problem.kind) if problem.kind in ORDER else 0
        return rank, problem.file, problem.line or 0

    return sorted(problems, key=key)


def joined(problems: Sequence[Problem], more: Sequence[Problem]) -> list[Problem]:
    """The problems, and those of a second look that are new."""
    known = set(map(_key, problems))
    return sort(nearest([*problems, *(problem for problem in more if _key(problem) not in known)]))


def _key(problem: Problem) -> tuple:
    """The same for what is one problem: whichever side of a race came first."""
    other = (problem.other.file, problem.other.line) if problem.other else None
    return problem.kind, frozenset({(problem.file, problem.line), other}), problem.variable


def merge(problems: Sequence[Problem]) -> list[Problem]:
    """The same kind at the same lines of the same variable is one problem, whichever side came first."""
    merged: dict[tuple, Problem] = {}
    for problem in sorted(problems, key=lambda p: p.variable is None):  # of an unknown variable: of one known there
        key = _key(problem)
        if problem.variable is None:
            key = next((k for k in merged if k[:2] == key[:2]), key)
        known = merged.get(key)
        merged[key] = replace(known, count=known.count + problem.count) if known else problem
    return list(merged.values())


def nearest(problems: Sequence[Problem]) -> list[Problem]:
    """Of races of one line with several lines above it, or below it, the one with the nearest: what puts these two in
    order puts the others in order, too.
    """
    kept: dict[object, Problem] = {}
    for number, problem in enumerate(problems):
        key = _side(problem) or number
        if known := kept.get(key):
            first, second = sorted((known, problem), key=_distance)
            problem = replace(first, count=first.count + second.count)
        kept[key] = problem
    return list(kept.values())


def _side(problem: Problem) -> tuple | None:
    """The same for races of one line with lines on one side of it."""
    if not (other := problem.other):
        return None
    below = (other.file, other.line) > (problem.file, problem.line or 0)
    same = other.block == problem.block, other.file, other.line == problem.line
    return problem.variable, problem.file, problem.line, problem.access, other.kind, below, *same


def _distance(problem: Problem) -> int:
    return abs(problem.other.line - (problem.line or 0)) if problem.other else 0


def without_echoes(problems: Sequence[Problem]) -> list[Problem]:
    """A race where a read came before the write shows as a read of undefined memory too: the race is what is wrong.

    What the writer itself reads is another matter, and so is an atomic beside which another thread reads.
    """
    racing = set()
    for p in problems:
        if p.other and p.access == "read":
            racing.add((p.variable, p.line))
        if p.other and {p.access, p.other.kind} == {"atomic", "write"}:
            racing.add((p.variable, p.line if p.access == "atomic" else p.other.line))
    return [p for p in problems if p.kind != "uninitialised" or (p.variable, p.line) not in racing]
