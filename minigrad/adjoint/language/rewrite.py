"""Traversal and rewriting of statements, and construction of simplified expressions."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from minigrad.adjoint.language.ast import (
    NOWHERE,
    UNSIGNED,
    Assign,
    AtomicAdd,
    Binary,
    Call,
    CallStmt,
    Cast,
    Declare,
    Expr,
    For,
    If,
    Index,
    Jump,
    Name,
    Number,
    Place,
    Stmt,
    Ternary,
    Unary,
    common_type,
    is_float,
)


def bodies(s: Stmt) -> tuple[list[Stmt], ...]:
    """The statement lists inside a statement."""
    match s:
        case If():
            return s.then, s.orelse
        case For():
            return (s.body,)
    return ()


def with_header(s: Stmt) -> tuple[Stmt, ...]:
    """A statement and, for a for loop, the start and step of its header."""
    return (s, *(part for part in (s.start, s.step) if part)) if isinstance(s, For) else (s,)


def guarded_bodies(s: Stmt) -> tuple[tuple[Expr, list[Stmt]], ...]:
    """The two sides of a branch, each with the condition under which it runs."""
    return ((s.condition, s.then), (logical_not(s.condition), s.orelse)) if isinstance(s, If) else ()


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The operands that `&&` joins."""
    return (*conjuncts(e.left), *conjuncts(e.right)) if isinstance(e, Binary) and e.op == "&&" else (e,)


def flatten(body: Iterable[Stmt]) -> list[Stmt]:
    """All statements in the order of the text, nested ones too; the body of a for stands between its start and step."""
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if isinstance(s, For):
            found += [*([s.start] if s.start else []), *flatten(s.body), *([s.step] if s.step else [])]
        elif isinstance(s, If):
            found += flatten(s.then) + flatten(s.orelse)
    return found


