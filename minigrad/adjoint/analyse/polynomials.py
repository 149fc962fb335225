"""Expressions of whole numbers: as polynomials, and the intervals in which they lie.

An interval follows from macros, from conditions passed and from the expression's own tests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any, Protocol

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import BYTES, LIMITS, UNSIGNED, Expr, is_float, walk
from minigrad.adjoint.language.dataflow import Budget, written
from minigrad.adjoint.language.rewrite import FLIPPED

IDS = tuple(f"{b}.{a}" for b in ("threadIdx", "blockIdx") for a in "xyz")
EXTENTS = {f"{b}Idx.{a}": f"{e}.{a}" for b, e in (("thread", "blockDim"), ("block", "gridDim")) for a in "xyz"}
Term = tuple[str, ...]  # the names of a product, sorted; () is the constant


class Polynomial(dict[Term, int]):
    """Terms with their coefficients: `2 * n * i + 1` is {("i", "n"): 2, (): 1}."""

    def plus(self, terms: Iterable[tuple[Term, int]]) -> "Polynomial":
        made = Polynomial(self)
        for term, factor in terms:
            if total := made.get(term, 0) + factor:
                made[term] = total
            else:
                made.pop(term, None)
        return made

    def __add__(self, other: "Polynomial") -> "Polynomial":
        return self.plus(other.items())

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self.plus((term, -factor) for term, factor in other.items())

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        return Polynomial().plus((tuple(sorted(a + b)), x * y) for a, x in self.items() for b, y in other.items())

    def names(self) -> set[str]:
        return {name for term in self for name in term}

    def coefficient(self, name: str) -> "Polynomial | None":
        """The coefficient of a name; None where the name is squared."""
        found = Polynomial()
        for term, factor in self.items():
            if term.count(name) > 1:
                return None
            if name in term:
                found[tuple(n for n in term if n != name)] = factor
        return found

    def at(self, values: Mapping[str, Any]) -> int | None:
        """Its value; None where the value of a name is unknown."""
        if not self.names() <= set(values):
            return None
        return sum(factor * prod(int(values[name]) for name in term) for term, factor in self.items())

    def substitute(self, name: str, value: "Polynomial") -> "Polynomial | None":
        """A value substituted for a name; None where the name is squared."""
        factor = self.coefficient(name)
        if factor is None:
            return None
        return Polynomial({t: f for t, f in self.items() if name not in t}) + factor * value


def constant(value: int) -> Polynomial:
    return Polynomial({(): value}) if value else Polynomial()


def variable(name: str) -> Polynomial:
    return Polynomial({(name,): 1})


def polynomial(e: Expr) -> Polynomial | None:
    """An expression of + - * of whole numbers as a polynomial; None for any other."""
    match e:
        case ast.Number():
            return None if e.int_value is None else constant(e.int_value)
        case ast.Name():
            return None if is_float(e.type) else variable(e.name)
        case ast.Cast():
            return polynomial(e.operand) if e.type in ("int", "unsigned", "long long", "size_t") else None
        case ast.Unary(op="-"):
            inner = polynomial(e.operand)
            return None if inner is None else inner * constant(-1)
        case ast.Binary(op=op) if op in "+-*":
            left, right = polynomial(e.left), polynomial(e.right)
            if left is None or right is None:
                return None
            made = left * right if op == "*" else left + right if op == "+" else left - right
            wraps = e.type == "unsigned" and any(abs(n) >> 31 for n in made.values())
            return None if wraps else made
    return None


def wraps_at(e: Expr) -> int:
    """The least number of bits, 32 or 64, to which C++ cuts a sum or a product in an expression; 0 if it cuts none.

    It does so in unsigned arithmetic, which starts again at 0, and where it makes an int of a larger type.
    """
    return min((8 * BYTES[x.type] for x in walk(e) if _cuts(x)), default=0)


def _cuts(e: Expr) -> bool:
    if isinstance(e, ast.Cast):
        return not is_float(e.operand.type) and BYTES.get(e.type, 0) < BYTES[e.operand.type]
    return isinstance(e, ast.Binary) and e.op in "+-*" and e.type in UNSIGNED


# --- intervals ---

Interval = tuple[float, float]  # the least and the greatest value
UNKNOWN = -inf, inf
MOST_STEPS = 2000  # for one expression; then it is unknown


class Facts(Protocol):
    """The part of the facts about indices on which intervals rely."""

    fixed: dict[str, Expr]
    constants: dict[str, int]
    uniform: set[str]
    assumed_uniform: set[str]
    ranges: dict[str, tuple[Polynomial, Polynomial]]
    upper_bounds: dict[str, list[Polynomial]]
    loops: tuple[ast.For, ...]
    budget: Budget

    def nonnegative(self, name: str) -> bool: ...


def width(p: Polynomial, facts: Facts) -> float:
    """At most the distance of two values of a polynomial: less than 2^32, and they differ in 32 bits, too.

    What is the same for all threads moves all of them. A digit with @ is at most 1.
    """
    found, total = _Intervals(facts, steps=[0]), 0.0
    for term, factor in p.items():
        if not (facts.assumed_uniform or facts.uniform).issuperset(term):
            total += abs(factor) * prod(max(map(abs, found.variable(n))) for n in term if not n.startswith("@"))
    return total


def interval(e: Expr, facts: Facts) -> Interval:
    """The interval of an expression where the facts hold."""
    return _Intervals(facts).of(e)


@dataclass
class _Intervals:
    """known: narrower intervals of variables, by the conditions that `?:` has tested."""

    facts: Facts
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
        limits = [*facts.upper_bounds.get(name, ()), *([variable(EXTENTS[name])] if name in EXTENTS else [])]
        high = min([high, *(bound - 1 for p in limits if (bound := p.at(facts.constants)) is not None)])
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
