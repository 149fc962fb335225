"""The storage plan: for each value that the backward sweep needs, reread it, recompute it, or save it.

The backward sweep visits the statements in reverse order. A value of a statement is lost to it where the forward sweep
overwrites a name in it afterwards (the to-be-recorded analysis). Each loop iteration is run again before its gradient
is taken, so that what the iteration computes is recomputed; its state at the start of the iteration is on a tape.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from enum import StrEnum

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.regions import Fill, filled
from minigrad.adjoint.analyse.trip_counts import bounding, capacity, count, shifted, widest
from minigrad.adjoint.language.ast import Assign, Binary, Expr, For, If, Index, Name, Place, Stmt, Target
from minigrad.adjoint.language.control_flow import structured
from minigrad.adjoint.language.dataflow import declared, own_arrays, own_reads, read
from minigrad.adjoint.language.rewrite import ZERO, bodies, count_up, plus, replace_parts, times, with_header

STORED = {"unsigned": "int", "size_t": "long long"}  # how global memory holds a type that has no dtype of its own


@dataclass(frozen=True)
class Tape:
    """Memory for one value per iteration: local to the thread (`size`) or, for all threads, in global memory."""

    name: str
    type: str
    size: Expr | None  # number of iterations, where the compiler knows it
    trips: Expr | None  # number of iterations, as the host computes it; None where the running kernel counts them
    value: str
    place: Place
    counter: str  # the variable that counts the iterations
    dims: tuple[Expr, ...] = ()  # of an array that is saved as a whole in each iteration
    of: str = ""  # the expression whose values it holds; empty for the state at the start of an iteration
    every: int = 1  # one of this many iterations is stored

    def slot(self, k: Expr, indices: tuple[Expr, ...] = ()) -> Index:
        """The element of iteration k; in global memory those of neighboring threads are adjacent."""
        if self.size is not None:
            return Index(self.name, (k, *indices), self.type)
        for e, extent in zip(indices, self.dims, strict=True):
            k = plus(times(k, extent), e)
        column = Binary("+", times(k, Name("tape_threads", "size_t")), Name("tape_thread", "size_t"), "size_t")
        return Index(self.name, (column,), self.type)


class Storage(StrEnum):
    """Where the sweeps save a value that the backward sweep can neither reread nor recompute."""

    REGISTER = "register"  # in a variable of its own: the original is overwritten before its gradient is taken
    TAPE = "tape"  # on the tape of a loop: running its iteration again would find another value
    LOST = "lost"  # nowhere: nothing bounds the number of iterations, so that no tape can be long enough


@dataclass(frozen=True)
class LoopPlan:
    """A loop to be reversed: its number of iterations, and the storage of what an iteration starts from."""

    loop: For
    flow: list[Stmt]  # the body without break and continue
    size: Expr | None  # the most iterations, where the compiler knows that
    trips: Expr | None  # the number of iterations, where the host does
    most: Expr | None  # an upper bound that the host knows, for tapes of the loops around
    state: tuple[str, ...]  # variables and arrays of the thread that iterations pass on: saved on the loop's tapes
    filled: frozenset[str]  # arrays that each iteration fills before it reads them: recomputed
    lost: frozenset[str]  # arrays that an iteration run again would find with other values
    outer: "LoopPlan | None"

    @property
    def counted(self) -> bool:
        """True if only the running kernel knows the number of iterations."""
        return self.size is None and self.trips is None

    @property
    def nest(self) -> tuple[For, ...]:
        """The loops around the body, the outermost first."""
        return (*(self.outer.nest if self.outer else ()), self.loop)

    def loses(self, array: str) -> bool:
        """True if an iteration of this loop, or of one around it, run again, finds other values in an array."""
        return array in self.lost or (self.outer is not None and self.outer.loses(array))


@dataclass(frozen=True)
class Overwritten:
    """The names that the last `count` statements of a body overwrite, and those that are overwritten behind it."""

    since: dict[str, int]  # by name: the first statement that overwrites it, counted from the last, which is 0
    count: int
    behind: Container[str]

    def __contains__(self, name: object) -> bool:
        return self.since.get(name, self.count) < self.count or name in self.behind  # type: ignore[call-overload]


@dataclass(frozen=True)
class Point:
    """The names that the forward sweep overwrites after a statement (`after`), and in or after it (`overwritten`)."""

    after: Container[str]
    overwritten: Container[str]
    loop: LoopPlan | None  # the innermost around it


@dataclass
class StoragePlan:
    """The values to be saved, by statement: all others are reread or recomputed."""

    facts: KernelFacts
    body: list[Stmt]
    points: dict[int, Point] = field(default_factory=dict)  # by id of a statement
    loops: dict[int, LoopPlan] = field(default_factory=dict)  # by id of a loop
    fills: list[Fill] = field(default_factory=list)  # to be checked of a launch: the block fills these arrays

    def changed(self, s: Stmt, e: Expr) -> set[str]:
        """The variable or the arrays that an expression reads, if they have other values in the backward sweep."""
        point = self.points[id(s)]
        return {n for n in self.facts.reads(e) if n in point.overwritten or (point.loop and point.loop.loses(n))}

    def may_change(self, s: Stmt, e: Expr) -> bool:
        """False where nothing that an expression names has another value in the backward sweep."""
        point = self.points[id(s)]
        lost = point.loop is not None and any(map(point.loop.loses, e.names))
        return lost or any(name in point.overwritten for name in e.names)

    def saved_in(self, s: Stmt, value: Expr) -> Storage:
        """A register; a tape if an iteration that runs again would read a changed array; LOST if it has no bound."""
        loop, unbounded, storage = self.points[id(s)].loop, False, Storage.REGISTER
        while loop:
            if value.names & loop.lost:
                storage = Storage.LOST if unbounded else Storage.TAPE
            unbounded |= loop.most is None
            loop = loop.outer
        return storage

    def read_outside(self, loop: LoopPlan, array: str) -> bool:
        """True if an array is read outside of a loop, too, other than in one that fills it itself before it reads it.

        Then a gradient enters the last iteration from behind the loop. Otherwise each finds the array's gradient 0.
        """
        around, outer = list[LoopPlan](), loop.outer
        while outer:
            around, outer = [*around, outer], outer.outer

        def reads(body: list[Stmt]) -> bool:
            for s in body:
                inner = self.loops.get(id(s))
                if inner and (inner is loop or array in inner.filled) and not any(inner is a for a in around):
                    continue
                if any(array in own_reads(part) for part in with_header(s)):
                    return True
                if any(map(reads, [inner.flow] if inner else bodies(s))):
                    return True
            return False

        return reads(self.body)

    def lost_in_header(self, s: For, outer: LoopPlan | None) -> set[str]:
        """The arrays in the header of a loop that an iteration of a loop around, run again, finds with other values."""
        names = {n for part in with_header(s) for n in own_reads(part)}
        return {n for n in names if outer and outer.loses(n)}


def decide(facts: KernelFacts, body: list[Stmt]) -> StoragePlan:
    """The plan of a body, made by a walk in the order of the backward sweep."""
    plan = StoragePlan(facts, body)
    _last(plan, body, None)
    return plan


def _last(plan: StoragePlan, body: list[Stmt], loop: LoopPlan | None) -> None:
    """Plan a body whose backward sweep follows at once: nothing is overwritten in between, nor after a last `if`."""
    last = body[-1] if body else None
    if not isinstance(last, If):
        _body(plan, body, frozenset(), loop)
        return
    _body(plan, body[:-1], frozenset(plan.facts.overwrites(last)), loop)
    plan.points[id(last)] = Point(frozenset(), frozenset(), loop)
    for side in bodies(last):
        _last(plan, side, loop)


def _body(plan: StoragePlan, body: list[Stmt], behind: Container[str], loop: LoopPlan | None) -> None:
    """Plan statements. behind: the names that the forward sweep overwrites later."""
    since: dict[str, int] = {}
    after: Container[str] = behind
    for n, s in enumerate(reversed(body)):
        for name in plan.facts.overwrites(s):
            since.setdefault(name, n)
        before = Overwritten(since, n + 1, behind)
        plan.points[id(s)] = Point(after, before, loop)
        if isinstance(s, For):
            plan.loops[id(s)] = inner = _loop(plan, s, after, loop)
            _last(plan, inner.flow, inner)
        else:
            for side in bodies(s):
                _body(plan, side, after, loop)
        after = before


def _loop(plan: StoragePlan, s: For, after: Container[str], outer: LoopPlan | None) -> LoopPlan:
    facts, known = plan.facts, _known_header(plan, s, outer)
    size = capacity(facts.file, known, header := count(known), outer.nest if outer else ())
    trips = facts.trips(header) if header and size is None else None
    most = size or trips
    if most is None and (wide := bounding(known, facts.function.body)):
        most = facts.trips(widest(wide, facts.nests.get(s.place, ()), facts.converted, facts.formula_budget))
    changed, filled_anew = facts.overwrites(s) - declared(s.body), set()
    for name in sorted(filter(facts.is_array, changed)):
        if (checks := filled(facts, s, name)) is not None:
            plan.fills += checks
            filled_anew.add(name)
    memory = facts.function.memory
    kept = read([known]) & (memory - facts.dropped - filled_anew)
    lost = frozenset(name for name in kept if name in changed or name in after)
    by_formula = {s.variable} if header or shifted(known, ZERO) else set()
    state = sorted(changed - filled_anew - memory - by_formula)
    flow = structured(s.body, ("break", "continue"))
    return LoopPlan(s, flow, size, trips, most, tuple(state), frozenset(filled_anew), lost, outer)


def _known_header(plan: StoragePlan, s: For, outer: LoopPlan | None) -> For:
    """The loop with an unknown in its header for each value that a tape of a loop around has to hold."""
    lost = plan.lost_in_header(s, outer)

    def known(e: Expr) -> Expr:
        return replace_parts(e, lambda x: Name("?", x.type) if own_arrays(x) & lost else None)

    return replace_header(s, known, known, known) if lost else s


def replace_header(
    s: For, start: Callable[[Expr], Expr], condition: Callable[[Expr], Expr], step: Callable[[Expr], Expr]
) -> For:
    """A copy of the loop with other expressions in its header."""
    first = replace(s.start, value=start(s.start.value)) if s.start and s.start.value else s.start
    last = s.step and replace(s.step, value=step(s.step.value))
    return replace(s, start=first, condition=condition(s.condition), step=last)


def copying(source: Expr, target: Target, elements: tuple[Name, ...], dims: tuple[Expr, ...]) -> Stmt:
    """A copy of a variable, or of an array by loops over its elements."""
    made: Stmt = Assign(target, "=", source)
    for var, extent in reversed(list(zip(elements, dims, strict=True))):
        made = count_up(var, extent, [made])
    return made
