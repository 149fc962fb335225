"""A loop's variable and a part of threadIdx exchanged in a nest of loops, so that sums change their owner."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.decide import Choice
from minigrad.adjoint.decide.store_or_recompute import copying
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import BYTES, Expr, Stmt, walk
from minigrad.adjoint.language.dataflow import (
    accesses,
    declared,
    elements_read,
    has_barrier,
    names_used,
    own_writes,
    target_name,
    thread_axis,
    written,
)
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import (
    ONE,
    ZERO,
    bodies,
    copy_without,
    flatten,
    map_expressions,
    own_expressions,
    plus,
    replace_parts,
    with_header,
)
from minigrad.adjoint.simplify.prune import Prune

NONE = ast.Declare("", "int")  # in place of the declaration of what is no array
COST = 32  # operations that one sum over a warp is worth


class StagedValue(NamedTuple):
    """A shared array through which the threads read what is a thread's own."""

    name: str
    own: ast.Name | ast.Index
    varying: tuple[tuple[ast.Name, Expr], ...]  # those of its indices that loops go through, each with its extent


class Exchange:
    """A nest of loops again, with only the sums that lack an axis, and a loop's variable and that axis exchanged.

    made: the nest, None where it cannot be turned.
    """

    def __init__(
        self,
        turn: "Ownership",
        nest: ast.For,
        sums: list[ast.Assign],
        var: ast.Name,
        to: str,
        before: set[ast.Name | ast.Index],
    ):
        self.turn, self.before, self.var, self.to = turn, before, var, to
        self.changed = written([nest])
        self.counters = {s.variable for s in flatten([nest]) if isinstance(s, ast.For)}
        self.own = declared(nest.body)  # what each round has for itself
        self.staged, self.padded = dict(turn.staged), set(turn.padded)
        kept = _slice(nest, sums)
        self.why = ""  # it cannot be turned
        work = sum(
            isinstance(e, ast.Binary | ast.Call)
            for s in flatten(kept.body)
            for x in own_expressions(s)
            for e in walk(x)
        )
        if work > COST * len(sums):
            self.never(f"the loop would be run twice, with {work} operations for {len(sums)} of its sums")
        self.take_over(kept)
        self.made = None if self.why else kept
        if self.made is not None:
            turn.staged, turn.padded = self.staged, self.padded
            names = {stage.name for stage in self.staged.values()}
            handed = {x for x in elements_read([self.made]) if x.array in names}
            self.moved = sum(BYTES[x.type] for x in handed) / len(sums)

    def never(self, why: str) -> None:
        """Note the first reason why the nest cannot be turned."""
        self.why = self.why or why

    def choice(self, s: ast.Assign) -> Choice:
        """The row of the table for one of the sums."""
        assert isinstance(s.target, ast.Index)
        target = ast.Index(s.target.array, tuple(map(self.value, s.target.indices)), s.target.type)
        why = f"{expression(s.target)} would be shared; {self.var.name} and threadIdx.{self.to} have changed places"
        instead = f"atomic: {2 * BYTES[s.target.type]} in shared memory"
        moved = f"{self.moved:.3g} in shared memory"
        return Choice(expression(target), "ownership turned round", why, "", moved, instead)

    def take_over(self, s: Stmt) -> None:
        """Make a statement what the thread runs that has taken over."""
        match s:
            case ast.For(start=ast.Declare()):
                header = {n for part in with_header(s) for e in own_expressions(part) for n in e.names}
                if header - self.counters - self.turn.facts.uniform:
                    self.never(f"the loop at line {s.place.line} is not the same for all threads")
            case ast.If() | ast.Declare() | ast.Assign():
                map_expressions(s, self.value)
            case _ if not isinstance(s, ast.Comment):
                self.never(f"line {s.place.line} does more than add up")
        for t in chain(*bodies(s)):
            self.take_over(t)

    def value(self, e: Expr) -> Expr:
        """A value as the thread finds it that has taken over."""
        return replace_parts(e, self.leaf)

    def leaf(self, e: Expr) -> Expr | None:
        """A variable or an element as that thread finds it; None for what is made of several."""
        if e == self.var:
            return self.turn.variable(self.to)
        if (axis := self.turn.axis(e)) is not None:
            return self.var if axis == self.to else e
        match e:
            case ast.Name() if e.name in self.turn.facts.uniform or e.name in self.counters or e.name in self.own:
                return e
            case ast.Index() if self.turn.declared.get(e.array, NONE).shared:
                if e.array in self.changed:
                    self.never(f"{e.array} changes in the loop")
                indices = tuple(map(self.value, e.indices))
                if len(indices) == 2 and self.turn.axis(indices[0]) == "x" and indices[1] == self.var:
                    self.padded.add(e.array)
                return ast.Index(e.array, indices, e.type)
            case ast.Name() | ast.Index():
                return self.other(e)
        return None

    def other(self, e: ast.Name | ast.Index) -> Expr:
        """Another thread's own variable, or element of its own array, by way of shared memory."""
        array = self.turn.declared.get(e.array) if isinstance(e, ast.Index) else NONE
        indices = e.indices if isinstance(e, ast.Index) else ()
        counted = [
            (i, d) for i, d in zip(indices, array.dims if array else (), strict=False) if i.names & self.counters
        ]
        changes = (e.names - self.counters) & self.changed or e in self.before  # so it would be another value
        if array is None or changes or any(not isinstance(i, ast.Name) for i, _ in counted):
            self.never(f"it takes another thread's {expression(e)}, which changes in the loop")
            return e
        name = self.staged[e].name if e in self.staged else self.turn.facts.names.fresh(f"{target_name(e)}_of")
        self.staged[e] = StagedValue(name, e, tuple(counted))  # type: ignore[arg-type]
        threads = map(self.turn.variable, self.turn.axes[::-1])
        return ast.Index(name, tuple(map(self.value, (*(i for i, _ in counted), *threads))), e.type)


