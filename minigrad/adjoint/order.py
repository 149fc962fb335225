"""Loops that run backwards made simple: in their own order where that is free, counted only where they must be."""

from dataclasses import replace

from minigrad.adjoint.build import ONE, minus
from minigrad.adjoint.effects import declared, is_sum, mentioned, used_otherwise, written
from minigrad.adjoint.expr import Binary, Name
from minigrad.adjoint.tree import Add, Declare, Do, For, If, Reversal, Stmt


def in_order(body: list[Stmt]) -> list[Stmt]:
    """Rounds whose order is free run from first to last, under the header that the kernel itself has."""
    for s in body:
        if isinstance(s, For) and s.reversal and s.reversal.turns and _free(s, s.reversal):
            start = s.source.start
            assert isinstance(start, Declare)
            s.start, s.condition, s.step = start, s.source.condition, s.source.step
            s.body = [t for t in s.body if not (isinstance(t, Declare) and t.name == start.name)]
    return body


def _free(s: For, known: Reversal) -> bool:
    """Whether no round reads what another one writes: all that leaves a round is sums."""
    start, first = s.start, s.source.start
    assert isinstance(start, Declare) and isinstance(first, Declare)
    var = first.name
    inside = [t for t in s.body if not (isinstance(t, Declare) and t.name == var)]
    if start.name != var and start.name in mentioned(inside):
        return False  # it reads a tape
    own = declared(s.body) | known.filled | known.cleared
    return not written(s.body) - own & used_otherwise(s.body, lambda t: is_sum(t) or isinstance(t, Add | Do))


class Uncounted:
    """Loops without a tape need no check of its length, and none that a formula tells need a counter."""

    def __init__(self, taped: set[str]):
        self.taped = taped  # the counters of loops with a tape

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Leave the checks out."""
        for s in body:
            known = s.reversal if isinstance(s, For) else None
            if known and known.trips is not None:
                assert isinstance(s, For)
                if known.counter not in self.taped:
                    s.start = Declare(s.variable, "int", value=minus(known.trips, ONE), place=s.place)
                s.reversal = replace(known, trips=None)
        return [s for s in body if not (isinstance(s, If) and self._checks(s))]

    def _checks(self, s: If) -> bool:
        """Whether a branch is the check of a tape that is not there."""
        over = isinstance(s.condition, Binary) and s.condition.right == Name("tape_slots", "int")
        counter = s.condition.left if isinstance(s.condition, Binary) else None
        return (
            over and isinstance(counter, Name) and counter.name.startswith("trips_") and counter.name not in self.taped
        )
