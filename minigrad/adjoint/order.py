"""Loops that run backwards made simple: in their own order where that is free, counted only where they must be."""

from dataclasses import replace

from minigrad.adjoint.build import ONE, minus
from minigrad.adjoint.effects import declared, is_sum, mentioned, used_otherwise, written
from minigrad.adjoint.expr import Binary, Expr, Name
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


def uncounted(body: list[Stmt], taped: set[str]) -> list[Stmt]:
    """Loops without a tape need no check of its length, and none that a formula tells need a counter.

    taped: the counters of loops with a tape.
    """
    for s in body:
        known = s.reversal if isinstance(s, For) else None
        if known and known.trips is not None:
            assert isinstance(s, For)
            if known.counter not in taped:
                s.start = Declare(s.variable, "int", value=minus(known.trips, ONE), place=s.place)
            s.reversal = replace(known, trips=None)
    return [s for s in body if not (isinstance(s, If) and _in_vain(s.condition, taped))]


def _in_vain(condition: Expr, taped: set[str]) -> bool:
    """Whether a condition is the check of a tape that is not there."""
    match condition:
        case Binary(left=Name(name=counter), right=Name(name="tape_slots")):
            return counter.startswith("trips_") and counter not in taped
    return False
