"""What a problem means and what usually mends it, in a sentence or two."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minigrad.devices.device import Dim3
from minigrad.display import folded
from minigrad.microscope.variables import Variable, as_unsigned, signed

_DOES = {"read": "reads{}", "write": "writes{}", "atomic": "changes{} by an atomic"}


@dataclass(frozen=True)
class Scene:
    """Where two threads race: in shared or in global memory, and what else is known of the two."""

    space: str
    barrier: int  # the line of one that stands between the two in the text; 0: there is none
    turns: bool  # a loop is around the two
    one_warp: bool
    overwrites: bool  # threads that come by the same lines write the same element, too
    fenced: bool  # the kernel orders some accesses by fences
    locks: bool  # it has what may be a lock
    bytes: int  # of the element


def race(me: "Access", other: "Access", at: str, scene: Scene) -> str:
    """Two threads, one element, and no order between them."""
    what = f"{_who(me, other)} {_does(me.kind, at)}, which {_who(other, me)} {_does(other.kind)} in line {other.line}"
    mend = _atomic if "atomic" in (me.kind, other.kind) else _between_blocks if me.block != other.block else _in_block
    return f"{what}. Nothing orders the two, so the result depends on chance. {mend(me, other, scene)}"


_LOCKED = (
    " Where a lock is to order the two, each thread needs a __threadfence() behind the atomic that takes it, and one "
    "before the atomicExch() that gives it back."
)
_HANDED_OVER = (
    " A counter or a flag, which both sides touch by atomics or as volatile, hands over what its own thread did before "
    "a __threadfence(), and of other threads what a __syncthreads() has put before that fence."
)


def _atomic(me: "Access", other: "Access", scene: Scene) -> str:
    """One of the two is an atomic."""
    kinds, blocks = {me.kind, other.kind}, me.block != other.block
    if kinds == {"atomic"}:
        return "One of them is for its own block alone: use the atomic without _block."
    if kinds == {"write", "atomic"}:
        first = "before the launch" if blocks else "first, with a __syncthreads() before the atomics"
        return f"A plain write can undo what atomics have added: write {first}, or write by atomicExch."
    end = "in a second kernel, or in the last block to count itself" if blocks else "after a __syncthreads()"
    mend = (
        f"Read what all have added {end}. Where any value on the way will do, as in front of a loop of atomicCAS, "
        "which checks it, read through a volatile pointer: a plain read the compiler may move, or make twice."
    )
    return mend + _HANDED_OVER * (blocks and scene.fenced)


def _same_line(me: "Access", other: "Access") -> bool:
    return (me.file, me.line) == (other.file, other.line)


def _adds(me: "Access", other: "Access", scene: Scene) -> bool:
    """Whether threads read, change and write the same element in one line, or just write it."""
    written = me.kind == "write" or scene.overwrites or (scene.space == "global" and "+=" in me.text)
    return _same_line(me, other) and written


def _own(me: "Access", other: "Access", scene: Scene) -> str:
    """Of an element that is one thread's, or changed by an atomic; for a bool there is none."""
    if scene.bytes > 1:
        turns = scene.space == "shared" and scene.turns and not re.search(r"[-+*/]=|\+\+|--", me.text)
        wait = " Where they take turns, put a __syncthreads() into the loop." * turns
        return "Let one thread own each element, or add to it with atomicAdd." + wait + _LOCKED * scene.locks
    if me.block == other.block:
        return "Let one thread write it, or ask all threads of the block by __syncthreads_or()."
    return "Let one thread write it, or make it an int and change it by atomicOr()."


def _between_blocks(me: "Access", other: "Access", scene: Scene) -> str:
    if _adds(me, other, scene):
        return _own(me, other, scene)
    mend = "Blocks run in any order: let one block own each element, use an atomic, or launch two kernels."
    if _same_line(me, other) and not scene.fenced:
        mend = "Read from one array and write to another."
    return mend + (_LOCKED if scene.locks else _HANDED_OVER * scene.fenced)


def _in_block(me: "Access", other: "Access", scene: Scene) -> str:
    if _adds(me, other, scene):
        return _own(me, other, scene)
    if scene.space == "global" and _same_line(me, other):
        return "Read from one array and write to another."
    if scene.barrier and scene.turns:
        first, last = sorted((me.line, other.line))
        return f"Line {first} is in the next turn of the loop: put a __syncthreads() between line {last} and its end."
    if scene.barrier:
        return (
            f"The __syncthreads() in line {scene.barrier} does not come between the two. Take it out of its branch, or "
            "of its #if; or if the first line is reached again behind it, as by another call, wait there once more."
        )
    mend = "Put a __syncthreads() between the two, which every thread of the block reaches."
    if me.kind == "write":
        mend = "Let one thread own each element, or put a __syncthreads() between the two: then the later one stays."
    if scene.one_warp:
        mend += " Where only one warp comes, as inside if (t < 32), that is a __syncwarp()."
    if _same_line(me, other):
        mend += " Within one line: read into a variable, wait, then write, and wait before the loop's next turn."
    return mend + _LOCKED * scene.locks


def _does(access: str, at: str = "") -> str:
    return _DOES[access].format(at and f" {at}")


def _who(one: "Access", other: "Access") -> str:
    return f"thread {one.thread}" + (f" of block {one.block}" if one.block != other.block else "")


def outside(access: str, at: str, variable: Variable | None) -> str:
    """An access beside an array."""
    if variable is None:
        return f"{_does(access, at)}, where no array is. Check the pointer and the index."
    count = f"{variable.size} element{'s' * (variable.size != 1)}"
    size = f"{variable.itemsize} bytes" if variable.single else count
    has = f"{_does(access, at)}, and {variable.name} has {size}"
    if variable.space == "shared":
        shape = " x ".join(map(str, variable.shape))
        extents = f" ({shape})" if len(variable.shape) > 1 else ""
        return f"{has}{extents}. Check the index, and the size of the array or the shared= of the launch."
    return f"{has}. Guard the access, as in if (i < n); look for a negative index, or for two that are swapped."


def index(value: int, array: str, name: str) -> str:
    """An index that its array's type does not have."""
    of = f" of {name}" if name else ""
    return (
        f"index {signed(value)}{as_unsigned(value)} is outside an extent{of}, which is {array}: it lands in the next "
        "row, or beside the array. Check which index goes with which extent."
    )


def uninitialised(at: str) -> str:
    """Shared memory that nobody wrote."""
    return (
        f"reads {at}, which no thread of the block has written. Shared memory begins undefined in every block: "
        "fill it first, at the edges too, as in s[i] = i < n ? x[i] : 0."
    )


def never_written(at: str, count: int, size: int) -> str:
    """An output with holes."""
    more = f" and {count - 1} more of its {size} elements" if count > 1 else f", one of its {size} elements,"
    verb = "are" if count > 1 else "is"
    return (
        f"{at}{more} {verb} never written. Look for too few blocks, a guard that lets too few threads through, "
        "or an index that skips."
    )


def nan(at: str, count: int) -> str:
    """An output that is no number."""
    more = f" ({count} elements are)" if count > 1 else ""
    return (
        f"{at} is NaN{more} after the launch. It comes from 0/0, inf - inf, the root or log of a negative number, "
        "from a NaN in an input or memory that was never written, or from a shuffle from a lane that has returned "
        "or is not in the mask."
    )


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
