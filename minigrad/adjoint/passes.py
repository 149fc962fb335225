"""The passes that turn the two sweeps into launches: first the plain adjoint, then optimizations and tidying.

Each pass can be switched off but for those marked as required; without any of the others the adjoint is the plain one,
which adds every gradient in memory by an atomic, and is correct as well.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.phases import Phases
from minigrad.adjoint.decide import AdjointLaunch, Choice, Derived
from minigrad.adjoint.decide.accumulate import Accumulate, cleared
from minigrad.adjoint.decide.checkpoints import Checkpoints
from minigrad.adjoint.decide.ownership import Ownership
from minigrad.adjoint.decide.split import BlockExchange
from minigrad.adjoint.differentiate.saved import LOST, Saved
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import Assign, AtomicAdd, Barrier, Declare, For, If, Index, Jump, Stmt
from minigrad.adjoint.language.dataflow import (
    assigned_once,
    has_barrier,
    has_shuffle,
    names_used,
    target_name,
    thread_axis,
    written,
)
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import bottom_up, copy_without, flatten, logical_not, map_loops
from minigrad.adjoint.simplify import hoist, tidy
from minigrad.adjoint.simplify.prune import Live, Prune


@dataclass
class Draft:
    """An adjoint on its way through the passes: its sweeps, and the facts that the passes share."""

    derived: Derived
    sweeps: list[Stmt]  # forward and backward sweep, in full
    saved: Saved
    results: set[str]  # names that the caller reads afterwards
    gradients: dict[str, str]  # of every variable: the name of its gradient
    enabled: set[str]  # the passes that are switched on
    totals: dict[str, str] = field(default_factory=dict)  # gradients of scalar parameters in memory
    sinks: dict[str, bool] = field(default_factory=dict)  # gradients in memory, and whether in shared memory
    strides: dict[str, str] = field(default_factory=dict)  # of gradients that may be added up in copies
    atomic: dict[str, str] = field(default_factory=dict)  # elements that need an atomic, and why no thread owns them

    @property
    def facts(self) -> KernelFacts:
        return self.derived.facts

    @property
    def shared(self) -> list[Declare]:
        """The shared arrays that have a gradient."""
        return [d for d in self.facts.function.declared.values() if d.shared and d.name in self.facts.active]

    def pruned(self, body: list[Stmt]) -> list[Stmt]:
        return Prune((written(body) - self.results) | set(self.saved.tapes)).body(body, Live())

    def phases(self, body: list[Stmt], memory: Set[str] = frozenset()) -> Phases:
        """The statements that the threads of a block may run at the same time."""
        facts = self.facts
        return Phases(body, facts.file.values, {**facts.fixed, **assigned_once(body)}, facts.conditions, memory)


Apply = Callable[[Draft, AdjointLaunch], None]


def everywhere(change: Callable[[list[Stmt]], list[Stmt]]) -> Apply:
    """The pass that makes a change in each body of a launch, the innermost first."""

    def apply(draft: Draft, launch: AdjointLaunch) -> None:
        launch.body = bottom_up(launch.body, change)

    return apply


def settle(draft: Draft, launch: AdjointLaunch) -> None:
    """Remove dead code, then the counters and checks of loops without a tape. Rejects a lost value that is needed."""
    body = draft.pruned(launch.body)
    used, tapes = names_used(body), draft.saved.tapes
    taped = {tape.counter for name, tape in tapes.items() if name in used}
    launch.body = body = draft.pruned(bottom_up(body, partial(tidy.drop_counters, taped=taped)))
    used = names_used(body)
    if unfilled := (set(tapes) & used) - written(body):
        raise RuntimeError(f"{draft.facts.function.name}: the adjoint reads {min(unfilled)}, which it never fills.")
    for name in sorted(name for name in used if name.startswith(LOST)):
        raise draft.facts.file.error(*draft.saved.why[name])


def gather(draft: Draft, launch: AdjointLaunch) -> None:
    gradients = {draft.gradients[d.name] for d in draft.shared}
    owners = Ownership(draft.facts, gradients, bool(draft.derived.fills), draft.atomic)
    launch.body = owners.body(launch.body)
    draft.derived.choices += owners.choices


def hoist_sums(draft: Draft, launch: AdjointLaunch) -> None:
    known = draft.facts.file.values | dict.fromkeys(launch.blocks, 1)
    change = partial(hoist.hoist_sums, arrays=draft.sinks, fresh=draft.facts.names.fresh, values=known)
    launch.body = map_loops(launch.body, change)


def accumulate(draft: Draft, launch: AdjointLaunch) -> None:
    """Make each `+=` in memory an atomic, unless the element is proved to belong to one thread."""
    facts, body = draft.facts, launch.body
    begun, gradients = written(draft.derived.body), draft.derived.gradients
    inputs = {gradients[p.name]: p.name for p in facts.function.params if p.pointer and p.name in gradients}
    totals = () if facts.returned else draft.totals.values()  # a sum over the block waits for all its threads
    sums = Accumulate(draft.sinks, facts.converged, totals, draft.strides, begun, inputs, draft.enabled)
    phases = draft.phases(body if draft.shared else [])  # which part only sums in shared memory
    rows = sums.decide(body, facts.of_indices(body, launch.blocks), phases)
    for n, row in enumerate(rows):  # the reason why no thread owns the element, where one was looked for
        if row.what in draft.atomic and "atomic" in row.how:
            rows[n] = row._replace(why=f"{row.why}; {draft.atomic[row.what]}")
    launch.choices = (*launch.choices, *rows)
    launch.strided = sums.strided
    launch.covers = {} if launch.extents else sums.covers  # they are in terms of extents of the kernel's own grid


def share_warp_sums(draft: Draft, launch: AdjointLaunch) -> None:
    uniform = {*draft.facts.uniform, *draft.strides.values()}
    launch.body = map_loops(launch.body, partial(hoist.share_over_warp, uniform=uniform, fresh=draft.facts.names.fresh))


def checkpoint(draft: Draft, launch: AdjointLaunch) -> None:
    checkpoints = Checkpoints(draft.saved.tapes, draft.facts.function.memory, draft.facts.names.fresh)
    launch.body = bottom_up(launch.body, checkpoints)
    draft.derived.costs |= checkpoints.costs
    draft.derived.never |= checkpoints.obstacle


def clear_shared(draft: Draft, launch: AdjointLaunch) -> None:
    """Declare the gradients of shared arrays and set them to 0, followed by a barrier."""
    facts, used = draft.facts, names_used(launch.body) if draft.shared else set()
    clear: list[Stmt] = []
    for d in draft.shared:
        if (gradient := draft.gradients[d.name]) not in used:
            continue
        stores = [s.target for s in flatten(facts.flow) if isinstance(s, Assign) and target_name(s.target) == d.name]
        axes = [{thread_axis(facts.fixed, e) for e in t.indices} for t in stores if isinstance(t, Index)]
        # the limits along the axes that every store into the array leaves to threadIdx alone
        limits = {name: e for name, e in facts.limits.items() if all(name[-1] in along for along in axes)}
        clear += cleared(d, gradient, facts.conditions, limits)
    if clear:
        launch.body = [*clear, Barrier(), *launch.body]


def sink_zeros(draft: Draft, launch: AdjointLaunch) -> None:
    launch.body = bottom_up(launch.body, tidy.ZeroSinker())


def propagate_copies(draft: Draft, launch: AdjointLaunch) -> None:
    launch.body = bottom_up(launch.body, partial(tidy.propagate_copies, copies=draft.saved.registers))


def add_barriers(draft: Draft, launch: AdjointLaunch) -> None:
    """Add a barrier ahead of each iteration that fills a shared array, which threads may still read.

    The kernel has it after the iteration. In the adjoint, reads after the loop need no barrier there.
    """

    def change(body: list[Stmt]) -> list[Stmt]:
        made: list[Stmt] = []
        for s in body:
            filled = s.reversal.filled if isinstance(s, For) and s.reversal and has_barrier([s]) else frozenset()
            if isinstance(s, For) and any(draft.facts.function.declared[name].shared for name in filled):
                made.append(Barrier(s.place, added=True))
                s.body = [Barrier(s.place, added=True), *s.body]
            made.append(s)
        return made

    launch.body = bottom_up(draft.pruned(launch.body), change)


def drop_barriers(draft: Draft, launch: AdjointLaunch) -> None:
    if not has_barrier(launch.body):
        return
    shared = {s.name for s in flatten(launch.body) if isinstance(s, Declare) and s.shared}
    memory = draft.facts.function.memory - draft.facts.dropped | shared | set(draft.sinks)
    draft.phases(launch.body, memory).drop_barriers()


def load_early(draft: Draft, launch: AdjointLaunch) -> None:
    seeds = {draft.gradients.get(n, "") for n in dataflow.outputs(draft.facts.function)} - written(launch.body)
    launch.body = bottom_up(launch.body, partial(hoist.hoist_loads, constant=seeds))


def keep_rolled(draft: Draft, launch: AdjointLaunch) -> None:
    hoist.keep_rolled(launch.body, draft.facts.file.values)


def split(draft: Draft, launch: AdjointLaunch, rest: "Sequence[Pass]") -> bool:
    """Move sums to launches of their own, which go through the remaining passes, where those end without atomics.

    Returns whether sums remain for the launch itself.
    """
    facts, taken = draft.facts, set[int]()
    inputs = set(draft.strides) - set(draft.totals.values())
    exchange = BlockExchange(facts, draft.gradients, inputs, set(draft.saved.tapes), draft.pruned, draft.atomic)
    for candidate, sums in exchange.launches(launch.body):
        before = dict(facts.conditions), dict(facts.limits)
        facts.uniform |= {name.replace("blocks_", "block_") for name in candidate.blocks}
        run(draft, candidate, rest)
        if adds := [expression(s.target) for s in flatten(candidate.body) if isinstance(s, AtomicAdd)]:
            for known, old in zip((facts.conditions, facts.limits), before, strict=True):
                known.clear()
                known |= old
            why = f"in a launch of its own, with blocks and rounds exchanged, {adds[0]} would need an atomic, too"
            moved = [s for s in flatten(launch.body) if isinstance(s, Assign) and id(s) in sums]
            draft.atomic |= {expression(s.target): why for s in moved}
        else:
            finish(draft, candidate)
            taken |= sums
    if taken:
        launch.body, launch.of = draft.pruned(copy_without(launch.body, taken)), "others"
    return not taken or bool(written(launch.body) & draft.results)


OUT_OF_BUDGET = Choice(
    "the kernel", "plain adjoint", "it is so long that further passes are left out; sums without a proof are atomics"
)


def run(draft: Draft, launch: AdjointLaunch, passes: "Sequence[Pass]") -> bool:
    """Run passes on a launch. Returns False where the split leaves nothing of it."""
    for n, one in enumerate(passes):
        if not one.required and not draft.facts.budget.take_pass(3 * len(flatten(launch.body))):
            draft.derived.choices += () if OUT_OF_BUDGET in draft.derived.choices else (OUT_OF_BUDGET,)
            return run(draft, launch, [p for p in passes[n:] if p.required])
        if one.apply is not None:
            one.apply(draft, launch)
        elif one.name == "split" and not split(draft, launch, passes[n + 1 :]):
            return False
    return True


def finish(draft: Draft, launch: AdjointLaunch) -> None:
    """Declare the tapes in a thread's own memory, and add the launch to the record."""
    derived, used = draft.derived, names_used(launch.body) if draft.saved.tapes else set()
    tapes = [t for t in draft.saved.tapes.values() if t.name in used]
    if whole := {t.value.partition(" ")[0] for t in tapes if t.dims and not t.of}:
        launch.body = bottom_up(launch.body, partial(zeroed, arrays=whole))
    pointers = {p.name for p in draft.facts.function.params if p.pointer}
    derived.replayed |= written(launch.body) & pointers - draft.facts.dropped
    if draft.facts.returned:
        launch.body = returning(draft.facts, launch.body)
    local: list[Stmt] = [Declare(t.name, t.type, (t.size, *t.dims)) for t in tapes if t.size is not None]
    launch.body = [*local, *launch.body]
    derived.launches.append(launch)
    derived.tapes += tapes
    derived.choices += launch.choices
    derived.covers |= launch.covers
    derived.strides |= {d: stride for d, stride in draft.strides.items() if d in launch.strided}


