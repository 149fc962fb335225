"""What statements read and write: by name, and a single one by element."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeGuard

from minigrad.adjoint.language.ast import (
    Add,
    Assign,
    Barrier,
    Binary,
    Call,
    Declare,
    Do,
    Expr,
    For,
    Index,
    Name,
    Stmt,
    Target,
    Ternary,
    children,
    walk,
)
from minigrad.adjoint.language.rewrite import change, each, expressions


def name_of(target: Target) -> str:
    """The variable or array that is written."""
    return target.name if isinstance(target, Name) else target.array


def waits(body: Iterable[Stmt]) -> bool:
    """Whether the threads of a block wait for one another in statements."""
    return any(isinstance(s, Barrier) for s in each(body))


def read_here(s: Stmt) -> set[str]:
    """What a statement itself reads, not what is inside it; of a loop its number by formula, too."""
    found = self_read(s)
    for e in expressions(s):
        found |= e.names
    if isinstance(s, For) and s.reversal and s.reversal.trips:
        found |= s.reversal.trips.names
    return found


def self_read(s: Stmt) -> set[str]:
    """The target of `+=` and its like."""
    return {name_of(s.target)} if isinstance(s, Assign) and s.op != "=" else set()


def is_sum(s: Stmt) -> TypeGuard[Assign]:
    """Whether a statement adds to what it writes, as `+=` does."""
    return isinstance(s, Assign) and s.op in ("+=", "-=")


def used_otherwise(body: Iterable[Stmt], adds: Callable[[Stmt], bool] = is_sum) -> set[str]:
    """The names that statements read, or write in another way than by adding to them."""
    body = each(body)
    sets = {n for s in body if not adds(s) for n in written_here(s)}
    return sets.union(*(read_here(s) - self_read(s) for s in body))


def accesses(s: Stmt) -> list[tuple[str, Target]]:
    """What a statement itself reads, writes or adds to: elements, variables, and arrays that it hands over."""
    found = [("read", x) for e in expressions(s) for x in walk(e) if isinstance(x, Name | Index)]
    match s:
        case Assign() | Add():
            found.append(("add" if isinstance(s, Add) else "write", s.target))
        case Do():
            found += [("write", a) for a in s.arguments if isinstance(a, Name) and a.name in s.writes]
    return found


def elements(body: Iterable[Stmt]) -> list[Index]:
    """The elements that statements read."""
    return [x for s in each(body) for kind, x in accesses(s) if kind == "read" and isinstance(x, Index)]


def always(e: Expr) -> Iterator[Index]:
    """The elements that an expression reads in any case: of `a[0] && b[0]` the first."""
    if isinstance(e, Index):
        yield e
    short = isinstance(e, Ternary) or (isinstance(e, Binary) and e.op in ("&&", "||"))
    for part in children(e)[:1] if short else children(e):
        yield from always(part)


def reads_in(expressions: Iterable[Expr]) -> set[str]:
    """The names in expressions."""
    return set().union(*(e.names for e in expressions))


def written_here(s: Stmt) -> set[str]:
    """What a statement itself writes or declares."""
    match s:
        case Declare():
            return {s.name}
        case Assign() | Add():
            return {name_of(s.target)}
        case Do():
            return set(s.writes)
    return set()


def written(body: Iterable[Stmt]) -> set[str]:
    """All that statements write or declare."""
    return set().union(*map(written_here, each(body)))


def read(body: Iterable[Stmt]) -> set[str]:
    """All that statements read."""
    return set().union(*map(read_here, each(body)))


def mentioned(body: Iterable[Stmt]) -> set[str]:
    """All names that statements read or write."""
    body = each(body)
    return set().union(*map(read_here, body), *(written_here(s) for s in body if not isinstance(s, Declare)))


def declared(body: Iterable[Stmt]) -> set[str]:
    """The names that statements declare."""
    return {s.name for s in each(body) if isinstance(s, Declare)}


def fixed(statements: Iterable[Stmt]) -> dict[str, Expr]:
    """The variables that are set where they are declared and nowhere else, with their values."""
    body = list(each(statements))
    again = [n for s in body for n in written_here(s)]
    values = {s.name: s.value for s in body if isinstance(s, Declare) and s.value is not None}
    return {name: value for name, value in values.items() if again.count(name) == 1}


def unfolded(e: Expr, fixed: Mapping[str, Expr]) -> Expr:
    """An expression with the values of variables that are set once in their place."""

    def value(x: Expr) -> Expr | None:
        return unfolded(fixed[x.name], fixed) if isinstance(x, Name) and x.name in fixed else None

    return change(e, value)


def axis_of(fixed: dict[str, Expr], e: Expr) -> str | None:
    """x, y or z where an expression is that part of threadIdx, or a variable that was set to it once."""
    if isinstance(e, Name) and e.name.startswith("threadIdx."):
        return e.name[-1]
    return axis_of(fixed, fixed[e.name]) if isinstance(e, Name) and e.name in fixed else None


def handed(e: Expr) -> set[str]:
    """The arrays that an expression itself reads: the one that it indexes, or those that it hands to a function."""
    if isinstance(e, Call):
        return {each.name for each in e.arguments if isinstance(each, Name)}  # and variables, which are never lost
    return {e.array} if isinstance(e, Index) else set()
