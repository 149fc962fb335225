"""What need not be in a loop led out of it: sums, so that one addition is left, branches, loads of outputs' gradients.

Sums in a loop that are the same for all threads of a warp are shared out over them.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.language.ast import (
    Assign,
    AtomicAdd,
    Binary,
    Call,
    Comment,
    Declare,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
    Target,
    Ternary,
    children,
    walk,
)
from minigrad.adjoint.language.dataflow import (
    declared,
    has_barrier,
    is_sum,
    names_in,
    names_used,
    target_name,
    used_outside_sums,
    written,
)
from minigrad.adjoint.language.rewrite import ZERO, comparison, count_up, flatten, guarded_bodies


def hoist_sums(
    s: For, arrays: Mapping[str, bool], fresh: Callable[[str], str], values: Mapping[str, int]
) -> list[Stmt]:
    """`for (...) { d_x[i] += e; }` becomes a sum in a variable and, behind the loop, one `d_x[i] += sum;`.

    arrays: gradients, and whether they are shared. values: of macros, by which a loop is known to make a round.
    """
    changed, spoilt = written([s]), used_outside_sums([s])
    sums: dict[Target, list[Assign]] = {}
    for t in flatten([s]):
        if is_sum(t) and target_name(t.target) in arrays:
            sums.setdefault(t.target, []).append(t)
    before: list[Stmt] = []
    behind: list[Stmt] = []
    header = count(s)
    for target, parts in sums.items():
        stays = not names_in(children(target)) & changed and target_name(target) not in spoilt
        if stays and not (arrays[target_name(target)] and has_barrier([s])):
            total = Name(fresh(f"{target_name(target)}_sum"), target.type)
            before.append(Declare(total.name, total.type, value=ZERO, place=s.place))
            add = Assign(target, "+=", total, parts[0].place, owned=parts[0].owned)
            runs = header is not None and header.runs(values)
            ways = [_way(s.body, part, changed) for part in parts] if runs else [None]
            if [] in ways:
                behind.append(add)
            elif ways[0] is not None and all(way == ways[0] for way in ways):
                behind.append(_guarded(ways[0], add))
            else:  # where no round has run, the element may not exist
                behind.append(If(comparison("!=", total, ZERO), [add], [], s.place))
            for part in parts:
                part.target, part.owned = total, False
    return [*before, s, *behind]


def _way(body: list[Stmt], s: Stmt, changed: set[str]) -> list[Expr] | None:
    """The conditions on the way to a statement, none of which changes; None where one does, or in another loop."""
    for t in body:
        if t is s:
            return []
        for condition, side in guarded_bodies(t):
            way = _way(side, s, changed)
            if way is not None:
                return None if condition.names & changed else [condition, *way]
    return None


def _guarded(way: list[Expr], s: Stmt) -> Stmt:
    """A statement under conditions."""
    for condition in reversed(way):
        s = If(condition, [s], [], s.place)
    return s


def share_over_warp(s: For, uniform: set[str], fresh: Callable[[str], str]) -> list[Stmt]:
    """`for (j ...) { warp_add(&d_s[j], d); }` becomes one sum of d over the warp and the rounds taken in turns.

    uniform: names that are equal in all threads of a block.
    """
    notes, header = [t for t in s.body if isinstance(t, Comment)], count(s)
    match [t for t in s.body if not isinstance(t, Comment)]:
        case [AtomicAdd(by="warp_add", target=Index()) as add] if header and header.simple and header.exact:
            named = names_in((header.bound, *children(add.target))) - {header.var}
        case _:
            return [s]
    if add.value.names & written([s]) or not named <= uniform:
        return [s]
    turn, turns = Name(fresh("turn"), "int"), Name(fresh("turns"), "int")
    total, value = Name(fresh("d_warp"), add.target.type), add.value
    if any(isinstance(x, Index) for x in walk(value)) and not header.runs({}):
        value = Ternary(header.some, value, ZERO, total.type)  # of no round nothing may be read
    summed = Call("warp_total", (value, turn, turns), total.type)
    one = AtomicAdd(add.target, total, add.place, add.text)
    loop = replace(count_up(Name(header.var, "int"), header.bound, [one], turn, turns, s.place), condition=s.condition)
    given: list[Stmt] = [Declare(turn.name, "int"), Declare(turns.name, "int")]
    return [*given, *notes, Declare(total.name, total.type, value=summed, place=add.place), loop]


def unswitch(body: list[Stmt]) -> list[Stmt]:
    """`for (...) { if (c) { a } } if (c) { b }` becomes `if (c) { for (...) { a } b }`."""
    made: list[Stmt] = []
    for s in map(_led_out, body):
        last = made[-1] if made else None
        if isinstance(last, If) and isinstance(s, If) and _alike(last, s):
            made[-1] = If(last.condition, [*last.then, *s.then], [*last.orelse, *s.orelse], last.place)
        else:
            made.append(s)
    return made


def _led_out(s: Stmt) -> Stmt:
    """A branch that is all of a loop's body, with the loop in it."""
    inner = s.body[0] if isinstance(s, For) and len(s.body) == 1 else None
    if not isinstance(s, For) or not isinstance(inner, If) or inner.orelse or count(s) is None:
        return s
    if not _anywhere(inner) or inner.condition.names & written([s]) or has_barrier([s]):
        return s
    return If(inner.condition, [replace(s, body=inner.then)], [], inner.place)


def _alike(a: If, b: If) -> bool:
    """Whether two branches test the same, the first does not change it, and no name means something else in it."""
    inside, own = [*a.then, *a.orelse], declared([*b.then, *b.orelse])
    apart = not declared(inside) & (names_used([b]) | own) and not a.condition.names & written(inside)
    return a.condition == b.condition and _anywhere(a) and apart


def _anywhere(s: If) -> bool:
    """Whether a condition can be tested anywhere: it reads variables alone, and divides by none."""
    parts = walk(s.condition)
    return not any(isinstance(x, Index | Call) or (isinstance(x, Binary) and x.op in "/%") for x in parts)


def hoist_loads(body: list[Stmt], given: Container[str]) -> list[Stmt]:
    """`real d = d_y[i];` moved up to the first loop behind what it reads, so that a thread waits for memory only once.

    In `sum over j of s[j]; d = d_y[i]` the compiler leaves the load of d_y[i] behind the loop, where nothing else is
    left to do while it is on its way. Nobody writes what was given, so it can be read as soon as its index is known.
    """
    made = list(body)
    for s in body:
        if isinstance(s, Declare) and isinstance(s.value, Index) and s.value.array in given:
            _move(made, s, s.value.names)
    return made


def _move(body: list[Stmt], s: Declare, names: frozenset[str]) -> None:
    at = body.index(s)
    known = next((n + 1 for n in reversed(range(at)) if names & written([body[n]])), 0)
    loop = next((n for n in range(known, at) if isinstance(body[n], For)), None)
    if loop is not None:
        note = body[at - 1]
        alone = at + 1 == len(body) or getattr(body[at + 1], "place", None) != s.place
        del body[at - (isinstance(note, Comment) and note.place == s.place and alone) : at + 1]
        body[loop:loop] = [Comment(f"adjoint of line {s.place.line}, ahead of the loop", s.place), s]
