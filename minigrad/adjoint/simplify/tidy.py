"""The adjoint made readable: gradients declared where they begin, copies left out, sums joined, loops made simple."""

from collections.abc import Container
from dataclasses import replace

from minigrad.adjoint.language.ast import (
    Assign,
    AtomicAdd,
    Binary,
    CallStmt,
    Comment,
    Declare,
    Expr,
    For,
    If,
    Name,
    Reversal,
    Stmt,
)
from minigrad.adjoint.language.dataflow import (
    declared,
    is_sum,
    names_in,
    names_used,
    own_updates,
    target_name,
    used_outside_sums,
    written,
)
from minigrad.adjoint.language.rewrite import ONE, is_number, minus, negative, own_expressions, plus, substitute


def sink_zeros(body: list[Stmt]) -> list[Stmt]:
    """`real d_x = 0; ... d_x += e;` becomes `... real d_x = e;`, and `d = 0; d += e;` becomes `d = e;`."""
    made, names = list(body), {id(t): names_used([t]) for t in body}
    for s in body:
        if isinstance(s, Declare | Assign) and s in made and is_number(s.value, 0) and not own_updates(s):
            _sink(made, s, names)
    return made


def _sink(body: list[Stmt], s: Declare | Assign, names: dict[int, set[str]]) -> None:
    """Move a 0 to what first adds to it, if that reads it in no other way. names: those in statements, by id."""
    name, at = (s.name if isinstance(s, Declare) else target_name(s.target)), body.index(s)
    user = next((n for n in range(at + 1, len(body)) if name in names[id(body[n])]), None)
    if user is None:
        return
    first = body[user]
    if isinstance(first, Assign) and _adds_to(first, s):
        value = negative(first.value) if first.op == "-=" else first.value
        body[user] = begin = replace(s, value=value, place=first.place)
        names[id(begin)] = names[id(first)]
        body.remove(s)
    elif isinstance(s, Declare) and user > at + 1:
        body.remove(s)
        comments = isinstance(body[user - 2], Comment) and body[user - 2].place == first.place
        body.insert(user - 1 - comments, s)


def propagate_copies(body: list[Stmt], copies: Container[str]) -> list[Stmt]:
    """`real p_6 = p;` left out where p itself is not changed behind it."""
    for s in body:
        if isinstance(s, Declare) and s.name in copies and isinstance(s.value, Name):
            at = body.index(s)
            if s.value.name not in written(body[at + 1 :]):
                body = [*body[:at], *(substitute(t, s.name, s.value) for t in body[at + 1 :])]
    return body


def merge_sums(body: list[Stmt]) -> list[Stmt]:
    """`d_x[i] += a; d_x[i] += b;` becomes `d_x[i] += a + b;`: one atomic instead of two.

    What one statement of the kernel adds to one element is joined at the last of the places.
    """
    made: list[Stmt] = []
    for s in body:
        first = next((t for t in reversed(made) if isinstance(s, Assign) and _joins(t, s)), None)
        if isinstance(s, Assign) and isinstance(first, Assign) and _may_wait(first, made):
            value = first.value if first.op == "+=" else negative(first.value)
            value = plus(value, s.value) if s.op == "+=" else minus(value, s.value)
            made.remove(first)
            s = Assign(s.target, "+=", value, s.place, owned=s.owned)
        made.append(s)
    return made


def _joins(a: Stmt, b: Assign) -> bool:
    sums = is_sum(a) and is_sum(b) and a.target == b.target and a.place == b.place
    return sums and target_name(b.target) not in names_in((*own_expressions(a), *own_expressions(b)))


def _may_wait(s: Assign, body: list[Stmt]) -> bool:
    """Whether the last statements neither read what this one adds to nor change what it reads."""
    behind = body[body.index(s) + 1 :]
    return target_name(s.target) not in names_used(behind) and not names_in(own_expressions(s)) & written(behind)


def _adds_to(s: Assign, zero: Declare | Assign) -> bool:
    """Whether a statement adds to just what was set to 0, and does not read it otherwise."""
    same = s.target == (Name(zero.name, zero.type) if isinstance(zero, Declare) else zero.target)
    return same and s.op in ("=", "+=", "-=") and not any(target_name(s.target) in e.names for e in own_expressions(s))


def restore_order(body: list[Stmt]) -> list[Stmt]:
    """Rounds whose order is free run from first to last, under the header that the kernel itself has."""
    for s in body:
        if isinstance(s, For) and s.reversal and s.reversal.reorderable and _free(s, s.reversal):
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
    if start.name != var and start.name in names_used(inside):
        return False  # it reads a tape
    own = declared(s.body) | known.filled | known.cleared
    used = used_outside_sums(s.body, lambda t: is_sum(t) or isinstance(t, AtomicAdd | CallStmt))
    return not written(s.body) - own & used


def drop_counters(body: list[Stmt], taped: set[str]) -> list[Stmt]:
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
