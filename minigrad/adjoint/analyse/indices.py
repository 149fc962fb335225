"""The thread that an index determines, as a number in a mixed radix; rows of elements; facts about indices."""

from collections.abc import Container, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from math import gcd, isfinite
from typing import Any, NamedTuple

from minigrad.adjoint.analyse.polynomials import (
    EXTENTS,
    IDS,
    Polynomial,
    constant,
    polynomial,
    variable,
    width,
    wraps_at,
)
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, Stmt
from minigrad.adjoint.language.dataflow import Budget, has_barrier, own_writes
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, bodies, conjuncts, guarded_bodies, with_header

Offsets = tuple[Polynomial, list[int]] | None


def offsets(indices: list[Expr]) -> Offsets:
    """The unit, and the multiple of it by which each index differs from the first one; None without such a unit."""
    known = [p for p in map(polynomial, indices) if p is not None]
    gaps = [p - known[0] for p in known]
    if len(known) < len(indices):
        return None
    widest = next((gap for gap in gaps if gap), constant(1))
    common = gcd(*widest.values()) * (1 if next(iter(widest.values())) > 0 else -1)
    unit = Polynomial({term: factor // common for term, factor in widest.items()})
    term, factor = next(iter(unit.items()))
    multiples = [gap.get(term, 0) // factor for gap in gaps]
    fits = all(unit * constant(n) == gap for n, gap in zip(multiples, gaps, strict=True))
    return (unit, multiples) if fits else None


def stride(e: Expr) -> int:
    """The largest integer that divides every term of an index but its constant."""
    found = polynomial(e) or Polynomial()
    return gcd(*(factor for term, factor in found.items() if term))


class IndexRow(NamedTuple):
    """The elements `low + unit * n` for 0 <= n < length; of another row n would be at least `room`."""

    low: Expr
    unit: Polynomial
    length: int
    room: int
    wraps: int = 0  # the bits to which C++ cuts an index


def row(indices: list[Expr], found: Offsets) -> IndexRow | None:
    """The shortest row with all these indices, by their offsets; None if there is none."""
    if found is None:
        return None
    unit, multiples = found
    least = min(multiples)
    low, steps = indices[multiples.index(least)], [n - least for n in multiples]
    wraps = min(filter(None, map(wraps_at, indices)), default=0)
    if set(unit) == {()} and max(steps) < stride(low):
        return IndexRow(low, unit, max(steps) + 1, stride(low), wraps)
    step = gcd(*steps) or 1
    length = max(steps) // step + 1
    return IndexRow(low, unit * constant(step), length, length, wraps)


class Unwrapped(NamedTuple):
    """An index in unsigned arithmetic that is taken as a polynomial, with the facts there."""

    text: str
    polynomial: Polynomial
    facts: "IndexFacts"
    bits: int  # of the arithmetic

    def width(self, values: Mapping[str, int]) -> float:
        """At most the distance of two of its values, where the names of the launch have these values."""
        facts = copy(self.facts)
        facts.constants, facts.budget = {**facts.constants, **values}, Budget()
        return width(self.polynomial, facts)


MOST_STEPS, STEP = 150, 150  # of the search for the thread of an index, and what one costs
ANY = 1009  # in place of a number that a launch knows: of no special value, as a block of one thread is
OFFSET = "@offset"  # the digit that counts the elements of a row


@dataclass
class IndexFacts:
    """Facts at a statement about the names in its indices: values, ranges of the enclosing loops, conditions passed."""

    fixed: dict[str, Expr]
    constants: dict[str, int]  # macros
    uniform: set[str]  # names with one value in the whole launch
    block_uniform: set[str]  # names with one value in a block between two barriers
    conditions: dict[str, Expr]  # extents of the launch that are known
    limits: dict[str, Expr]  # extents assumed to be at most this; extended
    unsigned: dict[tuple, "Unwrapped"] = field(default_factory=dict)  # indices to be checked of a launch; extended
    ranges: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)  # start and step of loops
    upper_bounds: dict[str, list[Polynomial]] = field(default_factory=dict)
    sums: dict[str, Polynomial] = field(default_factory=dict)  # sums bounded as in `start + tx < k`, each under a name
    pinned: dict[str, Expr] = field(default_factory=dict)  # coordinates that a condition fixes, with it
    loops: tuple[ast.For, ...] = ()  # enclosing, the outermost first
    guards: tuple[Expr, ...] = ()  # conditions passed
    assumed_uniform: set[str] = field(default_factory=set)  # the names taken as uniform in the current query
    budget: Budget = field(default_factory=Budget)
    steps: int = 0  # of the search for the thread of the last index
    writes: dict[int, set[str]] = field(default_factory=dict)  # by id of a branch or loop: the names that it writes

    def determined(self, p: Polynomial, depth: int = 0) -> set[str] | None:
        """The thread and block coordinates that a value determines; None where it mixes them.

        A value is a number in a mixed radix: digits with factors, each digit below the ratio of the next two factors.
        """
        self.steps = self.steps + 1 if depth else 0
        if self.gave_up or not self.budget.take(STEP):
            return None
        p = self.expand_uniform(p)
        digits = {n: p.coefficient(n) for n in sorted(p.names()) if self.varies(n)}
        if 0 < len(digits) < 6 and self.mixed_radix(digits, constant(1)):
            return set().union(*(self.coordinates_of(d, depth) for d in digits))
        for name, e in self.sums.items() if depth < 9 else ():
            if e.items() < p.items() and self.nonnegative_sum(e):
                found = self.determined(p - e + variable(name), depth + 1)
                if found is not None:
                    return found
        for name in digits:
            wider = self.expand(p, name) if depth < 9 else None
            if wider is not None and (found := self.determined(wider, depth + 1)) is not None:
                return found
        return None if digits else set()

    @property
    def gave_up(self) -> str:
        """A sentence where the last search was not brought to its end."""
        if not self.budget.take(0):
            return "the kernel has too many indices to prove of each that it belongs to one thread"
        return "the index is too long to prove that it belongs to one thread" if self.steps > MOST_STEPS else ""

    def expand_uniform(self, p: Polynomial) -> Polynomial:
        """A value with uniform variables replaced by their definitions: n by width * height."""
        for name in sorted(p.names()):
            if name in self.fixed and name not in self.ranges and not self.varies(name):
                p = self.expand(p, name) or p
        return p

    def coordinates_of(self, digit: str, depth: int) -> set[str]:
        if digit in IDS:
            return {digit}
        if digit in self.sums:
            return {digit} | (self.determined(self.sums[digit], depth + 1) or set())
        alone = self.expand(variable(digit), digit) if depth < 9 else None
        return {digit} | (set() if alone is None else self.determined(alone, depth + 1) or set())

    def whole(self, e: Expr, row: IndexRow | None = None) -> Polynomial | None:
        """An index as a polynomial; None where it may wrap around in unsigned arithmetic, and no launch knows how far.

        Where a launch knows, it is checked. row: the elements from the index on.
        """
        p, bits = polynomial(e), row.wraps if row else wraps_at(e)
        if p is None or not bits:
            return p
        last = p + row.unit * variable(OFFSET) * constant(row.length) if row else p
        found = Unwrapped(expression(e), last, copy(self), bits)
        if not isfinite(found.width(dict.fromkeys(self.uniform, ANY))):
            return None
        where = self.guards, tuple(map(id, self.loops)), frozenset(self.assumed_uniform or self.uniform)
        self.unsigned.setdefault((found.text, str(last), where), found)
        return p

    def expand(self, p: Polynomial, name: str) -> Polynomial | None:
        """A value with a variable replaced by its definition, or by start + step * iteration of its loop."""
        if name in self.fixed and name not in self.ranges:
            value = self.whole(self.fixed[name])
            return None if value is None else p.substitute(name, value)
        start, step = self.ranges.get(name, (None, None))
        if start is None or step is None or not any(map(self.varies, start.names())):
            return None
        return p.substitute(name, start + step * variable(f"@{name}"))

    def mixed_radix(self, digits: dict[str, Polynomial | None], stride: Polynomial) -> bool:
        """True if these, each with its factor, are the digits of a mixed radix whose least factor is `stride`."""
        for digit, factor in digits.items():
            if factor == stride:
                rest = {name: other for name, other in digits.items() if name != digit}
                if not rest:
                    return True
                for name, wanted in rest.items() if self.nonnegative(digit) else ():
                    before, wider = {*self.limits}, next(self.bounds(digit, wanted, stride, name == OFFSET), None)
                    if wider is not None and self.mixed_radix(rest, stride * wider):
                        return True
                    for extent in self.limits.keys() - before:
                        del self.limits[extent]
        return False

    def bounds(self, digit: str, wanted: Polynomial | None, stride: Polynomial, row: bool) -> Iterator[Polynomial]:
        """The bounds of a digit by which the next factor is the wanted one; an extent may be one that is assumed.

        The distance of two elements is none: of x[i - 1] and x[i + 1] it is 2, which says nothing of the block.
        """
        known = [*self.upper_bounds.get(digit, []), *([variable(EXTENTS[digit])] if digit in EXTENTS else [])]
        known = [self.expand_uniform(b) for bound in known for b in (bound, *self.wider_bounds(bound))]
        yield from (b for b in known if b and stride * b == wanted)
        if digit in IDS[:3] and wanted is not None:
            for e in self.constants_between(stride, wanted, not row):
                extent = EXTENTS[digit]
                made = (
                    polynomial(e) if (self.conditions.get(extent) or self.limits.setdefault(extent, e)) == e else None
                )
                yield from () if made is None else (made,)

    def wider_bounds(self, bound: Polynomial) -> Iterator[Polynomial]:
        """Larger bounds that are implied: by `l <= j` and `j < m` it is m."""
        for name in bound.names():
            if bound.coefficient(name) == constant(1):
                rest = bound - variable(name)
                yield from (limit + rest - constant(1) for limit in self.upper_bounds.get(name, []))

    def constants_between(self, stride: Polynomial, wanted: Polynomial, literal: bool) -> Iterator[Expr]:
        """The macro, or the literal, whose product with a stride is the wanted one, if any."""
        yield from (ast.Name(m, "int") for m in sorted(self.constants) if stride * variable(m) == wanted)
        (term, factor), *_ = [*stride.items(), ((), 0)]
        ratio = wanted.get(term, 0) // factor if factor else 0
        if literal and ratio > 1 and stride * constant(ratio) == wanted:
            yield ast.Number(str(ratio), "int")

    def varies(self, name: str) -> bool:
        """True if a name may differ between threads or iterations."""
        if name in (self.assumed_uniform or self.uniform):
            return False
        if name in self.fixed and name not in self.ranges:
            value = polynomial(self.fixed[name])
            return value is None or any(map(self.varies, value.names()))
        return True

    def nonnegative(self, name: str) -> bool:
        """True if a variable is known to be 0 or more."""
        if name in IDS or name.startswith("@"):
            return True
        if name in self.ranges:
            return all(map(self.nonnegative_sum, self.ranges[name]))
        value = polynomial(self.fixed[name]) if name in self.fixed else None
        return value is not None and self.nonnegative_sum(value)

    def nonnegative_sum(self, value: Polynomial) -> bool:
        """True if no term of a value can be negative."""
        known = {*self.constants, *EXTENTS.values()}
        return all(f > 0 and all(n in known or self.nonnegative(n) for n in t) for t, f in value.items())

    @property
    def counters(self) -> set[str]:
        """The variables of the enclosing loops."""
        return {s.source.variable for s in self.loops}

    def iterations(self, known: set[str]) -> set[str]:
        """Those of the enclosing loops, by their variables, of which an index with these digits tells the iteration."""
        counted = {name for name in known & self.ranges.keys() if self.positive(self.ranges[name][1])}
        return {name for name in self.counters if name in counted or f"@{name}" in known}

    def positive(self, step: Polynomial) -> bool:
        """True where a step of a loop is surely above or, as a literal, below 0."""
        if set(step) == {()}:
            return True
        known = {**dict.fromkeys(EXTENTS.values(), 1), **self.constants}
        return all(f > 0 and all(known.get(n, 0) > 0 for n in t) for t, f in self.expand_uniform(step).items())

    def within(self, s: Stmt) -> list[tuple[list[Stmt], "IndexFacts"]]:
        """The bodies inside a statement, each with the facts that hold in it."""
        if isinstance(s, ast.For):
            inside = self.copied(loops=(*self.loops, s))
            if not has_barrier([s]):
                inside.block_uniform -= self.written([s])  # threads may be in different iterations
            if s.variable not in self.written(s.source.body):
                inside.enter(s.source)
            return [(s.body, inside)]
        made = []
        for condition, side in guarded_bodies(s):
            inside = self.copied(guards=(*self.guards, condition))
            inside.assume(condition, side)
            made.append((side, inside))
        return made

    def written(self, body: list[Stmt]) -> set[str]:
        """The names that statements write or declare."""
        found = set[str]()
        for s in body:
            if id(s) not in self.writes and bodies(s):
                own = (own_writes(one) for one in with_header(s))
                self.writes[id(s)] = set[str]().union(*own, *map(self.written, bodies(s)))
            found |= self.writes[id(s)] if bodies(s) else own_writes(s)
        return found

    def copied(self, **new: Any) -> "IndexFacts":
        """A copy that can be extended; `limits` stays shared."""
        bounds = {name: list(known) for name, known in self.upper_bounds.items()}
        made = copy(self)
        made.upper_bounds, made.ranges, made.sums = bounds, dict(self.ranges), dict(self.sums)
        made.block_uniform, made.pinned = set(self.block_uniform), dict(self.pinned)
        for name, value in new.items():
            setattr(made, name, value)
        return made

    def assume(self, e: Expr, body: list[Stmt]) -> None:
        """Add what a condition implies that holds ahead of a body, of names that do not change in it."""
        if not isinstance(e, ast.Binary):
            return
        if e.op == "&&":
            self.assume(e.left, body)
            self.assume(e.right, body)
        if (e.names - self.fixed.keys()) & self.written(body):
            return
        bound, left = polynomial(e.right), polynomial(e.left)
        if bound is not None and wraps_at(e.right) and min(bound.values(), default=0) < 0:
            bound = None  # of n - 1 and n = 0 it is a large number
        if isinstance(e.left, ast.Binary) and bound is not None and left is not None and e.op == "<":
            name = f"@sum{len(self.sums)}"
            self.sums[name], self.upper_bounds[name] = left, [bound]
        if isinstance(e.left, ast.Name) and bound is not None:
            if e.op in ("<", "<="):
                self.upper_bounds.setdefault(e.left.name, []).append(bound + constant(e.op == "<="))
            elif e.op == "==" and bound.names() <= self.uniform:  # else each thread may be the one
                self.pinned |= dict.fromkeys(self.determined(variable(e.left.name)) or (), e)

    def enter(self, s: ast.For) -> None:
        """Add the range of a loop's variable."""
        start, step = s.start, s.step
        if not isinstance(start, ast.Declare) or start.value is None or step is None:
            return
        first, size = self.whole(start.value), self.whole(step.value)
        if first is None or size is None or step.op not in ("+=", "-="):
            return
        if step.op == "-=" and not (self.positive(size) and self.nonnegative_sum(size)):
            return
        self.upper_bounds.pop(start.name, None)
        self.ranges.pop(start.name, None)
        lowest: Polynomial | None = first
        if step.op == "-=":
            self.upper_bounds[start.name] = [first + constant(1)]
            lowest, size = _lowest(s), constant(1)
        if lowest is not None:
            self.ranges[start.name] = lowest, size
        self.assume(s.condition, s.body)

    def index(self, e: Expr, row: IndexRow | None) -> Polynomial | None:
        """An index as a polynomial, in which the elements of a row are those of one more digit."""
        if (p := self.whole(e, row)) is None or row is None:
            return p
        wider = sorted(name for name, value in self.constants.items() if value >= row.length)
        self.upper_bounds[OFFSET] = [*map(constant, (row.length, row.room)), *map(variable, wider)]
        return p + row.unit * variable(OFFSET)

    def unique(
        self, indices: tuple[Expr, ...], shared: bool, row: IndexRow | None = None, changing: Container[str] = (),
        pinned: Iterable[str] | None = None,
    ) -> dict[str, Expr] | None:  # fmt: skip
        """The limits of the launch within which no two threads, of a block or of the grid, share an index; else None.

        row: the elements that belong to the thread, from the index on. changing: names that are not the same in all
        threads of a block meanwhile. pinned: coordinates that a condition fixes, if not all of these count.
        """
        before, of_block = dict(self.limits), {n for n in self.block_uniform if shared and n not in changing}
        found, self.assumed_uniform = set(self.pinned if pinned is None else pinned), self.uniform | of_block
        for e in indices:
            p = self.index(e, row)
            found |= (self.determined(p) if p is not None else None) or set()
        wanted = IDS[:3] if shared else IDS
        needed = {name: e for name, e in self.limits.items() if name not in before}
        apart = row is None or set(row.unit) == {()} or OFFSET in found  # a unit that may be 0 tells no two elements
        alone = apart and all(w in found or self.conditions.get(EXTENTS[w]) == ONE for w in wanted)
        for name in needed:
            del self.limits[name]
        return needed if alone else None


def _lowest(s: ast.For) -> Polynomial | None:
    """The least value of the variable of a loop that counts down, by its condition."""
    tests = [e for e in conjuncts(s.condition) if isinstance(e, ast.Binary) and e.op in (">", ">=")]
    e = next((e for e in tests if isinstance(e.left, ast.Name) and e.left.name == s.variable), None)
    bound = None if e is None else polynomial(e.right)
    return None if e is None or bound is None else bound + constant(e.op == ">")
