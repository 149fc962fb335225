"""Whole-number expressions as polynomials, so that two ways of writing an index are one."""

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

from minigrad.adjoint.expr import Binary, Cast, Expr, Name, Number, Unary

Term = tuple[str, ...]  # the names of a product, sorted; () is the constant


class Polynomial(dict[Term, int]):
    """Terms with their factors: `2 * n * i + 1` is {("i", "n"): 2, (): 1}."""

    def __add__(self, other: "Polynomial") -> "Polynomial":
        made = Polynomial(self)
        for term, factor in other.items():
            made[term] = made.get(term, 0) + factor
        return Polynomial({term: factor for term, factor in made.items() if factor})

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + other * constant(-1)

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        made = Polynomial()
        for a, x in self.items():
            for b, y in other.items():
                made = made + Polynomial({tuple(sorted((*a, *b))): x * y})
        return made

    def names(self) -> set[str]:
        """All names in it."""
        return {name for term in self for name in term}

    def of(self, name: str) -> "Polynomial | None":
        """What stands before a name; None where it is there squared."""
        found = Polynomial()
        for term, factor in self.items():
            if term.count(name) > 1:
                return None
            if name in term:
                rest = list(term)
                rest.remove(name)
                found[tuple(rest)] = factor
        return found

    def at(self, values: Mapping[str, Any]) -> int | None:
        """Its value; None where that of a name is not known."""
        if not self.names() <= set(values):
            return None
        return sum(factor * prod(int(values[name]) for name in term) for term, factor in self.items())

    def put(self, name: str, value: "Polynomial") -> "Polynomial | None":
        """With a value in place of a name."""
        factor = self.of(name)
        if factor is None:
            return None
        return Polynomial({t: f for t, f in self.items() if name not in t}) + factor * value


def constant(value: int) -> Polynomial:
    """A whole number."""
    return Polynomial({(): value}) if value else Polynomial()


def variable(name: str) -> Polynomial:
    """A name alone."""
    return Polynomial({(name,): 1})


def polynomial(e: Expr) -> Polynomial | None:
    """An expression of + - * as a polynomial; None for any other."""
    match e:
        case Number():
            return None if e.whole is None else constant(e.whole)
        case Name():
            return variable(e.name)
        case Cast():
            return polynomial(e.operand) if e.type in ("int", "unsigned", "long long", "size_t") else None
        case Unary(op="-"):
            inner = polynomial(e.operand)
            return None if inner is None else inner * constant(-1)
        case Binary(op=op) if op in "+-*":
            left, right = polynomial(e.left), polynomial(e.right)
            if left is None or right is None:
                return None
            return left * right if op == "*" else left + right if op == "+" else left - right
    return None


def offsets(indices: list[Expr]) -> list[int] | None:
    """By how much indices differ from the first one; None where not by constants."""
    known = [p for p in map(polynomial, indices) if p is not None]
    gaps = [p - known[0] for p in known]
    if len(known) < len(indices) or any(set(gap) - {()} for gap in gaps):
        return None
    return [gap.get((), 0) for gap in gaps]


def stride(e: Expr) -> int:
    """The largest whole number that divides all of an index but its constant."""
    found = polynomial(e) or Polynomial()
    return gcd(*(factor for term, factor in found.items() if term))
