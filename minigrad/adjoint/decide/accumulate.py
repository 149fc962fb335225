"""Sums of gradients in memory: plain where a thread owns the element, else by atomics, of a warp or block at once."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from minigrad.adjoint.analyse.indices import IndexFacts, IndexRow, Offsets, offsets, row
from minigrad.adjoint.analyse.phases import Phases
from minigrad.adjoint.analyse.regions import Cover, cover
from minigrad.adjoint.decide import Choice
from minigrad.adjoint.language import ast, rewrite
from minigrad.adjoint.language.ast import BYTES, Expr, Stmt, walk
from minigrad.adjoint.language.dataflow import (
    always_read,
    has_barrier,
    inline,
    is_sum,
    names_behind,
    names_in,
    target_name,
    written,
)
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, flatten, negative, plus, times


@dataclass(eq=False)
class SumSite:
    """A statement that adds to a gradient in shared or global memory."""

    body: list[Stmt]
    statement: ast.Assign
    facts: IndexFacts
    branch: tuple[ast.If, IndexFacts] | None  # directly around it, and the facts ahead of that

    @property
    def target(self) -> ast.Index:
        assert isinstance(self.statement.target, ast.Index)
        return self.statement.target

    @property
    def ranges(self) -> frozenset:
        names = names_behind(self.target.indices, self.facts.fixed)
        return frozenset((n, *map(str, self.facts.ranges[n])) for n in names if n in self.facts.ranges)

    @property
    def from_table(self) -> bool:
        """True in a loop if the index is read from an array: many threads may add to few elements at once."""
        fixed = self.facts.fixed
        values = (fixed[n] for n in names_behind(self.target.indices, fixed) if n in fixed)
        parts = (x for e in (*self.target.indices, *values) for x in walk(e))
        return bool(self.facts.loops) and any(isinstance(x, ast.Index) for x in parts)


# Copies of a gradient to which all blocks add: the hardware serializes atomics on one address, and on addresses of one
# slice of L2. 64 copies are spread unevenly over the slices, and take up to half as long again.
COPIES = 256


@dataclass
class Accumulate:
    """Chooses the kind of each sum: for an array in global memory at once, for a shared one between two barriers."""

    arrays: dict[str, bool]  # gradients in memory: True for those in shared memory
    converged: set[str]  # names with one value in the threads of a block that execute together
    totals: Container[str]  # the gradients of scalar parameters
    strides: Mapping[str, str]  # gradients that may have copies
    earlier: Container[str]  # names that earlier launches write
    inputs: Mapping[str, str]  # the array by its gradient
    enabled: Container[str]  # passes, among them kinds of sums
    strided: set[str] = field(default_factory=set)  # gradients that have copies
    sites: list[SumSite] = field(default_factory=list)
    made: dict[int, Stmt] = field(default_factory=dict)  # atomics, by id of the sum in whose place they come
    rows: dict[str, Choice] = field(default_factory=dict)  # for elements that the kernel stores
    covers: dict[str, Cover] = field(default_factory=dict)  # for gradients that their first stores may fill

    def decide(self, body: list[Stmt], facts: IndexFacts, phases: Phases) -> list[Choice]:
        """Rewrite the sums of a body. Returns the rows of the decision table."""
        self.visit(body, facts)
        self.phases = phases
        self.warps = has_barrier(body, True)  # which wait for one another alone: a small block is not what is meant
        self.uniform = facts.uniform | facts.block_uniform
        self.passed_on = {name for s in flatten(body) if isinstance(s, ast.CallStmt) for name in s.writes}
        choices, by_array = [], dict[str, list[SumSite]]()
        for site in self.sites:
            by_array.setdefault(site.target.array, []).append(site)
        for array, shared in self.arrays.items():
            sites = by_array.get(array, [])
            for group in self.groups(sites, phases) if shared else [sites] if sites else []:
                choices += self.group(array, group, facts)
        for inner in {id(site.body): site.body for site in self.sites}.values():
            inner[:] = [self.made.get(id(s), s) for s in inner]
        known = {choice.what for choice in choices}
        return [*choices, *(row for row in self.rows.values() if row.what not in known)]

    def groups(self, sites: list[SumSite], phases: Phases) -> list[list[SumSite]]:
        """Sites in groups that barriers separate."""
        groups: list[tuple[list[SumSite], set[int]]] = []  # each with its phases
        for site in sites:
            here = phases.concurrent(phase := phases.of[id(site.statement)])
            near = [g for g in groups if not here.isdisjoint(g[1])]
            joined = [*(s for g, _ in near for s in g), site], {phase}.union(*(p for _, p in near))
            groups = [g for g in groups if g not in near] + [joined]
        return [g for g, _ in groups]

    def visit(self, body: list[Stmt], facts: IndexFacts, branch: tuple[ast.If, IndexFacts] | None = None) -> None:
        """Collect the sites; the rows of elements that the kernel stores, which no other thread may touch meanwhile."""
        for s in body:
            if is_sum(s) and target_name(s.target) in self.arrays and s.owned:
                why, moved = "the thread stores into this element, so no other uses it", str(2 * BYTES[s.target.type])
                row = Choice(expression(s.target), "plain +=", why, "", moved)
                self.rows.setdefault(row.what, row)
            elif is_sum(s) and target_name(s.target) in self.arrays:
                self.sites.append(SumSite(body, s, facts, branch))
            for side, inside in facts.within(s):
                self.visit(side, inside, (s, facts) if isinstance(s, ast.If) else None)

    def group(self, array: str, sites: list[SumSite], facts: IndexFacts) -> list[Choice]:
        """Choose for one array between two barriers: plain sums if no two threads share an element."""
        owned = self.owner_limits(sites, self.arrays[array]) if "plain sums" in self.enabled else None
        if owned is None or array in self.passed_on:
            return self.atomics(array, sites)
        limits, elements, places = owned
        facts.limits.update(limits)
        why, rows = f"the index belongs to one thread of the {'block' if self.arrays[array] else 'grid'}", []
        # The sums to each element of a row: its index may be written in several ways.
        apart: dict[int, list[SumSite]] = {}
        for n, site in zip(places, sites, strict=True):
            apart.setdefault(n, []).append(site)
        several = apart.values() if "first stores" in self.enabled else ()
        first = [own[0] for own in several if self.store_first(array, own, elements)]
        if len(first) == len(apart):
            self.fill(array, first, elements)
        for site in first:
            both = "; where it skips the branch it stores 0" if self.store_zero_otherwise(array, sites) else ""
            rows.append(self.row(site, "plain =", f"{why}, which visits it once{both}"))
        rest = {site.target: self.row(site, "plain +=", why) for site in sites if site not in first}
        return [*rows, *rest.values()]

    def atomics(self, array: str, sites: list[SumSite]) -> list[Choice]:
        """Rewrite sums to elements that threads may share."""
        shared, made = self.arrays[array], {}
        contended, sums = len(sites) == 1 and sites[0].from_table, "warp sums" in self.enabled
        shares = f"threads of the {'block' if shared else 'grid'} may share the element"
        obstacles = [self.obstacle(site, shared, shares) for site in sites]
        several = f"sums go to {len({site.target.indices for site in sites})} indices, and two of them may be equal"
        if array in self.passed_on:
            several = "a function called by the kernel also adds to the array"
        for site, why in zip(sites, obstacles, strict=True):
            warp = sums and not names_in(site.target.indices) - self.converged
            if array in self.passed_on or not any(obstacles):
                why = several
            why = why or shares
            how = f"{'shared' if shared else 'global'} atomic"
            by = "warp_add" if warp else "atomicAdd"
            if sums and array in self.totals:
                how, why, by = "block sum, then global atomic", "all threads read the parameter", "block_add"
            elif warp:
                surely = not names_in(site.target.indices) - self.uniform
                why = f"the index {'is' if surely else 'may be'} the same in all threads"
                how, why = f"warp sum, then {how}", why if surely else f"{why} of a warp; then the warp adds once"
            copies = "copies" in self.enabled and array in self.strides and (by != "atomicAdd" or contended)
            made[site.target] = self.row(site, how + (f" on one of {COPIES} copies" if copies else ""), why)
            self.made[id(site.statement)] = self.atomic(site, by, copies)
        return list(made.values())

    def obstacle(self, site: SumSite, shared: bool, shares: str) -> str:
        """The reason for which an element may not belong to one thread; nothing where it does."""
        alone = site.facts.unique(site.target.indices, shared) is not None
        return "" if alone else site.facts.gave_up or shares

    def owner_limits(
        self, sites: list[SumSite], shared: bool
    ) -> tuple[dict[str, Expr], IndexRow | None, list[int]] | None:
        """The limits of the launch within which no two threads share an element of these sites; None if they may.

        Next to them the row of a thread's elements, where the sites have several indices, and each site's place in it.
        """
        low, elements, places = sites[0].target.indices, None, [0] * len(sites)
        if len({site.ranges for site in sites}) > 1:
            return None  # an index unique in one loop may be another thread's in the other
        if len(low) > 1:  # common indices identify the thread, whatever the others are
            low = tuple(e for n, e in enumerate(low) if all(site.target.indices[n] == e for site in sites))
        elif any(site.target.indices != low for site in sites):
            indices, found_places = self.along_row(sites)
            elements = row(indices, found_places)
            if elements is None or found_places is None:
                return None
            low, places = (elements.low,), found_places[1]
        changing = self.phases.changing([site.statement for site in sites]) if shared else ()
        one, *more = [site.facts.pinned for site in sites]  # if (i == 0) and if (i == 1) are different threads
        pinned = [name for name, e in one.items() if all(other.get(name) == e for other in more)]
        found = [site.facts.unique(low, shared, elements, changing, pinned) for site in sites]
        limits = {name: e for needed in found if needed for name, e in needed.items()}
        if None in found or (shared and limits and self.warps):
            return None
        return limits, elements, places

    def along_row(self, sites: list[SumSite]) -> tuple[list[Expr], Offsets]:
        """The indices, and offsets; other names for a value replaced where that makes two equal: in `int j = i`."""
        own = [site.target.indices[0] for site in sites]
        values = [inline(e, site.facts.fixed, site.facts.budget) for e, site in zip(own, sites, strict=True)]
        near, far = offsets(own), offsets(values)
        if near and far:
            return (own, near) if equal_ones(near[1]) == equal_ones(far[1]) else (values, far)
        known = sites[0].facts.fixed.keys()
        return (own, near) if near and known.isdisjoint(n for term in near[0] for n in term) else (values, far)

    def row(self, site: SumSite, how: str, why: str) -> Choice:
        """A row of the table. A plain sum moves the element twice; an atomic does so in L2 or shared memory."""
        size, shared = BYTES[site.target.type], self.arrays[site.target.array]
        where = "in shared memory" if shared else "in L2"
        if "atomic" not in how:
            moved = f"{size if how == 'plain =' else 2 * size}{' ' + where if shared else ''}"
            return Choice(expression(site.target), how, why, "", moved, f"atomic: {2 * size} {where}")
        by = next((f"a {part}" for part in ("warp", "block") if how.startswith(part)), "")
        instead = f"an atomic a thread: {2 * size} {where}" if by else ""
        moved = " ".join(filter(None, [str(2 * size), where, by]))
        return Choice(expression(site.target), how, why, "", moved, instead)

    def store_first(self, array: str, sites: list[SumSite], elements: IndexRow | None) -> bool:
        """Make the first sum to each element of an input's gradient a store, if no other sum can precede it."""
        site, s = sites[0], sites[0].statement
        again = any(site.facts.loops[:1] == other.facts.loops[:1] != () for other in sites[1:])
        once = _visited_once(elements.low if elements else site.target.indices[0], site.facts, elements)
        if array not in self.strides or array in self.earlier or again or not once:
            return False
        s.value, s.op = s.value if s.op == "+=" else negative(s.value), "="
        return True

    def fill(self, array: str, first: list[SumSite], elements: IndexRow | None) -> None:
        """Note the elements of an array that the first stores fill: one, or a whole row, in each thread."""
        facts = first[0].facts
        together = all((site.facts.loops, site.facts.guards) == (facts.loops, facts.guards) for site in first)
        low = elements.low if elements else first[0].target.indices[0]
        found = cover(low, facts, elements) if together else None
        if found is not None and len(first) == (elements.length if elements else 1):
            self.covers[array] = found

    def store_zero_otherwise(self, array: str, sites: list[SumSite]) -> bool:
        """Store 0 on the other side of a branch, if that fills the array.

        The element exists on both sides if the condition reads the same element of the array itself.
        """
        site = sites[0]
        if array in self.covers or len(sites) > 1 or site.branch is None:
            return False
        (s, facts), indices = site.branch, site.target.indices
        there = ast.Index(self.inputs.get(array, ""), indices, site.target.type) in always_read(s.condition)
        if not there or names_in(indices) & written([s]) or not _visited_once(indices[0], facts):
            return False
        found = cover(indices[0], facts) if facts.unique(indices, False) == {} else None
        if found is None:
            return False
        other = s.orelse if site.body is s.then else s.then
        other.insert(0, ast.Assign(site.target, "=", ZERO, site.statement.place))
        self.covers[array] = found
        return True

    def atomic(self, site: SumSite, by: str, copies: bool) -> ast.AtomicAdd:
        """The atomic in place of a `+=`, on the copy of this block where there are copies."""
        s, target = site.statement, site.target
        value: Expr = s.value if s.op == "+=" else negative(s.value)
        if copies:
            self.strided.add(target.array)
            copy = ast.Binary("%", ast.Name("blockIdx.x", "int"), rewrite.int_literal(COPIES), "int")
            offset = times(copy, ast.Name(self.strides[target.array], "int"))
            target = ast.Index(target.array, (plus(offset, target.indices[0]),), target.type)
        return ast.AtomicAdd(target, value, s.place, s.text, by)


