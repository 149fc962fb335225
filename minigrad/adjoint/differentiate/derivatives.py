"""Derivatives of maths functions: of one operand by a table of formulas, of several operands case by case."""

from collections.abc import Callable
from functools import cache

from minigrad.adjoint.frontend.expressions import parse_expression
from minigrad.adjoint.language import ast, rewrite
from minigrad.adjoint.language.ast import DERIVATIVES, Expr, base_name
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, minus, negative, over, plus, times


def derivative(function: str, x: Expr, y: Expr) -> Expr:
    """The derivative of a maths function at x, where its value is y."""
    name = base_name(function)
    suffix = "f" if name != function else ""
    kind = "float" if suffix else y.type

    def fill(e: Expr) -> Expr | None:
        match e:
            case ast.Name():
                return x if e.name == "x" else y
            case ast.Number():
                return typed(e.text, kind)
            case ast.Call():
                return ast.Call(e.function + suffix, tuple(rewrite.replace_parts(a, fill) for a in e.arguments), kind)
        return None

    return rewrite.replace_parts(_template(name), fill)


def typed(text: str, kind: str) -> Expr:
    if text.isdigit() or kind == "double":
        return ast.Number(text, "int" if text.isdigit() else kind)
    return ast.Number(f"{text}f", kind) if kind == "float" else ast.Cast("real", ast.Number(text, "double"))


@cache
def _template(function: str) -> Expr:
    return parse_expression(DERIVATIVES[function], "xy")


def slopes(e: ast.Call, x: Expr, y: Expr, value: Callable[[], Expr]) -> list[tuple[Expr, Expr]]:
    """Each operand of a function of several, at x and y, with the derivative in it; `value` gives that of the function.

    Where a limit is missing it is 0, as sqrt has it at 0.
    """
    a, b = e.arguments[:2]
    match base_name(e.function):
        case "fma":
            return [(a, y), (b, x), (e.arguments[2], ONE)]
        case "pow":  # x^0 is 1 for all x, and 0^y is 0 for all y > 0
            in_base = times(y, ast.Call(e.function, (x, minus(y, ONE)), e.type))
            in_exponent = times(value(), _call("log", e, x))
            flat = ast.Binary("&&", comparison("==", x, ZERO), comparison(">=", y, ZERO), "bool")
            return [(a, _unless(comparison("==", y, ZERO), in_base)), (b, _unless(flat, in_exponent))]
        case "hypot":
            length = value()
            return [(v, _unless(comparison("==", length, ZERO), over(w, length))) for v, w in ((a, x), (b, y))]
        case "atan2":
            x, y = rewrite.as_float(x, e.type), rewrite.as_float(y, e.type)
            square = plus(times(x, x), times(y, y))
            origin = comparison("==", square, ZERO)
            return [(a, _unless(origin, over(y, square))), (b, _unless(origin, negative(over(x, square))))]
        case "fmod":
            return [(a, ONE), (b, negative(_call("trunc", e, over(x, y))))]
        case "fdim":
            apart = comparison("<=", x, y)
            return [(a, _unless(apart, ONE)), (b, _unless(apart, negative(ONE)))]
        case "rhypot":
            cube = times(value(), times(value(), value()))
            return [(a, negative(times(x, cube))), (b, negative(times(y, cube)))]
        case "ldexp" | "scalbn":
            return [(a, ast.Call(e.function, (rewrite.as_float(ONE, e.type), y), e.type))]
        case "copysign":
            return [(a, _unless(comparison("==", x, ZERO), over(value(), x)))]
    raise TypeError(e.function)


def _unless(condition: Expr, value: Expr) -> Expr:
    """0 where the condition holds, else the value. Of literals the answer is known."""
    assert isinstance(condition, ast.Binary)
    known = [rewrite.numeric_value(e) for e in (condition.left, condition.right)]
    if condition.op == "==" and None not in known:
        return ZERO if known[0] == known[1] else value
    return ast.Ternary(condition, ZERO, value, value.type)


def _call(function: str, like: ast.Call, x: Expr) -> ast.Call:
    """The function, with the f of a sister function."""
    return ast.Call(function + ("f" if base_name(like.function) != like.function else ""), (x,), like.type)
