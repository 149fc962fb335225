"""The derivative of a maths function, filled in from the table of formulas."""

from functools import cache

from minigrad.adjoint.build import change
from minigrad.adjoint.expressions import Expressions
from minigrad.adjoint.tokens import tokenize
from minigrad.adjoint.tree import Call, Cast, Declare, Expr, Name, Number, Place
from minigrad.adjoint.types import DERIVATIVES, plain


def derivative(function: str, x: Expr, y: Expr) -> Expr:
    """The derivative of a maths function at x, where its value is y."""
    name = plain(function)
    suffix = "f" if name != function else ""
    kind = "float" if suffix else y.type

    def fill(e: Expr) -> Expr | None:
        match e:
            case Name():
                return x if e.name == "x" else y
            case Number():
                return number(e.text, kind)
            case Call():
                return Call(e.function + suffix, tuple(change(a, fill) for a in e.arguments), kind)
        return None

    return change(_template(name), fill)


def number(text: str, kind: str) -> Expr:
    """A literal of this type."""
    if text.isdigit() or kind == "double":
        return Number(text, "int" if text.isdigit() else kind)
    return Number(f"{text}f", kind) if kind == "float" else Cast("real", Number(text, "double"))


@cache
def _template(function: str) -> Expr:
    reader = Expressions(tokenize(DERIVATIVES[function], "rule"), {}, {})
    reader.scopes[0] = {name: Declare(name, "real", place=Place(1, 1)) for name in "xy"}
    return reader.expression()