def _visited_once(e: Expr, facts: IndexFacts, elements: IndexRow | None = None) -> bool:
    """True if a thread visits each element with this index, or of this row, once."""
    index = facts.index(e, elements)
    known = set() if index is None else facts.determined(index) or set()
    return index is not None and facts.counters <= facts.iterations(known)


def cleared(d: ast.Declare, gradient: str, conditions: dict[str, Expr], limits: dict[str, Expr]) -> list[Stmt]:
    """Declare the gradient of a shared array and set it to 0, each axis distributed over the threads along one.

    Where the block can have the extent of an axis it must: then a thread clears one element along it, without a loop.
    """
    known = {**limits, **conditions}
    left = [a for a in "xyz" if known.get(f"blockDim.{a}") != ONE]
    chosen = _distribution(d.dims, left, known)
    thread = {n: ast.Name(f"threadIdx.{axis}", "int") for n, axis in chosen.items()}
    own = {n for n, axis in chosen.items() if known.get(f"blockDim.{axis}") == d.dims[n]}
    conditions |= {f"blockDim.{chosen[n]}": d.dims[n] for n in own}
    indices = [thread[n] if n in own else ast.Name(f"{gradient}_{'ijk'[n]}", "int") for n in range(len(d.dims))]
    kind = ast.gradient_type(d.type)
    body: list[Stmt] = [ast.Assign(ast.Index(gradient, tuple(indices), kind), "=", ZERO)]
    for n in reversed(range(len(d.dims))):
        if n not in own:
            step: Expr = ast.Name(f"blockDim.{chosen[n]}", "int") if n in chosen else ONE
            body = [rewrite.count_up(indices[n], d.dims[n], body, thread.get(n, ZERO), step)]
    for axis in left:
        if axis not in chosen.values():
            body = [ast.If(comparison("==", ast.Name(f"threadIdx.{axis}", "int"), ZERO), body, [])]
    return [ast.Declare(gradient, kind, d.dims, shared=True), *body]


def _distribution(dims: tuple[Expr, ...], axes: list[str], conditions: dict[str, Expr]) -> dict[int, str]:
    """The axis of the block for each axis of an array: one of the same extent, else the last that is free."""
    chosen: dict[int, str] = {}
    for axis in axes:
        free = [n for n in reversed(range(len(dims))) if n not in chosen]
        converged = [n for n in free if conditions.get(f"blockDim.{axis}") == dims[n]]
        if free:
            chosen[(converged or free)[0]] = axis
    return chosen


def equal_ones(numbers: list[int]) -> list[int]:
    """For each number the place of the first that is equal to it."""
    first: dict[int, int] = {}
    return [first.setdefault(n, at) for at, n in enumerate(numbers)]
