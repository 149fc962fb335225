"""Ownership turned round: instead of every thread adding to elements of all, each gathers what belongs to its own.

In `for j: d_a[ty][j] += d_sum * b[j][tx]` all tx add to one element. Exchange j and tx: the thread (ty, tx) runs
through all j and adds `d_sum of thread (ty, j) * b[tx][j]` to its own d_a[ty][tx]. The same terms are added up, and
no two threads meet. What is a thread's own in it, d_sum, the others read from shared memory.
"""

from dataclasses import replace
from functools import partial

from minigrad.adjoint.build import ONE, ZERO, change, plus
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import accesses, axis_of, declared, mentioned, name_of, waits, written
from minigrad.adjoint.exchange import Exchange, Stage, sums_of
from minigrad.adjoint.expr import Expr, Index, Name
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.printer import expression
from minigrad.adjoint.sites import Choice
from minigrad.adjoint.tapes import copying
from minigrad.adjoint.tree import Assign, Barrier, Declare, For, Stmt
from minigrad.adjoint.visit import each, rewrite

NO_OWNER = "no loop as long as the block and one part of threadIdx, alone in an index each, could change places"

IN_ORDER = "the rounds of its loop have to follow one another"


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
        return self.scalars(made)

    def inside(self, body: list[Stmt]) -> list[Stmt]:
        """One body, and the loops in it by which all threads of a block come: those with a barrier."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, For) and waits([s]):
                s.body = self.inside(s.body)
                made.append(s)
            else:
                made += self.loops(s) if isinstance(s, For) else [s]
        return made

    def loops(self, s: For) -> list[Stmt]:
        """A nest of loops, and in front of it those of what is turned, if anything is."""
        shared = [t for t in each([s]) if isinstance(t, Assign) and name_of(t.target) in self.gradients]
        self.made.atomic |= {expression(t.target): IN_ORDER for t in shared}
        groups: dict[tuple[Name, str], list[tuple[list[Stmt], Assign]]] = {}
        for body, one in sums_of(s):
            if name_of(one.target) not in self.gradients:
                continue
            if exchange := self.lacking(one.target, s):  # type: ignore[arg-type]
                groups.setdefault(exchange, []).append((body, one))
            else:
                self.made.atomic[expression(one.target)] = NO_OWNER
        before, turned = set(self.staged), list[Stmt]()
        for (var, axis), places in groups.items():
            sums = [one for _, one in places]
            new = Exchange(self, s, sums, var, axis, before)
            if new.made is None:
                self.made.atomic |= {expression(one.target): new.why for one in sums}
            else:
                turned.append(new.made)
                self.choices += map(new.choice, sums)
                self.made.conditions |= {f"blockDim.{a}": e for a in self.axes if (e := self.extent(a)) is not None}
                self.turned |= {name_of(one.target) for one in sums}
                for body, one in places:
                    body.remove(one)
        return [*_joined(turned), s]

    def lacking(self, target: Index, nest: For) -> tuple[Name, str] | None:
        """The variable of a loop and the axis that a target has in its place; None where they are not just two."""
        axes = [a for a in self.axes if a not in map(self.axis, target.indices)]
        extents = [self.extent(a) for a in (*axes, *self.axes)]
        bounds = {h.var: h.bound for s in each([nest]) if isinstance(s, For) and (h := count(s)) and h.simple}
        ours = [e for e in target.indices if isinstance(e, Name) and bounds.get(e.name) == extents[0]]
        return (ours[0], axes[0]) if len(axes) == len(ours) == 1 and None not in extents else None

    def extent(self, axis: str) -> Expr | None:
        """How long the block is, or may be and then has to be, along an axis; None where only the launch tells."""
        name, most = f"blockDim.{axis}", {} if self.made.fills else self.made.limits
        return self.made.conditions.get(name) or most.get(name)

    def put(self, body: list[Stmt], stage: Stage) -> list[Stmt]:
        """A thread's own value put where others read it, before the loop within which it no longer changes."""
        at = next(n for n, s in enumerate(body) if stage.name in mentioned([s]))
        loop, counters = body[at], tuple(e for e, _ in stage.varying)
        if isinstance(loop, For) and (stage.own.names - {e.name for e in counters}) & written([loop]):
            loop.body = self.put(loop.body, stage)
            return body
        place = Index(stage.name, (*counters, *map(self.variable, self.axes[::-1])), stage.own.type)
        store = copying(stage.own, place, counters, tuple(d for _, d in stage.varying))
        front = at - isinstance(body[at - 1], Barrier)
        wait: list[Stmt] = [Barrier()] if front == at else []
        behind: list[Stmt] = [] if any(isinstance(t, Barrier) for t in body[at + 1 :]) else [Barrier()]
        return [*body[:front], store, *wait, *body[front : at + 1], *behind, *body[at + 1 :]]

    def pad(self, s: Stmt) -> Stmt:
        """The declaration of an array that gets one more column."""
        if isinstance(s, Declare) and s.name in self.padded:
            return replace(s, dims=(*s.dims[:-1], plus(s.dims[-1], ONE)))
        return s

    def scalars(self, body: list[Stmt]) -> list[Stmt]:
        """Shared gradients of which each thread has one element become variables."""
        for name in sorted(self.turned):
            found = {x for s in each(body) for _, x in accesses(s) if isinstance(x, Index) and x.array == name}
            one = found.pop()
            if not found and {self.axis(e) for e in one.indices} == set(self.axes):
                own = Name(self.made.fresh(f"{name}_own"), one.type)
                for s in each(body):
                    rewrite(s, partial(change, new=lambda e: own if e == one else None))  # noqa: B023
                    if isinstance(s, Assign) and s.target == one:
                        s.target = own
                body = [Declare(own.name, own.type, value=ZERO), *body]
        return body

    def axis(self, e: Expr) -> str | None:
        """x, y or z where an expression is that part of threadIdx."""
        return axis_of(self.made.fixed, e)

    def variable(self, axis: str) -> Name:
        """How the kernel calls a part of threadIdx."""
        names = [n for n in self.made.fixed if self.axis(Name(n, "int")) == axis]
        return Name(names[0] if names else f"threadIdx.{axis}", "int")


def _joined(nests: list[Stmt]) -> list[Stmt]:
    """Copies of one nest of loops made one where they have no name in common."""
    made: list[For] = []
    for s in nests:
        assert isinstance(s, For)
        last = made[-1] if made else None
        if last and not declared(last.body) & declared(s.body):
            last.body += s.body
        else:
            made.append(s)
    return [*made]
