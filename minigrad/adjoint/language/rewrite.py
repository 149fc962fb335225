"""Traversal and rewriting of statements, and construction of simplified expressions."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from operator import is_

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import NOWHERE, UNSIGNED, Expr, Place, Stmt, children, common_type, is_float


def bodies(s: Stmt) -> tuple[list[Stmt], ...]:
    """The statement lists inside a statement."""
    return (s.then, s.orelse) if type(s) is ast.If else (s.body,) if type(s) is ast.For else ()


def with_header(s: Stmt) -> tuple[Stmt, ...]:
    """A statement and, for a for loop, the start and step of its header."""
    return (s, *(part for part in (s.start, s.step) if part)) if isinstance(s, ast.For) else (s,)


def guarded_bodies(s: Stmt) -> tuple[tuple[Expr, list[Stmt]], ...]:
    """The two sides of a branch, each with the condition under which it runs."""
    return ((s.condition, s.then), (logical_not(s.condition), s.orelse)) if isinstance(s, ast.If) else ()


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    return (*conjuncts(e.left), *conjuncts(e.right)) if isinstance(e, ast.Binary) and e.op == "&&" else (e,)


def flatten(body: Iterable[Stmt]) -> list[Stmt]:
    """All statements in the order of the text, nested ones too; the body of a for between its start and step."""
    found: list[Stmt] = []
    _collect(body, found)
    return found


def _collect(body: Iterable[Stmt], found: list[Stmt]) -> None:
    for s in body:
        found.append(s)
        if type(s) is ast.If:
            _collect(s.then, found)
            _collect(s.orelse, found)
        elif type(s) is ast.For:
            found += [s.start] if s.start else []
            _collect(s.body, found)
            found += [s.step] if s.step else []


def own_expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement itself evaluates, the indices of its target included."""
    if type(s) is ast.Assign:  # ahead of the others, as most statements are assignments
        return (s.value, *s.target.indices) if type(s.target) is ast.Index else (s.value,)
    if type(s) is ast.Declare and s.values is None:
        return () if s.value is None else (s.value,)
    match s:
        case ast.Declare():
            return tuple(e for e in (s.value, *(s.values or ())) if e is not None)
        case ast.AtomicAdd():
            return (s.value, *(s.target.indices if isinstance(s.target, ast.Index) else ()))
        case ast.If() | ast.For():
            return (s.condition,)
        case ast.Jump():
            return (s.value,) if s.value is not None else ()
        case ast.CallStmt():
            return s.arguments
    return ()


def map_expressions(s: Stmt, new: Callable[[Expr], Expr]) -> None:
    """Replace the expressions that a statement itself evaluates."""
    match s:
        case ast.Declare():
            s.value, s.values = s.value and new(s.value), s.values and tuple(map(new, s.values))
        case ast.Assign() | ast.AtomicAdd():
            if isinstance(s.target, ast.Index):
                s.target = replace(s.target, indices=tuple(map(new, s.target.indices)))
            s.value = new(s.value)
        case ast.If() | ast.For():
            s.condition = new(s.condition)
        case ast.CallStmt():
            s.arguments = tuple(map(new, s.arguments))


def substitute(s: Stmt, name: str, value: Expr) -> Stmt:
    """Replace a name by a value, in a statement and all statements inside it."""
    new = partial(replace_parts, new=lambda e: value if isinstance(e, ast.Name) and e.name == name else None)
    for t in flatten([s]):
        map_expressions(t, new)
    return s


