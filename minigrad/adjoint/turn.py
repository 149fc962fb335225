"""Ownership turned round: instead of every thread adding to elements of all, each gathers what belongs to its own.

In `for j: d_a[ty][j] += d_sum * b[j][tx]` all tx add to one element. Exchange j and tx: the thread (ty, tx) runs
through all j and adds `d_sum of thread (ty, j) * b[tx][j]` to its own d_a[ty][tx]. The same terms are added up, and
no two threads meet. What is a thread's own in it, d_sum, the others read from shared memory.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from minigrad.adjoint.accumulate import Choice
from minigrad.adjoint.build import ONE, change, plus
from minigrad.adjoint.counting import count, exact
from minigrad.adjoint.covering import axis_of
from minigrad.adjoint.effects import declared, each, expressions, name_of, nested, written, written_here
from minigrad.adjoint.expr import reads
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.own import elements, scalars
from minigrad.adjoint.printer import expression, simple
from minigrad.adjoint.prune import Prune
from minigrad.adjoint.tapes import copied
from minigrad.adjoint.tree import (
    Assign,
    Barrier,
    Binary,
    Call,
    Comment,
    Declare,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
    While,
    walk,
)

NONE = Declare("", "int")  # in place of the declaration of what is no array
COST = 32  # operations that one sum over a warp is worth


class Stage(NamedTuple):
    """A shared array through which the threads read what is a thread's own."""

    name: str
    own: Name | Index
    varying: tuple[tuple[Name, Expr], ...]  # those of its indices that loops go through, each with its extent


class Turn:
    """Turns sums in the loops of an adjoint that go to gradients of shared arrays."""

    def __init__(self, made: Keeping, gradients: set[str], uniform: set[str]):
        self.made, self.gradients, self.uniform = made, gradients, uniform
        self.axes = [a for a in "xyz" if made.conditions.get(f"blockDim.{a}") != ONE]
        self.staged: dict[Name | Index, Stage] = {}
        self.padded: set[str] = set()  # arrays now read along their first axis: one more column, no bank conflict
        self.turned: set[str] = set()
        self.choices: list[Choice] = []

    def body(self, body: list[Stmt]) -> list[Stmt]:
        """The statements of a kernel's adjoint, with what can be turned round turned."""
        self.declared = {s.name: s for s in each(body) if isinstance(s, Declare) and s.dims}
        made = self.inside(body)
        for stage in self.staged.values():
            dims = (*(d for _, d in stage.varying), *(self.made.conditions[f"blockDim.{a}"] for a in self.axes[::-1]))
            made = [Declare(stage.name, stage.own.type, dims, shared=True), *self.put(made, stage)]
        made = [self.pad(s) for s in made]
        return scalars(made, [n for n in sorted(self.turned) if self.own(made, n)], self.made)

    def inside(self, body: list[Stmt]) -> list[Stmt]:
        """One body, and the loops in it by which all threads of a block come: those with a barrier."""
        made: list[Stmt] = []
        for s in body:
            waits = any(isinstance(t, Barrier) for t in each([s]))
            if isinstance(s, For | While) and waits:
                s.body = self.inside(s.body)
            made += self.loops(s) if isinstance(s, For) and not waits else [s]
        return made

    def loops(self, s: For) -> list[Stmt]:
        """A nest of loops, and in front of it those of what is turned, if anything is."""
        groups: dict[tuple[Name, str], list[tuple[list[Stmt], Assign]]] = {}
        for body, one in _sums(s):
            if name_of(one.target) in self.gradients and (exchange := self.lacking(one.target, s)):  # type: ignore[arg-type]
                groups.setdefault(exchange, []).append((body, one))
        before, turned = set(self.staged), list[Stmt]()
        for (var, axis), places in groups.items():
            sums = [one for _, one in places]
            new = Exchange(self, s, sums, var, axis, before)
            if new.made is not None:
                turned.append(new.made)
                self.choices += map(new.choice, sums)
                self.turned |= {name_of(one.target) for one in sums}
                for body, one in places:
                    body.remove(one)
        return [*_joined(turned), s]

    def lacking(self, target: Index, nest: For) -> tuple[Name, str] | None:
        """The variable of a loop and the axis that a target has in its place; None where they are not just two."""
        axes = [a for a in self.axes if a not in map(self.axis, target.indices)]
        extents = [self.made.conditions.get(f"blockDim.{a}") for a in (*axes, *self.axes)]
        bounds = {h.var: h.bound for s in each([nest]) if isinstance(s, For) and (h := count(s)) and h.simple}
        ours = [e for e in target.indices if isinstance(e, Name) and bounds.get(e.name) == extents[0]]
        return (ours[0], axes[0]) if len(axes) == len(ours) == 1 and None not in extents else None

    def put(self, body: list[Stmt], stage: Stage) -> list[Stmt]:
        """A thread's own value put where others read it, before the loop within which it no longer changes."""
        at = next(n for n, s in enumerate(body) if any(stage.name == x.array for x in elements([s])))
        loop, counters = body[at], tuple(e for e, _ in stage.varying)
        if isinstance(loop, For | While) and (reads(stage.own) - {e.name for e in counters}) & written([loop]):
            loop.body = self.put(loop.body, stage)
            return body
        place = Index(stage.name, (*counters, *map(self.variable, self.axes[::-1])), stage.own.type)
        store = copied(stage.own, place, counters, tuple(d for _, d in stage.varying))
        front = at - isinstance(body[at - 1], Barrier)
        wait: list[Stmt] = [Barrier()] if front == at else []
        behind: list[Stmt] = [] if any(isinstance(t, Barrier) for t in body[at + 1 :]) else [Barrier()]
        return [*body[:front], store, *wait, *body[front : at + 1], *behind, *body[at + 1 :]]

    def pad(self, s: Stmt) -> Stmt:
        """The declaration of an array that gets one more column."""
        if isinstance(s, Declare) and s.name in self.padded:
            return replace(s, dims=(*s.dims[:-1], plus(s.dims[-1], ONE)))
        return s

    def own(self, body: list[Stmt], gradient: str) -> bool:
        """Whether each thread touches one element of a gradient alone."""
        found = {x.indices for x in elements(body) if x.array == gradient}
        return len(found) == 1 and {self.axis(e) for e in next(iter(found))} == set(self.axes)

    def axis(self, e: Expr) -> str | None:
        """x, y or z where an expression is that part of threadIdx."""
        return axis_of(self.made.fixed, e)

    def variable(self, axis: str) -> Name:
        """How the kernel calls a part of threadIdx."""
        names = [n for n in self.made.fixed if self.axis(Name(n, "int")) == axis]
        return Name(names[0] if names else f"threadIdx.{axis}", "int")


