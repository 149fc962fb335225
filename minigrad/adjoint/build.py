"""Expressions put together, with what is trivial left out: no `1 * x`, no `0 + x`, no `- -x`."""

from collections.abc import Callable
from dataclasses import replace

from minigrad.adjoint.expr import NOWHERE, Binary, Call, Cast, Expr, Index, Name, Number, Place, Ternary, Unary
from minigrad.adjoint.tree import Assign, Declare, For, Stmt
from minigrad.adjoint.types import UNSIGNED, common, floating

ONE, ZERO = Number("1", "int"), Number("0", "int")
FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def is_number(e: Expr | None, value: float) -> bool:
    """Whether an expression is this literal."""
    return isinstance(e, Number) and e.value == value


def number_of(e: Expr) -> float | None:
    """The value of a literal or of its negative."""
    match e:
        case Unary(op="-") if e.type not in UNSIGNED:
            inner = number_of(e.operand)
            return None if inner is None else -inner
        case Cast():
            return number_of(e.operand)
        case Number():
            return e.value
    return None


def whole(e: Expr) -> int | None:
    """The same of type int."""
    value = number_of(e) if e.type == "int" else None
    return value if isinstance(value, int) else None


def literal(value: int) -> Expr:
    """A whole number."""
    made = Number(str(abs(value)), "int")
    return made if value >= 0 else Unary("-", made, "int")


def converted(e: Expr, kind: str) -> Expr:
    """The value of an expression as C++ converts it beside an operand of this floating type: 1 / 3.0, not 1 / 3."""
    if floating(e.type):
        return e
    if isinstance(e, Number) and e.text.isdigit() and kind != "real":
        return Number(f"{e.text}.0{'f' if kind == 'float' else ''}", kind)
    return Cast(kind, e)


def offset(e: Expr) -> tuple[Expr, int]:
    """A whole-number expression taken apart: `n - 1` is n and -1, `7` is 0 and 7."""
    if (value := whole(e)) is not None:
        return ZERO, value
    if isinstance(e, Binary) and e.op in "+-" and e.type == "int":
        inner, known = offset(e.left)
        value = whole(e.right)
        if value is not None:
            return inner, known + (value if e.op == "+" else -value)
    return e, 0


def negated(e: Expr) -> Expr | None:
    """The operand of a minus that may be moved: not of -u of an unsigned u, which is 4294967296 - u."""
    return e.operand if isinstance(e, Unary) and e.op == "-" and e.type not in UNSIGNED else None


def times(a: Expr, b: Expr) -> Expr:
    """a * b"""
    x, y = whole(a), whole(b)
    if x is not None and y is not None:
        return literal(x * y)
    if is_number(a, 0) or is_number(b, 0):
        return ZERO
    if is_number(a, 1) or is_number(b, 1):
        return b if is_number(a, 1) else a
    if (positive := negated(a)) is not None:
        return negative(times(positive, b))
    if (positive := negated(b)) is not None:
        return negative(times(a, positive))
    if is_number(a, -1) or is_number(b, -1):
        return negative(b if is_number(a, -1) else a)
    return Binary("*", a, b, common(a.type, b.type))


def over(a: Expr, b: Expr) -> Expr:
    """a / b"""
    if (positive := negated(a)) is not None and b.type not in UNSIGNED:
        return negative(over(positive, b))
    return a if is_number(b, 1) else Binary("/", a, b, common(a.type, b.type))


def plus(a: Expr, b: Expr) -> Expr:
    """a + b"""
    if is_number(a, 0) or is_number(b, 0):
        return b if is_number(a, 0) else a
    if (positive := negated(b)) is not None:
        return minus(a, positive)
    return _sum("+", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    """a - b"""
    if is_number(b, 0) or is_number(a, 0):
        return a if is_number(b, 0) else negative(b)
    if (positive := negated(b)) is not None:
        return plus(a, positive)
    return _sum("-", a, b)


def _sum(op: str, a: Expr, b: Expr) -> Expr:
    """a + b or a - b, with whole numbers joined: of `n - 1 + 3` it is `n + 2`."""
    if whole(b) is None or a.type != "int":
        return Binary(op, a, b, common(a.type, b.type))
    e, by = offset(Binary(op, a, b, "int"))
    if not by or is_number(e, 0):
        return e if not by else literal(by)
    return Binary("+" if by > 0 else "-", e, literal(abs(by)), common(e.type))


def negative(a: Expr) -> Expr:
    """-a"""
    if isinstance(a, Unary) and a.op == "-":
        return a.operand
    if isinstance(a, Binary) and a.op == "*" and isinstance(a.left, Number):
        return Binary("*", negative(a.left), a.right, a.type)
    return ZERO if is_number(a, 0) else Unary("-", a, common(a.type))


def test(op: str, a: Expr, b: Expr) -> Expr:
    """A comparison."""
    return Binary(op, a, b, "bool")


def ascending(
    var: Name, bound: Expr, body: list[Stmt], start: Expr = ZERO, step: Expr = ONE, place: Place = NOWHERE
) -> For:
    """`for (int var = start; var < bound; var += step)`"""
    return For(Declare(var.name, "int", value=start), test("<", var, bound), Assign(var, "+=", step), body, place=place)


def descending(var: Name, last: Expr, body: list[Stmt], place: Place = NOWHERE) -> For:
    """`for (int var = last; var >= 0; --var)`"""
    return For(Declare(var.name, "int", value=last), test(">=", var, ZERO), Assign(var, "-=", ONE), body, place=place)


def opposite(e: Expr) -> Expr:
    """Not e. Of floating-point numbers `!(a < b)` stays: beside a NaN it is not `a >= b`."""
    if isinstance(e, Unary) and e.op == "!":
        return e.operand
    if isinstance(e, Binary) and e.op in FLIPPED and not (floating(e.left.type) or floating(e.right.type)):
        return Binary(FLIPPED[e.op], e.left, e.right, "bool")
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        left, right = opposite(e.left), opposite(e.right)
        if not (isinstance(left, Unary) or isinstance(right, Unary)):
            return Binary("||" if e.op == "&&" else "&&", left, right, "bool")
    return Unary("!", e, "bool")


def change(e: Expr, new: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with each part replaced for which `new` has an answer, from the whole down to the leaves."""
    found = new(e)
    if found is not None:
        return found
    match e:
        case Index():
            return Index(e.array, tuple(change(i, new) for i in e.indices), e.type, e.place)
        case Call():
            return replace(e, arguments=tuple(change(a, new) for a in e.arguments))
        case Unary():
            operand = change(e.operand, new)
            return Unary(e.op, operand, "bool" if e.op == "!" else common(operand.type))
        case Cast():
            return Cast(e.type, change(e.operand, new))
        case Binary():
            left, right = change(e.left, new), change(e.right, new)
            return Binary(e.op, left, right, e.type if e.type == "bool" else common(left.type, right.type))
        case Ternary():
            return Ternary(change(e.condition, new), change(e.yes, new), change(e.no, new), e.type)
    return e
