"""The elements of an array that stores fill: in one iteration of a loop by a block, or in a launch by all threads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import accumulate, product
from math import prod
from typing import NamedTuple

import numpy as np

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.indices import OFFSET, IndexFacts, IndexRow
from minigrad.adjoint.analyse.polynomials import EXTENTS, IDS, Polynomial, constant, polynomial, variable
from minigrad.adjoint.analyse.trip_counts import HALVINGS, Count, apply_operator, count, evaluate, factor, is_unsigned
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, Stmt, children, is_float, walk
from minigrad.adjoint.language.control_flow import leaves
from minigrad.adjoint.language.dataflow import accesses, inline, names_behind, thread_axis
from minigrad.adjoint.language.rewrite import (
    RANGES,
    conjuncts,
    fits,
    flatten,
    guarded_bodies,
    int_literal,
    logical_not,
    own_expressions,
    with_header,
)

MOST_ELEMENTS = 1 << 16  # of an array, and iterations of all threads, that are enumerated
Values = np.ndarray | None


class Touch(NamedTuple):
    """A read or a store of an element, with the loops around it (None: not countable) and its conditions."""

    element: ast.Index
    stores: bool
    loops: tuple[Count | ast.For | None, ...] = ()  # a loop itself where its variable is doubled or halved
    guards: tuple[Expr, ...] = ()


def touches(body: list[Stmt], array: str) -> list[Touch]:
    """The reads and stores of an array in order; of a loop first all that it reads, then what it stores."""
    found: list[Touch] = []
    for s in body:
        stores = isinstance(s, ast.Assign) and s.op == "="
        for part in with_header(s):
            reads = [Touch(x, False, (), under) for e in own_expressions(part) for x, under in guarded_elements(e)]
            other = [(kind, x) for kind, x in accesses(part) if kind != "read" and isinstance(x, ast.Index)]
            own = [*reads, *(Touch(x, stores and kind == "write") for kind, x in other)]
            found += [t for t in own if t.element.array == array]
        if isinstance(s, ast.If):
            found += _branch_touches(s, array)
        if isinstance(s, ast.For):
            inner = [t._replace(loops=(_bounding_count(s), *t.loops)) for t in touches(s.body, array)]
            found += [t for t in inner if not t.stores]
            if (header := count(s)) and header.exact and not leaves(s.body, ("continue",)):
                found += [t for t in inner if t.stores]
    return found


def guarded_elements(e: Expr, under: tuple[Expr, ...] = ()) -> Iterator[tuple[ast.Index, tuple[Expr, ...]]]:
    """The elements that an expression reads, each with the conditions under which it does."""
    parts = [(part, under) for part in children(e)]
    match e:
        case ast.Index():
            yield e, under
        case ast.Ternary():
            no = (*under, logical_not(e.condition))
            parts = [(e.condition, under), (e.yes, (*under, *conjuncts(e.condition))), (e.no, no)]
        case ast.Binary(op="&&"):
            parts = [(e.left, under), (e.right, (*under, *conjuncts(e.left)))]
    for part, conditions in parts:
        yield from guarded_elements(part, conditions)


def _bounding_count(s: ast.For) -> Count | ast.For | None:
    """The count of a loop, or an upper bound of it: of `j < T && start + j < n` the count of `j < T`."""
    counts = (count(replace(s, condition=e)) for e in conjuncts(s.condition))
    return next(filter(None, counts), s if factor(s) else None)


def _branch_touches(s: ast.If, array: str) -> list[Touch]:
    """Each side of a branch under its condition, and what both sides store without one."""
    ways = [(condition, touches(side, array)) for condition, side in guarded_bodies(s)]
    (_, then), (_, orelse) = ways
    both = [t for t in then if t.stores and t in orelse]
    guarded = [t._replace(guards=(*conjuncts(condition), *t.guards)) for condition, found in ways for t in found]
    return [*guarded, *both]


class BlockNumbers:
    """Integer expressions as arrays over all threads of a block and all iterations, one axis each."""

    def __init__(self, fixed: dict[str, Expr], known: dict[str, int], extents: dict[str, int], shared: bool):
        self.fixed, self.numbers = fixed, {name: np.array(n) for name, n in {**known, **extents}.items()}
        if shared:
            block = (slice(extents[f"blockDim.{axis}"]) for axis in "xyz")
            self.numbers |= zip(IDS[:3], np.ogrid[*block], strict=True)

    def elements(self, touch: Touch) -> tuple[np.ndarray, ...] | None:
        """The elements touched, one array of indices per axis: all that are surely stored, or may be read."""
        outside = dict(self.numbers)
        chosen = [self.enter(header, depth) for depth, header in enumerate(touch.loops)]
        tests = [self.value(e) for e in touch.guards]
        indices = [self.value(e) for e in touch.element.indices]
        self.numbers = outside
        known = [x for x in (*chosen, *tests) if x is not None]
        if any(i is None for i in indices) or (touch.stores and len(known) < len(chosen) + len(tests)):
            return None
        mask: np.ndarray = reduce(np.logical_and, known, np.array(True))
        *all_indices, mask = np.broadcast_arrays(*indices, mask)  # type: ignore[arg-type]
        return tuple(i[mask].astype(int) for i in all_indices)  # a comparison is a bool

    def enter(self, header: Count | ast.For | None, depth: int) -> Values:
        """Enter a loop: a mask of the values of its variable that it reaches."""
        if not isinstance(header, Count):
            return self.enter_geometric(header, depth) if header else None
        start, bound, step = (self.value(e) for e in (header.start, header.bound, header.step))
        if start is None or bound is None or step is None or not step.all():
            return None
        most = int(np.ceil((bound - start) / step).max(initial=0))
        if not 0 <= most * max(start.size, step.size) <= MOST_ELEMENTS:
            return None
        number = start + step * np.arange(most).reshape(-1, *[1] * (3 + depth))
        self.numbers[header.var] = number
        return number > bound if header.down else number < bound

    def enter_geometric(self, s: ast.For, depth: int) -> Values:
        first, way = self.value(s.start.value) if s.start and s.start.value else None, factor(s)
        if first is None or way is None or first.size * HALVINGS > MOST_ELEMENTS:
            return None
        powers = accumulate([way[1]] * (HALVINGS - 1), partial(apply_operator, way[0]), initial=first)
        self.numbers[s.variable] = number = np.stack(
            [p.reshape([1] * (3 + depth - p.ndim) + [*p.shape]) for p in powers]
        )
        runs = self.value(s.condition)
        return None if runs is None else np.logical_and.accumulate(np.broadcast_to(runs, number.shape))

    def value(self, e: Expr) -> Values:
        """The values of an integer expression; None if only the running kernel knows them."""
        match e:
            case ast.Number() if e.int_value is not None:
                return np.array(e.int_value)
            case ast.Name():
                if e.name in self.numbers or e.name not in self.fixed:
                    return self.numbers.get(e.name)
                return None if is_float(e.type) else self.value(self.fixed[e.name])
            case ast.Cast() if e.type in RANGES:
                inner = self.value(e.operand)
                known = () if inner is None else (inner.min(initial=0), inner.max(initial=0))
                return inner if all(fits(n, e.type) for n in known) else None
            case ast.Unary(op="-" | "!"):
                inner = self.value(e.operand)
                return inner if inner is None else ~inner.astype(bool) if e.op == "!" else -inner
            case ast.Binary():
                left, right = self.value(e.left), self.value(e.right)
                if left is None or right is None:
                    return None
                found = apply_operator(e.op, left, right)
                if found is None or not (is_unsigned(e.left) or is_unsigned(e.right)):
                    return found
                return None if any((n < 0).any() for n in (left, right, found)) else found  # C++ has a large number
        return None


Pair = tuple[Polynomial, Polynomial]


@dataclass
class Cover:
    """A launch fills an array of `size` elements if the first polynomial of each pair is at least the second."""

    size: Polynomial = field(default_factory=lambda: constant(1))
    enough: list[Pair] = field(default_factory=list)


def cover(index: Expr, facts: IndexFacts, row: IndexRow | None = None) -> Cover | None:
    """The elements that stores `x[index] = ...` fill in these loops and under these guards; None if unknown.

    row: the elements that a thread stores, from the index on.
    """
    ranges: dict[str, Polynomial] = {}
    for s in facts.loops:
        if (bound := _loop_bound(s, facts)) is None:
            return None
        ranges[s.source.variable] = bound
    tested, whole, made = _tested_bounds(facts.guards), facts.whole(index), Cover()
    if tested is None or whole is None:
        return None
    if row:
        ranges[OFFSET], whole = constant(row.length), whole + row.unit * variable(OFFSET)
    digits = _digits(whole, facts, ranges, tested, made)
    if digits is None or tested:
        return None
    while digits:
        name = next((n for n, factor in digits.items() if factor == made.size), None)
        if name is None:
            return None
        made.size = made.size * ranges[name]
        del digits[name]
    limits = [(variable(name), polynomial(e)) for name, e in facts.limits.items()]
    made.enough += [(extent, most) for extent, most in limits if most is not None]  # smaller blocks leave gaps
    return made


def _loop_bound(s: ast.For, facts: IndexFacts) -> Polynomial | None:
    """The bound of a loop from 0, in one thread or distributed over the threads of a block."""
    header = count(s.source)
    if header is None or not header.exact or header.down:
        return None
    start, step, bound = map(polynomial, (inline(header.start, facts.fixed, facts.budget), header.step, header.bound))
    ways = [(constant(0), constant(1)), *((variable(i), _extent(facts, i)) for i in IDS[:3])]
    return bound if (start, step) in ways else None


def _tested_bounds(guards: Sequence[Expr]) -> dict[str, Polynomial] | None:
    """The upper bound of each variable that guards test; None where they test anything else."""
    found: dict[str, Polynomial] = {}
    for e in (e for guard in guards for e in conjuncts(guard)):
        bound = polynomial(e.right) if isinstance(e, ast.Binary) and e.op == "<" else None
        if bound is None or not isinstance(e, ast.Binary) or not isinstance(e.left, ast.Name) or e.left.name in found:
            return None
        found[e.left.name] = bound
    return found


def _digits(
    whole: Polynomial, facts: IndexFacts, ranges: dict[str, Polynomial], tested: dict[str, Polynomial], made: Cover
) -> dict[str, Polynomial | None] | None:
    """The digits of an index with their factors. Adds their ranges to `ranges`, removes what it uses from `tested`."""
    while True:
        varying = [n for n in sorted(whole.names()) if facts.varies(n)]
        wider = None
        for name in (n for n in varying if n not in ranges):
            if (threads := _thread_range(name, facts)) is None:
                if (wider := facts.expand(whole, name)) is None:
                    return None
                break
            ranges[name] = tested.pop(name, threads)
            if ranges[name] is not threads:
                made.enough.append((threads, ranges[name]))
        if wider is None:
            return {n: whole.coefficient(n) for n in varying} if () not in whole else None
        whole = wider


def _thread_range(name: str, facts: IndexFacts) -> Polynomial | None:
    """The number of values of a coordinate: of a thread, of a block, or of a thread in the grid."""
    if name in IDS:
        return _extent(facts, name)
    value = polynomial(inline(ast.Name(name, "int"), facts.fixed, facts.budget))
    for thread, block in zip(IDS[:3], IDS[3:], strict=True):
        size = _extent(facts, thread)
        if value == variable(thread):
            return size
        if value == variable(block) * size + variable(thread):
            return _extent(facts, block) * size
    return None


def _extent(facts: IndexFacts, name: str) -> Polynomial:
    """An extent of the launch, by its known value if there is one."""
    known = facts.conditions.get(EXTENTS[name]) or facts.limits.get(EXTENTS[name])
    value = None if known is None else polynomial(known)
    return variable(EXTENTS[name]) if value is None else value


THREADS = 1024  # of a block


@dataclass(frozen=True)
class Fill:
    """An array, and its reads and stores in an iteration of the loop at `line`, in order."""

    array: ast.Declare
    line: str
    touches: tuple[Touch, ...]
    fixed: dict[str, Expr]
    known: dict[str, int]  # the values of macros

    @property
    def axes(self) -> list[str]:
        """The axes of threadIdx on which these depend."""
        headers = [e for t in self.touches for h in t.loops if h for e in _header(h)]
        parts = [e for t in self.touches for e in (*t.element.indices, *t.guards)]
        names = names_behind(headers + parts, self.fixed)
        return [a for a in "xyz" if {f"threadIdx.{a}", f"blockDim.{a}"} & names]

    def holds(self, extents: dict[str, int]) -> bool | None:
        """True if a block of these extents stores every element before the same iteration reads it.

        None if the block stores beyond the array, so that the kernel cannot be meant for it.
        """
        shape = [evaluate(d, self.known) or 0 for d in self.array.dims]
        if not 0 < np.prod(shape) <= MOST_ELEMENTS:
            return False
        stored = np.zeros(shape, bool)
        numbers = BlockNumbers(self.fixed, self.known, extents, self.array.shared)
        for touch in self.touches:
            if stored.all() and not touch.stores:
                continue
            if (found := numbers.elements(touch)) is None:
                if touch.stores:
                    continue
                return False
            inside = all(((i >= 0) & (i < n)).all() for i, n in zip(found, shape, strict=True))
            if touch.stores and not inside:
                return None
            if not inside or not (touch.stores or stored[found].all()):
                return False
            stored[found] = True
        return bool(stored.all()) or any(not t.stores for t in self.touches)


def _header(loop: Count | ast.For) -> tuple[Expr, ...]:
    if isinstance(loop, Count):
        return loop.start, loop.bound, loop.step
    return tuple(e for part in with_header(loop) for e in own_expressions(part))


def filled(facts: KernelFacts, s: ast.For, array: str) -> list[Fill] | None:
    """The checks by which each iteration of a loop stores every element of an array before any thread reads it.

    None where no block is known in which it does. Extents of the block that the indices imply become conditions of the
    launch, which needs no check then. Where a smaller block fills the array as well, or where nothing implies an extent
    and the largest block that stays inside the array fills it, each launch is checked. An array that the loop only
    stores is worth no new condition.
    """
    found = touches(s.body, array) if array in facts.function.declared else []
    of_warp = any(isinstance(t, ast.Barrier) and t.warp for t in flatten([s]))
    if not found or not found[0].stores or (facts.function.declared[array].shared and (of_warp or facts.returned)):
        return None  # other threads of the block may not store
    fill = Fill(facts.function.declared[array], s.place.words, tuple(found), facts.fixed, facts.file.values)
    implied, only = {a: _implied(facts, fill, a) for a in fill.axes}, all(t.stores for t in found)
    for wanted in _blocks(facts, implied):
        if fill.holds(_extents(facts, wanted)):
            if _holds_in_smaller(facts, fill, wanted):
                return [fill]
            relied = {f"blockDim.{a}": e for a, e in wanted.items()}
            if only and not relied.items() <= facts.conditions.items():
                return None
            facts.conditions |= relied
            return []
    if not fill.array.shared or only:
        return None
    values, numbers = facts.file.values, _numbers(facts)
    for a, extents in implied.items():
        if (name := f"blockDim.{a}") not in facts.conditions:
            most = evaluate(facts.limits[name], values) if name in facts.limits else None
            extents += [e for n, e in numbers.items() if most is None or n <= most]
    blocks = sorted((_extents(facts, some) for some in _blocks(facts, implied)), key=lambda e: -prod(e.values()))
    holds = next((known for block in blocks if (known := fill.holds(block)) is not None), False)
    return [fill] if holds else None


def _implied(facts: KernelFacts, fill: Fill, axis: str) -> list[Expr]:
    """The extent of the block along an axis that the launch relies on already, or that the indices imply."""
    name = f"blockDim.{axis}"
    if (known := facts.conditions.get(name) or facts.limits.get(name)) is not None:
        return [known]
    stores = [t.element.indices for t in fill.touches if t.stores and not t.guards]
    along = [d for i in stores for e, d in zip(i, fill.array.dims, strict=True) if thread_axis(facts.fixed, e) == axis]
    return along[:1]


def _holds_in_smaller(facts: KernelFacts, fill: Fill, wanted: dict[str, Expr]) -> bool:
    """True if a smaller block fills the array, too: the array may have a column more than the block has threads."""
    relied, values = {**facts.conditions, **facts.limits}, facts.file.values
    free = {a for a in wanted if fill.array.shared and f"blockDim.{a}" not in relied}
    usual = {1 << n: int_literal(1 << n) for n in range(THREADS.bit_length())}
    numbers = {**usual, **_numbers(facts)} if free else {}
    fewer = {a: [e] for a, e in wanted.items()}
    for a in free:
        fewer[a] = [*(e for n, e in numbers.items() if n < (evaluate(wanted[a], values) or 0)), wanted[a]]
    return any(fill.holds(_extents(facts, some)) for some in _blocks(facts, fewer) if some != wanted)


def _numbers(facts: KernelFacts) -> dict[int, Expr]:
    """The whole numbers in a kernel, known to the compiler, that may be an extent of a block, in order."""
    body = flatten(facts.function.body)
    whole = [e for s in body for one in (*own_expressions(s), *getattr(s, "dims", ())) for e in walk(one)]
    named = {evaluate(e, facts.file.values): e for e in whole if e.type == "int"}
    return {n: named[n] for n in sorted(n for n in named if n is not None and 0 < n <= THREADS)}


def _blocks(facts: KernelFacts, extents: dict[str, list[Expr]]) -> Iterator[dict[str, Expr]]:
    """All blocks with one of these extents along each axis, of at most 1024 threads."""
    for several in product(*extents.values()):
        if prod(evaluate(e, facts.file.values) or THREADS + 1 for e in several) <= THREADS:
            yield dict(zip(extents, several, strict=True))


def _extents(facts: KernelFacts, wanted: dict[str, Expr]) -> dict[str, int]:
    """Extents of a block as numbers, 1 along the axes that do not matter."""
    return {f"blockDim.{a}": evaluate(wanted[a], facts.file.values) or 1 if a in wanted else 1 for a in "xyz"}
