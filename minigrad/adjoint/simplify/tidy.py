"""Readable adjoints: gradients begin at their first sum; copies, repeated sums, counters and reversed order go."""

from bisect import bisect_right
from collections.abc import Container
from dataclasses import replace

from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Stmt
from minigrad.adjoint.language.dataflow import (
    inline,
    is_sum,
    names_in,
    names_used,
    own_reads,
    own_updates,
    own_writes,
    target_name,
    written,
)
from minigrad.adjoint.language.rewrite import (
    ONE,
    bodies,
    flatten,
    is_number,
    map_expressions,
    minus,
    negative,
    own_expressions,
    plus,
    with_header,
)


class ZeroSinker:
    """`real d_x = 0; ... d_x += e;` becomes `... real d_x = e;`, and `d = 0; d += e;` becomes `d = e;`."""

    def __init__(self) -> None:
        self.used: dict[int, set[str]] = {}  # by a body's id: the names in it

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        zeros = {n: s for n, s in enumerate(body) if isinstance(s, ast.Declare | ast.Assign) and _is_zero(s)}
        if not zeros:
            return body
        names = {name for s in zeros.values() for name in own_writes(s)}
        users: dict[str, list[int]] = {name: [] for name in names}
        for n, s in enumerate(body):
            for name in self.names(s) & names:
                users[name].append(n)
        made: list[list[Stmt]] = [[s] for s in body]  # what stands at the place of each statement
        for n, s in zeros.items():
            (name,) = own_writes(s)
            later = bisect_right(users[name], n)
            if s in made[n] and later < len(users[name]):
                _sink(made, s, n, users[name][later], name)
        return [s for here in made for s in here]

    def names(self, s: Stmt) -> set[str]:
        own = (own_reads(t) if isinstance(t, ast.Declare) else own_reads(t) | own_writes(t) for t in with_header(s))
        return set[str]().union(*own, *map(self.within, bodies(s)))

    def within(self, body: list[Stmt]) -> set[str]:
        if id(body) not in self.used:
            self.used[id(body)] = set[str]().union(*map(self.names, body))
        return self.used[id(body)]


def _is_zero(s: ast.Declare | ast.Assign) -> bool:
    return is_number(s.value, 0) and not own_updates(s)


def _sink(made: list[list[Stmt]], s: ast.Declare | ast.Assign, at: int, user: int, name: str) -> None:
    """Move a 0 to the first statement that uses its target, the last one at the place `user`."""
    first = made[user][-1]
    target = ast.Name(s.name, s.type) if isinstance(s, ast.Declare) else s.target
    begins = isinstance(first, ast.Assign) and first.target == target and first.op in ("=", "+=", "-=")
    if isinstance(first, ast.Assign) and begins and name not in names_in(own_expressions(first)):
        value = negative(first.value) if first.op == "-=" else first.value
        made[user][-1] = replace(s, value=value, place=first.place)
        made[at].remove(s)
        return
    before = next((n for n in range(user, at, -1) if len(made[n]) > (n == user)), at)
    if isinstance(s, ast.Declare) and before > at:  # something stands between
        made[at].remove(s)
        here = made[before][-1 - (before == user)]
        if isinstance(here, ast.Comment) and here.place == first.place:
            made[before].insert(made[before].index(here), s)
        else:
            made[user].insert(-1, s)


def propagate_copies(body: list[Stmt], copies: Container[str]) -> list[Stmt]:
    """Replace the variable of `real p_6 = p;` by p where p is not written after it."""
    if not any(isinstance(s, ast.Declare) and s.name in copies for s in body):
        return body
    last = {name: n for n, s in enumerate(body) for name in written([s])}  # the last statement that writes it
    known: dict[str, ast.Name] = {}
    for n, s in enumerate(body):
        for t in flatten([s]) if known else ():
            map_expressions(t, lambda e: e if known.keys().isdisjoint(e.names) else inline(e, known))
        copied = s.value if isinstance(s, ast.Declare) and s.name in copies else None
        if isinstance(s, ast.Declare) and isinstance(copied, ast.Name) and last.get(copied.name, -1) <= n:
            known[s.name] = copied
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
            del made[last_place(made, first)]
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
    target, reads = target_name(s.target), names_in(own_expressions(s))
    after = ([t] for t in body[last_place(body, s) + 1 :])
    return not any(target in names_used(t) or reads & written(t) for t in after)


def last_place(body: list[Stmt], s: Stmt) -> int:
    """The place of a statement, sought from the end."""
    return next(n for n in reversed(range(len(body))) if body[n] is s)


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