def map_bodies(s: Stmt, new: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    """A copy of a statement, with its bodies replaced."""
    match s:
        case ast.If():
            return replace(s, then=new(s.then), orelse=new(s.orelse))
        case ast.For():
            return replace(s, body=new(s.body))
    made = object.__new__(type(s))  # in a tenth of the time that `replace` takes
    made.__dict__.update(s.__dict__)
    return made


def bottom_up(body: list[Stmt], change: Callable[[list[Stmt]], list[Stmt]]) -> list[Stmt]:
    """Apply a change to each body, the innermost first."""
    for s in body:
        for inner in bodies(s):
            inner[:] = bottom_up(inner, change)
    return change(body)


def replace_each(body: list[Stmt], new: Callable[[Stmt], list[Stmt]]) -> list[Stmt]:
    """A copy of the statements, each replaced by those that `new` returns for it, the innermost first."""
    return [t for s in body for t in new(map_bodies(s, partial(replace_each, new=new)))]


def map_loops(body: list[Stmt], new: Callable[[ast.For], list[Stmt]]) -> list[Stmt]:
    """Replace each loop by the statements that `new` returns for it, the innermost first."""
    return bottom_up(body, lambda body: [t for s in body for t in (new(s) if isinstance(s, ast.For) else [s])])


def copy_without(body: list[Stmt], drop: set[int]) -> list[Stmt]:
    """A copy of the statements, without those whose ids are in `drop`."""

    made = [map_bodies(s, partial(copy_without, drop=drop)) for s in body if id(s) not in drop]
    for s in made:
        if isinstance(s, ast.For):
            s.start, s.step = s.start and replace(s.start), s.step and replace(s.step)
    return made


ONE, ZERO = ast.Number("1", "int"), ast.Number("0", "int")
SUFFIXES = {"unsigned": "u", "long long": "ll", "unsigned long long": "ull", "size_t": "ull"}  # of literals
RANGES = ast.LIMITS | {"int": (-(2**31), 2**31 - 1), "unsigned": (0, 2**32 - 1), "long long": (-(2**63), 2**63 - 1)}
RANGES |= dict.fromkeys(("unsigned long long", "size_t"), (0, 2**64 - 1))
FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def is_number(e: Expr | None, value: float) -> bool:
    """True for the literal of this value."""
    return isinstance(e, ast.Number) and e.value == value


def numeric_value(e: Expr) -> float | None:
    """The value of a literal, a negated or a cast one included."""
    if (operand := unnegated(e)) is not None:
        inner = numeric_value(operand)
        return None if inner is None else -inner
    if isinstance(e, ast.Cast):
        inner = numeric_value(e.operand)
        return inner if is_float(e.type) or (isinstance(inner, int) and fits(inner, e.type)) else None
    return e.value if isinstance(e, ast.Number) else None


def int_value(e: Expr) -> int | None:
    """The value of such an expression of type int."""
    value = numeric_value(e) if e.type == "int" else None
    return value if isinstance(value, int) else None


def fits(value: int, kind: str) -> bool:
    """True where a whole number of this type can have the value: C++ wraps others around, or leaves them undefined."""
    least, most = RANGES[kind]
    return least <= value <= most


def int_literal(value: int, kind: str = "int") -> Expr:
    if kind == "bool":
        return ast.Number("true" if value else "false", kind)
    made = ast.Number(f"{abs(value)}{SUFFIXES.get(kind, '')}", kind)
    return made if value >= 0 else ast.Unary("-", made, kind)


def as_float(e: Expr, kind: str) -> Expr:
    """The conversion of C++ for an operand next to one of this floating-point type: 1 / 3.0 and not 1 / 3."""
    if is_float(e.type):
        return e
    if isinstance(e, ast.Number) and e.text.isdigit() and kind != "real":
        return ast.Number(f"{e.text}.0{'f' if kind == 'float' else ''}", kind)
    return ast.Cast(kind, e)


def typed(e: Expr, kind: str, stored: bool = False) -> Expr:
    """The number as one of this type, wherever it is written: 3.0 for the 3 that a double is given.

    stored: in memory of this type, which converts it itself; a cast is written where a whole number may change.
    """
    if e.type == kind or (stored and (is_float(kind) or (is_float(e.type) and kind == "bool"))):
        return e
    if stored and not is_float(e.type):
        low, high = RANGES[e.type] if (n := int_value(e)) is None else (n, n)
        larger = kind not in ast.LIMITS and ast.BYTES[kind] >= ast.BYTES[e.type]
        if larger or (fits(low, kind) and fits(high, kind)):
            return e
    return as_float(e, kind) if kind in ("float", "double") and not is_float(e.type) else ast.Cast(kind, e)


def deduced_type(e: Expr) -> str:
    """The type that C++ gives a variable for this value: threadIdx.x, here an int, is unsigned, and so is its sum."""
    if e.type != "int":
        return e.type
    match e:
        case ast.Name():
            return "unsigned" if e.name.partition(".")[0] in ast.BUILTINS else "int"
        case ast.Ternary(yes=a, no=b) | ast.Call(function="max" | "min", arguments=(a, b)):
            return ast.common_type(deduced_type(a), deduced_type(b))
        case ast.Binary(op="<<" | ">>", left=a) | ast.Unary(operand=a):
            return deduced_type(a)
        case ast.Binary(left=a, right=b):
            return ast.common_type(deduced_type(a), deduced_type(b))
    return "int"


def split_constant(e: Expr) -> tuple[Expr, int]:
    """An integer expression as a sum of an expression and a constant: `n - 1` is n and -1, `7` is 0 and 7."""
    if (value := int_value(e)) is not None:
        return ZERO, value
    if isinstance(e, ast.Binary) and e.op in "+-" and e.type == "int" and (value := int_value(e.right)) is not None:
        inner, known = split_constant(e.left)
        return inner, known + (value if e.op == "+" else -value)
    return e, 0


def unnegated(e: Expr) -> Expr | None:
    """The x of -x; None for -u of an unsigned u, which is 4294967296 - u."""
    return e.operand if isinstance(e, ast.Unary) and e.op == "-" and e.type not in UNSIGNED else None


def times(a: Expr, b: Expr) -> Expr:
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
    return ast.Binary("*", a, b, common_type(a.type, b.type))


def over(a: Expr, b: Expr) -> Expr:
    if (positive := unnegated(a)) is not None and b.type not in UNSIGNED:
        return negative(over(positive, b))
    return a if is_number(b, 1) else ast.Binary("/", a, b, common_type(a.type, b.type))


def plus(a: Expr, b: Expr) -> Expr:
    return b if is_number(a, 0) else _sum("+", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    return _sum("-", a, b)


def _sum(op: str, a: Expr, b: Expr) -> Expr:
    """a + b or a - b, with integer constants joined: `n - 1 + 3` becomes `n + 2`."""
    if is_number(a, 0) or is_number(b, 0):
        return a if is_number(b, 0) else negative(b)
    if (positive := unnegated(b)) is not None:
        return minus(a, positive) if op == "+" else plus(a, positive)
    if int_value(b) is None or a.type != "int":
        return ast.Binary(op, a, b, common_type(a.type, b.type))
    e, by = split_constant(ast.Binary(op, a, b, "int"))
    if not by or is_number(e, 0):
        return e if not by else int_literal(by)
    return ast.Binary("+" if by > 0 else "-", e, int_literal(abs(by)), common_type(e.type))


def negative(a: Expr) -> Expr:
    """The number below zero, also of an unsigned one, which - of C++ would leave above it."""
    if (positive := unnegated(a)) is not None:
        return positive
    if a.type in UNSIGNED:
        n = constant(a)
        a = int_literal(n) if n is not None and fits(n, "int") else ast.Cast("long long", a)
    if isinstance(a, ast.Binary) and a.op == "*" and isinstance(a.left, ast.Number):
        return ast.Binary("*", negative(a.left), a.right, a.type)
    return ZERO if is_number(a, 0) else ast.Unary("-", a, common_type(a.type))


def comparison(op: str, a: Expr, b: Expr) -> Expr:
    return ast.Binary(op, a, b, "bool")


def count_up(
    var: ast.Name, bound: Expr, body: list[Stmt], start: Expr = ZERO, step: Expr = ONE, place: Place = NOWHERE
) -> ast.For:
    """`for (int var = start; var < bound; var += step)`"""
    first = ast.Declare(var.name, "int", value=start)
    return ast.For(first, comparison("<", var, bound), ast.Assign(var, "+=", step), body, place=place)


def count_down(var: ast.Name, last: Expr, body: list[Stmt], place: Place = NOWHERE) -> ast.For:
    """`for (int var = last; var >= 0; --var)`"""
    first = ast.Declare(var.name, "int", value=last)
    return ast.For(first, comparison(">=", var, ZERO), ast.Assign(var, "-=", ONE), body, place=place)


def assigned(target: Expr, op: str, value: Expr, place: Place) -> list[Stmt]:
    """`target = value;`, of a choice in a branch for each side."""
    if isinstance(target, ast.Ternary):
        yes, no = (assigned(side, op, value, place) for side in (target.yes, target.no))
        return [ast.If(target.condition, yes, no, place)]
    return [ast.Assign(target, op, value, place)]  # type: ignore[arg-type]


def logical_not(e: Expr) -> Expr:
    """The negation. `!(a < b)` of floating-point numbers stays: with a NaN it differs from `a >= b`."""
    if isinstance(e, ast.Unary) and e.op == "!":
        return e.operand
    if isinstance(e, ast.Binary) and e.op in FLIPPED and not (is_float(e.left.type) or is_float(e.right.type)):
        return ast.Binary(FLIPPED[e.op], e.left, e.right, "bool")
    if isinstance(e, ast.Binary) and e.op in ("&&", "||"):
        left, right = logical_not(e.left), logical_not(e.right)
        if not (isinstance(left, ast.Unary) or isinstance(right, ast.Unary)):
            return ast.Binary("||" if e.op == "&&" else "&&", left, right, "bool")
    return ast.Unary("!", e, "bool")


def replace_parts(e: Expr, new: Callable[[Expr], Expr | None]) -> Expr:
    """Replace the parts of an expression for which `new` returns another one, from the whole down to the leaves."""
    if (found := new(e)) is not None:
        return found
    own = children(e)
    parts = tuple([replace_parts(part, new) for part in own])
    if all(map(is_, parts, own)):
        return e
    match e:
        case ast.Index():
            return replace(e, indices=parts)
        case ast.Call():
            return replace(e, arguments=parts)
        case ast.Cast():
            return ast.Cast(e.type, parts[0])
        case ast.Ternary():
            return ast.Ternary(parts[0], parts[1], parts[2], e.type)
        case ast.Unary() | ast.Binary():
            kind = "bool" if e.type == "bool" else common_type(*(part.type for part in parts))
            return ast.Unary(e.op, parts[0], kind) if len(parts) == 1 else ast.Binary(e.op, parts[0], parts[1], kind)
    return e


def folded(e: ast.Expr) -> ast.Expr:
    """A constant as one number."""
    value = constant(e)
    return e if value is None or isinstance(e, ast.Number) else int_literal(value, e.type)


def constant(e: ast.Expr | None) -> int | None:
    """The value of a whole number, and of sums, products and the like of these, where no part is negative or wraps."""
    value = None if e is None or is_float(e.type) else _constant(e)
    return value if e is not None and value is not None and fits(value, e.type) else None


def _constant(e: ast.Expr) -> int | None:
    match e:
        case ast.Number():
            return int(e.text.rstrip("uUlL"), 0) if e.text[0].isdigit() else None
        case ast.Cast():
            return constant(e.operand)
        case ast.Binary(op="+" | "-" | "*" | "/" | "<<" | "|"):
            a, b = constant(e.left), constant(e.right)
            if (
                a is None
                or b is None
                or (e.op == "/" and not b)
                or (e.op == "<<" and b > 31)
                or (e.op == "-" and a < b)
            ):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "/": a // (b or 1), "<<": a << min(b, 31), "|": a | b}[e.op]
    return None


def rescaled(offset: Expr, by: int, size: int) -> Expr:
    """An offset in numbers of `by` bytes as one in numbers of `size` bytes."""
    if (n := constant(offset)) is not None and n * by % size == 0:
        return ast.Number(str(n * by // size), "int")
    if by >= size:
        return times(ast.Number(str(by // size), "int"), offset)
    match offset:
        case ast.Binary(op="*", left=e, right=ast.Number(int_value=n)) if n == size // by:
            return e
        case ast.Binary(op="*", left=ast.Number(int_value=n), right=e) if n == size // by:
            return e
    return ast.Binary("/", offset, ast.Number(str(size // by), "int"), offset.type)


def chosen_number(e: Expr) -> Expr | None:
    """A choice for min and max, which are no constants to every compiler."""
    match e:
        case ast.Call(function="min" | "max", arguments=(a, b)):
            a, b = (replace_parts(part, chosen_number) for part in (a, b))
            return ast.Ternary(ast.Binary("<" if e.function == "min" else ">", a, b, "bool"), a, b, e.type)
    return None