def sums_of(s: ast.For) -> Iterator[tuple[list[Stmt], ast.Assign]]:
    """The sums in a nest of loops that count 0, 1, 2, ..., each with the statements beside it."""
    header = count(s)
    if header is None or not (header.simple and header.exact):
        return
    for body, t in _straight(s.body):
        if isinstance(t, ast.For):
            yield from sums_of(t)
        elif isinstance(t, ast.Assign) and isinstance(t.target, ast.Index) and t.op in ("+=", "-="):
            yield body, t


def _straight(body: list[Stmt]) -> Iterator[tuple[list[Stmt], Stmt]]:
    for t in body:
        yield body, t
        for side in bodies(t) if isinstance(t, ast.If) else ():
            yield from _straight(side)


def _slice(nest: ast.For, sums: list[ast.Assign]) -> ast.For:
    """Of a nest of loops what these sums need, in statements of its own."""
    results = {target_name(s.target) for s in sums}
    others = {id(s) for s in flatten([nest]) if s not in sums and own_writes(s) & results}
    pruned, _ = Prune(written([nest]) - results).body(copy_without([nest], others), set())
    return pruned[0]  # type: ignore[return-value]


NO_OWNER = "no loop as long as the block and one part of threadIdx, alone in an index each, could change places"

IN_ORDER = "the rounds of its loop have to follow one another"


