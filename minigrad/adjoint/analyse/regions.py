"""Which elements of an array statements touch: as written, and as numbers over all threads and rounds of a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minigrad.adjoint.analyse.indices import (
    EXTENTS,
    IDS,
    Facts,
    Polynomial,
    constant,
    offsets,
    polynomial,
    signless,
    stride,
    variable,
)
from minigrad.adjoint.analyse.trip_counts import Count, applied, count, evaluate
from minigrad.adjoint.language.ast import (
    Assign,
    AtomicAdd,
    Binary,
    Cast,
    Declare,
    Expr,
    For,
    If,
    Index,
    Name,
    Number,
    Stmt,
    Target,
    Unary,
    is_float,
    walk,
)
from minigrad.adjoint.language.control_flow import leaves
from minigrad.adjoint.language.dataflow import (
    accesses,
    inline,
    names_in,
    own_reads,
    own_writes,
    target_name,
    thread_axis,
)
from minigrad.adjoint.language.rewrite import bodies, conjuncts, flatten, guarded_bodies, own_expressions, with_header

if TYPE_CHECKING:
    from minigrad.adjoint.decide.store_or_recompute import Keeping

MOST_ELEMENTS = 1 << 16  # rounds of all threads that are gone through
Values = np.ndarray | None


class Touch(NamedTuple):
    """An element that is read, or stored, in loops and under conditions; of a loop that nothing counts None."""

    element: Index
    stores: bool
    loops: tuple[Count | None, ...] = ()
    guards: tuple[Expr, ...] = ()


def touches(body: list[Stmt], array: str) -> list[Touch]:
    """What statements do to an array, in order; of a loop first all that it reads, then what it stores."""
    found: list[Touch] = []
    for s in body:
        own = [(kind, x) for part in with_header(s) for kind, x in accesses(part) if isinstance(x, Index)]
        stores = isinstance(s, Assign) and s.op == "="
        found += [Touch(x, stores and kind == "write") for kind, x in own if x.array == array]
        if isinstance(s, If):
            found += _either(s, array)
        if isinstance(s, For):
            inner = [t._replace(loops=(_most(s), *t.loops)) for t in touches(s.body, array)]
            found += [t for t in inner if not t.stores]
            if (header := count(s)) and header.exact and not leaves(s.body, ("continue",)):
                found += [t for t in inner if t.stores]
    return found


def _most(s: For) -> Count | None:
    """The count of a loop, or one that it does not exceed: of `j < T && start + j < n` that of `j < T`."""
    return next((found for e in conjuncts(s.condition) if (found := count(replace(s, condition=e)))), None)


def _either(s: If, array: str) -> list[Touch]:
    """What a branch does: each side under its condition, and what both sides store without one."""
    ways = [(condition, touches(side, array)) for condition, side in guarded_bodies(s)]
    (_, then), (_, orelse) = ways
    both = [t for t in then if t.stores and t in orelse]
    guarded = [t._replace(guards=(*conjuncts(condition), *t.guards)) for condition, found in ways for t in found]
    return [*guarded, *both]


class Space:
    """Whole numbers over all threads of a block, each along an axis of its own."""

    def __init__(self, fixed: dict[str, Expr], known: dict[str, int], extents: dict[str, int], shared: bool):
        self.fixed, self.numbers = fixed, {name: np.array(n) for name, n in {**known, **extents}.items()}
        for n, axis in enumerate("xyz") if shared else ():
            shape = [1, 1, 1]
            shape[n] = -1
            self.numbers[f"threadIdx.{axis}"] = np.arange(extents[f"blockDim.{axis}"]).reshape(shape)

    def places(self, touch: Touch) -> tuple[np.ndarray, ...] | None:
        """The elements that are touched, one array of numbers an axis: stored for sure, or perhaps read."""
        outside = dict(self.numbers)
        chosen = [self.rounds(header, depth) for depth, header in enumerate(touch.loops)]
        tests = [self.value(e) for e in touch.guards]
        indices = [self.value(e) for e in touch.element.indices]
        self.numbers = outside
        known = [x for x in (*chosen, *tests) if x is not None]
        if any(i is None for i in indices) or (touch.stores and len(known) < len(chosen) + len(tests)):
            return None
        mask: np.ndarray = reduce(np.logical_and, known, np.array(True))
        *all_indices, mask = np.broadcast_arrays(*indices, mask)  # type: ignore[arg-type]
        return tuple(i[mask] for i in all_indices)

    def rounds(self, header: Count | None, depth: int) -> Values:
        """Enter a loop; which of the numbers of its variable it reaches."""
        if header is None:
            return None
        start, bound, step = (self.value(e) for e in (header.start, header.bound, header.step))
        if start is None or bound is None or step is None or not step.all():
            return None
        most = int(np.ceil((bound - start) / step).max(initial=0))
        if not 0 <= most * max(start.size, step.size) <= MOST_ELEMENTS:
            return None
        number = start + step * np.arange(most).reshape(-1, *[1] * (3 + depth))
        self.numbers[header.var] = number
        return number > bound if header.down else number < bound

    def value(self, e: Expr) -> Values:
        """An expression of whole numbers; None of what only the running kernel knows."""
        match e:
            case Number() if e.int_value is not None:
                return np.array(e.int_value)
            case Name():
                if e.name in self.numbers or e.name not in self.fixed:
                    return self.numbers.get(e.name)
                return None if is_float(e.type) else self.value(self.fixed[e.name])
            case Cast() if not is_float(e.type):
                return self.value(e.operand)
            case Unary(op="-" | "!"):
                inner = self.value(e.operand)
                return inner if inner is None else ~inner.astype(bool) if e.op == "!" else -inner
            case Binary():
                left, right = self.value(e.left), self.value(e.right)
                if left is None or right is None:
                    return None
                found = applied(e.op, left, right, np.all)
                if found is None or not (signless(e.left) or signless(e.right)):
                    return found
                return None if any((n < 0).any() for n in (left, right, found)) else found  # C++ has a large number
        return None


Pair = tuple[Polynomial, Polynomial]


@dataclass
class Cover:
    """An array of `size` elements is filled by a launch in which, of each pair, the first is at least the second."""

    size: Polynomial = field(default_factory=lambda: constant(1))
    enough: list[Pair] = field(default_factory=list)


def cover(index: Expr, facts: Facts) -> Cover | None:
    """What the stores `x[index] = ...` fill, made in these loops and under these guards; None where that is unknown."""
    ranges: dict[str, Polynomial] = {}
    for s in facts.loops:
        found = _rounds(s, facts)
        if found is None:
            return None
        ranges[found[0]] = found[1]
    tested = _tested(facts.guards)
    whole = polynomial(index)
    if tested is None or whole is None:
        return None
    made = Cover()
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
    made.enough += [(extent, most) for extent, most in limits if most is not None]  # of smaller blocks there are gaps
    return made


def _rounds(s: For, facts: Facts) -> tuple[str, Polynomial] | None:
    """The variable of a loop and how many values it takes from 0 on: in one thread, or in all of a block together."""
    header = count(s.source)
    if header is None or not header.exact or header.down:
        return None
    start, step, bound = map(polynomial, (inline(header.start, facts.fixed), header.step, header.bound))
    ways = [(constant(0), constant(1)), *((variable(i), _extent(facts, i)) for i in IDS[:3])]
    if bound is None or (start, step) not in ways:
        return None
    return header.var, bound


def _tested(guards: Sequence[Expr]) -> dict[str, Polynomial] | None:
    """The bounds that have been tested, by variable; None where something else has been."""
    found: dict[str, Polynomial] = {}
    for e in (e for guard in guards for e in conjuncts(guard)):
        bound = polynomial(e.right) if isinstance(e, Binary) and e.op == "<" else None
        if bound is None or not isinstance(e, Binary) or not isinstance(e.left, Name) or e.left.name in found:
            return None
        found[e.left.name] = bound
    return found


def _digits(
    whole: Polynomial, facts: Facts, ranges: dict[str, Polynomial], tested: dict[str, Polynomial], made: Cover
) -> dict[str, Polynomial | None] | None:
    """The digits of an index, each with its factor; `ranges` gets how far each goes, `tested` loses what is used."""
    while True:
        varying = [n for n in sorted(whole.names()) if facts.varies(n)]
        wider = None
        for name in (n for n in varying if n not in ranges):
            threads = _threads(name, facts)
            if threads is not None:
                ranges[name] = threads
                if name in tested:
                    made.enough.append((threads, tested[name]))
                    ranges[name] = tested.pop(name)
            else:
                wider = facts.expanded(whole, name)
                if wider is None:
                    return None
                break
        if wider is None:
            return {n: whole.of(n) for n in varying} if () not in whole else None
        whole = wider


def _threads(name: str, facts: Facts) -> Polynomial | None:
    """How many values a coordinate takes: of a thread, of a block, or of a thread in the whole grid."""
    if name in IDS:
        return _extent(facts, name)
    value = polynomial(inline(Name(name, "int"), facts.fixed))
    for a in "xyz":
        thread, block = f"threadIdx.{a}", f"blockIdx.{a}"
        size = _extent(facts, thread)
        if value == variable(thread):
            return size
        if value == variable(block) * size + variable(thread):
            return _extent(facts, block) * size
    return None


def _extent(facts: Facts, name: str) -> Polynomial:
    """An extent of the launch, as the kernel calls it."""
    known = facts.conditions.get(EXTENTS[name]) or facts.limits.get(EXTENTS[name])
    value = None if known is None else polynomial(known)
    return variable(EXTENTS[name]) if value is None else value


def read_again(body: list[Stmt]) -> set[str]:
    """The arrays of which a read may come after a store; the others are read as the kernel found them."""
    stored: set[str] = set()
    found: set[str] = set()

    def visit(body: list[Stmt]) -> None:
        for s in body:
            for one in with_header(s):
                found.update(own_reads(one) & stored)
                stored.update(own_writes(one) if not isinstance(one, Declare) else set())
            for inner in bodies(s):
                visit(inner)
                if isinstance(s, For):
                    visit(inner)  # what the end of a round stores, the next one may read

    visit(body)
    return found


def repeated(body: list[Stmt], facts: Facts, since: dict[str, set[str]] | None = None) -> set[str]:
    """The arrays into which a loop may store an element twice. since: the loops around the declaration of an array."""
    found: set[str] = set()
    since = dict(since or {})
    for s in body:
        if isinstance(s, Declare):
            since[s.name] = facts.rounds
        if isinstance(s, Assign) and isinstance(s.target, Index):
            told = [facts.told(p) or set() for p in map(polynomial, s.target.indices) if p is not None]
            if not facts.rounds - since.get(s.target.array, set()) <= set().union(*told):
                found.add(s.target.array)
        for inner, inside in facts.within(s):
            found |= repeated(inner, inside, since)
    return found


def apart(body: list[Stmt]) -> set[str]:
    """The arrays of which no two statements store the same element: their indices differ by less than their stride."""
    stores: dict[str, list[Assign | AtomicAdd]] = {}
    for s in flatten(body):
        if isinstance(s, Assign | AtomicAdd):
            stores.setdefault(target_name(s.target), []).append(s)
    return {name for name, several in stores.items() if len(several) == 1 or _differ([s.target for s in several])}


def _differ(targets: list[Target]) -> bool:
    indices = [t.indices for t in targets if isinstance(t, Index)]
    gaps = offsets([i[0] for i in indices]) if indices and all(len(i) == 1 for i in indices) else None
    return gaps is not None and len(set(gaps)) == len(targets) and max(gaps) - min(gaps) < stride(indices[0][0])


def first_stores(body: list[Stmt], names: set[str]) -> set[int]:
    """The statements that are the first to touch one of these arrays, where they store into it."""
    seen: set[str] = set()
    found = set()
    for s in flatten(body):
        match s:
            case Assign(target=Index(array=name), op="=") if name in names - seen - own_reads(s):
                found.add(id(s))
        seen |= own_reads(s) | (set() if isinstance(s, Declare) and not s.values else own_writes(s))
    return found


MOST = 1 << 16  # elements of an array that are gone through
THREADS = 1024  # of a block


@dataclass(frozen=True)
class Fill:
    """An array, and what a round of the loop at `line` does to it, in order."""

    array: Declare
    line: int
    touches: tuple[Touch, ...]
    fixed: dict[str, Expr]
    known: dict[str, int]  # the values of macros

    @property
    def axes(self) -> list[str]:
        """The parts of threadIdx on which it depends."""
        parts = (e for t in self.touches for e in (*t.element.indices, *t.guards, *_parts(t.loops)))
        names = names_in(inline(e, self.fixed) for e in parts)
        return [a for a in "xyz" if {f"threadIdx.{a}", f"blockDim.{a}"} & names]

    def holds(self, extents: dict[str, int]) -> bool | None:
        """Whether, in a block of these extents, all that is read has been stored in the same round.

        None where threads of such a block store beyond the array, so that the kernel cannot be meant for it.
        """
        shape = [evaluate(d, self.known) or 0 for d in self.array.dims]
        if not 0 < np.prod(shape) <= MOST:
            return False
        stored = np.zeros(shape, bool)
        space = Space(self.fixed, self.known, extents, self.array.shared)
        for touch in self.touches:
            if stored.all() and not touch.stores:
                continue
            found = space.places(touch)
            if found is None and not touch.stores:
                return False
            if found is None:
                continue
            inside = all(((i >= 0) & (i < n)).all() for i, n in zip(found, shape, strict=True))
            if touch.stores and not inside:
                return None
            if not inside or not (touch.stores or stored[found].all()):
                return False
            stored[found] = True
        return bool(stored.all()) or any(not t.stores for t in self.touches)


def _parts(loops: tuple[Count | None, ...]) -> Iterator[Expr]:
    yield from (e for header in loops if header for e in (header.start, header.bound, header.step))


def filled(sweep: "Keeping", s: For, array: str) -> bool:
    """Whether a round of a loop stores each element of an array that it reads before any thread reads it.

    Extents of the block that the indices tell become conditions of the launch. Where it holds in a smaller block, too,
    or where nothing tells them and it holds in the largest block of which no thread stores beyond the array, a launch
    is asked whether it holds in its own.
    """
    if array not in sweep.of.declared or not sweep.of.declared[array].dims:
        return False
    found = touches(s.body, array)
    if not found or not found[0].stores:
        return False
    fill = Fill(sweep.of.declared[array], s.place.line, tuple(found), sweep.fixed, sweep.file.values)
    told = {a: _told(sweep, fill, a) for a in fill.axes}
    for wanted in _choices(sweep, told):
        if fill.holds(_extents(sweep, wanted)):
            if _in_smaller(sweep, fill, wanted):
                sweep.fills.append(fill)
            else:
                sweep.conditions |= {f"blockDim.{a}": e for a, e in wanted.items()}
            return True
    if not fill.array.shared or all(t.stores for t in found):
        return False
    others = constants(sweep)
    told = {a: e if f"blockDim.{a}" in sweep.conditions else [*e, *_within(sweep, a, others)] for a, e in told.items()}
    blocks = sorted((_extents(sweep, some) for some in _choices(sweep, told)), key=lambda e: -prod(e.values()))
    if next((known for block in blocks if (known := fill.holds(block)) is not None), False):
        sweep.fills.append(fill)
        return True
    return False


def _told(sweep: "Keeping", fill: Fill, axis: str) -> list[Expr]:
    """How long the block is along an axis, where the indices tell it; at first what the launch relies on anyway."""
    name = f"blockDim.{axis}"
    if known := sweep.conditions.get(name):
        return [known]
    stores = [t.element.indices for t in fill.touches if t.stores and not t.guards]
    along = [d for i in stores for e, d in zip(i, fill.array.dims, strict=True) if thread_axis(sweep.fixed, e) == axis]
    return [sweep.limits[name]] if name in sweep.limits else along[:1]


def _in_smaller(sweep: "Keeping", fill: Fill, wanted: dict[str, Expr]) -> bool:
    """Whether it holds in a smaller block, too, as of an array with a column more than threads."""
    relied, values = {**sweep.conditions, **sweep.limits}, sweep.file.values
    free = {a for a in wanted if fill.array.shared and f"blockDim.{a}" not in relied}
    numbers = constants(sweep) if free else []
    fewer = {
        a: [*(n for n in numbers if a in free and (evaluate(n, values) or 0) < (evaluate(e, values) or 0)), e]
        for a, e in wanted.items()
    }
    return any(fill.holds(_extents(sweep, some)) for some in _choices(sweep, fewer) if some != wanted)


def _within(sweep: "Keeping", axis: str, numbers: list[Expr]) -> list[Expr]:
    """Those of some numbers that a block may have along an axis."""
    limit = sweep.limits.get(f"blockDim.{axis}")
    most = None if limit is None else evaluate(limit, sweep.file.values)
    return [e for e in numbers if most is None or (evaluate(e, sweep.file.values) or 0) <= most]


def constants(sweep: "Keeping") -> list[Expr]:
    """The numbers in a kernel, as the compiler knows them, that may be an extent of a block."""
    body = flatten(sweep.of.body)
    whole = [e for s in body for one in (*own_expressions(s), *getattr(s, "dims", ())) for e in walk(one)]
    named = {evaluate(e, sweep.file.values): e for e in whole if e.type == "int"}
    return [e for n, e in sorted((n, e) for n, e in named.items() if n is not None and 0 < n <= THREADS)]


def _choices(sweep: "Keeping", told: dict[str, list[Expr]]) -> Iterator[dict[str, Expr]]:
    """The extents to try, one of each axis; no more threads than a block may have."""
    for several in product(*told.values()):
        if np.prod([evaluate(e, sweep.file.values) or THREADS + 1 for e in several]) <= THREADS:
            yield dict(zip(told, several, strict=True))


def _extents(sweep: "Keeping", wanted: dict[str, Expr]) -> dict[str, int]:
    """Extents of a block as numbers, 1 along the axes that do not matter."""
    return {f"blockDim.{a}": evaluate(wanted[a], sweep.file.values) or 1 if a in wanted else 1 for a in "xyz"}
