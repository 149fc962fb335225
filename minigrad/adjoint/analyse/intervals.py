"""Intervals of integer expressions: between which values they lie, by macros, conditions passed and their own tests."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from minigrad.adjoint.analyse.indices import IDS, IndexFacts, Polynomial, constant, polynomial
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import LIMITS, Expr, is_float
from minigrad.adjoint.language.dataflow import written
from minigrad.adjoint.language.rewrite import FLIPPED

Interval = tuple[float, float]  # the least and the greatest value
UNKNOWN = -inf, inf
MOST_STEPS = 2000  # for one expression; then it is unknown


def interval(e: Expr, facts: IndexFacts) -> Interval:
    """The interval of an expression where the facts hold."""
    return _Intervals(facts).of(e)


@dataclass
class _Intervals:
    """known: narrower intervals of variables, by the conditions that `?:` has tested."""

    facts: IndexFacts
    known: Mapping[str, Interval] | None = None
    steps: list[int] | None = None

    def of(self, e: Expr) -> Interval:
        self.steps = self.steps or [0]
        self.steps[0] += 1
        if is_float(e.type) or self.steps[0] > MOST_STEPS or not self.facts.budget.take(3):
            return UNKNOWN
        match e:
            case ast.Number() if e.int_value is not None:
                found: Interval = (e.int_value, e.int_value)
            case ast.Name():
                found = self.variable(e.name)
            case ast.Cast():
                found, limits = self.of(e.operand), LIMITS.get(e.type, UNKNOWN)
                found = found if limits[0] <= found[0] and found[1] <= limits[1] else limits
            case ast.Unary(op="-"):
                low, high = self.of(e.operand)
                found = (-high, -low)
            case ast.Binary():
                found = _combined(e.op, self.of(e.left), self.of(e.right))
            case ast.Ternary():
                yes, no = self.where(e.condition).of(e.yes), self.where(e.condition, holds=False).of(e.no)
                found = (min(yes[0], no[0]), max(yes[1], no[1]))
            case _:
                found = UNKNOWN
        return UNKNOWN if e.type != "int" and found[0] < 0 else found  # unsigned numbers wrap around

    def variable(self, name: str) -> Interval:
        facts = self.facts
        if name in facts.constants:
            return facts.constants[name], facts.constants[name]
        (low, high), (least, most) = UNKNOWN, (self.known or {}).get(name, UNKNOWN)
        counted = name in facts.ranges and not any(name in written(s.body) for s in facts.loops)
        if name not in IDS and name not in facts.fixed and name not in facts.uniform and not counted:
            return least, most  # it may have changed since a condition has tested it
        if name in facts.fixed and name not in facts.ranges:
            low, high = self.of(facts.fixed[name])
        if name in IDS or facts.nonnegative(name):
            low = max(low, 0)
        bounds = (bound.at(facts.constants) for bound in facts.upper_bounds.get(name, ()))
        high = min([high, *(bound - 1 for bound in bounds if bound is not None)])
        return max(low, least), min(high, most)

    def where(self, condition: Expr, holds: bool = True) -> "_Intervals":
        """The intervals where a condition `variable + constant < constant` holds, or does not."""
        if not isinstance(condition, ast.Binary) or condition.op not in ("<", "<=", ">", ">="):
            return self
        op = condition.op if holds else FLIPPED[condition.op]
        left, right = polynomial(condition.left), polynomial(condition.right)
        if left is None or right is None or not condition.left.type == condition.right.type == "int":
            return self
        gap = left - right
        names = [n for n in gap.names() if n not in self.facts.constants]
        rest = gap.substitute(names[0], Polynomial()) if len(names) == 1 else None
        value = None if rest is None else rest.at(self.facts.constants)
        if value is None or gap.coefficient(names[0]) != constant(1):
            return self
        low, high = (self.known or {}).get(names[0], UNKNOWN)  # variable + value op 0
        if op in ("<", "<="):
            high = min(high, -value - (op == "<"))
        else:
            low = max(low, -value + (op == ">"))
        return replace(self, known={**(self.known or {}), names[0]: (low, high)})


def _combined(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of `x op y`."""
    match op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            corners = [x * y if x and y else 0 for x in a for y in b]
            return min(corners), max(corners)
        case "/" if a[0] >= 0 and b[0] > 0:
            return (0 if b[1] == inf else a[0] // b[1]), (inf if a[1] == inf else a[1] // b[0])
        case "%" if a[0] >= 0 and b[0] > 0:
            return 0, min(a[1], b[1] - 1)
    return UNKNOWN
