"""The adjoint of a function: both sweeps made in full, pruned to what the gradient needs, and tidied."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from minigrad.adjoint import activity
from minigrad.adjoint.accumulate import Accumulate, Choice
from minigrad.adjoint.build import ZERO
from minigrad.adjoint.effects import each, fixed, mentioned, read_here, written
from minigrad.adjoint.injective import EXTENTS, IDS, Facts
from minigrad.adjoint.keeping import LOST
from minigrad.adjoint.module import Module
from minigrad.adjoint.order import Order, Uncounted
from minigrad.adjoint.phases import Phases
from minigrad.adjoint.prune import Prune
from minigrad.adjoint.rounds import Loops
from minigrad.adjoint.shadows import cleared, unseen
from minigrad.adjoint.share import Share
from minigrad.adjoint.stores import apart, first_stores, read_again, repeated
from minigrad.adjoint.structure import Divergence, check_barriers, structured
from minigrad.adjoint.tapes import Tape
from minigrad.adjoint.tidy import Copies, Hoist, Merge, Sink, everywhere
from minigrad.adjoint.tree import (
    Assign,
    Barrier,
    Comment,
    Declare,
    Expr,
    Function,
    Index,
    Name,
    Stmt,
)
from minigrad.adjoint.turn import Turn


@dataclass
class Derived:
    """An adjoint as a tree, with what a launch of it needs to know."""

    body: list[Stmt]
    gradients: dict[str, str]  # of a parameter: the name of its gradient
    tapes: list[Tape]
    conditions: dict[str, Expr]  # extents of the launch on which it relies
    choices: list[Choice]
    replayed: set[str]  # arrays that the forward sweep writes
    strides: dict[str, str] = field(default_factory=dict)  # of a gradient added up in copies: what they lie apart


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
        return Phases(body, self.module.values, {**fixed(body), **self.fixed}, self.conditions)

    def derived(self, body: list[Stmt], choices: list[Choice]) -> Derived:
        """The record."""
        used = mentioned(body)
        tapes = [t for t in self.tapes.values() if t.name in used]
        local: list[Stmt] = [Declare(t.name, t.type, (t.size, *t.dims)) for t in tapes if t.size is not None]
        names = {p.name: self.gradients[p.name] for p in self.of.params if p.name in self.gradients}
        return Derived([*local, *body], names, tapes, self.conditions, choices, written(body) & self.kept_arrays())

    def kept_arrays(self) -> set[str]:
        """Arrays in global memory that the forward sweep may write."""
        return {p.name for p in self.of.params if p.pointer} - self.dropped


class KernelAdjoint(Derivation):
    """Derives the adjoint of a kernel."""

    def __init__(self, module: Module, wrt: Sequence[str]):
        super().__init__(module, module.kernel, activity.active(module, wrt))
        self.wrt, self.gradients = list(wrt), {}
        check_barriers(module, divergence := Divergence(module.kernel))
        self.uniform = {*divergence_free(module.kernel, divergence), *module.values}
        self.alike = self.uniform | divergence_free(module.kernel, Divergence(module.kernel, control=False))
        self.conditions = unseen(module.kernel)
        self.flow = structured(module, module.kernel.body, ("return",))
        self.dropped = {p.name for p in self.of.params if p.pointer} - read_again(self.flow)
        self.final = self.stored_once()
        for p in self.of.params:
            if p.name in self.active:
                self.gradient(p.name)
        self.totals = {
            p.name: self.gradients[p.name] for p in self.of.params if p.name in self.active and not p.pointer
        }
        self.results = {*self.gradients.values(), "tape_needed"}
        self.gradients |= {name: self.fresh(f"{total}_own") for name, total in self.totals.items()}

    def stored_once(self) -> set[str]:
        """Outputs with no other use, of which no element is stored twice: their gradient is read once."""
        again = repeated(self.flow, self.facts(self.flow))
        self.first = first_stores(self.flow, {*self.of.declared} - again)
        used = {n for s in each(self.flow) for n in read_here(s)} | set(self.wrt)
        return set(activity.outputs(self.of)) & apart(self.flow) - used - again

    def derive(self) -> Derived:
        """The adjoint. Raises Refused where a value it needs cannot be had."""
        shared = [d for d in self.of.declared.values() if d.shared and d.name in self.active]
        sweeps = self.both(self.flow)
        own: list[Stmt] = [Declare(self.gradients[n], _type(self.of, n), value=ZERO) for n in self.totals]
        body = self.settled([*own, *sweeps, *self.handed_over()])
        arrays = {self.gradients[d.name]: True for d in shared} | dict.fromkeys(self.totals.values(), False)
        arrays |= {self.gradients[p.name]: False for p in self.of.params if p.pointer and p.name in self.active}
        turn = Turn(self, {self.gradients[d.name] for d in shared}, self.uniform)
        body = turn.body(everywhere(body, Merge()))
        body = everywhere(body, Hoist(arrays, self.fresh, self.module.values))
        results = set(activity.outputs(self.of))
        inputs = {n: d for n, d in {**self.gradients, **self.totals}.items() if self.of.param(n) and n not in results}
        strides = {d: self.fresh(f"{d}_stride") for d in inputs.values()}
        sums = Accumulate(arrays, self.alike, self.totals.values(), strides)
        choices = [*turn.choices, *sums.decide(body, self.facts(body), self.phases(body))]
        body = everywhere(body, Share({*self.uniform, *strides.values()}, self.fresh))
        left = [d for d in shared if self.gradient(d.name) in mentioned(body)]
        clear = [s for d in left for s in cleared(d, self.gradient(d.name), self.conditions)]
        body = [*clear, *([Barrier()] if clear else []), *body]
        names = {d.name for d in self.of.declared.values() if d.shared}
        names |= {s.name for s in each(body) if isinstance(s, Declare) and s.shared}
        memory = names | set(arrays) | self.kept_arrays()
        made = self.derived(self.tidied(body, memory), choices)
        made.gradients |= self.totals
        made.strides = {d: stride for d, stride in strides.items() if d in sums.strided}
        return made

    def handed_over(self) -> list[Stmt]:
        """Each thread's part of the gradient of a scalar parameter, added up."""
        made: list[Stmt] = []
        for name, total in self.totals.items():
            kind = _type(self.of, name)
            made.append(Comment(f"the parameter {name} is shared by all threads"))
            made.append(Assign(Index(total, (ZERO,), kind), "+=", Name(self.gradients[name], kind)))
        return made

    def facts(self, body: list[Stmt]) -> Facts:
        """What holds everywhere in the kernel."""
        macros = set(self.module.values)
        scalars = {p.name for p in self.of.params if not p.pointer}
        known = {**fixed(body), **self.fixed}
        return Facts(known, macros, {*scalars, *macros, *EXTENTS.values()}, set(self.uniform), self.conditions)


def divergence_free(kernel: Function, divergence: Divergence) -> set[str]:
    """The names that have one value in all threads of a block."""
    names = {p.name for p in kernel.params if not p.pointer} | {n for n, d in kernel.declared.items() if not d.dims}
    return ({*names, *IDS, *EXTENTS.values()} - divergence.varying) | set()


def _type(function: Function, name: str) -> str:
    found = function.param(name)
    assert found is not None
    return found.type