class Ownership:
    """Turns sums in the loops of an adjoint that go to gradients of shared arrays."""

    def __init__(self, facts: KernelFacts, gradients: set[str], checked: bool, atomic: dict[str, str]):
        self.facts, self.gradients, self.checked = facts, gradients, checked  # each launch, for the arrays it fills
        self.atomic = atomic  # elements that need atomics, and why: added to
        self.axes = [a for a in "xyz" if facts.conditions.get(f"blockDim.{a}") != ONE]
        self.staged: dict[ast.Name | ast.Index, StagedValue] = {}
        self.padded: set[str] = set()  # arrays now read along their first axis: one more column, no bank conflict
        self.turned: set[str] = set()
        self.choices: list[Choice] = []

    def body(self, body: list[Stmt]) -> list[Stmt]:
        """The statements of a kernel's adjoint, with what can be turned round turned."""
        self.declared = {s.name: s for s in flatten(body) if isinstance(s, ast.Declare) and s.dims}
        made = self.inside(body)
        for stage in self.staged.values():
            dims = (*(d for _, d in stage.varying), *(self.facts.conditions[f"blockDim.{a}"] for a in self.axes[::-1]))
            made = [ast.Declare(stage.name, stage.own.type, dims, shared=True), *self.put(made, stage)]
        made = [self.pad(s) for s in made]
        return self.scalars(made)

    def inside(self, body: list[Stmt]) -> list[Stmt]:
        """One body, and the loops in it by which all threads of a block come: those with a barrier."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, ast.For) and has_barrier([s]):
                s.body = self.inside(s.body)
                made.append(s)
            else:
                made += self.loops(s) if isinstance(s, ast.For) else [s]
        return made

    def loops(self, s: ast.For) -> list[Stmt]:
        """A nest of loops, and in front of it those of what is turned, if anything is."""
        shared = [t for t in flatten([s]) if isinstance(t, ast.Assign) and target_name(t.target) in self.gradients]
        self.atomic |= {expression(t.target): IN_ORDER for t in shared}
        groups: dict[tuple[ast.Name, str], list[tuple[list[Stmt], ast.Assign]]] = {}
        for body, one in sums_of(s):
            if target_name(one.target) not in self.gradients:
                continue
            if exchange := self.lacking(one.target, s):  # type: ignore[arg-type]
                groups.setdefault(exchange, []).append((body, one))
            else:
                self.atomic[expression(one.target)] = NO_OWNER
        before, turned = set(self.staged), list[Stmt]()
        for (var, axis), places in groups.items():
            sums = [one for _, one in places]
            new = Exchange(self, s, sums, var, axis, before)
            if new.made is None:
                self.atomic |= {expression(one.target): new.why for one in sums}
            else:
                turned.append(new.made)
                self.choices += map(new.choice, sums)
                self.facts.conditions |= {f"blockDim.{a}": e for a in self.axes if (e := self.extent(a)) is not None}
                self.turned |= {target_name(one.target) for one in sums}
                for body, one in places:
                    body.remove(one)
        return [*_joined(turned), s]

    def lacking(self, target: ast.Index, nest: ast.For) -> tuple[ast.Name, str] | None:
        """The variable of a loop and the axis that a target has in its place; None where they are not just two."""
        axes = [a for a in self.axes if a not in map(self.axis, target.indices)]
        extents = [self.extent(a) for a in (*axes, *self.axes)]
        bounds = {h.var: h.bound for s in flatten([nest]) if isinstance(s, ast.For) and (h := count(s)) and h.simple}
        ours = [e for e in target.indices if isinstance(e, ast.Name) and bounds.get(e.name) == extents[0]]
        return (ours[0], axes[0]) if len(axes) == len(ours) == 1 and None not in extents else None

    def extent(self, axis: str) -> Expr | None:
        """How long the block is, or may be and then has to be, along an axis; None where only the launch tells."""
        name, most = f"blockDim.{axis}", {} if self.checked else self.facts.limits
        return self.facts.conditions.get(name) or most.get(name)

    def put(self, body: list[Stmt], stage: StagedValue) -> list[Stmt]:
        """A thread's own value put where others read it, before the loop within which it no longer changes."""
        at = next(n for n, s in enumerate(body) if stage.name in names_used([s]))
        loop, counters = body[at], tuple(e for e, _ in stage.varying)
        if isinstance(loop, ast.For) and (stage.own.names - {e.name for e in counters}) & written([loop]):
            loop.body = self.put(loop.body, stage)
            return body
        place = ast.Index(stage.name, (*counters, *map(self.variable, self.axes[::-1])), stage.own.type)
        store = copying(stage.own, place, counters, tuple(d for _, d in stage.varying))
        front = at - isinstance(body[at - 1], ast.Barrier)
        wait: list[Stmt] = [ast.Barrier()] if front == at else []
        behind: list[Stmt] = [] if any(isinstance(t, ast.Barrier) for t in body[at + 1 :]) else [ast.Barrier()]
        return [*body[:front], store, *wait, *body[front : at + 1], *behind, *body[at + 1 :]]

    def pad(self, s: Stmt) -> Stmt:
        """The declaration of an array that gets one more column."""
        if isinstance(s, ast.Declare) and s.name in self.padded:
            return replace(s, dims=(*s.dims[:-1], plus(s.dims[-1], ONE)))
        return s

    def scalars(self, body: list[Stmt]) -> list[Stmt]:
        """Shared gradients of which each thread has one element become variables."""
        for name in sorted(self.turned):
            found = {x for s in flatten(body) for _, x in accesses(s) if isinstance(x, ast.Index) and x.array == name}
            one = found.pop()
            if not found and {self.axis(e) for e in one.indices} == set(self.axes):
                own = ast.Name(self.facts.names.fresh(f"{name}_own"), one.type)
                for s in flatten(body):
                    map_expressions(s, partial(replace_parts, new=lambda e: own if e == one else None))  # noqa: B023
                    if isinstance(s, ast.Assign) and s.target == one:
                        s.target = own
                body = [ast.Declare(own.name, own.type, value=ZERO), *body]
        return body

    def axis(self, e: Expr) -> str | None:
        """x, y or z where an expression is that part of threadIdx."""
        return thread_axis(self.facts.fixed, e)

    def variable(self, axis: str) -> ast.Name:
        """How the kernel calls a part of threadIdx."""
        names = [n for n in self.facts.fixed if self.axis(ast.Name(n, "int")) == axis]
        return ast.Name(names[0] if names else f"threadIdx.{axis}", "int")


def _joined(nests: list[Stmt]) -> list[Stmt]:
    """Copies of one nest of loops made one where they have no name in common."""
    made: list[ast.For] = []
    for s in nests:
        assert isinstance(s, ast.For)
        last = made[-1] if made else None
        if last and not declared(last.body) & declared(s.body):
            last.body += s.body
        else:
            made.append(s)
    return [*made]
