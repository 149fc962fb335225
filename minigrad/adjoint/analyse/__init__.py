"""Facts about a kernel or a device function that hold before any decision: activity, structure, stores and extents."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations, pairwise, product
from math import gcd, inf

from minigrad.adjoint.analyse.activity import check_clocks
from minigrad.adjoint.analyse.indices import IndexFacts, Unwrapped
from minigrad.adjoint.analyse.phases import Divergence, check_barriers, check_shuffles, returns_ahead
from minigrad.adjoint.analyse.polynomials import EXTENTS, Interval, Polynomial, Term, interval, polynomial
from minigrad.adjoint.analyse.trip_counts import Count, evaluate, is_unsigned, nests, trips_of
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Expr, Stmt, children, is_float
from minigrad.adjoint.language.control_flow import structured
from minigrad.adjoint.language.rewrite import ONE, RANGES, bodies, flatten, replace_parts, with_header


class Names:
    """Names for the variables that an adjoint adds to those of a function."""

    def __init__(self, used: Iterable[str]):
        self.used = set(used)
        self.numbers: dict[str, int] = {}  # of a base: that of its next name

    def fresh(self, base: str) -> str:
        """base, base_2, base_3, ...: the first that is not in use."""
        name = base = re.sub(r"\W+", "_", base)
        while name in self.used:
            n = self.numbers[base] = self.numbers.get(base, 1) + 1
            name = f"{base}_{n}"
        self.used.add(name)
        return name


@dataclass
class KernelFacts:
    """A function and its analyses. `conditions`, `limits` and `uniform` grow with what passes rely on."""

    file: KernelFile
    function: ast.Function
    active: set[str]  # variables and arrays that carry derivatives
    flow: list[Stmt]  # the body without returns
    names: Names
    returned: bool = False  # some threads return ahead of the barriers
    dropped: set[str] = field(default_factory=set)  # arrays whose stores the forward sweep omits: no read follows them
    final: set[str] = field(default_factory=set)  # outputs each of whose elements is stored once and never read
    first: set[int] = field(default_factory=set)  # ids of the stores before which nothing touches the array
    uniform: set[str] = field(default_factory=set)  # names with one value in all threads of a block
    converged: set[str] = field(default_factory=set)  # and those with one value in threads that run together
    conditions: dict[str, Expr] = field(default_factory=dict)  # extents of the launch that must be equal to these
    limits: dict[str, Expr] = field(default_factory=dict)  # extents that must not exceed these
    unsigned: dict[tuple, Unwrapped] = field(default_factory=dict)  # indices that must not wrap around

    @property
    def budget(self) -> dataflow.Budget:
        return self.file.budget

    @cached_property
    def formula_budget(self) -> dataflow.Budget:
        """The time for formulas of trip counts, in about microseconds: without one only the running kernel counts."""
        return dataflow.Budget(100_000, 0)

    @cached_property
    def fixed(self) -> dict[str, Expr]:
        """The variables that are assigned once, with their values."""
        return dataflow.assigned_once(self.function.body)

    @cached_property
    def converted(self) -> dict[str, Expr]:
        """The same, with casts where a variable makes an int of an unsigned number, or the other way around.

        An int of an unsigned sum or product is that of ints: both have the same bits.
        """

        def cast(e: Expr, kind: str) -> Expr:
            sums = all(x.op in "+-*" if isinstance(x, ast.Binary) else not children(x) for x in ast.walk(e))
            if kind == "int" and e.type in ("int", "unsigned") and sums:
                return replace_parts(e, lambda x: ast.Cast(kind, x) if not children(x) and is_unsigned(x) else None)
            return ast.Cast(kind, e)

        types = {name: self.function.declared[name].type for name in self.fixed}
        other = {n for n, e in self.fixed.items() if is_unsigned(e) != (types[n] in ast.UNSIGNED)}
        other -= {n for n in other if isinstance(self.fixed[n], ast.Number) or is_float(types[n])}
        return {n: cast(e, types[n]) if n in other else e for n, e in self.fixed.items()}

    @cached_property
    def nests(self) -> dict[ast.Place, tuple[Count, ...]]:
        """The headers around each loop."""
        return nests(self.function.body)

    def is_array(self, name: str) -> bool:
        declared = self.function.declared.get(name)
        return name in self.function.memory or bool(declared and declared.dims)

    def overwrites(self, s: Stmt) -> set[str]:
        """The names that the forward sweep of a statement writes."""
        return dataflow.written([s]) - self.dropped

    def reads(self, e: Expr) -> set[str]:
        """The variable or array that an expression itself reads; of a call the arrays that it takes."""
        return {e.name} if isinstance(e, ast.Name) else set(filter(self.is_array, dataflow.own_arrays(e)))

    def trips(self, header: Count) -> Expr | None:
        """The number of iterations as the host computes it; None where it cannot."""
        return self.on_host(trips_of(header, self.file.values, self.fixed))

    def on_host(self, e: Expr) -> Expr | None:
        """An expression of parameters, macros and extents alone, which the host can evaluate; None for any other."""
        e = dataflow.inline(e, self.converted, self.formula_budget)
        whole = {p.name: 60 for p in self.function.params if not p.pointer and p.type in RANGES}
        known = {**whole, **self.file.values, **dict.fromkeys(EXTENTS.values(), 1)}  # the same for all threads
        here = self.function is self.file.kernel and e.names <= known.keys()
        return e if here and evaluate(e, known) is not None else None

    def of_indices(self, body: list[Stmt], more: Iterable[str] = ()) -> IndexFacts:
        """The facts about indices with which a body begins. more: further parameters of the launch."""
        if self.function is not self.file.kernel:
            return IndexFacts({}, {}, set(), set(), {}, {})  # callers may pass the same index in several threads
        macros = self.file.values
        launch = {p.name for p in self.function.params if not p.pointer} | {*more, *macros, *EXTENTS.values()}
        here = dataflow.assigned_once(body)
        known = self.file.formulas | (self.fixed | here if more else here | self.fixed)
        return IndexFacts(
            known, macros, launch, set(self.uniform), self.conditions, self.limits, self.unsigned, budget=self.budget
        )


def analyse(file: KernelFile, wrt: Sequence[str]) -> KernelFacts:
    """The facts about the kernel of a file. Raises NotDifferentiable at a barrier that some threads may not reach."""
    kernel, divergence = file.kernel, Divergence(file.kernel)
    for name, e in file.formulas.items():
        if (value := evaluate(e, file.values)) is not None:
            file.values[name] = value
    check_barriers(file, divergence)
    check_shuffles(file)
    active, flow = dataflow.active(kernel, wrt), structured(kernel.body, ("return",))
    check_clocks(file, active & dataflow.reachable(kernel, wrt))
    facts = KernelFacts(file, kernel, active, flow, Names({*kernel.declared, *file.tokens.words}))
    facts.returned = returns_ahead(kernel, divergence)
    facts.uniform = {*divergence.uniform, *file.values}
    facts.converged = facts.uniform | Divergence(kernel, control=False).uniform
    seen = dataflow.read(kernel.body)  # along an axis that the kernel ignores there is one thread and one block
    facts.conditions = {extent: ONE for place, extent in EXTENTS.items() if place not in seen}
    facts.dropped = {p.name for p in kernel.params if p.pointer} - read_after_store(flow)
    again = stored_again(flow, facts.of_indices(flow))
    facts.first = first_stores(flow, {*kernel.declared} - again)
    once = set(dataflow.outputs(kernel)) - (dataflow.read(flow) | set(wrt)) - again
    facts.final = stored_apart(flow, facts.of_indices(flow), once)
    return facts


def read_after_store(body: list[Stmt]) -> set[str]:
    """The arrays of which a read may follow a store; reads of all others find the kernel's input."""
    stored: set[str] = set()
    found: set[str] = set()

    def visit(body: list[Stmt]) -> None:
        for s in body:
            for one in with_header(s):
                found.update(dataflow.own_reads(one) & stored)
                stored.update(dataflow.own_writes(one) if not isinstance(one, ast.Declare) else set())
            before = len(stored)
            for inner in bodies(s):
                visit(inner)
            if isinstance(s, ast.For) and len(stored) > before:
                visit(s.body)  # the next iteration may read what the end of this one stores

    visit(body)
    return found


