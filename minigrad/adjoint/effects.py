"""What statements read and write, by name."""

from collections.abc import Iterable, Iterator

from minigrad.adjoint.build import ONE, ZERO, converted, minus, negative, over, plus, times
from minigrad.adjoint.expr import Binary, Expr, Index, Name, Ternary, Unary, children
from minigrad.adjoint.tree import Add, Assign, Declare, Do, For, If, Jump, Stmt
from minigrad.adjoint.types import common

FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def name_of(target: Name | Index) -> str:
    """The variable or array that is written."""
    return target.name if isinstance(target, Name) else target.array


def nested(s: Stmt) -> tuple[list[Stmt], ...]:
    """The bodies inside a statement."""
    match s:
        case If():
            return s.then, s.orelse
        case For():
            return (s.body,)
    return ()


def heads(s: Stmt) -> tuple[Stmt, ...]:
    """A statement and, of a for, its start and its step."""
    return (s, *(part for part in (s.start, s.step) if part)) if isinstance(s, For) else (s,)


def each(body: Iterable[Stmt]) -> list[Stmt]:
    """All statements, those inside others too, in the order of the text; a for's start and step stand around it."""
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if isinstance(s, For):
            found += [s.start] if s.start else []
        for inner in nested(s):
            found += each(inner)
        if isinstance(s, For):
            found += [s.step] if s.step else []
    return found


def read_here(s: Stmt) -> set[str]:
    """What a statement itself reads, not what is inside it."""
    found = self_read(s)
    for e in expressions(s):
        found |= e.names
    return found


def self_read(s: Stmt) -> set[str]:
    """The target of `+=` and its like."""
    return {name_of(s.target)} if isinstance(s, Assign) and s.op != "=" else set()


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself, the indices of its target included."""
    match s:
        case Declare():
            return tuple(e for e in (s.value, *(s.values or ())) if e is not None)
        case Assign() | Add():
            return (s.value, *(s.target.indices if isinstance(s.target, Index) else ()))
        case If() | For():
            return (s.condition,)
        case Jump():
            return (s.value,) if s.value is not None else ()
        case Do():
            return s.arguments
    return ()


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
    return set().union(*(written_here(s) for s in each(body)))


def read(body: Iterable[Stmt]) -> set[str]:
    """All that statements read."""
    return set().union(*(read_here(s) for s in each(body)))


def mentioned(body: Iterable[Stmt]) -> set[str]:
    """All names that statements read or write."""
    body = list(body)
    return read(body) | {n for s in each(body) if not isinstance(s, Declare) for n in written_here(s)}


def declared(body: Iterable[Stmt]) -> set[str]:
    """The names that statements declare."""
    return {s.name for s in each(body) if isinstance(s, Declare)}


def fixed(statements: Iterable[Stmt]) -> dict[str, Expr]:
    """The variables that are set where they are declared and nowhere else, with their values."""
    body = list(each(statements))
    again = [n for s in body for n in written_here(s)]
    values = {s.name: s.value for s in body if isinstance(s, Declare) and s.value is not None}
    return {name: value for name, value in values.items() if again.count(name) == 1}


def opposite(e: Expr) -> Expr:
    """Not e. Of floating-point numbers `!(a < b)` stays: beside a NaN it is not `a >= b`."""
    if isinstance(e, Unary) and e.op == "!":
        return e.operand
    if isinstance(e, Binary) and e.op in FLIPPED and not {e.left.type, e.right.type} & {"float", "double", "real"}:
        return Binary(FLIPPED[e.op], e.left, e.right, "bool")
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        left, right = opposite(e.left), opposite(e.right)
        if not (isinstance(left, Unary) or isinstance(right, Unary)):
            return Binary("||" if e.op == "&&" else "&&", left, right, "bool")
    return Unary("!", e, "bool")


def factor(e: Expr, target: Name | Index) -> Expr | None:
    """A of `e = A * target + B`, where neither A nor B reads the target's variable; None where that is not so.

    The target is of a floating type, so each operand beside it is converted as it is there: of `t / 2 / 3` the
    factor is 1 / 2.0 / 3.0.
    """
    name = name_of(target)
    if name not in e.names:
        return ZERO
    if e == target:
        return ONE if name not in reads_in(children(e)) else None
    match e:
        case Unary(op="-"):
            inner = factor(e.operand, target)
            return None if inner is None else negative(inner)
        case Binary(op="+" | "-"):
            left, right = factor(e.left, target), factor(e.right, target)
            if left is None or right is None:
                return None
            return plus(left, right) if e.op == "+" else minus(left, right)
        case Binary(op="*"):
            left, right = factor(e.left, target), factor(e.right, target)
            if left is None or right is None or ZERO not in (left, right):
                return None
            if right == ZERO:
                return times(left, converted(e.right, e.type))
            return times(converted(e.left, e.type), right)
        case Binary(op="/") if name not in e.right.names:
            left = factor(e.left, target)
            return None if left is None else over(left, converted(e.right, e.type))
    return None


def value_of(s: Assign) -> Expr:
    """What an assignment sets its target to: of `v += e` it is `v + e`."""
    return s.value if s.op == "=" else Binary(s.op[:-1], s.target, s.value, common(s.target.type, s.value.type))


def rest(s: Assign) -> Expr | None:
    """B of `target = target + B`, whatever B reads; None where an assignment is no such sum."""
    if s.op in ("+=", "-="):
        return s.value if s.op == "+=" else negative(s.value)
    e = s.value
    if s.op == "=" and isinstance(e, Binary) and e.op in "+-" and s.target in (e.left, e.right):
        if e.left == s.target:
            return e.right if e.op == "+" else negative(e.right)
        return e.left if e.op == "+" else None
    return None
