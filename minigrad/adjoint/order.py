"""Loops in their own order where that is free, counted only where they must be; loops shared out over a warp."""

from collections.abc import Callable, Container

from minigrad.adjoint.build import ONE, ZERO, minus
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import declared, each, mentioned, read_here, reads_in, self_read, written, written_here
from minigrad.adjoint.expr import Binary, Call, Index, Name, Ternary, walk
from minigrad.adjoint.tree import Add, Assign, Comment, Declare, Do, For, If, Reversal, Stmt


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
    leaving = {n for t in each(s.body) for n in written_here(t)} - own
    sets = {n for t in each(s.body) if not _adds(t) for n in written_here(t)}
    read = {n for t in each(s.body) for n in read_here(t) - self_read(t)}
    return not leaving & (sets | read)


def _adds(s: Stmt) -> bool:
    """Whether a statement only adds to what it writes."""
    return isinstance(s, Add | Do) or (isinstance(s, Assign) and s.op in ("+=", "-="))


class Uncounted:
    """Loops without a tape need no check of its length, and none that a formula tells need a counter."""

    def __init__(self, taped: set[str]):
        self.taped = taped  # the counters of loops with a tape

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Leave the checks out."""
        for s in body:
            known = s.reversal if isinstance(s, For) else None
            if known and known.trips is not None and known.counter not in self.taped:
                assert isinstance(s, For)
                s.start = Declare(s.variable, "int", value=minus(known.trips, ONE), place=s.place)
        return [s for s in body if not (isinstance(s, If) and self._checks(s))]

    def _checks(self, s: If) -> bool:
        """Whether a branch is the check of a tape that is not there."""
        over = isinstance(s.condition, Binary) and s.condition.right == Name("tape_slots", "int")
        counter = s.condition.left if isinstance(s.condition, Binary) else None
        return (
            over and isinstance(counter, Name) and counter.name.startswith("trips_") and counter.name not in self.taped
        )


class Share:
    """`for (j ...) { warp_add(&d_s[j], d); }` becomes one sum of d over the warp and the rounds taken in turns."""

    def __init__(self, uniform: Container[str], fresh: Callable[[str], str]):
        self.uniform, self.fresh = uniform, fresh  # uniform: names that are equal in all threads of a block

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Share out the loops of a body."""
        return [t for s in body for t in (self._loop(s) if isinstance(s, For) else [s])]

    def _loop(self, s: For) -> list[Stmt]:
        notes, adds = [t for t in s.body if isinstance(t, Comment)], [t for t in s.body if isinstance(t, Add)]
        header = count(s)
        if header is None or not (header.simple and header.exact) or len(notes) + len(adds) < len(s.body):
            return [s]
        if len(adds) != 1 or adds[0].by != "warp_add" or adds[0].value.names & written([s]):
            return [s]
        add, indices = adds[0], adds[0].target.indices if isinstance(adds[0].target, Index) else ()
        named = reads_in((header.bound, *indices)) - {header.var}
        if not all(n in self.uniform for n in named):
            return [s]
        turn, turns = Name(self.fresh("turn"), "int"), Name(self.fresh("turns"), "int")
        total = Name(self.fresh("d_warp"), add.target.type)
        value = add.value
        if any(isinstance(x, Index) for x in walk(value)) and not header.runs({}):
            value = Ternary(header.some, value, ZERO, total.type)  # of no round nothing may be read
        summed = Call("warp_total", (value, turn, turns), total.type)
        var = Name(header.var, "int")
        one = Add(add.target, total, add.place, add.text)
        loop = For(Declare(var.name, "int", value=turn), s.condition, Assign(var, "+=", turns), [one], place=s.place)
        given: list[Stmt] = [Declare(turn.name, "int"), Declare(turns.name, "int")]
        return [*given, *notes, Declare(total.name, total.type, value=summed, place=add.place), loop]