class Exchange:
    """A nest of loops again, with only the sums that lack an axis, and a loop's variable and that axis exchanged.

    made: the nest, None where it cannot be turned.
    """

    def __init__(self, turn: Turn, nest: For, sums: list[Assign], var: Name, to: str, before: set[Name | Index]):
        self.turn, self.before, self.var, self.to = turn, before, var, to
        self.changed = written([nest])
        self.counters = {s.start.name for s in each([nest]) if isinstance(s, For) and isinstance(s.start, Declare)}
        self.own = declared(nest.body)  # what each round has for itself
        self.staged, self.padded = dict(turn.staged), set(turn.padded)
        kept = _slice(nest, sums)
        self.possible = True
        turned = self.statement(kept)
        work = sum(isinstance(e, Binary | Call) for s in each(kept.body) for x in expressions(s) for e in walk(x))
        self.made = turned if self.possible and work <= COST * len(sums) else None
        if self.made is not None:
            turn.staged, turn.padded = self.staged, self.padded

    def choice(self, s: Assign) -> Choice:
        """The row of the table for one of the sums."""
        assert isinstance(s.target, Index)
        target = Index(s.target.array, tuple(map(self.value, s.target.indices)), s.target.type)
        why = f"{expression(s.target)} would be shared; {self.var.name} and threadIdx.{self.to} have changed places"
        return Choice(expression(target), "ownership turned round", why)

    def statement(self, s: Stmt) -> Stmt:
        """A statement as the thread runs it that has taken over."""
        match s:
            case For():
                self.possible &= not {t for e in _header(s) for t in reads(e)} - self.counters - self.turn.uniform
                return replace(s, body=[self.statement(t) for t in s.body])
            case If():
                then, orelse = ([self.statement(t) for t in side] for side in nested(s))
                return If(self.value(s.condition), then, orelse, s.place, s.text)
            case Declare():
                return replace(s, value=None if s.value is None else self.value(s.value))
            case Assign():
                target = s.target
                if isinstance(target, Index):
                    target = Index(target.array, tuple(map(self.value, target.indices)), target.type)
                return replace(s, target=target, value=self.value(s.value))
        self.possible &= isinstance(s, Comment)
        return s

    def value(self, e: Expr) -> Expr:
        """A value as the thread finds it that has taken over."""
        return change(e, self.leaf)

    def leaf(self, e: Expr) -> Expr | None:
        """A variable or an element as that thread finds it; None for what is made of several."""
        if e == self.var:
            return self.turn.variable(self.to)
        if (axis := self.turn.axis(e)) is not None:
            return self.var if axis == self.to else e
        match e:
            case Name() if e.name in self.turn.uniform or e.name in self.counters or e.name in self.own:
                return e
            case Index() if self.turn.declared.get(e.array, NONE).shared:
                self.possible &= e.array not in self.changed
                indices = tuple(map(self.value, e.indices))
                if len(indices) == 2 and self.turn.axis(indices[0]) == "x" and indices[1] == self.var:
                    self.padded.add(e.array)
                return Index(e.array, indices, e.type)
            case Name() | Index():
                return self.other(e)
        return None

    def other(self, e: Name | Index) -> Expr:
        """Another thread's own variable, or element of its own array, by way of shared memory."""
        array = self.turn.declared.get(e.array) if isinstance(e, Index) else NONE
        indices = e.indices if isinstance(e, Index) else ()
        counted = [
            (i, d) for i, d in zip(indices, array.dims if array else (), strict=False) if reads(i) & self.counters
        ]
        changes = (reads(e) - self.counters) & self.changed or e in self.before  # so it would be another value
        if array is None or changes or any(not isinstance(i, Name) for i, _ in counted):
            self.possible = False
            return e
        name = self.staged[e].name if e in self.staged else self.turn.made.fresh(f"{name_of(e)}_of")
        self.staged[e] = Stage(name, e, tuple(counted))  # type: ignore[arg-type]
        threads = map(self.turn.variable, self.turn.axes[::-1])
        return Index(name, tuple(map(self.value, (*(i for i, _ in counted), *threads))), e.type)