def stored_again(body: list[Stmt], facts: IndexFacts, since: dict[str, set[str]] | None = None) -> set[str]:
    """The arrays into which a loop may store an element twice. since: the loops around the declaration of an array."""
    found: set[str] = set()
    since = dict(since or {})
    for s in body:
        if isinstance(s, ast.Declare):
            since[s.name] = facts.counters
        if isinstance(s, ast.Assign) and isinstance(s.target, ast.Index):
            known = [facts.determined(p) or set() for p in map(facts.whole, s.target.indices) if p is not None]
            if not facts.counters - since.get(s.target.array, set()) <= facts.iterations(set().union(*known)):
                found.add(s.target.array)
        for inner, inside in facts.within(s):
            found |= stored_again(inner, inside, since)
    return found


@dataclass(eq=False)
class Store:
    """A store into an array, with the facts there and the sides of the branches around it that no loop surrounds."""

    target: ast.Index
    facts: IndexFacts
    sides: frozenset[tuple[int, int]]  # the id of each branch, and the number of the side

    @cached_property
    def interval(self) -> Interval:
        return interval(self.target.indices[0], self.facts)

    @cached_property
    def others(self) -> frozenset[tuple[int, int]]:
        """The other sides of the branches."""
        return frozenset((branch, 1 - side) for branch, side in self.sides)

    @cached_property
    def terms(self) -> frozenset[tuple[Term, int]]:
        """Those of the first index that are no constant; none for an index that is no sum of products."""
        return frozenset((term, n) for term, n in (polynomial(self.target.indices[0]) or {}).items() if term)

    @cached_property
    def whole(self) -> Polynomial | None:
        return self.facts.whole(self.target.indices[0])

    @property
    def constant(self) -> int:
        return self.whole.get((), 0) if self.whole else 0

    def differs(self, other: "Store") -> bool:
        """True for a store on another side of a branch, or with an index that is never equal."""
        if not self.others.isdisjoint(other.sides):
            return True
        if len(self.target.indices) > 1:
            return False
        return spread([self, other]) or self.interval[1] < other.interval[0] or other.interval[1] < self.interval[0]


