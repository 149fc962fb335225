"""Ownership turned round: instead of every thread adding to elements of all, each gathers what belongs to its own.

In `for j: d_a[ty][j] += d_sum * b[j][tx]` all tx add to one element. Exchange j and tx: the thread (ty, tx) runs
through all j and adds `d_sum of thread (ty, j) * b[tx][j]` to its own d_a[ty][tx]. The same terms are added up, and
no two threads meet. What is a thread's own in it, d_sum, the others read from shared memory.
"""

from dataclasses import replace

from minigrad.adjoint.accumulate import Choice
from minigrad.adjoint.build import ONE, plus
from minigrad.adjoint.counting import count
from minigrad.adjoint.covering import axis_of
from minigrad.adjoint.effects import each, name_of, written
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.own import cleared_at, elements, scalars
from minigrad.adjoint.printer import expression
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


class Turn:
    """Turns the loops of an adjoint in which all statements add to gradients of shared arrays."""

    def __init__(self, made: Keeping, gradients: set[str], uniform: set[str]):
        self.made, self.gradients, self.uniform = made, gradients, uniform
        self.axes = [a for a in "xyz" if made.conditions.get(f"blockDim.{a}") != ONE]
        self.staged: dict[str, str] = {}  # a thread's own value: the shared array through which others read it
        self.padded: set[str] = set()  # arrays now read along their first axis: one more column, no bank conflict
        self.before: set[str] = set()  # of these, other loops read
        self.turned: set[str] = set()
        self.choices: list[Choice] = []

    def body(self, body: list[Stmt]) -> list[Stmt]:
        """The statements of a kernel's adjoint, with what can be turned round turned."""
        made = self.inside(body)
        for name, stage in self.staged.items():
            kind = next(x.type for x in elements(made) if x.array == stage)
            made = [Declare(stage, kind, self.shape(), shared=True), *self.stage(made, name, stage)]
        made = [self.pad(s) for s in made]
        return scalars(made, [n for n in sorted(self.turned) if self.own(made, n)], self.made)

    def inside(self, body: list[Stmt]) -> list[Stmt]:
        """One body, and the loops in it by which all threads of a block come: those with a barrier."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, For | While) and any(isinstance(t, Barrier) for t in each([s])):
                s.body = self.inside(s.body)
            made.append(self.loop(s) if isinstance(s, For) else s)
        return made

    def loop(self, s: For) -> For:
        """A loop turned round, or as it was."""
        header = count(s)
        if header is None or not header.simple or not self.axes:
            return s
        self.before = set(self.staged)
        staged, padded = dict(self.staged), set(self.padded)
        found = [
            t if isinstance(t, Comment) else self.statement(t, header.var, header.bound, written([s])) for t in s.body
        ]
        if not found or None in found:
            self.staged, self.padded = staged, padded
            return s
        for before, after in zip(s.body, found, strict=True):
            if isinstance(before, Assign) and isinstance(after, Assign):
                self.turned.add(name_of(before.target))
                why = f"{expression(before.target)} would be shared; {header.var} and the thread have changed places"
                self.choices.append(Choice(expression(after.target), "plain +=, ownership turned round", why))
        return replace(s, body=[t for t in found if t is not None])

    def statement(self, s: Stmt, var: str, bound: Expr, changed: set[str]) -> Assign | None:
        """An addition with the loop's variable and the axis that its target lacks exchanged."""
        if not isinstance(s, Assign) or not isinstance(s.target, Index) or s.op not in ("+=", "-="):
            return None
        if s.target.array not in self.gradients:
            return None
        have = [self.axis(e) for e in s.target.indices]
        lacking = [a for a in self.axes if a not in have]
        missing = [e for e, a in zip(s.target.indices, have, strict=True) if a is None]
        if missing != [Name(var, "int")] or len(lacking) != 1 or len(set(have)) != len(have):
            return None
        if self.made.conditions.get(f"blockDim.{lacking[0]}") != bound:
            return None
        value = self.exchanged(s.value, var, lacking[0], changed)
        indices = tuple(self.swap(e, var, lacking[0]) for e in s.target.indices)
        if value is None or None in indices:
            return None
        return replace(s, target=Index(s.target.array, indices, s.target.type), value=value)  # type: ignore[arg-type]

    def exchanged(self, e: Expr, var: str, axis: str, changed: set[str]) -> Expr | None:
        """A value as the thread finds it that has taken over; None where it cannot."""
        match e:
            case Number():
                return e
            case Index() if self.is_shared(e.array) and e.array not in changed:
                indices = tuple(self.swap(i, var, axis) for i in e.indices)
                if None in indices:
                    return None
                if self.axis(indices[0]) == "x" and indices[-1] == Name(var, "int"):  # type: ignore[arg-type]
                    self.padded.add(e.array)
                return Index(e.array, indices, e.type)  # type: ignore[arg-type]
            case Name():
                return self.value(e, var, axis, changed)
            case Unary() | Cast():
                inner = self.exchanged(e.operand, var, axis, changed)
                return None if inner is None else replace(e, operand=inner)
            case Binary():
                left, right = self.exchanged(e.left, var, axis, changed), self.exchanged(e.right, var, axis, changed)
                return None if left is None or right is None else replace(e, left=left, right=right)
        return None

    def value(self, e: Name, var: str, axis: str, changed: set[str]) -> Expr | None:
        """A variable: exchanged, the same for all threads, or another thread's own."""
        if (index := self.swap(e, var, axis)) is not None:
            return index
        if e.name in changed or any(self.made.conditions.get(f"blockDim.{a}") is None for a in self.axes):
            return None
        if e.name not in self.staged:
            self.staged[e.name] = self.made.fresh(f"{e.name}_of")
        elif e.name in self.before:
            return None  # of another loop: it may have changed between the two
        own = tuple(self.swap(self.variable(a), var, axis) for a in reversed(self.axes))
        return Index(self.staged[e.name], own, e.type)  # type: ignore[arg-type]

    def swap(self, e: Expr, var: str, axis: str) -> Expr | None:
        """An index with the variable and the axis exchanged; None where it is more than one of these."""
        if e == Name(var, "int"):
            return self.variable(axis)
        if self.axis(e) is not None:
            return Name(var, "int") if self.axis(e) == axis else e
        return e if isinstance(e, Number) or (isinstance(e, Name) and e.name in self.uniform) else None

    # --- around the loops ---

    def axis(self, e: Expr) -> str | None:
        """x, y or z where an expression is that part of threadIdx."""
        return axis_of(self.made.fixed, e)

    def variable(self, axis: str) -> Name:
        """How the kernel calls a part of threadIdx."""
        names = [n for n in self.made.fixed if self.axis(Name(n, "int")) == axis]
        return Name(names[0] if names else f"threadIdx.{axis}", "int")

    def is_shared(self, array: str) -> bool:
        """Whether an array is in shared memory."""
        found = self.made.of.declared.get(array)
        return bool(found and found.shared)

    def shape(self) -> tuple[Expr, ...]:
        """The block, as an array of its threads."""
        return tuple(self.made.conditions[f"blockDim.{a}"] for a in reversed(self.axes))

    def stage(self, body: list[Stmt], name: str, stage: str) -> list[Stmt]:
        """A thread's own value put where others read it, before the loop within which it no longer changes."""
        at = next(n for n, s in enumerate(body) if any(stage == x.array for x in elements([s])))
        loop = body[at]
        if isinstance(loop, For | While) and name in written([loop]):
            loop.body = self.stage(loop.body, name, stage)
            return body
        kind = self.made.of.param(name) or next(x for x in elements([loop]) if x.array == stage)
        own = Index(stage, tuple(self.variable(a) for a in reversed(self.axes)), kind.type)
        put: list[Stmt] = [Assign(own, "=", Name(name, kind.type)), Barrier()]
        return [*body[:at], *put, loop, Barrier(), *body[at + 1 :]]

    def pad(self, s: Stmt) -> Stmt:
        """The declaration of an array that gets one more column."""
        if isinstance(s, Declare) and s.name in self.padded:
            return replace(s, dims=(*s.dims[:-1], plus(s.dims[-1], ONE)))
        return s

    def own(self, body: list[Stmt], gradient: str) -> bool:
        """Whether each thread touches one element of a gradient alone, but for clearing it at the start."""
        found = {x.indices for x in elements(body[cleared_at(body, gradient) + 2 :]) if x.array == gradient}
        return len(found) == 1 and {self.axis(e) for e in next(iter(found))} == set(self.axes)
