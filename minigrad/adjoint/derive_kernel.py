"""The adjoint of a kernel: its sums given to owners, in one launch or in several."""

from collections.abc import Iterable, Sequence
from functools import partial

from minigrad.adjoint.analyse.indices import EXTENTS, Facts
from minigrad.adjoint.analyse.phases import Divergence, check_barriers
from minigrad.adjoint.analyse.regions import apart, first_stores, read_again, repeated
from minigrad.adjoint.decide.accumulate import Accumulate, Choice
from minigrad.adjoint.decide.checkpoints import Checkpoints
from minigrad.adjoint.decide.ownership import Turn
from minigrad.adjoint.decide.split import Launch, Split
from minigrad.adjoint.decide.store_or_recompute import Counted
from minigrad.adjoint.derive import Derivation, Derived
from minigrad.adjoint.differentiate.shadows import cleared, unseen
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import Assign, AtomicAdd, Barrier, Comment, Declare, Expr, Index, Name, Stmt
from minigrad.adjoint.language.control_flow import structured
from minigrad.adjoint.language.dataflow import assigned_once, names_used, read, target_name, thread_axis, written
from minigrad.adjoint.language.file import KernelFile
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ZERO, bottom_up, copy_without, flatten, map_loops
from minigrad.adjoint.simplify.hoist import hoist_loads, hoist_sums, share_over_warp, unswitch
from minigrad.adjoint.simplify.tidy import merge_sums


