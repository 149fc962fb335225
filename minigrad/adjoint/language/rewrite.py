"""Going through statements: what stands inside one, its expressions, and copies with something else in their place."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from minigrad.adjoint.language.ast import (
    NOWHERE,
    UNSIGNED,
    Add,
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Do,
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
    common,
    floating,
)


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


def sides(s: Stmt) -> tuple[tuple[Expr, list[Stmt]], ...]:
    """The two sides of a branch, each with the condition under which it is run."""
    return ((s.condition, s.then), (opposite(s.condition), s.orelse)) if isinstance(s, If) else ()


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The conditions that hold where this one does: the parts that `&&` joins."""
    return (*conjuncts(e.left), *conjuncts(e.right)) if isinstance(e, Binary) and e.op == "&&" else (e,)


def each(body: Iterable[Stmt]) -> list[Stmt]:
    """All statements, those inside others too, in the order of the text; a for's start and step stand around it."""
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if isinstance(s, For):
            found += [*([s.start] if s.start else []), *each(s.body), *([s.step] if s.step else [])]
        elif isinstance(s, If):
            found += each(s.then) + each(s.orelse)
    return found


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


def rewrite(s: Stmt, new: Callable[[Expr], Expr]) -> None:
    """Put others in place of the expressions that a statement evaluates itself."""
    match s:
        case Declare():
            s.value, s.values = s.value and new(s.value), s.values and tuple(map(new, s.values))
        case Assign() | Add():
            if isinstance(s.target, Index):
                s.target = replace(s.target, indices=tuple(map(new, s.target.indices)))
            s.value = new(s.value)
        case If() | For():
            s.condition = new(s.condition)
        case Do():
            s.arguments = tuple(map(new, s.arguments))


def renamed(s: Stmt, name: str, value: Expr) -> Stmt:
    """The statement with a value in place of a name, in it and in all inside it."""
    for t in each([s]):
        rewrite(t, partial(change, new=lambda e: value if isinstance(e, Name) and e.name == name else None))
    return s


def inside(s: Stmt, new: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    """A copy of a statement, with others in place of the bodies inside it."""
    match s:
        case If():
            return replace(s, then=new(s.then), orelse=new(s.orelse))
        case For():
            return replace(s, body=new(s.body))
    return replace(s)


def everywhere(body: list[Stmt], change: Callable[[list[Stmt]], list[Stmt]]) -> list[Stmt]:
    """The change made in each body, the innermost first."""
    for s in body:
        match s:
            case If():
                s.then, s.orelse = everywhere(s.then, change), everywhere(s.orelse, change)
            case For():
                s.body = everywhere(s.body, change)
    return change(body)


def loops(body: list[Stmt], change: Callable[[For], list[Stmt]]) -> list[Stmt]:
    """Each loop replaced by what `change` makes of it, the innermost first."""
    return everywhere(body, lambda body: [t for s in body for t in (change(s) if isinstance(s, For) else [s])])


def without(body: list[Stmt], drop: set[int]) -> list[Stmt]:
    """Statements in copies of their own, some left out."""

    def again(s: Stmt) -> Stmt:
        made = inside(s, lambda body: without(body, drop))
        if isinstance(made, For):
            made.start, made.step = made.start and replace(made.start), made.step and replace(made.step)
        return made

    return [again(s) for s in body if id(s) not in drop]


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
