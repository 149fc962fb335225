"""How far values go: what follows from some of them, and whether data decide which elements a kernel touches."""

from collections.abc import Iterable

from minigrad.adjoint.effects import (
    declared,
    each,
    expressions,
    heads,
    mentioned,
    nested,
    read_here,
    reads_in,
    written,
    written_here,
)
from minigrad.adjoint.expr import Binary, Call, Expr, Index, Name, Ternary, walk
from minigrad.adjoint.tree import Add, Assign, Barrier, For, Function, If, Jump, Stmt
from minigrad.adjoint.types import floating


def follows(kernel: Function, start: Iterable[str]) -> set[str]:
    """The names whose values come from these: by way of an assignment, or of a condition that decides over one."""
    found = set(start)
    while True:
        before = len(found)
        _spread(kernel.body, found, None)
        if len(found) == before:
            return found


def _spread(body: list[Stmt], found: set[str], own: set[str] | None) -> None:
    """Add what is written with such values, and where such values decide what was there before: all but `own`."""
    for s in body:
        decided = isinstance(s, If | For) and bool(reads_in(expressions(s)) & found)
        within = declared([s]) if decided else own
        for one in heads(s):
            if read_here(one) & found:
                found |= written_here(one)
            elif within is not None:
                found |= written_here(one) - within
        for inner in nested(s):
            _spread(inner, found, within)


def floats_decide(kernel: Function) -> bool:
    """Whether it lies in floating-point data which elements of the arrays that it writes a kernel touches, and when.

    Where it does not, all launches with the same whole numbers have races or none has.
    """
    data = follows(kernel, (p.name for p in kernel.params if floating(p.type)))
    memory = {p.name for p in kernel.params if p.pointer} | {n for n, d in kernel.declared.items() if d.shared}
    watched = memory & written(kernel.body)
    return any(_decides(s, data, watched) or _within(s, data, watched) for s in each(kernel.body))


def _decides(s: Stmt, data: set[str], watched: set[str]) -> bool:
    """Whether data decide if the statements inside this one run, where these touch such an array or change the way."""
    if not isinstance(s, If | For) or not reads_in(expressions(s)) & data:
        return False
    inside = [s] if isinstance(s, For) else [*s.then, *s.orelse]
    return bool(mentioned(inside) & watched) or any(isinstance(t, Jump | Barrier) for t in each(inside))


def _within(s: Stmt, data: set[str], watched: set[str]) -> bool:
    """Whether data are part of an index of such an array, or decide within an expression if one is read."""
    target = (s.target,) if isinstance(s, Assign | Add) else ()
    return any(_chosen(e, data, watched) for whole in (*target, *expressions(s)) for e in walk(whole))


def _chosen(e: Expr, data: set[str], watched: set[str]) -> bool:
    match e:
        case Index():
            return e.array in watched and bool(reads_in(e.indices) & data)
        case Call():
            return any(isinstance(a, Name) and a.name in watched for a in e.arguments)  # it may do any of this
        case Ternary():
            return bool(e.condition.names & data and (e.yes.names | e.no.names) & watched)
        case Binary(op="&&" | "||"):
            return bool(e.left.names & data and e.right.names & watched)
    return False
