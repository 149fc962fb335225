"""The adjoint of a function: both sweeps made in full, pruned to what the gradient needs, and tidied."""

from dataclasses import dataclass, field

from minigrad.adjoint.cover import Cover
from minigrad.adjoint.effects import each, fixed, mentioned, written
from minigrad.adjoint.keeping import LOST
from minigrad.adjoint.order import Order, Uncounted
from minigrad.adjoint.phases import Phases
from minigrad.adjoint.prune import Prune
from minigrad.adjoint.rounds import Loops
from minigrad.adjoint.sites import Choice
from minigrad.adjoint.split import Launch
from minigrad.adjoint.tapes import Tape
from minigrad.adjoint.tidy import Copies, Sink, everywhere
from minigrad.adjoint.tree import (
    Declare,
    Expr,
    Stmt,
)


@dataclass
class Derived:
    """An adjoint as a tree, with what a launch of it needs to know."""

    launches: list[Launch]
    gradients: dict[str, str]  # of a parameter: the name of its gradient
    tapes: list[Tape]
    conditions: dict[str, Expr]  # extents of the launch on which it relies
    choices: list[Choice]
    replayed: set[str] = field(default_factory=set)  # arrays that the forward sweep writes
    strides: dict[str, str] = field(default_factory=dict)  # of a gradient added up in copies: what they lie apart
    covers: dict[str, Cover] = field(default_factory=dict)  # of a gradient that a launch may fill: what it then does

    @property
    def body(self) -> list[Stmt]:
        """All its statements."""
        return [s for launch in self.launches for s in launch.body]

    def join(self, other: "Derived") -> None:
        """Another launch behind these."""
        self.launches += other.launches
        self.tapes += other.tapes
        self.choices += other.choices
        self.replayed |= other.replayed
        self.strides |= other.strides
        self.covers |= other.covers


class Derivation(Loops):
    """What kernels and device functions have in common."""

    results: set[str]

    def pruned(self, body: list[Stmt]) -> list[Stmt]:
        """Without what nobody reads."""
        own = (written(body) - self.results) | set(self.tapes)
        size = -1
        while size != (size := sum(1 for _ in each(body))):
            body, _ = Prune(own).body(body, set())
        return body

    def settled(self, body: list[Stmt]) -> list[Stmt]:
        """Pruned, checked that nothing in it is lost, and with loops in their own order where that is free."""
        body = self.pruned(body)
        used = mentioned(body)
        taped = {tape.counter for name, tape in self.tapes.items() if name in used}
        body = self.pruned(everywhere(body, Uncounted(taped)))
        if unfilled := (set(self.tapes) & mentioned(body)) - written(body):
            raise RuntimeError(f"{self.of.name}: the adjoint reads {min(unfilled)}, which it never fills.")
        for name in sorted(mentioned(body)):
            if name.startswith(LOST):
                raise self.module.refuse(*self.why[name])
        return everywhere(body, Order())

    def tidied(self, body: list[Stmt], memory: set[str]) -> list[Stmt]:
        """With gradients declared where they begin, and no barrier that parts nothing."""
        body = everywhere(everywhere(body, Sink()), Copies(self.saved_names))
        body = self.pruned(body)
        self.phases(body).tidy(memory)
        return body

    def phases(self, body: list[Stmt]) -> Phases:
        """What the threads of a block may do at the same time."""
        return Phases(body, self.module.values, {**self.fixed, **fixed(body)}, self.conditions)

    def derived(self, body: list[Stmt], choices: list[Choice]) -> Derived:
        """The record."""
        used = mentioned(body)
        tapes = [t for t in self.tapes.values() if t.name in used]
        local: list[Stmt] = [Declare(t.name, t.type, (t.size, *t.dims)) for t in tapes if t.size is not None]
        names = {p.name: self.gradients[p.name] for p in self.of.params if p.name in self.gradients}
        return Derived(
            [Launch([*local, *body])], names, tapes, self.conditions, choices, written(body) & self.kept_arrays()
        )

    def kept_arrays(self) -> set[str]:
        """Arrays in global memory that the forward sweep may write."""
        return {p.name for p in self.of.params if p.pointer} - self.dropped