def own_expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement itself evaluates, the indices of its target included."""
    match s:
        case Declare():
            return tuple(e for e in (s.value, *(s.values or ())) if e is not None)
        case Assign() | AtomicAdd():
            return (s.value, *(s.target.indices if isinstance(s.target, Index) else ()))
        case If() | For():
            return (s.condition,)
        case Jump():
            return (s.value,) if s.value is not None else ()
        case CallStmt():
            return s.arguments
    return ()


def map_expressions(s: Stmt, new: Callable[[Expr], Expr]) -> None:
    """Replace the expressions that a statement itself evaluates."""
    match s:
        case Declare():
            s.value, s.values = s.value and new(s.value), s.values and tuple(map(new, s.values))
        case Assign() | AtomicAdd():
            if isinstance(s.target, Index):
                s.target = replace(s.target, indices=tuple(map(new, s.target.indices)))
            s.value = new(s.value)
        case If() | For():
            s.condition = new(s.condition)
        case CallStmt():
            s.arguments = tuple(map(new, s.arguments))


def substitute(s: Stmt, name: str, value: Expr) -> Stmt:
    """Replace a name by a value, in a statement and all statements inside it."""
    new = partial(replace_parts, new=lambda e: value if isinstance(e, Name) and e.name == name else None)
    for t in flatten([s]):
        map_expressions(t, new)
    return s


def map_bodies(s: Stmt, new: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    """A copy of a statement, with its bodies replaced."""
    match s:
        case If():
            return replace(s, then=new(s.then), orelse=new(s.orelse))
        case For():
            return replace(s, body=new(s.body))
    return replace(s)


def bottom_up(body: list[Stmt], replace_parts: Callable[[list[Stmt]], list[Stmt]]) -> list[Stmt]:
    """Apply a change to each body, the innermost first."""
    for s in body:
        match s:
            case If():
                s.then, s.orelse = bottom_up(s.then, replace_parts), bottom_up(s.orelse, replace_parts)
            case For():
                s.body = bottom_up(s.body, replace_parts)
    return replace_parts(body)


def map_loops(body: list[Stmt], replace_parts: Callable[[For], list[Stmt]]) -> list[Stmt]:
    """Replace each loop by the statements that `change` returns for it, the innermost first."""
    return bottom_up(body, lambda body: [t for s in body for t in (replace_parts(s) if isinstance(s, For) else [s])])


def copy_without(body: list[Stmt], drop: set[int]) -> list[Stmt]:
    """A copy of the statements, without those whose ids are in `drop`."""

    def again(s: Stmt) -> Stmt:
        made = map_bodies(s, lambda body: copy_without(body, drop))
        if isinstance(made, For):
            made.start, made.step = made.start and replace(made.start), made.step and replace(made.step)
        return made

    return [again(s) for s in body if id(s) not in drop]


ONE, ZERO = Number("1", "int"), Number("0", "int")
FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def is_number(e: Expr | None, value: float) -> bool:
    """True for the literal of this value."""
    return isinstance(e, Number) and e.value == value


def numeric_value(e: Expr) -> float | None:
    """The value of a literal, a negated or a cast one included."""
    match e:
        case Unary(op="-") if e.type not in UNSIGNED:
            inner = numeric_value(e.operand)
            return None if inner is None else -inner
        case Cast():
            return numeric_value(e.operand)
        case Number():
            return e.value
    return None


def int_value(e: Expr) -> int | None:
    """The same for type int."""
    value = numeric_value(e) if e.type == "int" else None
    return value if isinstance(value, int) else None


def int_literal(value: int) -> Expr:
    made = Number(str(abs(value)), "int")
    return made if value >= 0 else Unary("-", made, "int")


def as_float(e: Expr, kind: str) -> Expr:
    """The conversion of C++ for an operand next to one of this floating-point type: 1 / 3.0 and not 1 / 3."""
    if is_float(e.type):
        return e
    if isinstance(e, Number) and e.text.isdigit() and kind != "real":
        return Number(f"{e.text}.0{'f' if kind == 'float' else ''}", kind)
    return Cast(kind, e)


def split_constant(e: Expr) -> tuple[Expr, int]:
    """An integer expression as a sum of an expression and a constant: `n - 1` is n and -1, `7` is 0 and 7."""
    if (value := int_value(e)) is not None:
        return ZERO, value
    if isinstance(e, Binary) and e.op in "+-" and e.type == "int":
        inner, known = split_constant(e.left)
        value = int_value(e.right)
        if value is not None:
            return inner, known + (value if e.op == "+" else -value)
    return e, 0


def unnegated(e: Expr) -> Expr | None:
    """The x of -x; None for -u of an unsigned u, which is 4294967296 - u."""
    return e.operand if isinstance(e, Unary) and e.op == "-" and e.type not in UNSIGNED else None


def times(a: Expr, b: Expr) -> Expr:
    """a * b"""
    x, y = int_value(a), int_value(b)
    if x is not None and y is not None:
        return int_literal(x * y)
    if is_number(a, 0) or is_number(b, 0):
        return ZERO
    if is_number(a, 1) or is_number(b, 1):
        return b if is_number(a, 1) else a
    if (positive := unnegated(a)) is not None:
        return negative(times(positive, b))
    if (positive := unnegated(b)) is not None:
        return negative(times(a, positive))
    if is_number(a, -1) or is_number(b, -1):
        return negative(b if is_number(a, -1) else a)
    return Binary("*", a, b, common_type(a.type, b.type))


def over(a: Expr, b: Expr) -> Expr:
    """a / b"""
    if (positive := unnegated(a)) is not None and b.type not in UNSIGNED:
        return negative(over(positive, b))
    return a if is_number(b, 1) else Binary("/", a, b, common_type(a.type, b.type))


def plus(a: Expr, b: Expr) -> Expr:
    """a + b"""
    if is_number(a, 0) or is_number(b, 0):
        return b if is_number(a, 0) else a
    if (positive := unnegated(b)) is not None:
        return minus(a, positive)
    return _sum("+", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    """a - b"""
    if is_number(b, 0) or is_number(a, 0):
        return a if is_number(b, 0) else negative(b)
    if (positive := unnegated(b)) is not None:
        return plus(a, positive)
    return _sum("-", a, b)


def _sum(op: str, a: Expr, b: Expr) -> Expr:
    """a + b or a - b, with integer constants joined: `n - 1 + 3` becomes `n + 2`."""
    if int_value(b) is None or a.type != "int":
        return Binary(op, a, b, common_type(a.type, b.type))
    e, by = split_constant(Binary(op, a, b, "int"))
    if not by or is_number(e, 0):
        return e if not by else int_literal(by)
    return Binary("+" if by > 0 else "-", e, int_literal(abs(by)), common_type(e.type))


def negative(a: Expr) -> Expr:
    """-a"""
    if isinstance(a, Unary) and a.op == "-":
        return a.operand
    if isinstance(a, Binary) and a.op == "*" and isinstance(a.left, Number):
        return Binary("*", negative(a.left), a.right, a.type)
    return ZERO if is_number(a, 0) else Unary("-", a, common_type(a.type))


def comparison(op: str, a: Expr, b: Expr) -> Expr:
    return Binary(op, a, b, "bool")


def count_up(
    var: Name, bound: Expr, body: list[Stmt], start: Expr = ZERO, step: Expr = ONE, place: Place = NOWHERE
) -> For:
    """`for (int var = start; var < bound; var += step)`"""
    first = Declare(var.name, "int", value=start)
    return For(first, comparison("<", var, bound), Assign(var, "+=", step), body, place=place)


def count_down(var: Name, last: Expr, body: list[Stmt], place: Place = NOWHERE) -> For:
    """`for (int var = last; var >= 0; --var)`"""
    first = Declare(var.name, "int", value=last)
    return For(first, comparison(">=", var, ZERO), Assign(var, "-=", ONE), body, place=place)


def logical_not(e: Expr) -> Expr:
    """The negation. `!(a < b)` of floating-point numbers stays: with a NaN it differs from `a >= b`."""
    if isinstance(e, Unary) and e.op == "!":
        return e.operand
    if isinstance(e, Binary) and e.op in FLIPPED and not (is_float(e.left.type) or is_float(e.right.type)):
        return Binary(FLIPPED[e.op], e.left, e.right, "bool")
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        left, right = logical_not(e.left), logical_not(e.right)
        if not (isinstance(left, Unary) or isinstance(right, Unary)):
            return Binary("||" if e.op == "&&" else "&&", left, right, "bool")
    return Unary("!", e, "bool")


def replace_parts(e: Expr, new: Callable[[Expr], Expr | None]) -> Expr:
    """Replace the parts of an expression for which `new` returns another one, from the whole down to the leaves."""
    found = new(e)
    if found is not None:
        return found
    match e:
        case Index():
            return Index(e.array, tuple(replace_parts(i, new) for i in e.indices), e.type, e.place)
        case Call():
            return replace(e, arguments=tuple(replace_parts(a, new) for a in e.arguments))
        case Unary():
            operand = replace_parts(e.operand, new)
            return Unary(e.op, operand, "bool" if e.op == "!" else common_type(operand.type))
        case Cast():
            return Cast(e.type, replace_parts(e.operand, new))
        case Binary():
            left, right = replace_parts(e.left, new), replace_parts(e.right, new)
            return Binary(e.op, left, right, e.type if e.type == "bool" else common_type(left.type, right.type))
        case Ternary():
            return Ternary(replace_parts(e.condition, new), replace_parts(e.yes, new), replace_parts(e.no, new), e.type)
    return e
