"""Loops in their own order where that is free, counters and barriers only where they are needed."""

from minigrad.adjoint.build import ONE, minus
from minigrad.adjoint.effects import (
    declared,
    each,
    mentioned,
    nested,
    read_here,
    self_read,
    written_here,
)
from minigrad.adjoint.tidy import Change
from minigrad.adjoint.tree import (
    Add,
    Assign,
    Barrier,
    Binary,
    Declare,
    Do,
    For,
    If,
    Name,
    Stmt,
)


class Order(Change):
    """Rounds whose order is free run from first to last, under the header that the kernel itself has."""

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Turn what can be turned."""
        for s in body:
            if isinstance(s, For) and s.primal and s.turns and self._free(s):
                start = s.primal.start
                assert isinstance(start, Declare)
                s.start, s.condition, s.step = start, s.primal.condition, s.primal.step
                s.body = [t for t in s.body if not (isinstance(t, Declare) and t.name == start.name)]
        return body

    def _free(self, s: For) -> bool:
        """Whether no round reads what another one writes: all that leaves a round is sums."""
        start, primal = s.start, s.primal
        assert isinstance(start, Declare) and primal and isinstance(primal.start, Declare)
        var = primal.start.name
        inside = [t for t in s.body if not (isinstance(t, Declare) and t.name == var)]
        if start.name != var and start.name in mentioned(inside):
            return False  # it reads a tape
        own = declared(s.body) | s.filled | s.cleared
        leaving = {n for t in each(s.body) for n in written_here(t)} - own
        sets = {n for t in each(s.body) if not _adds(t) for n in written_here(t)}
        read = {n for t in each(s.body) for n in read_here(t) - self_read(t)}
        return not leaving & (sets | read)


def _adds(s: Stmt) -> bool:
    """Whether a statement only adds to what it writes."""
    return isinstance(s, Add | Do) or (isinstance(s, Assign) and s.op in ("+=", "-="))


class Uncounted(Change):
    """Loops without a tape need no check of its length, and none that a formula tells need a counter."""

    def __init__(self, taped: set[str]):
        self.taped = taped  # the counters of loops with a tape

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Leave the checks out."""
        for s in body:
            if isinstance(s, For) and s.trips[1] is not None and s.trips[0] not in self.taped:
                assert isinstance(s.start, Declare)
                s.start = Declare(s.start.name, "int", value=minus(s.trips[1], ONE), place=s.place)
        return [s for s in body if not (isinstance(s, If) and self._checks(s))]

    def _checks(self, s: If) -> bool:
        """Whether a branch is the check of a tape that is not there."""
        over = isinstance(s.condition, Binary) and s.condition.right == Name("tape_slots", "int")
        counter = s.condition.left if isinstance(s.condition, Binary) else None
        return (
            over and isinstance(counter, Name) and counter.name.startswith("trips_") and counter.name not in self.taped
        )


class Barriers(Change):
    """A barrier with no shared memory touched since the last one, or none touched up to the next, parts nothing."""

    def __init__(self, shared: set[str]):
        self.shared = shared

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Leave out what parts nothing."""
        if not any(self._touches(s) for s in body):
            return [s for s in body if not isinstance(s, Barrier)]
        made: list[Stmt] = []
        quiet = False  # since the last barrier
        for s in body:
            if isinstance(s, Barrier):
                if not quiet:
                    made.append(s)
                quiet = True
            else:
                made.append(s)
                quiet = quiet and not self._touches(s)
        return made

    def _touches(self, s: Stmt) -> bool:
        return bool({n for t in each([s]) for n in read_here(t) | written_here(t)} & self.shared) or any(
            isinstance(t, Barrier) for inner in nested(s) for t in inner
        )


def parted(body: list[Stmt], shared: set[str]) -> list[Stmt]:
    """The body of a kernel without those barriers between which and the next ones nothing meets.

    What threads do up to a barrier and what they do behind it, up to the next one, has to touch a common array, and one
    of the two has to write it, or else the barrier parts nothing. Barriers inside loops stay.
    """
    made = list(body)
    for s in [s for s in body if isinstance(s, Barrier)]:
        at = made.index(s)
        before, after = _reach(made[:at], shared, True), _reach(made[at + 1 :], shared, False)
        if not (before[1] & (after[0] | after[1]) or before[0] & after[1]):
            made.pop(at)
    return made


def _reach(body: list[Stmt], shared: set[str], backward: bool) -> tuple[set[str], set[str]]:
    """What statements read and write up to the first barrier, from their begin or from their end on."""
    reads: set[str] = set()
    writes: set[str] = set()
    for s in reversed(body) if backward else body:
        if isinstance(s, Barrier):
            break
        if any(isinstance(t, Barrier) for t in each([s])):  # a loop, which may not run at all, or a branch
            for inner in nested(s):
                found = _reach(inner, shared, backward)
                reads, writes = reads | found[0], writes | found[1]
            continue
        reads |= {n for t in each([s]) for n in read_here(t)} & shared
        writes |= {n for t in each([s]) if not isinstance(t, Declare) for n in written_here(t)} & shared
    return reads, writes