def zeroed(body: list[Stmt], arrays: Set[str]) -> list[Stmt]:
    """Arrays that begin with zeros: a tape takes all elements, and the kernel may have set some of them."""
    return [replace(s, values=s.values or ()) if isinstance(s, Declare) and s.name in arrays else s for s in body]


def returning(facts: KernelFacts, body: list[Stmt]) -> list[Stmt]:
    """`if (!c) { rest; return; }` for `if (c) {...} rest` with barriers in it, where those that return do not count."""
    for n, s in enumerate(body):
        if not isinstance(s, If) or not has_barrier([s]) or s.condition.names <= facts.uniform:
            continue
        ahead, rest = body[:n], body[n + 1 :]
        stay, leave, condition = s.then, s.orelse, logical_not(s.condition)
        if has_barrier(leave):
            stay, leave, condition = leave, stay, s.condition
        together = has_barrier([*leave, *rest]) or has_shuffle([*leave, *rest])
        if together or names_declared(stay) & names_declared([*ahead, *rest]):
            place = next(t.place for t in flatten([s]) if isinstance(t, Barrier))
            raise facts.file.error(
                place, "threads that return ahead of this barrier have gradients to compute behind it. Leave out the "
                "return, and put the statements between barriers that those threads shall not run into an if."
            )  # fmt: skip
        gone = If(condition, [*leave, *copy_without(rest, set()), Jump("return")], [], s.place)
        return returning(facts, [*ahead, gone, *stay, *rest])
    return body


