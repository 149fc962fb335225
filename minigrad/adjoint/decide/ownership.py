"""Scatter to gather: the thread that owns an element of a shared gradient sums its contributions, without atomics.

In a nest of loops `d_s[j] += ...` with one j for all threads, a loop variable and an axis of threadIdx are exchanged:
then the element is that of one thread, and the loop goes over the threads that would have added to it.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.decide import Choice
from minigrad.adjoint.decide.store_or_recompute import copying
from minigrad.adjoint.language import ast, dataflow, rewrite
from minigrad.adjoint.language.ast import BYTES, Expr, Stmt, Target, walk
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, ZERO, bodies, flatten, plus
from minigrad.adjoint.simplify.prune import Live, Prune

NONE = ast.Declare("", "int")  # in place of the declaration of an array
COST = 32  # operations that take as long as a sum over a warp


class StagedValue(NamedTuple):
    """A shared array by which threads read a variable, or an element of a local array, of another thread."""

    name: str
    own: Target
    varying: tuple[tuple[ast.Name, Expr], ...]  # its indices that are loop variables, each with its extent


class NestExchange:
    """A copy of a nest of loops with some of its sums, in which a loop variable and an axis are exchanged.

    made: the copy; None where the exchange is impossible, for the reason `why`.
    """

    def __init__(
        self, owners: "Ownership", nest: ast.For, sums: list[ast.Assign], var: ast.Name, to: str, before: set[Target]
    ):
        self.owners, self.before, self.var, self.to = owners, before, var, to
        self.changed = dataflow.written([nest])
        self.counters = {s.variable for s in flatten([nest]) if isinstance(s, ast.For)}
        self.private = dataflow.declared(nest.body)  # declared in each iteration
        self.staged, self.padded = dict(owners.staged), set(owners.padded)
        kept = _slice(nest, sums)
        self.why = ""
        parts = (e for s in flatten(kept.body) for x in rewrite.own_expressions(s) for e in walk(x))
        work = sum(isinstance(e, ast.Binary | ast.Call) for e in parts)
        if work > COST * len(sums):
            self.reject(f"the loop would run twice: {work} operations more, to own {len(sums)} of its sums")
        self.exchange(kept)
        self.made = None if self.why else kept
        if self.made is not None:
            owners.staged, owners.padded = self.staged, self.padded
            names = {stage.name for stage in self.staged.values()}
            read = {x for x in dataflow.elements_read([self.made]) if x.array in names}
            self.moved = sum(BYTES[x.type] for x in read) / len(sums)

    def reject(self, why: str) -> None:
        """Note the first reason against the exchange."""
        self.why = self.why or why

    def choice(self, s: ast.Assign) -> Choice:
        """The row of the decision table for one of the sums."""
        assert isinstance(s.target, ast.Index)
        target = ast.Index(s.target.array, tuple(map(self.value, s.target.indices)), s.target.type)
        why = f"{expression(s.target)} would be shared; {self.var.name} and threadIdx.{self.to} have changed places"
        instead = f"atomic: {2 * BYTES[s.target.type]} in shared memory"
        moved = f"{self.moved:.3g} in shared memory"
        return Choice(expression(target), "ownership turned around", why, "", moved, instead)

    def exchange(self, s: Stmt) -> None:
        """Rewrite a statement for the thread that owns the element."""
        match s:
            case ast.For(start=ast.Declare()):
                header = {n for part in rewrite.with_header(s) for e in rewrite.own_expressions(part) for n in e.names}
                if header - self.counters - self.owners.facts.uniform:
                    self.reject(f"the loop at {s.place.words} is not the same for all threads")
            case ast.If() | ast.Declare() | ast.Assign():
                rewrite.map_expressions(s, self.value)
            case _ if not isinstance(s, ast.Comment):
                self.reject(f"{s.place.words} does more than add up")
        for t in chain(*bodies(s)):
            self.exchange(t)

    def value(self, e: Expr) -> Expr:
        """An expression, for the thread that owns the element."""
        return rewrite.replace_parts(e, self.leaf)

    def leaf(self, e: Expr) -> Expr | None:
        """A variable or an element for that thread; None for other expressions."""
        if e == self.var:
            return self.owners.variable(self.to)
        if (axis := self.owners.axis(e)) is not None:
            return self.var if axis == self.to else e
        match e:
            case ast.Name() if e.name in self.owners.facts.uniform or e.name in self.counters or e.name in self.private:
                return e
            case ast.Index() if self.owners.declared.get(e.array, NONE).shared:
                if e.array in self.changed:
                    self.reject(f"{e.array} changes in the loop")
                indices = tuple(map(self.value, e.indices))
                if len(indices) == 2 and self.owners.axis(indices[0]) == "x" and indices[1] == self.var:
                    self.padded.add(e.array)
                return ast.Index(e.array, indices, e.type)
            case ast.Name() | ast.Index():
                return self.from_shared(e)
        return None

    def from_shared(self, e: Target) -> Expr:
        """Another thread's variable, or element of its local array, read from shared memory."""
        array = self.owners.declared.get(e.array) if isinstance(e, ast.Index) else NONE
        indices = e.indices if isinstance(e, ast.Index) else ()
        dims = array.dims if array else ()
        counted = [(i, d) for i, d in zip(indices, dims, strict=False) if i.names & self.counters]
        changes = (e.names - self.counters) & self.changed or e in self.before  # then its value differs
        if array is None or changes or any(not isinstance(i, ast.Name) for i, _ in counted):
            self.reject(f"it needs {expression(e)} of another thread, which changes in the loop")
            return e
        if e not in self.staged:
            name = self.owners.facts.names.fresh(f"{dataflow.target_name(e)}_of")
            self.staged[e] = StagedValue(name, e, tuple(counted))  # type: ignore[arg-type]
        threads = map(self.owners.variable, self.owners.axes[::-1])
        return ast.Index(self.staged[e].name, tuple(map(self.value, (*(i for i, _ in counted), *threads))), e.type)