def stores(body: list[Stmt], facts: IndexFacts, sides: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Store]:
    """The stores of a body into arrays."""
    for s in body:
        if isinstance(s, ast.Assign | ast.AtomicAdd) and isinstance(s.target, ast.Index):
            yield Store(s.target, facts, sides)
        for side, (inner, inside) in enumerate(facts.within(s)):
            once = isinstance(s, ast.If) and not facts.loops
            yield from stores(inner, inside, sides | {(id(s), side)} if once else sides)


def stored_apart(body: list[Stmt], facts: IndexFacts, arrays: set[str]) -> set[str]:
    """Those of the arrays of which no two statements store the same element in a thread."""
    found: dict[str, list[Store]] = {name: [] for name in arrays}
    for s in stores(body, facts):
        if s.target.array in found:
            found[s.target.array].append(s)
    return {name for name, own in found.items() if apart(own)}


def apart(own: list[Store]) -> bool:
    """True where no two of the stores store the same element. Those whose indices differ by constants go together."""
    near: dict[tuple, list[Store]] = {}
    for s in own:
        near.setdefault((s.sides, s.terms), []).append(s)
    groups = [*near.values()]
    pairs = chain.from_iterable(product(a, b) for a, b in combinations(groups, 2))
    within = chain.from_iterable(combinations(group, 2) for group in groups if not (group[1:] and spread(group)))
    return all(a.differs(b) for a, b in chain(within, pairs))


def spread(own: list[Store]) -> bool:
    """True where all indices differ, by constants that are less than the distance of other elements."""
    if any(len(s.target.indices) > 1 or s.whole is None or s.terms != own[0].terms for s in own):
        return False
    constants, stride = sorted(s.constant for s in own), gcd(*(n for _, n in own[0].terms)) or inf
    return constants[-1] - constants[0] < stride and all(a < b for a, b in pairwise(constants))


def first_stores(body: list[Stmt], names: set[str]) -> set[int]:
    """The ids of the stores that are the first to touch one of these arrays."""
    seen: set[str] = set()
    found = set()
    for s in flatten(body):
        match s:
            case ast.Assign(target=ast.Index(array=name), op="=") if name in names - seen - dataflow.own_reads(s):
                found.add(id(s))
        empty = isinstance(s, ast.Declare) and not s.values
        seen |= dataflow.own_reads(s) | (set() if empty else dataflow.own_writes(s))
    return found