def names_declared(body: list[Stmt]) -> set[str]:
    return {s.name for s in body if isinstance(s, Declare)}


class Pass(NamedTuple):
    """A step of the pipeline. apply changes a launch; a pass without it is a switch that other passes read."""

    name: str
    why: str
    apply: Apply | None = None
    required: bool = False
    functions: bool = False  # device functions go through it, too


PASSES = (
    Pass("seeds once", "the gradient of an output that is stored once is read once, so it need not be cleared"),
    Pass("settle", "dead code is removed, with the values that cannot be saved", settle, required=True, functions=True),
    Pass("forwards", "independent iterations run in kernel order", everywhere(tidy.restore_order), functions=True),
    Pass("merge", "one atomic where a statement adds to an element twice", everywhere(tidy.merge_sums)),
    Pass("gather", "the thread that owns an element of a shared gradient sums it up: no shared atomics", gather),
    Pass("split", "a block that owns a tile of a gradient sums it up, in a launch of its own: no global atomics"),
    Pass("hoist sums", "one addition to memory after a loop instead of one in each iteration", hoist_sums),
    Pass("plain sums", "no atomic where the index proves that the element belongs to one thread"),
    Pass("first stores", "the first sum to each element is a store, and memory need not be set to 0 before"),
    Pass("warp sums", "one atomic per warp or block where all its threads add to the same element"),
    Pass("copies", "blocks add to 256 copies, because atomics on one address wait for one another"),
    Pass("accumulate", "every other sum in memory is an atomic", accumulate, required=True, functions=True),
    Pass("share warp sums", "the warp sums of a loop are distributed over the lanes", share_warp_sums),
    Pass("checkpoint", "a tape of every eighth iteration, where computing those between again is cheaper", checkpoint),
    Pass("clear shared", "gradients of shared arrays are 0 before they are added to", clear_shared, required=True),
    Pass("sink zeros", "a gradient is declared at its first sum", sink_zeros, functions=True),
    Pass("propagate copies", "a variable that does not change needs no copy", propagate_copies, functions=True),
    Pass("barriers", "no thread stores a tile that others still read", add_barriers, required=True, functions=True),
    Pass("drop barriers", "barriers between accesses that cannot conflict", drop_barriers, functions=True),
    Pass("unswitch", "a condition that no iteration changes is tested once", everywhere(hoist.unswitch)),
    Pass("load early", "gradients of outputs are loaded ahead of loops, which hide the latency", load_early),
    Pass("keep rolled", "a long loop stays one: its code unrolled would not fit into the caches", keep_rolled),
)
