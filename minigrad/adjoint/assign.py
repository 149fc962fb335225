"""The gradient of one assignment, and of a call in it."""

from minigrad.adjoint.build import ONE, ZERO, is_number
from minigrad.adjoint.effects import factor, name_of, rest, value_of
from minigrad.adjoint.expr import Binary, Call, Cast, Expr, Index, Name, Number, walk
from minigrad.adjoint.module import Module
from minigrad.adjoint.rules import Rules
from minigrad.adjoint.tapes import base
from minigrad.adjoint.tree import Add, Assign, Declare, Function, Stmt
from minigrad.adjoint.types import floating

Pair = tuple[list[Stmt], list[Stmt]]


class Assignments(Rules):
    """Makes the backward sweep of single statements."""

    def __init__(self, module: Module, function: Function, active: set[str]):
        super().__init__(module, function, active)
        self.dropped: set[str] = set()  # arrays whose stores the forward sweep leaves out: read as they came
        self.final: set[str] = set()  # outputs each of whose elements is stored once: their gradient is read once
        self.first: set[int] = set()  # stores before which nothing touches the array: its gradient ends there

    def adjoint(self, s: Stmt, after: set[str]) -> list[Stmt]:
        """The backward sweep of an assignment."""
        match s:
            case Declare(value=value) if value is not None and s.name in self.active and floating(s.type):
                self.hold(value, Name(s.name, s.type), after)
                return self.pull(value, Name(self.gradient(s.name), s.type))
            case Declare(values=values) if values and s.name in self.active and floating(s.type):
                places = [Index(self.gradient(s.name), (Number(str(n), "int"),), s.type) for n in range(len(values))]
                return [t for value, d in zip(values, places, strict=True) for t in self.pull(value, d)]
            case Assign() if floating(s.target.type) and name_of(s.target) in self.active:
                return self.assignment(s, after)
            case Add() if floating(s.target.type) and name_of(s.target) in self.active:
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

    def aside(self, value: Expr, d: Name | Index, s: Assign) -> tuple[Name | Index, list[Stmt]]:
        """The gradient in a variable of its own, where it goes to several operands or back to the target itself."""
        operands = [
            x for x in walk(value) if isinstance(x, Name | Index | Call) and self.carries(x) and x != self.passed
        ]
        again = self.passed is None and name_of(s.target) in value.names
        if len(operands) < 2 and not again:
            return d, []
        part = Name(self.fresh(f"{base(d)}_{s.place.line}"), d.type)
        return part, [Declare(part.name, d.type, value=d)]

    def scaled(self, d: Name | Index, by: Expr, name: str) -> list[Stmt]:
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