def countable_sums(body: list[Stmt]) -> Iterator[tuple[list[Stmt], ast.Assign]]:
    """The sums in arrays inside loops that all count 0, 1, 2, ..., each with the body that contains it."""
    for s in body:
        if dataflow.is_sum(s) and isinstance(s.target, ast.Index):
            yield body, s
        if not isinstance(s, ast.For) or ((header := count(s)) and header.simple and header.exact):
            for inner in bodies(s):
                yield from countable_sums(inner)


def _slice(nest: ast.For, sums: list[ast.Assign]) -> ast.For:
    """A copy of a nest of loops, reduced to these sums."""
    results = {dataflow.target_name(s.target) for s in sums}
    others = {id(s) for s in flatten([nest]) if s not in sums and dataflow.own_writes(s) & results}
    pruned = Prune(dataflow.written([nest]) - results).body(rewrite.copy_without([nest], others), Live())
    return pruned[0]  # type: ignore[return-value]


NO_OWNER = "no loop is as long as the block and counts an index that could change places with threadIdx"
IN_ORDER = "the rounds of its loop depend on one another"


class Ownership:
    """Gathers the sums to gradients of shared arrays, where an exchange gives each element an owner."""

    def __init__(self, facts: KernelFacts, gradients: set[str], checked: bool, atomic: dict[str, str]):
        # checked: each launch is checked for the arrays that its block must fill, so that smaller blocks are possible
        self.facts, self.gradients, self.checked = facts, gradients, checked
        self.atomic = atomic  # elements that need atomics, and why: extended
        self.axes = [a for a in "xyz" if facts.conditions.get(f"blockDim.{a}") != ONE]
        self.staged: dict[Target, StagedValue] = {}
        self.padded: set[str] = set()  # arrays now read along their first axis: a column more avoids bank conflicts
        self.gathered: set[str] = set()
        self.choices: list[Choice] = []

    def body(self, body: list[Stmt]) -> list[Stmt]:
        """The body of a kernel's adjoint with sums gathered."""
        self.declared = {s.name: s for s in flatten(body) if isinstance(s, ast.Declare) and s.dims}
        made = self.bodies_between_barriers(body)
        for stage in self.staged.values():
            dims = (*(d for _, d in stage.varying), *(self.facts.conditions[f"blockDim.{a}"] for a in self.axes[::-1]))
            made = [ast.Declare(stage.name, stage.own.type, dims, shared=True), *self.stage(made, stage)]
        for n, s in enumerate(made):
            if isinstance(s, ast.Declare) and s.name in self.padded:
                made[n] = replace(s, dims=(*s.dims[:-1], plus(s.dims[-1], ONE)))
        return self.scalars(made)

    def bodies_between_barriers(self, body: list[Stmt]) -> list[Stmt]:
        """A body, and those of the loops with barriers in it, which all threads of a block reach."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, ast.For) and dataflow.has_barrier([s]):
                s.body = self.bodies_between_barriers(s.body)
                made.append(s)
            else:
                made += self.nest(s) if isinstance(s, ast.For) else [s]
        return made

    def nest(self, s: ast.For) -> list[Stmt]:
        """A nest of loops, with the nests of gathered sums in front."""
        for t in flatten([s]):
            if isinstance(t, ast.Assign) and dataflow.target_name(t.target) in self.gradients:
                self.atomic[expression(t.target)] = IN_ORDER
        groups: dict[tuple[ast.Name, str], list[tuple[list[Stmt], ast.Assign]]] = {}
        for body, one in countable_sums([s]):
            if dataflow.target_name(one.target) not in self.gradients:
                continue
            if exchange := self.missing_axis(one.target, s):  # type: ignore[arg-type]
                groups.setdefault(exchange, []).append((body, one))
            else:
                self.atomic[expression(one.target)] = NO_OWNER
        before, gathered = set(self.staged), list[ast.For]()
        for (var, axis), places in groups.items():
            sums = [one for _, one in places]
            new = NestExchange(self, s, sums, var, axis, before)
            if new.made is None:
                self.atomic |= {expression(one.target): new.why for one in sums}
            else:
                gathered.append(new.made)
                self.choices += map(new.choice, sums)
                self.facts.conditions |= {f"blockDim.{a}": e for a in self.axes if (e := self.extent(a)) is not None}
                self.gathered |= {dataflow.target_name(one.target) for one in sums}
                for body, one in places:
                    body.remove(one)
        return [*_merged(gathered), s]

    def missing_axis(self, target: ast.Index, nest: ast.For) -> tuple[ast.Name, str] | None:
        """The loop variable in the indices of a target and the axis missing there; None unless there is one of each."""
        axes = [a for a in self.axes if a not in map(self.axis, target.indices)]
        extents = [self.extent(a) for a in (*axes, *self.axes)]
        bounds = {h.var: h.bound for s in flatten([nest]) if isinstance(s, ast.For) and (h := count(s)) and h.simple}
        ours = [e for e in target.indices if isinstance(e, ast.Name) and bounds.get(e.name) == extents[0]]
        return (ours[0], axes[0]) if len(axes) == len(ours) == 1 and None not in extents else None

    def extent(self, axis: str) -> Expr | None:
        """The extent of the block along an axis, or its limit, which becomes its extent; None if unknown."""
        name, most = f"blockDim.{axis}", {} if self.checked else self.facts.limits
        return self.facts.conditions.get(name) or most.get(name)

    def stage(self, body: list[Stmt], stage: StagedValue) -> list[Stmt]:
        """Store a thread's value to shared memory, ahead of the first loop in which it no longer changes."""
        at = next(n for n, s in enumerate(body) if stage.name in dataflow.names_used([s]))
        loop, counters = body[at], tuple(e for e, _ in stage.varying)
        if isinstance(loop, ast.For) and (stage.own.names - {e.name for e in counters}) & dataflow.written([loop]):
            loop.body = self.stage(loop.body, stage)
            return body
        place = ast.Index(stage.name, (*counters, *map(self.variable, self.axes[::-1])), stage.own.type)
        store = copying(stage.own, place, counters, tuple(d for _, d in stage.varying))
        front = at - isinstance(body[at - 1], ast.Barrier)
        wait: list[Stmt] = [ast.Barrier()] if front == at else []
        after: list[Stmt] = [] if any(isinstance(t, ast.Barrier) for t in body[at + 1 :]) else [ast.Barrier()]
        return [*body[:front], store, *wait, *body[front : at + 1], *after, *body[at + 1 :]]

    def scalars(self, body: list[Stmt]) -> list[Stmt]:
        """Make shared gradients of one element per thread variables."""
        for name in sorted(self.gathered):
            touched = (x for s in flatten(body) for _, x in dataflow.accesses(s))
            found = {x for x in touched if isinstance(x, ast.Index) and x.array == name}
            one = found.pop()
            if not found and {self.axis(e) for e in one.indices} == set(self.axes):
                own = ast.Name(self.facts.names.fresh(f"{name}_own"), one.type)
                for s in flatten(body):
                    rewrite.map_expressions(s, partial(rewrite.replace_parts, new=lambda e: own if e == one else None))  # noqa: B023
                    if isinstance(s, ast.Assign) and s.target == one:
                        s.target = own
                body = [ast.Declare(own.name, own.type, value=ZERO), *body]
        return body

    def axis(self, e: Expr) -> str | None:
        return dataflow.thread_axis(self.facts.fixed, e)

    def variable(self, axis: str) -> ast.Name:
        """The kernel's variable for an axis of threadIdx, or threadIdx itself."""
        names = [n for n in self.facts.fixed if self.axis(ast.Name(n, "int")) == axis]
        return ast.Name(names[0] if names else f"threadIdx.{axis}", "int")


def _merged(nests: list[ast.For]) -> list[ast.For]:
    """Copies of one nest of loops, merged where they declare no common name."""
    made: list[ast.For] = []
    for s in nests:
        if made and not dataflow.declared(made[-1].body) & dataflow.declared(s.body):
            made[-1].body += s.body
        else:
            made.append(s)
    return made
