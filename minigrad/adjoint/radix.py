"""What the digits of an index tell apart: `row * n + column` with `column < n` tells row and column.

An index is read as a number in a mixed radix; `column = blockIdx.x * blockDim.x + threadIdx.x` tells block and thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from minigrad.adjoint.expr import Cast, Expr, Index, Name, Number, children
from minigrad.adjoint.polynomial import Polynomial, constant, polynomial, variable
from minigrad.adjoint.tree import For
from minigrad.adjoint.types import UNSIGNED

IDS = tuple(f"{b}.{a}" for b in ("threadIdx", "blockIdx") for a in "xyz")
EXTENTS = {f"{b}Idx.{a}": f"{e}.{a}" for b, e in (("thread", "blockDim"), ("block", "gridDim")) for a in "xyz"}

COORDINATES = frozenset((*IDS, *EXTENTS.values()))


def signless(e: Expr) -> bool:
    """Whether C++ computes an expression without a sign, in which -1 is a large number."""
    if isinstance(e, Cast | Index) or e.type != "int":
        return e.type in UNSIGNED
    return e.names <= COORDINATES if isinstance(e, Name) else any(map(signless, children(e)))


@dataclass
class Known:
    """What holds where an index stands: values of variables, ranges of loops, conditions passed."""

    fixed: dict[str, Expr]
    constants: set[str]  # macros
    uniform: set[str]  # names that are one value for the whole launch
    still: set[str]  # names that are one value for a block, as long as no thread of it passes a barrier
    conditions: dict[str, Expr]  # extents of the launch on which the adjoint relies
    limits: dict[str, Expr]  # and those that may be smaller; added to
    ranges: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)  # start and step of loops
    below: dict[str, list[Polynomial]] = field(default_factory=dict)
    sums: dict[str, Polynomial] = field(default_factory=dict)  # what `start + tx < k` bounds, each under a name
    pinned: set[str] = field(default_factory=set)
    loops: tuple[For, ...] = ()  # around it, the outermost first
    guards: tuple[Expr, ...] = ()  # what has been tested on the way
    same: set[str] = field(default_factory=set)  # what of these counts for the index in question

    def told(self, p: Polynomial, depth: int = 0) -> set[str] | None:
        """The thread and block coordinates that a value determines; None where it mixes them."""
        p = self.spelled(p)
        digits = {n: p.of(n) for n in sorted(p.names()) if self.varies(n)}
        if 0 < len(digits) < 6 and self.radix(digits, constant(1)):
            return set().union(*(self.inner(d, depth) for d in digits))
        for name, e in self.sums.items() if depth < 9 else ():
            if e.items() < p.items() and self.positive_sum(e):
                found = self.told(p - e + variable(name), depth + 1)
                if found is not None:
                    return found
        for name in digits:
            wider = self.expanded(p, name) if depth < 9 else None
            if wider is not None and (found := self.told(wider, depth + 1)) is not None:
                return found
        return None if digits else set()

    def spelled(self, p: Polynomial) -> Polynomial:
        """A value with what is the same everywhere written out: n as width * height."""
        for name in sorted(p.names()):
            if name in self.fixed and name not in self.ranges and not self.varies(name):
                p = self.expanded(p, name) or p
        return p

    def inner(self, digit: str, depth: int) -> set[str]:
        """What one digit determines in its turn."""
        if digit in IDS:
            return {digit}
        if digit in self.sums:
            return {digit} | (self.told(self.sums[digit], depth + 1) or set())
        alone = self.expanded(variable(digit), digit)
        return {digit} | ((self.told(alone, depth + 1) or set()) if alone is not None and depth < 9 else set())

    def expanded(self, p: Polynomial, name: str) -> Polynomial | None:
        """A value with a variable replaced by what it was set to, or by start + step * round of its loop."""
        if name in self.fixed and name not in self.ranges:
            value = polynomial(self.fixed[name])
            return None if value is None else p.put(name, value)
        start, step = self.ranges.get(name, (None, None))
        if start is None or step is None or not any(map(self.varies, start.names())):
            return None
        return p.put(name, start + step * variable(f"@{name}"))

    def radix(self, digits: dict[str, Polynomial | None], stride: Polynomial) -> bool:
        """Whether these, each with its factor, are digits in a mixed radix, of which `stride` is the least factor."""
        for digit, factor in digits.items():
            if factor == stride and self.natural(digit):
                rest = {name: other for name, other in digits.items() if name != digit}
                for wanted in rest.values():
                    wider = next((b for b in self.bounds(digit, wanted, stride) if b), None)
                    if wider is not None and self.radix(rest, stride * wider):
                        return True
                if not rest:
                    return True
        return False

    def bounds(self, digit: str, wanted: Polynomial | None, stride: Polynomial) -> Iterator[Polynomial | None]:
        """The bound of a digit that makes the next one's factor the wanted one, if there is such a bound."""
        known = [*self.below.get(digit, []), *([variable(EXTENTS[digit])] if digit in EXTENTS else [])]
        known = [self.spelled(b) for bound in known for b in (bound, *self.wider(bound))]
        yield next((b for b in known if stride * b == wanted), None)
        if digit in IDS[:3] and wanted is not None:
            for e in self.constants_between(stride, wanted):
                extent = EXTENTS[digit]
                if (self.conditions.get(extent) or self.limits.setdefault(extent, e)) == e:
                    yield polynomial(e)

    def wider(self, bound: Polynomial) -> Iterator[Polynomial]:
        """Bounds beyond this one: of `l <= j`, where j < m, it is m."""
        for name in bound.names():
            if bound.of(name) == constant(1):
                rest = bound - variable(name)
                yield from (limit + rest - constant(1) for limit in self.below.get(name, []))

    def constants_between(self, stride: Polynomial, wanted: Polynomial) -> Iterator[Expr]:
        """The macro or literal, if any, by which a stride has to be multiplied to give the wanted one."""
        yield from (Name(m, "int") for m in sorted(self.constants) if stride * variable(m) == wanted)
        (term, factor), *_ = [*stride.items(), ((), 0)]
        ratio = wanted.get(term, 0) // factor if factor else 0
        if ratio > 1 and stride * constant(ratio) == wanted:
            yield Number(str(ratio), "int")

    def varies(self, name: str) -> bool:
        """Whether a name can differ between threads or rounds."""
        if name in (self.same or self.uniform):
            return False
        if name in self.fixed and name not in self.ranges:
            value = polynomial(self.fixed[name])
            return value is None or any(map(self.varies, value.names()))
        return True

    def natural(self, name: str) -> bool:
        """Whether a value is known to be 0 or more."""
        if name in IDS or name.startswith("@"):
            return True
        value = self.ranges[name][0] if name in self.ranges else None
        if value is None and name in self.fixed:
            value = polynomial(self.fixed[name])
        return value is not None and self.positive_sum(value)

    def positive_sum(self, value: Polynomial) -> bool:
        """Whether nothing in a value is below 0."""
        return all(f > 0 and all(self.positive(n) for n in t) for t, f in value.items())

    def positive(self, name: str) -> bool:
        """Whether a factor of a value is 0 or more."""
        return name in self.constants or name in EXTENTS.values() or self.natural(name)
