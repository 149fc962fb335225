"""The rounds of a loop shared out over a warp: what is the same in all of them is summed once, and added in turns."""

from collections.abc import Callable, Container

from minigrad.adjoint.counting import count, exact
from minigrad.adjoint.effects import written
from minigrad.adjoint.expr import reads
from minigrad.adjoint.tidy import Change
from minigrad.adjoint.tree import Add, Assign, Call, Comment, Declare, Expr, For, Name, Stmt


class Share(Change):
    """`for (j ...) { warp_add(&d_s[j], d); }` becomes one sum of d over the warp and the rounds taken in turns."""

    def __init__(self, uniform: Container[str], fresh: Callable[[str], str]):
        self.uniform, self.fresh = uniform, fresh  # uniform: names that are equal in all threads of a block

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Share out the loops of a body."""
        return [t for s in body for t in (self._loop(s) if isinstance(s, For) else [s])]

    def _loop(self, s: For) -> list[Stmt]:
        notes, adds = [t for t in s.body if isinstance(t, Comment)], [t for t in s.body if isinstance(t, Add)]
        header = count(s)
        if header is None or not (header.simple and exact(s, header)) or len(notes) + len(adds) < len(s.body):
            return [s]
        if len(adds) != 1 or adds[0].by != "warp_add" or reads(adds[0].value) & written([s]):
            return [s]
        add, named = adds[0], {n for e in (header.bound, *_indices(adds[0])) for n in reads(e)} - {header.var}
        if not all(n in self.uniform for n in named):
            return [s]
        turn, turns = Name(self.fresh("turn"), "int"), Name(self.fresh("turns"), "int")
        total = Name(self.fresh("d_warp"), add.target.type)
        summed = Call("warp_total", (add.value, turn, turns), total.type)
        var = Name(header.var, "int")
        one = Add(add.target, total, add.place, add.text)
        loop = For(Declare(var.name, "int", value=turn), s.condition, Assign(var, "+=", turns), [one], place=s.place)
        given: list[Stmt] = [Declare(turn.name, "int"), Declare(turns.name, "int")]
        return [*given, *notes, Declare(total.name, total.type, value=summed, place=add.place), loop]


def _indices(s: Add) -> tuple[Expr, ...]:
    return getattr(s.target, "indices", ())
