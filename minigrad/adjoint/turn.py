"""Ownership turned round: instead of every thread adding to elements of all, each gathers what belongs to its own.

In `for j: d_a[ty][j] += d_sum * b[j][tx]` all tx add to one element. Exchange j and tx: the thread (ty, tx) runs
through all j and adds `d_sum of thread (ty, j) * b[tx][j]` to its own d_a[ty][tx]. The same terms are added up, and
no two threads meet. What is a thread's own in it, d_sum, the others read from shared memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from minigrad.adjoint.accumulate import Choice
from minigrad.adjoint.build import ONE, plus
from minigrad.adjoint.counting import count, exact
from minigrad.adjoint.covering import axis_of
from minigrad.adjoint.effects import each, fixed, name_of, written
from minigrad.adjoint.expr import reads
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.own import cleared_at, elements, scalars
from minigrad.adjoint.printer import expression
from minigrad.adjoint.tapes import copied
from minigrad.adjoint.tree import (
    Assign,
    Barrier,
    Binary,
    Cast,
    Comment,
    Declare,
    Expr,
    For,
    Index,
    Name,
    Number,
    Stmt,
    Unary,
    While,
)


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
        """A nest of loops, and in front of it one of what is turned, if anything is."""
        before = set(self.staged)
        taken: dict[tuple[For, ...], list[Stmt]] = {}
        for path, body, one in list(_sums((), s)):
            new = Exchange(self, one, path, before).made if name_of(one.target) in self.gradients else None
            if new is not None:
                note = [t for t in body if isinstance(t, Comment) and t.place == one.place]
                taken.setdefault(path, []).extend([*note[:1], new])
                body.remove(one)
        rest = [s] if any(not isinstance(t, Comment | For) for t in each([s]) if t not in (s.start, s.step)) else []
        return [*(_around(path, statements) for path, statements in taken.items()), *rest]

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
        """Whether each thread touches one element of a gradient alone, but for clearing it at the start."""
        found = {x.indices for x in elements(body[cleared_at(body, gradient) + 2 :]) if x.array == gradient}
        return len(found) == 1 and {self.axis(e) for e in next(iter(found))} == set(self.axes)

    def axis(self, e: Expr) -> str | None:
        """x, y or z where an expression is that part of threadIdx."""
        return axis_of(self.made.fixed, e)

    def variable(self, axis: str) -> Name:
        """How the kernel calls a part of threadIdx."""
        names = [n for n in self.made.fixed if self.axis(Name(n, "int")) == axis]
        return Name(names[0] if names else f"threadIdx.{axis}", "int")


class Exchange:
    """One sum with a loop's variable and the axis that its target lacks exchanged: `made`, None where it cannot be."""

    made: Assign | None = None

    def __init__(self, turn: Turn, s: Assign, path: tuple[For, ...], before: set[Name | Index]):
        self.turn, self.before, target = turn, before, s.target
        assert isinstance(target, Index)
        self.changed, self.values = written([path[0]]), fixed([path[0]])
        self.bounds = {loop.start.name: loop.condition.right for loop in path}  # type: ignore[union-attr]
        lacking = [a for a in turn.axes if a not in map(turn.axis, target.indices)]
        extents = [turn.made.conditions.get(f"blockDim.{a}") for a in (*lacking, *turn.axes)]
        ours = [e for e in target.indices if isinstance(e, Name) and self.bounds.get(e.name, "") == extents[0]]
        if len(lacking) != 1 or len(ours) != 1 or None in extents:
            return
        self.var, self.to, self.staged, self.padded = ours[0], lacking[0], dict(turn.staged), set(turn.padded)
        value, indices = self.value(s.value), self.all(target.indices)
        if value is None or indices is None:
            return
        turn.staged, turn.padded = self.staged, self.padded
        turn.turned.add(target.array)
        self.made = replace(s, target=Index(target.array, indices, target.type), value=value)
        why = f"{expression(target)} would be shared; {self.var.name} and threadIdx.{self.to} have changed places"
        turn.choices.append(Choice(expression(self.made.target), "ownership turned round", why))

    def value(self, e: Expr) -> Expr | None:
        """A value as the thread finds it that has taken over; None where it cannot."""
        match e:
            case Number():
                return e
            case Name() if e.name in self.values:
                return self.value(self.values[e.name])
            case Name():
                return self.index(e) or self.other(e)
            case Index():
                return self.shared(e) if self.turn.declared.get(e.array, NONE).shared else self.other(e)
            case Unary() | Cast():
                inner = self.value(e.operand)
                return None if inner is None else replace(e, operand=inner)
            case Binary():
                left, right = self.value(e.left), self.value(e.right)
                return None if left is None or right is None else replace(e, left=left, right=right)
        return None

    def shared(self, e: Index) -> Expr | None:
        """An element in shared memory, which stands there for all."""
        indices = self.all(e.indices)
        if indices is None or e.array in self.changed:
            return None
        if len(indices) == 2 and self.turn.axis(indices[0]) == "x" and indices[1] == self.var:
            self.padded.add(e.array)
        return Index(e.array, indices, e.type)

    def other(self, e: Name | Index) -> Expr | None:
        """Another thread's own variable, or element of its own array, by way of shared memory."""
        own = self.turn.declared.get(e.array) if isinstance(e, Index) else NONE
        if own is None or (reads(e) - set(self.bounds)) & self.changed or e in self.before:
            return None  # changed in the loop, or staged for another loop, since which it may have changed
        indices = e.indices if isinstance(e, Index) else ()
        counted = [(i, d) for i, d in zip(indices, own.dims, strict=True) if reads(i) & set(self.bounds)]
        if any(not isinstance(i, Name) for i, _ in counted):
            return None
        name = self.staged[e].name if e in self.staged else self.turn.made.fresh(f"{name_of(e)}_of")
        self.staged[e] = Stage(name, e, tuple(counted))  # type: ignore[arg-type]
        at = self.all((*(i for i, _ in counted), *map(self.turn.variable, self.turn.axes[::-1])))
        return None if at is None else Index(name, at, e.type)

    def all(self, indices: Iterable[Expr]) -> tuple[Expr, ...] | None:
        """Indices exchanged."""
        made = tuple(map(self.index, indices))
        return None if None in made else made  # type: ignore[return-value]

    def index(self, e: Expr) -> Expr | None:
        """An index with the variable and the axis exchanged; None where it is more than one of these."""
        if e == self.var:
            return self.turn.variable(self.to)
        if (axis := self.turn.axis(e)) is not None:
            return self.var if axis == self.to else e
        still = isinstance(e, Name) and (e.name in self.turn.uniform or e.name in self.bounds)
        return e if isinstance(e, Number) or still else None


NONE = Declare("", "int")  # in place of the declaration of what is no array


def _sums(path: tuple[For, ...], s: For) -> Iterator[tuple[tuple[For, ...], list[Stmt], Assign]]:
    """The sums in a nest of loops that count 0, 1, 2, ..., each with the loops around it."""
    header = count(s)
    if header is None or not header.simple or not exact(s, header):
        return
    for t in s.body:
        if isinstance(t, For):
            yield from _sums((*path, s), t)
        elif isinstance(t, Assign) and isinstance(t.target, Index) and t.op in ("+=", "-="):
            yield (*path, s), s.body, t


def _around(path: tuple[For, ...], body: list[Stmt]) -> For:
    """Statements with loops like these around them."""
    for loop in reversed(path):
        body = [replace(loop, body=body)]
    return body[0]  # type: ignore[return-value]
