"""The gradient of one assignment, and of a call in it."""

from minigrad.adjoint.build import ONE, ZERO, converted, is_number, minus, negative, over, plus, times
from minigrad.adjoint.effects import name_of, reads_in, written_here
from minigrad.adjoint.expr import Binary, Call, Cast, Expr, Index, Name, Number, Target, Unary, children, walk
from minigrad.adjoint.module import Module
from minigrad.adjoint.rules import Rules
from minigrad.adjoint.tapes import base
from minigrad.adjoint.tree import Add, Assign, Declare, Function, Stmt
from minigrad.adjoint.types import common, floating


class Assignments(Rules):
    """Makes the backward sweep of single statements."""

    def __init__(self, module: Module, function: Function, active: set[str]):
        super().__init__(module, function, active)
        self.dropped: set[str] = set()  # arrays whose stores the forward sweep leaves out: read as they came
        self.final: set[str] = set()  # outputs each of whose elements is stored once: their gradient is read once
        self.first: set[int] = set()  # stores before which nothing touches the array: its gradient ends there

    def adjoint(self, s: Stmt, after: set[str]) -> list[Stmt]:
        """The backward sweep of an assignment."""
        if not written_here(s) & self.active:
            return []
        match s:
            case Declare(value=value) if value is not None:
                self.hold(value, Name(s.name, s.type), after)
                return self.pull(value, Name(self.gradient(s.name), s.type))
            case Declare(values=values) if values:
                places = [Index(self.gradient(s.name), (Number(str(n), "int"),), s.type) for n in range(len(values))]
                return [t for value, d in zip(values, places, strict=True) for t in self.pull(value, d)]
            case Assign():
                return self.assignment(s, after)
            case Add():
                return self.pull(s.value, self.shadow(s.target))
        return []

    def hold(self, value: Expr, target: Name, after: set[str]) -> None:
        """Note that a variable holds this value until the gradient comes by."""
        if target.name not in after:
            self.known = value, target

    def assignment(self, s: Assign, after: set[str]) -> list[Stmt]:
        """The gradient of `target = A * target + B` goes to what is in A and B, and is then multiplied by A."""
        value, d = value_of(s), self.shadow(s.target)
        again, added = factor(value, s.target), rest(s)
        if again is None:
            d, part = self.aside(value if added is None else added, d, s)
            clear: list[Stmt] = [Assign(self.shadow(s.target), "=", ZERO)] if added is None else []
            return [*part, *clear, *self.pull(value if added is None else added, d)]
        if isinstance(s.target, Name) and again == ZERO:
            self.hold(value, s.target, after)
        self.passed = s.target
        seed, part = self.aside(value, d, s) if isinstance(d, Index) else (d, [])
        gradient = self.pull(value, seed)
        self.passed = None
        return [*part, *gradient, *self.scaled(d, self.keep(again), name_of(s.target))]

    def aside(self, value: Expr, d: Target, s: Assign) -> tuple[Target, list[Stmt]]:
        """The gradient in a variable of its own, where it goes to several operands or back to the target itself."""
        operands = [
            x for x in walk(value) if isinstance(x, Name | Index | Call) and self.carries(x) and x != self.passed
        ]
        again = self.passed is None and name_of(s.target) in value.names
        if len(operands) < 2 and not again:
            return d, []
        part = Name(self.fresh(f"{base(d)}_{s.place.line}"), d.type)
        return part, [Declare(part.name, d.type, value=d)]

    def scaled(self, d: Target, by: Expr, name: str) -> list[Stmt]:
        """d *= by"""
        if is_number(by, 1) or (by == ZERO and (name in self.final or id(self.here) in self.first)):
            return []
        if by == ZERO:
            return [Assign(d, "=", ZERO)]
        divides = isinstance(by, Binary) and by.op == "/" and by.left == ONE
        value: Expr = by.right if divides else by  # type: ignore[union-attr]
        if isinstance(value, Cast) and value.type == d.type and not floating(value.operand.type):
            value = value.operand  # converted by *= itself
        return [Assign(d, "/=" if divides else "*=", value)]


def factor(e: Expr, target: Target) -> Expr | None:
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
