"""The adjoint of a function: both sweeps made in full, pruned to what the gradient needs, and tidied."""

from dataclasses import dataclass, field
from functools import partial

from minigrad.adjoint.analyse.indices import Facts
from minigrad.adjoint.analyse.phases import Phases
from minigrad.adjoint.analyse.regions import Cover, Fill
from minigrad.adjoint.decide.accumulate import Accumulate, Choice
from minigrad.adjoint.decide.split import Launch
from minigrad.adjoint.decide.store_or_recompute import LOST, Tape
from minigrad.adjoint.differentiate.loops import Loops
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import Assign, Barrier, Declare, Expr, For, Function, Jump, Name, Stmt, is_float
from minigrad.adjoint.language.control_flow import ends, structured
from minigrad.adjoint.language.dataflow import assigned_once, has_barrier, names_used, written
from minigrad.adjoint.language.file import KernelFile
from minigrad.adjoint.language.rewrite import ZERO, bottom_up, flatten
from minigrad.adjoint.simplify.prune import Prune
from minigrad.adjoint.simplify.tidy import drop_counters, propagate_copies, restore_order, sink_zeros


@dataclass
class Derived:
    """An adjoint as a tree, with what a launch of it needs to know."""

    launches: list[Launch]
    gradients: dict[str, str]  # of a parameter: the name of its gradient
    tapes: list[Tape]
    conditions: dict[str, Expr]  # extents of the launch on which it relies
    limits: dict[str, Expr]  # and those that may be smaller
    choices: list[Choice]
    replayed: set[str] = field(default_factory=set)  # arrays that the forward sweep writes
    strides: dict[str, str] = field(default_factory=dict)  # of a gradient added up in copies: what they lie apart
    covers: dict[str, Cover] = field(default_factory=dict)  # of a gradient that a launch may fill: what it then does
    fills: list[Fill] = field(default_factory=list)  # what a block has to store in each round of a loop

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
        while size != (size := len(flatten(body))):
            body, _ = Prune(own).body(body, set())
        return body

    def settled(self, body: list[Stmt]) -> list[Stmt]:
        """Pruned, checked that nothing in it is lost, and with loops in their own order where that is free."""
        body = self.pruned(body)
        used = names_used(body)
        taped = {tape.counter for name, tape in self.tapes.items() if name in used}
        body = self.pruned(bottom_up(body, partial(drop_counters, taped=taped)))
        if unfilled := (set(self.tapes) & names_used(body)) - written(body):
            raise RuntimeError(f"{self.of.name}: the adjoint reads {min(unfilled)}, which it never fills.")
        for name in sorted(names_used(body)):
            if name.startswith(LOST):
                raise self.file.error(*self.why[name])
        return bottom_up(body, restore_order)

    def tidied(self, body: list[Stmt], memory: set[str]) -> list[Stmt]:
        """With gradients declared where they begin, and no barrier that parts nothing."""
        body = bottom_up(bottom_up(body, sink_zeros), partial(propagate_copies, copies=self.saved_names))
        body = bottom_up(self.pruned(body), self.with_barriers)
        self.phases(body).tidy(memory)
        return body

    def with_barriers(self, body: list[Stmt]) -> list[Stmt]:
        """A barrier before each round that stores a shared array anew: others may still read what the last one left.

        The kernel has its barrier behind the round; there the reads of what follows the loop come without another one.
        """
        made: list[Stmt] = []
        for s in body:
            again = s.reversal.filled if isinstance(s, For) and s.reversal else frozenset()
            if isinstance(s, For) and has_barrier([s]) and any(self.of.declared[name].shared for name in again):
                made.append(Barrier(s.place, added=True))
                s.body = [Barrier(s.place, added=True), *s.body]
            made.append(s)
        return made

    def phases(self, body: list[Stmt]) -> Phases:
        """What the threads of a block may do at the same time."""
        return Phases(body, self.file.values, {**self.fixed, **assigned_once(body)}, self.conditions)

    def derived(self, launch: Launch, choices: list[Choice]) -> Derived:
        """The record of one launch, in front of which its tapes in a thread's own memory are declared."""
        used = names_used(launch.body)
        tapes = [t for t in self.tapes.values() if t.name in used]
        local: list[Stmt] = [Declare(t.name, t.type, (t.size, *t.dims)) for t in tapes if t.size is not None]
        replayed = written(launch.body) & self.kept_arrays()
        launch.body = [*local, *launch.body]
        return Derived([launch], self.parameters(), tapes, self.conditions, self.limits, choices, replayed)

    def parameters(self) -> dict[str, str]:
        """The gradients of parameters, by parameter."""
        return {p.name: self.gradients[p.name] for p in self.of.params if p.name in self.gradients}

    def kept_arrays(self) -> set[str]:
        """Arrays in global memory that the forward sweep may write."""
        return {p.name for p in self.of.params if p.pointer} - self.dropped


class FunctionAdjoint(Derivation):
    """Derives the adjoint of a device function: its gradient in, gradients of its parameters added to."""

    def __init__(self, file: KernelFile, function: Function):
        taken = {*function.declared, *(p.name for p in function.params), *file.functions, *file.tokens.macros}
        result = Name(next(n for n in ("y", "result", "returned") if n not in taken), function.returns)
        if not ends(function.body):
            why = f"{function.name} does not return a {function.returns} on every way; end it with a return."
            raise file.error(function.place, why)
        flow = structured(function.body, ("return",), lambda jump: _assigned(result, jump))
        made = Declare(result.name, result.type)
        of = Function(function.name, "void", function.params, [made, *flow], function.place, function.text)
        of.declared = {**function.declared, result.name: made}
        floats = [p.name for p in function.params if is_float(p.type)]
        active = dataflow.reachable(of, floats) & dataflow.reachable(of, [result.name], backward=True)
        super().__init__(file, of, active | {result.name})
        self.result, self.gradients = result, {}
        self.results = {"tape_needed", *(self.gradient(p.name) for p in function.params if p.name in active)}
        self.seed = self.gradient(result.name)

    def derive(self) -> Derived:
        """The adjoint of the function."""
        body = self.settled(self.both(self.of.body[1:]))
        inner: list[Stmt] = [Declare(self.result.name, self.result.type, value=ZERO)]
        body = self.pruned([*(inner if self.result.name in names_used(body) else []), *body])
        arrays = {self.gradients[p.name]: False for p in self.of.params if p.pointer and p.name in self.active}
        facts = Facts({}, set(), set(), set(), {}, {})
        choices = Accumulate(arrays, set(), (), {}).decide(body, facts, self.phases(body))
        return self.derived(Launch(self.tidied(body, set())), choices)


def _assigned(result: Name, jump: Jump) -> list[Stmt]:
    """`result = v` of `return v`."""
    return [Assign(result, "=", jump.value, jump.place, jump.text)] if jump.value is not None else []
