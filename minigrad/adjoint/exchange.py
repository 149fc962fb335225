"""A loop's variable and a part of threadIdx exchanged in a nest of loops, so that sums change their owner."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from minigrad.adjoint.build import change
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import declared, elements, name_of, written, written_here
from minigrad.adjoint.expr import Binary, Call, Expr, Index, Name, walk
from minigrad.adjoint.printer import expression
from minigrad.adjoint.prune import Prune
from minigrad.adjoint.sites import Choice
from minigrad.adjoint.tree import Assign, Comment, Declare, For, If, Stmt
from minigrad.adjoint.types import BYTES
from minigrad.adjoint.visit import each, expressions, heads, nested, rewrite, without

if TYPE_CHECKING:
    from minigrad.adjoint.turn import Turn

NONE = Declare("", "int")  # in place of the declaration of what is no array
COST = 32  # operations that one sum over a warp is worth


class Stage(NamedTuple):
    """A shared array through which the threads read what is a thread's own."""

    name: str
    own: Name | Index
    varying: tuple[tuple[Name, Expr], ...]  # those of its indices that loops go through, each with its extent


class Exchange:
    """A nest of loops again, with only the sums that lack an axis, and a loop's variable and that axis exchanged.

    made: the nest, None where it cannot be turned.
    """

    def __init__(self, turn: "Turn", nest: For, sums: list[Assign], var: Name, to: str, before: set[Name | Index]):
        self.turn, self.before, self.var, self.to = turn, before, var, to
        self.changed = written([nest])
        self.counters = {s.variable for s in each([nest]) if isinstance(s, For)}
        self.own = declared(nest.body)  # what each round has for itself
        self.staged, self.padded = dict(turn.staged), set(turn.padded)
        kept = _slice(nest, sums)
        self.why = ""  # it cannot be turned
        work = sum(isinstance(e, Binary | Call) for s in each(kept.body) for x in expressions(s) for e in walk(x))
        if work > COST * len(sums):
            self.never(f"the loop would be run twice, with {work} operations for {len(sums)} of its sums")
        self.take_over(kept)
        self.made = None if self.why else kept
        if self.made is not None:
            turn.staged, turn.padded = self.staged, self.padded
            names = {stage.name for stage in self.staged.values()}
            handed = {x for x in elements([self.made]) if x.array in names}
            self.moved = sum(BYTES[x.type] for x in handed) / len(sums)

    def never(self, why: str) -> None:
        """Note the first reason why the nest cannot be turned."""
        self.why = self.why or why

    def choice(self, s: Assign) -> Choice:
        """The row of the table for one of the sums."""
        assert isinstance(s.target, Index)
        target = Index(s.target.array, tuple(map(self.value, s.target.indices)), s.target.type)
        why = f"{expression(s.target)} would be shared; {self.var.name} and threadIdx.{self.to} have changed places"
        instead = f"atomic: {2 * BYTES[s.target.type]} in shared memory"
        moved = f"{self.moved:.3g} in shared memory"
        return Choice(expression(target), "ownership turned round", why, "", moved, instead)

    def take_over(self, s: Stmt) -> None:
        """Make a statement what the thread runs that has taken over."""
        match s:
            case For(start=Declare()):
                header = {n for part in heads(s) for e in expressions(part) for n in e.names}
                if header - self.counters - self.turn.uniform:
                    self.never(f"the loop at line {s.place.line} is not the same for all threads")
            case If() | Declare() | Assign():
                rewrite(s, self.value)
            case _ if not isinstance(s, Comment):
                self.never(f"line {s.place.line} does more than add up")
        for t in chain(*nested(s)):
            self.take_over(t)

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
                if e.array in self.changed:
                    self.never(f"{e.array} changes in the loop")
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
            (i, d) for i, d in zip(indices, array.dims if array else (), strict=False) if i.names & self.counters
        ]
        changes = (e.names - self.counters) & self.changed or e in self.before  # so it would be another value
        if array is None or changes or any(not isinstance(i, Name) for i, _ in counted):
            self.never(f"it takes another thread's {expression(e)}, which changes in the loop")
            return e
        name = self.staged[e].name if e in self.staged else self.turn.made.fresh(f"{name_of(e)}_of")
        self.staged[e] = Stage(name, e, tuple(counted))  # type: ignore[arg-type]
        threads = map(self.turn.variable, self.turn.axes[::-1])
        return Index(name, tuple(map(self.value, (*(i for i, _ in counted), *threads))), e.type)


def sums_of(s: For) -> Iterator[tuple[list[Stmt], Assign]]:
    """The sums in a nest of loops that count 0, 1, 2, ..., each with the statements beside it."""
    header = count(s)
    if header is None or not (header.simple and header.exact):
        return
    for body, t in _straight(s.body):
        if isinstance(t, For):
            yield from sums_of(t)
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
    others = {id(s) for s in each([nest]) if s not in sums and written_here(s) & results}
    pruned, _ = Prune(written([nest]) - results).body(without([nest], others), set())
    return pruned[0]  # type: ignore[return-value]
