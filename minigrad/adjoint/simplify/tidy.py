"""Readable adjoints: gradients begin at their first sum; copies, repeated sums, counters and reversed order go."""

from bisect import bisect_right
from collections.abc import Container
from dataclasses import replace

from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Stmt
from minigrad.adjoint.language.dataflow import is_sum, names_in, names_used, own_updates, target_name, written
from minigrad.adjoint.language.rewrite import ONE, is_number, minus, negative, own_expressions, plus, substitute


def sink_zeros(body: list[Stmt]) -> list[Stmt]:
    """`real d_x = 0; ... d_x += e;` becomes `... real d_x = e;`, and `d = 0; d += e;` becomes `d = e;`."""
    zeros = [
        s for s in body if isinstance(s, ast.Declare | ast.Assign) and is_number(s.value, 0) and not own_updates(s)
    ]
    made, users = list(body), _Users(body) if zeros else None
    for s in zeros:
        if s in made and users:
            _sink(made, s, users)
    return made


class _Users:
    """The statements of a body that use a name, in order; a statement may be replaced by another in its place."""

    def __init__(self, body: list[Stmt]):
        self.statements, self.places, self.of = (
            list(body),
            {id(s): n for n, s in enumerate(body)},
            dict[str, list[int]](),
        )
        for n, s in enumerate(body):
            for name in names_used([s]):
                self.of.setdefault(name, []).append(n)

    def first_after(self, s: Stmt, name: str) -> Stmt | None:
        places = self.of[name]
        at = bisect_right(places, self.places[id(s)])
        return self.statements[places[at]] if at < len(places) else None

    def replace(self, old: Stmt, new: Stmt) -> None:
        self.places[id(new)] = n = self.places[id(old)]
        self.statements[n] = new


def _sink(body: list[Stmt], s: ast.Declare | ast.Assign, users: _Users) -> None:
    """Move a 0 to the first statement that uses its target."""
    (name,) = dataflow.own_writes(s)
    first = users.first_after(s, name)
    if first is None:
        return
    at, user = body.index(s), body.index(first)
    target = ast.Name(s.name, s.type) if isinstance(s, ast.Declare) else s.target
    begins = isinstance(first, ast.Assign) and first.target == target and first.op in ("=", "+=", "-=")
    if isinstance(first, ast.Assign) and begins and name not in names_in(own_expressions(first)):
        value = negative(first.value) if first.op == "-=" else first.value
        body[user] = begin = replace(s, value=value, place=first.place)
        users.replace(first, begin)
        body.remove(s)
    elif isinstance(s, ast.Declare) and user > at + 1:
        body.remove(s)
        has_comment = isinstance(body[user - 2], ast.Comment) and body[user - 2].place == first.place
        body.insert(user - 1 - has_comment, s)


def propagate_copies(body: list[Stmt], copies: Container[str]) -> list[Stmt]:
    """Replace the variable of `real p_6 = p;` by p where p is not written after it."""
    for s in body:
        if isinstance(s, ast.Declare) and s.name in copies and isinstance(s.value, ast.Name):
            at = body.index(s)
            if s.value.name not in written(body[at + 1 :]):
                body = [*body[:at], *(substitute(t, s.name, s.value) for t in body[at + 1 :])]
    return body


def merge_sums(body: list[Stmt]) -> list[Stmt]:
    """`d_x[i] += a; d_x[i] += b;` becomes `d_x[i] += a + b;`: one atomic instead of two.

    The sums to one element that come from one statement of the kernel are merged, at the last of their places.
    """
    made: list[Stmt] = []
    sums: dict[ast.Place | None, list[ast.Assign]] = {}
    for s in body:
        near = sums.setdefault(s.place, []) if is_sum(s) else []
        first = next((t for t in reversed(near) if is_sum(s) and _same_sum(t, s)), None)
        if first and is_sum(s) and _may_be_delayed(first, made):
            value = first.value if first.op == "+=" else negative(first.value)
            value = plus(value, s.value) if s.op == "+=" else minus(value, s.value)
            made.remove(first)
            near.remove(first)
            s = ast.Assign(s.target, "+=", value, s.place, owned=s.owned)
        made.append(s)
        if is_sum(s):
            near.append(s)
    return made


def _same_sum(a: ast.Assign, b: ast.Assign) -> bool:
    same = a.target == b.target and a.place == b.place
    return same and target_name(b.target) not in names_in((*own_expressions(a), *own_expressions(b)))


def _may_be_delayed(s: ast.Assign, body: list[Stmt]) -> bool:
    """True where the statements after a sum neither use its target nor change what it reads."""
    after = body[body.index(s) + 1 :]
    return target_name(s.target) not in names_used(after) and not names_in(own_expressions(s)) & written(after)


def restore_order(body: list[Stmt]) -> list[Stmt]:
    """Run independent iterations from first to last, under the kernel's own loop header."""
    for s in body:
        if isinstance(s, ast.For) and s.reversal and s.reversal.reorderable and _independent(s, s.reversal):
            s.start, s.condition, s.step = s.source.start, s.source.condition, s.source.step
            s.body = [t for t in s.body if not (isinstance(t, ast.Declare) and t.name == s.variable)]
    return body


def _independent(s: ast.For, known: ast.Reversal) -> bool:
    """True where no iteration reads what another writes: only sums leave an iteration."""
    counter, variable = s.variable, s.source.variable
    inside = [t for t in s.body if not (isinstance(t, ast.Declare) and t.name == variable)]
    if counter != variable and counter in names_used(inside):
        return False  # it reads a tape
    own = dataflow.declared(s.body) | known.filled | known.cleared
    used = dataflow.used_outside_sums(s.body, lambda t: is_sum(t) or isinstance(t, ast.AtomicAdd | ast.CallStmt))
    return not written(s.body) - own & used


def drop_counters(body: list[Stmt], taped: set[str]) -> list[Stmt]:
    """Remove the checks of the length of tapes that do not exist, and counters of loops with a known trip count.

    taped: the counters of loops with a tape.
    """
    made = list(body)
    for s in body:
        match s:
            case ast.For(reversal=ast.Reversal(trips=trips, counter=counter) as known) if trips is not None:
                if counter not in taped:
                    s.start = ast.Declare(s.variable, "int", value=minus(trips, ONE), place=s.place)
                s.reversal = replace(known, trips=None)
            case ast.If(condition=ast.Binary(left=ast.Name(name=counter), right=ast.Name(name="tape_slots"))):
                if counter.startswith("trips_") and counter not in taped:
                    made.remove(s)
    return made
