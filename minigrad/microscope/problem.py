"""Problems of a launch: their record, order and merging."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from minigrad.devices.device import Dim3
from minigrad.display import folded

# The most serious first: its consequences come later.
ORDER = (
    "null-pointer", "misaligned", "out-of-bounds", "illegal-access", "division", "unlike-gpu", "assert", "timeout",
    "barrier-divergence", "race", "uninitialised", "returned-lane", "inactive-lane", "never-written", "nan",
    "missed-barrier",
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
    """A problem at its first occurrence, and the number of occurrences.

    harmless: no result depends on it, as of a race in which all write the same value, or of a missed barrier.
    """

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
    harmless: bool = False

    @property
    def sentence(self) -> str:
        """Place, kind and message, with the text of the line below."""
        place = f"{self.file}({self.line}): " if self.line else ""
        times = f" [{self.count} times]" if self.count > 1 else ""
        return f"{place}{self.kind}: {self.message}{times}" + (f"\n    {self.text}" if self.text else "")

    def __repr__(self) -> str:
        return folded(self.sentence)


def sort(problems: Sequence[Problem]) -> list[Problem]:
    """The most serious first, then in the order of the source.

    An index that nobody has set comes ahead of the accesses outside of arrays in its line.
    """
    outside = {(p.file, p.line) for p in problems if p.kind in ("misaligned", "out-of-bounds", "illegal-access")}

    def key(problem: Problem) -> tuple:
        rank = ORDER.index(problem.kind) if problem.kind in ORDER else 0
        first = (
            _is_own(problem) and (problem.file, problem.line) in outside and _indexes(problem.variable, problem.text)
        )
        return 0 if first else rank, problem.harmless, problem.file, problem.line or 0

    return sorted(problems, key=key)


def _indexes(variable: str | None, text: str) -> bool:
    """True where the variable stands in an index, or is the pointer that is followed."""
    return bool(variable) and bool(re.search(rf"\[[^\]]*\b{variable}\b|\*\s*{variable}\b|\b{variable}\s*\[", text))


def add_new(problems: Sequence[Problem], more: Sequence[Problem]) -> list[Problem]:
    """The problems, and those of a second run that are new."""
    known = set(map(_key, problems))
    return sort(keep_nearest([*problems, *(problem for problem in more if _key(problem) not in known)]))


def _key(problem: Problem) -> tuple:
    """Equal for occurrences of one problem, whichever side of a race came first."""
    other = (problem.other.file, problem.other.line) if problem.other else None
    return problem.kind, frozenset({(problem.file, problem.line), other}), problem.variable


def merge(problems: Sequence[Problem]) -> list[Problem]:
    """Occurrences of one kind at the same lines and variable become one problem.

    One of an unknown variable is of the same accesses as one of a known variable there: an index beyond its array.
    """
    merged: dict[tuple, Problem] = {}
    for problem in sorted(problems, key=lambda p: p.variable is None):
        key = _key(problem)
        if problem.variable is None and (named := next((k for k in merged if k[:2] == key[:2] and k != key), None)):
            merged[named] = replace(merged[named], count=max(merged[named].count, problem.count))
            continue
        known = merged.get(key)
        merged[key] = _joined(known, problem) if known else problem
    return list(merged.values())


def _joined(first: Problem, second: Problem) -> Problem:
    """One problem for two: the one that does harm, and of two blocks rather than of one, as that asks for more."""
    worse = min(first, second, key=lambda p: (p.harmless, bool(p.other and p.other.block == p.block)))
    return replace(worse, count=first.count + second.count)


def keep_nearest(problems: Sequence[Problem]) -> list[Problem]:
    """Keep the race with the nearest line where one line races with several above it, or below it: a barrier that
    orders these two orders the others too.
    """
    kept: dict[object, Problem] = {}
    for number, problem in enumerate(problems):
        key = _side(problem) or number
        if known := kept.get(key):
            first, second = sorted((known, problem), key=_distance)
            problem = _joined(first, second)
        kept[key] = problem
    return list(kept.values())


def _side(problem: Problem) -> tuple | None:
    """Equal for races of one line with lines on the same side of it."""
    if not (other := problem.other):
        return None
    below = (other.file, other.line) > (problem.file, problem.line or 0)
    same = other.block == problem.block, other.file, other.line == problem.line
    return problem.variable, problem.file, problem.line, problem.access, other.kind, below, *same


def _distance(problem: Problem) -> int:
    return abs(problem.other.line - (problem.line or 0)) if problem.other else 0


def drop_consequences(problems: Sequence[Problem], function: Callable[[str, int], object]) -> list[Problem]:
    """Drop reads of undefined memory that a race explains: the read came before the write. And of a thread's own
    variable that nobody has set all but the first in the text, as what is made of it is undefined, too; `function` is
    that of a line of a file, as another's variable of this name is another. What has no name is one by itself.

    Reads by the writer itself stay, and so do atomics that race with a read.
    """
    racing = set()
    for p in problems:
        if p.other and p.access == "read":
            racing.add((p.variable, p.line))
        if p.other and {p.access, p.other.kind} == {"atomic", "write"}:
            racing.add((p.variable, p.line if p.access == "atomic" else p.other.line))
    first = dict[object, Problem]()
    for p in sorted(filter(_is_own, problems), key=lambda p: (p.line or 0, p.access is not None)):
        first.setdefault((p.file, function(p.file, p.line or 0), p.variable) if p.variable else id(p), p)
    kept = set(map(id, first.values()))
    return [
        p
        for p in problems
        if p.kind != "uninitialised" or (id(p) in kept if _is_own(p) else (p.variable, p.line) not in racing)
    ]


def _is_own(problem: Problem) -> bool:
    """True for a thread's own variable that nobody has set."""
    return problem.kind == "uninitialised" and problem.element is None
