"""Loops in their own order where that is free, counters and barriers only where they are needed."""

from minigrad.adjoint.build import ONE, minus
from minigrad.adjoint.effects import (
    declared,
    each,
    mentioned,
    read_here,
    self_read,
    written_here,
)
from minigrad.adjoint.tidy import Change
from minigrad.adjoint.tree import (
    Add,
    Assign,
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
