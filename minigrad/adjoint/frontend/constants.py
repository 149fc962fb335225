"""Whole numbers that are known when a file is read."""

from minigrad.adjoint.language import ast


def folded(e: ast.Expr) -> ast.Expr:
    """A constant as one number."""
    value = constant(e)
    return e if value is None or isinstance(e, ast.Number) else ast.Number(str(value), e.type)


def constant(e: ast.Expr | None) -> int | None:
    """The value of a whole number, and of sums, products and the like of these that are not negative."""
    match e:
        case ast.Number() if not ast.is_float(e.type):
            return int(e.text.rstrip("uUlL"), 0) if e.text[0].isdigit() else None
        case ast.Cast() if not ast.is_float(e.type):
            return constant(e.operand)
        case ast.Binary(op="+" | "*" | "/" | "<<" | "|"):
            a, b = constant(e.left), constant(e.right)
            if a is None or b is None or (e.op == "/" and not b) or (e.op == "<<" and b > 31):
                return None
            return {"+": a + b, "*": a * b, "/": a // (b or 1), "<<": a << min(b, 31), "|": a | b}[e.op]
    return None