def _sums(s: For) -> Iterator[tuple[list[Stmt], Assign]]:
    """The sums in a nest of loops that count 0, 1, 2, ..., each with the statements beside it."""
    header = count(s)
    if header is None or not header.simple or not exact(s, header):
        return
    for body, t in _straight(s.body):
        if isinstance(t, For):
            yield from _sums(t)
        elif isinstance(t, Assign) and isinstance(t.target, Index) and t.op in ("+=", "-="):
            yield body, t


def _straight(body: list[Stmt]) -> Iterator[tuple[list[Stmt], Stmt]]:
    for t in body:
        yield body, t
        for side in nested(t) if isinstance(t, If) else ():
            yield from _straight(side)


def _slice(nest: For, sums: list[Assign]) -> For:
    """Of a nest of loops what these sums need, in statements of its own."""
    results = {name_of(s.target) for s in sums}

    def kept(body: list[Stmt]) -> list[Stmt]:
        return [again(s) for s in body if s in sums or not written_here(s) & results]

    def again(s: Stmt) -> Stmt:
        if isinstance(s, If):
            return replace(s, then=kept(s.then), orelse=kept(s.orelse))
        return replace(s, body=kept(s.body)) if isinstance(s, For | While) else s

    pruned, _ = Prune(written([nest]) - results).body([again(nest)], set())
    return pruned[0]  # type: ignore[return-value]


def _header(s: For) -> tuple[Expr, ...]:
    """The expressions in the head of a loop."""
    parts = [e for part in (s.start, s.step) if part is not None for e in expressions(part)]
    return (s.condition, *parts)


def _joined(nests: list[Stmt]) -> list[Stmt]:
    """Loops with one header and no name in common made one."""
    made: list[For] = []
    for s in nests:
        assert isinstance(s, For)
        last = made[-1] if made else None
        if last and simple(last.start) == simple(s.start) and not declared(last.body) & declared(s.body):  # type: ignore[arg-type]
            last.body += s.body
        else:
            made.append(s)
    return [*made]