class KernelAdjoint(Derivation):
    """Derives the adjoint of a kernel."""

    def __init__(self, file: KernelFile, wrt: Sequence[str]):
        super().__init__(file, file.kernel, dataflow.active(file.kernel, wrt))
        self.wrt, self.gradients = list(wrt), {}
        self.counted: dict[str, Counted] = {}  # what a tape costs, and what stood against it
        self.never: dict[str, str] = {}  # or why nothing did
        check_barriers(file, divergence := Divergence(file.kernel))
        self.uniform = {*divergence.uniform, *file.values}
        self.alike = self.uniform | Divergence(file.kernel, control=False).uniform
        self.conditions = unseen(file.kernel)
        self.flow = structured(file.kernel.body, ("return",))
        self.dropped = {p.name for p in self.of.params if p.pointer} - read_again(self.flow)
        self.final = self.stored_once()
        reached = [p for p in self.of.params if p.name in self.active]
        self.scalars, self.arrays = [p for p in reached if not p.pointer], [p for p in reached if p.pointer]
        self.shared = [d for d in self.of.declared.values() if d.shared and d.name in self.active]
        for p in reached:
            self.gradient(p.name)
        self.totals = {p.name: self.gradients[p.name] for p in self.scalars}
        self.results = {*self.gradients.values(), "tape_needed"}
        self.gradients |= {name: self.fresh(f"{total}_own") for name, total in self.totals.items()}

    def stored_once(self) -> set[str]:
        """Outputs with no other use, of which no element is stored twice: their gradient is read once."""
        again = repeated(self.flow, self.facts(self.flow))
        self.first = first_stores(self.flow, {*self.of.declared} - again)
        used = read(self.flow) | set(self.wrt)
        return set(dataflow.outputs(self.of)) & apart(self.flow) - used - again

    def derive(self) -> Derived:
        """The adjoint. Raises Refused where a value it needs cannot be had."""
        own: list[Stmt] = [Declare(self.gradients[p.name], p.type, value=ZERO) for p in self.scalars]
        body = self.settled([*own, *self.both(self.flow), *self.handed_over()])
        turn = Turn(self, {self.gradients[d.name] for d in self.shared}, self.uniform)
        body = turn.body(bottom_up(body, merge_sums))
        results = set(dataflow.outputs(self.of))
        inputs = {p.name: d for p in self.of.params if (d := self.parameters().get(p.name)) and p.name not in results}
        self.strides = {d: self.fresh(f"{d}_stride") for d in inputs.values()}
        made = Derived([], self.parameters(), [], self.conditions, self.limits, list(turn.choices), fills=self.fills)
        taken: set[int] = set()
        for launch, sums in Split(self, {*inputs.values()} - {*self.totals.values()}).launches(body):
            before = dict(self.conditions), dict(self.limits)
            one = self.finished(launch, made)
            if adds := [expression(s.target) for s in flatten(one.body) if isinstance(s, AtomicAdd)]:
                for known, kept in zip((self.conditions, self.limits), before, strict=True):
                    known.clear()
                    known |= kept
                why = f"in a launch of its own, with blocks and rounds exchanged, {adds[0]} would need an atomic, too"
                self.atomic |= {
                    expression(s.target): why for s in flatten(body) if isinstance(s, Assign) and id(s) in sums
                }
                continue
            made.join(one)
            taken |= sums
        rest = self.pruned(copy_without(body, taken)) if taken else body
        if not taken or written(rest) & self.results:
            made.join(self.finished(Launch(rest, "others" if taken else ""), made))
        return made

    def finished(self, launch: Launch, before: Derived) -> Derived:
        """A launch, behind those before it: sums led out of loops, added without races, shared out; tapes; zeros."""
        self.uniform |= {name.replace("blocks_", "block_") for name in launch.blocks}
        sinks = {self.gradients[d.name]: True for d in self.shared} | dict.fromkeys(self.totals.values(), False)
        sinks |= {self.gradients[p.name]: False for p in self.arrays}
        known = self.file.values | dict.fromkeys(launch.blocks, 1)
        body = map_loops(launch.body, partial(hoist_sums, arrays=sinks, fresh=self.fresh, values=known))
        inputs = {self.gradients[p.name]: p.name for p in self.arrays}
        sums = Accumulate(sinks, self.alike, self.totals.values(), self.strides, written(before.body), inputs)
        choices = [*map(self.explained, sums.decide(body, self.facts(body, launch.blocks), self.phases(body)))]
        uniform = {*self.uniform, *self.strides.values()}
        body = map_loops(body, partial(share_over_warp, uniform=uniform, fresh=self.fresh))
        block = {d.name for d in self.of.declared.values() if d.shared}
        checkpoints = Checkpoints(self.tapes, block | {p.name for p in self.of.params if p.pointer}, self.fresh)
        body = bottom_up(body, checkpoints)
        self.counted |= checkpoints.counted
        self.never |= checkpoints.never
        body = [*self.zeros_of_shared(body), *body]
        block |= {s.name for s in flatten(body) if isinstance(s, Declare) and s.shared}
        given = {self.gradients.get(n, "") for n in dataflow.outputs(self.of)} - written(body)
        body = bottom_up(self.tidied(body, block | set(sinks) | self.kept_arrays()), unswitch)
        launch.body = bottom_up(body, partial(hoist_loads, constant=given))
        made = self.derived(launch, [*launch.choices, *choices])
        made.strides = {d: stride for d, stride in self.strides.items() if d in sums.strided}
        made.covers = {} if launch.extents else sums.covers  # they are told in extents of the kernel's own grid
        return made

    def zeros_of_shared(self, body: list[Stmt]) -> list[Stmt]:
        """The gradients of shared arrays, declared and cleared, and a barrier."""
        left = [d for d in self.shared if self.gradients[d.name] in names_used(body)]
        clear = [s for d in left for s in cleared(d, self.gradients[d.name], self.conditions, self.limited(d.name))]
        return [*clear, Barrier()] if clear else []

    def explained(self, row: Choice) -> Choice:
        """The row of an atomic with the reason why no thread owns the element, where one was looked for."""
        why = self.atomic.get(row.what)
        return row._replace(why=f"{row.why}; {why}") if why and "atomic" in row.how else row

    def limited(self, array: str) -> dict[str, Expr]:
        """The extents of the block that all stores into an array leave to threadIdx alone: they may be those of it."""
        stores = [s.target for s in flatten(self.flow) if isinstance(s, Assign) and target_name(s.target) == array]
        axes = [{thread_axis(self.fixed, e) for e in t.indices} for t in stores if isinstance(t, Index)]
        return {name: e for name, e in self.limits.items() if all(name[-1] in along for along in axes)}

    def parameters(self) -> dict[str, str]:
        """The gradients of parameters, by parameter."""
        return super().parameters() | self.totals

    def handed_over(self) -> list[Stmt]:
        """Each thread's part of the gradient of a scalar parameter, added up."""
        made: list[Stmt] = []
        for p in self.scalars:
            made.append(Comment(f"the parameter {p.name} is shared by all threads"))
            total = Index(self.totals[p.name], (ZERO,), p.type)
            made.append(Assign(total, "+=", Name(self.gradients[p.name], p.type)))
        return made

    def facts(self, body: list[Stmt], blocks: Iterable[str] = ()) -> Facts:
        """What holds everywhere in the kernel."""
        macros = set(self.file.values)
        scalars = {p.name for p in self.of.params if not p.pointer} | {*blocks}
        known = {**self.fixed, **assigned_once(body)} if blocks else {**assigned_once(body), **self.fixed}
        alike, extents = {*scalars, *macros, *EXTENTS.values()}, (self.conditions, self.limits)
        return Facts(known, macros, alike, set(self.uniform), *extents)
