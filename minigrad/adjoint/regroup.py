"""Branches regrouped: out of a loop that does not change what they test, and two that test the same made one."""

from dataclasses import replace

from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import declared, mentioned, waits, written
from minigrad.adjoint.expr import Binary, Call, Index, walk
from minigrad.adjoint.tree import For, If, Stmt


def regrouped(body: list[Stmt]) -> list[Stmt]:
    """`for (...) { if (c) { a } } if (c) { b }` becomes `if (c) { for (...) { a } b }`."""
    made: list[Stmt] = []
    for s in map(_led_out, body):
        last = made[-1] if made else None
        if isinstance(last, If) and isinstance(s, If) and _same(last, s):
            made[-1] = If(last.condition, [*last.then, *s.then], [*last.orelse, *s.orelse], last.place)
        else:
            made.append(s)
    return made


def _led_out(s: Stmt) -> Stmt:
    """A branch that is all of a loop's body, with the loop in it."""
    inner = s.body[0] if isinstance(s, For) and len(s.body) == 1 else None
    if not isinstance(s, For) or not isinstance(inner, If) or inner.orelse or count(s) is None:
        return s
    if not _plain(inner) or inner.condition.names & written([s]) or waits([s]):
        return s
    return If(inner.condition, [replace(s, body=inner.then)], [], inner.place)


def _same(a: If, b: If) -> bool:
    """Whether two branches test the same, the first does not change it, and no name means something else in it."""
    inside, own = [*a.then, *a.orelse], declared([*b.then, *b.orelse])
    apart = not declared(inside) & (mentioned([b]) | own) and not a.condition.names & written(inside)
    return a.condition == b.condition and _plain(a) and apart


def _plain(s: If) -> bool:
    """Whether a condition can be tested anywhere: it reads variables alone, and divides by none."""
    parts = walk(s.condition)
    return not any(isinstance(x, Index | Call) or (isinstance(x, Binary) and x.op in "/%") for x in parts)
