"""Barriers: the phases between them, and the branches in which the threads of a block diverge."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set

from minigrad.adjoint.analyse.polynomials import EXTENTS, IDS
from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.frontend.intrinsics import SHUFFLES
from minigrad.adjoint.language.ast import (
    JUMPS,
    Barrier,
    Binary,
    Call,
    Declare,
    Expr,
    For,
    Function,
    If,
    Name,
    Number,
    Stmt,
    Target,
    walk,
)
from minigrad.adjoint.language.control_flow import ends, leaves
from minigrad.adjoint.language.dataflow import (
    accesses,
    assigned_once,
    has_barrier,
    has_shuffle,
    inline,
    names_used,
    own_reads,
    own_updates,
    own_writes,
    target_name,
    thread_axis,
    written,
)
from minigrad.adjoint.language.rewrite import (
    ONE,
    ZERO,
    bodies,
    constant,
    flatten,
    own_expressions,
    replace_parts,
    with_header,
)

Use = tuple[str, str, frozenset | None]  # array; read, write or add; the indices by which one thread owns the element


class Phases:
    """The phases of a body by number, and the edges between those that no barrier separates.

    memory: the arrays whose uses are recorded.
    """

    def __init__(
        self, body: list[Stmt], values: dict[str, int], fixed: dict[str, Expr], conditions: dict[str, Expr],
        memory: Set[str] = frozenset(),
    ):  # fmt: skip
        self.values, self.fixed, self.memory = values, fixed, memory
        self.axes = [a for a in "xyz" if conditions.get(f"blockDim.{a}") != ONE]
        self.flow: list[set[int]] = [set()]  # the phases after each that no barrier separates from it
        self.ahead: list[set[int]] = [set()]  # those before it
        self.reached: dict[int, frozenset[int]] = {}  # from a phase, before the next barrier
        self.starts = {0}  # the phases that begin at a barrier, or with the kernel
        self.of: dict[int, int] = {}  # the phase of a statement, by its id
        self.places: dict[int, int] = {}  # and its place in the text
        self.writes: dict[int, list[tuple[int, set[str]]]] = {}  # by phase: places of statements, and names they write
        self.uses: dict[int, set[Use]] = {}
        self.barriers: list[tuple[list[Stmt], Barrier, int, int]] = []  # with its body and the phases before and after
        self.visit(body, 0)

    def new(self, *before: int) -> int:
        """A new phase, which no barrier separates from these."""
        self.flow.append(set())
        self.ahead.append(set())
        for phase in before:
            self.link(phase, len(self.flow) - 1)
        return len(self.flow) - 1

    def link(self, before: int, after: int) -> None:
        self.flow[before].add(after)
        self.ahead[after].add(before)

    def visit(self, body: list[Stmt], phase: int) -> int:
        """Assign phases to the statements of a body. Returns the last phase."""
        for s in body:
            if not has_barrier([s]):
                self.record(s, phase, {})
                continue
            self.enter(s, phase)
            if isinstance(s, Barrier) and s.warp:  # other warps may be ahead of it, or behind it
                phase = self.new(phase)
            elif isinstance(s, Barrier):
                before, phase = phase, self.new()
                self.starts.add(phase)
                self.barriers.append((body, s, before, phase))
            elif isinstance(s, If):
                self.record_own(s, phase, {})
                phase = self.new(*(self.visit(side, self.new(phase)) for side in bodies(s)))
            elif isinstance(s, For):
                first = self.new(phase)
                if s.start:
                    self.enter(s.start, phase)
                last = self.visit(s.body, first)
                if s.step:
                    self.enter(s.step, last)
                self.link(last, first)
                for at in (phase, last):
                    self.record_own(s, at, {})
                header = count(s)
                phase = self.new(last) if header and header.runs(self.values) else self.new(phase, last)
        return phase

    def enter(self, s: Stmt, phase: int) -> None:
        self.of[id(s)], self.places[id(s)] = phase, len(self.places)
        if names := own_writes(s):
            self.writes.setdefault(phase, []).append((self.places[id(s)], names))

    def record(self, s: Stmt, phase: int, equal: dict[Expr, str]) -> None:
        """Record the uses of a statement without a barrier. equal: axes of threadIdx by the value they have here."""
        self.enter(s, phase)
        self.record_own(s, phase, equal)
        for part in with_header(s)[1:]:
            self.record(part, phase, equal)
        for n, side in enumerate(bodies(s)):
            inside = equal
            if isinstance(s, If) and not n and isinstance(s.condition, Binary) and s.condition.op == "==":
                axis, value = thread_axis(self.fixed, s.condition.left), s.condition.right
                inside = equal | ({value: axis} if axis and value.names.isdisjoint(written(side)) else {})
            for t in side:
                self.record(t, phase, inside)

    def record_own(self, s: Stmt, phase: int, equal: dict[Expr, str]) -> None:
        if self.memory.isdisjoint(own_reads(s)) and self.memory.isdisjoint(own_writes(s)):
            return
        found = [(target_name(x), kind, x) for kind, x in accesses(s)]
        uses = ((name, kind, self.owner(x, equal)) for name, kind, x in found if name in self.memory)
        self.uses.setdefault(phase, set()).update(uses)

    def owner(self, e: Target, equal: dict[Expr, str]) -> frozenset | None:
        """The axis of threadIdx in each index, if together they identify one thread of the block."""
        if isinstance(e, Name):
            return None
        axes = [(n, equal.get(i) or thread_axis(self.fixed, i)) for n, i in enumerate(e.indices)]
        found = frozenset((n, a) for n, a in axes if a)
        return found if {a for _, a in found} >= set(self.axes) else None

    def before_barrier(self, start: int) -> frozenset[int]:
        """The phases that a thread may reach from this one before the next barrier."""
        if start not in self.reached:
            self.reached[start] = _reached(self.flow, start)
        return self.reached[start]

    def concurrent(self, phase: int) -> set[int]:
        """The phases that other threads may execute at the same time."""
        starts = _reached(self.ahead, phase) & self.starts
        return set().union(*map(self.before_barrier, starts))

    def changing(self, statements: Sequence[Stmt]) -> set[str]:
        """The names that a thread may write after one of these statements and before another, with no barrier between.

        Other threads may be at the one statement and at the other in the meantime.
        """
        first, last = dict[int, int](), dict[int, int]()
        for place, phase in ((self.places[id(s)], self.of[id(s)]) for s in statements):
            first[phase], last[phase] = min(first.get(phase, place), place), max(last.get(phase, place), place)
        behind, ahead = (
            set().union(*(_reached(ways, p) for phase in first for p in ways[phase]))
            for ways in (self.flow, self.ahead)
        )
        return set().union(
            *(
                names
                for phase in behind.union(first)
                for place, names in self.writes.get(phase, ())
                if (phase in behind or place > first[phase]) and (phase in ahead or place < last.get(phase, place))
            )
        )

    def drop_barriers(self) -> None:
        """Remove each barrier between accesses of which no two conflict.

        Barriers that the kernel does not have come first; of these one in a loop before the one ahead of it.
        """
        own = [b for b in reversed(self.barriers) if b[1].added]
        joined: dict[int, int] = {}  # phases that have become a part of another
        dropped: dict[int, set[int]] = {}  # by id of a body: ids of barriers
        for body, barrier, before, after in [*own, *(b for b in self.barriers if not b[1].added)]:
            while before in joined:
                before = joined[before]
            earlier, later = (self.uses_in(_reached(*way)) for way in ((self.ahead, before), (self.flow, after)))
            if not any(_conflict(a, b) for a in earlier for b in later):
                self.join(before, after)
                joined[after] = before
                dropped.setdefault(id(body), set()).add(id(barrier))
        for body, *_ in self.barriers:
            if gone := dropped.pop(id(body), set()):
                body[:] = [s for s in body if id(s) not in gone]

    def join(self, before: int, after: int) -> None:
        """One phase of two around a barrier, which alone led from the one and to the other."""
        self.uses.setdefault(before, set()).update(self.uses.pop(after, ()))
        self.flow[before], self.flow[after] = self.flow[after], set()
        for phase in self.flow[before]:
            self.ahead[phase].remove(after)
            self.ahead[phase].add(before)

    def uses_in(self, phases: Iterable[int]) -> set[Use]:
        return set().union(*(self.uses.get(p, set()) for p in phases))


def _reached(flow: list[set[int]], start: int) -> frozenset[int]:
    found, left = {start}, [start]
    while left:
        new = flow[left.pop()] - found
        found |= new
        left += new
    return frozenset(found)


def _conflict(a: Use, b: Use) -> bool:
    """True if two threads may access one element, and the order matters."""
    alike = a[1] == b[1] and a[1] in ("read", "add")
    return a[0] == b[0] and not alike and (a[2] is None or a[2] != b[2])


class Divergence:
    """Variables of a function whose values differ between the threads of a block: `varying`; all others: `uniform`.

    control: also those that differ only because some threads skip an assignment.
    """

    scoped: tuple[type, ...] = ()  # statements whose own variables count for the threads that reach them alone

    def __init__(self, function: Function, control: bool = True):
        self.control, self.fixed = control, assigned_once(function.body)
        self.loops: dict[int, dict[str, str]] = {}  # by id of a statement: loop variables around it, each by a name
        counts = Counter(s.variable for s in flatten(function.body) if isinstance(s, For))
        self.enter(function.body, {}, {name for name, count in counts.items() if count > 1})
        self.local = {d.name for d in function.declared.values() if not d.shared}
        self.varying, size = {*IDS[:3]}, 0
        while size != (size := len(self.varying)):
            self.spread(function.body, set())
        names = {p.name for p in function.params if not p.pointer}
        names |= {n for n, d in function.declared.items() if not d.dims}
        self.uniform = {*names, *IDS, *EXTENTS.values()} - {n.partition("@")[0] for n in self.varying}

    def enter(self, body: list[Stmt], around: dict[str, str], several: set[str]) -> None:
        """Tell the variables of `several` loops with one name apart."""
        for s in body:
            here = around
            if isinstance(s, For) and s.variable in several:
                here = {**around, s.variable: f"{s.variable}@{len(self.loops)}"}
            if here:
                self.loops |= {id(one): here for one in with_header(s)}
            for inner in bodies(s):
                self.enter(inner, here, several)

    def apart(self, s: Stmt, names: Set[str]) -> Set[str]:
        here = self.loops.get(id(s))
        return {here.get(n, n) for n in names} if here else names

    def spread(self, body: list[Stmt], skipped: Set[str]) -> None:
        """Mark variables assigned varying values, or assigned by some threads only (`skipped`)."""
        for s in body:
            own = {t.name for t in flatten([s]) if isinstance(t, Declare) and isinstance(s, self.scoped)}
            inside = self.local - own if self.control and self.diverges(s) else skipped
            for one in with_header(s):
                varies = self.apart(one, self.reads(one)) & self.varying
                self.varying |= self.apart(one, own_writes(one) & (self.local if varies else inside))
            for inner in bodies(s):
                self.spread(inner, inside)

    def reads(self, s: Stmt) -> Set[str]:
        return own_reads(s)

    def names(self, e: Expr) -> Set[str]:
        return e.names

    def diverges(self, s: Stmt) -> bool:
        """True where threads take different sides of a branch, or leave a loop after different trip counts."""
        tests = isinstance(s, If | For) and not self.varying.isdisjoint(self.apart(s, self.names(s.condition)))
        return tests or (isinstance(s, For) and self._has_divergent_jump(s.body))

    def _has_divergent_jump(self, body: list[Stmt]) -> bool:
        branches = [s for s in body if isinstance(s, If) and leaves([s], JUMPS)]
        return any(self.diverges(s) or any(map(self._has_divergent_jump, bodies(s))) for s in branches)


class WarpDivergence(Divergence):
    """The same for the threads of a warp: threadIdx.x / 32 is one number for all of them, and so is threadIdx.x < 32.

    There is no such number where a block has several axes.
    """

    scoped = (If,)

    def __init__(self, file: KernelFile):
        numbers = {name: Number(str(n), "int") for name, n in file.values.items()}
        function, self.known = file.kernel, {t.name: t.value for t in file.tables if t.value} | file.formulas | numbers
        self.flat = not any(f"threadIdx.{a}" in names for a in "yz" for names in map(own_reads, flatten(function.body)))
        super().__init__(function)

    def reads(self, s: Stmt) -> Set[str]:
        return own_updates(s).union(*map(self.names, own_expressions(s)))

    def names(self, e: Expr) -> Set[str]:
        return replace_parts(e, lambda x: ZERO if self.flat and self.is_warp(x) else None).names

    def is_warp(self, e: Expr) -> bool:
        n = constant(inline(e.right, self.known)) if isinstance(e, Binary) else None
        if n is None or not isinstance(e, Binary) or thread_axis(self.fixed, e.left) != "x":
            return False
        if e.op in ("<", ">=", "<=", ">"):
            return (n + (e.op in ("<=", ">"))) % 32 == 0
        return (e.op, n) in {("/", 32), (">>", 5)}


def check_shuffles(file: KernelFile) -> None:
    """Reject shuffles whose lanes read at different distances, or in loops that threads leave at different times.

    The iterations of a loop are reversed: the last one of a thread would meet an earlier one of another. And a lane
    knows which others have read its value only where all of them read at the same distance.
    """
    body = file.kernel.body
    if not has_shuffle(body):
        return
    divergence = WarpDivergence(file)

    def visit(body: list[Stmt]) -> None:
        for s in body:
            if isinstance(s, For) and has_shuffle(s.body) and divergence.diverges(s):
                raise file.error(
                    s.place, "this loop holds a shuffle, and threads of a warp may leave it after different numbers of "
                    "iterations. Let all of them run it as often, with a condition around what some of them do."
                )  # fmt: skip
            for e in (e for own in own_expressions(s) for e in walk(own) if isinstance(e, Call)):
                distance = e.arguments[2] if SHUFFLES.get(e.function, "idx") != "idx" else ZERO
                if divergence.apart(s, divergence.names(distance)) & divergence.varying:
                    how = "give each lane the number of the lane that it reads: __shfl_sync(mask, v, lane)."
                    raise file.error(e.place, f"the distance of {e.function} may differ between lanes; {how}")
            for inner in bodies(s):
                visit(inner)

    visit(body)


def check_barriers(file: KernelFile, divergence: Divergence) -> None:
    """Reject barriers that some threads of a block, or a warp, might not reach. Those that return do not count."""
    kernel, around = file.kernel, "Move it out."
    ahead = "Leave out the return, and put the statements between barriers that those threads shall not run into an if."
    returns = leaves(kernel.body, ("return",))

    def visit(body: list[Stmt], advice: str, of_warp: str) -> None:
        for n, s in enumerate(body):
            if isinstance(s, Barrier):
                s.warp = s.warp and bool(advice)  # where all threads come by, it may be one of the block
                what, why = ("__syncwarp()", of_warp) if s.warp else ("__syncthreads()", advice)
                if why:
                    raise file.error(
                        s.place, f"{what} that only some threads reach: a condition around it or a jump before it "
                        f"differs between threads. {why}"
                    )  # fmt: skip
            of_block, of_lanes = (around if each.diverges(s) else "" for each in (divergence, warps))
            for inner in bodies(s):
                visit(inner, advice or of_block, of_warp or of_lanes)
            if returns and _returns_apart(s, divergence) and not (body is kernel.body and _leaves_at_once(kernel, n)):
                advice, of_warp = advice or ahead, of_warp or (ahead if _returns_apart(s, warps) else "")

    if has_barrier(kernel.body):
        warps = WarpDivergence(file)
        visit(kernel.body, "", "")


def returns_ahead(kernel: Function, divergence: Divergence) -> bool:
    """True where threads return ahead of a barrier: in the adjoint they compute gradients of what lies ahead first."""
    return has_barrier(kernel.body) and any(
        _returns_apart(s, divergence) and _leaves_at_once(kernel, n) and has_barrier(kernel.body[n:])
        for n, s in enumerate(kernel.body)
    )


def _returns_apart(s: Stmt, divergence: Divergence) -> bool:
    """True where some threads return in a statement, and others do not."""
    inside = (t for t in flatten([s]) if isinstance(t, If | For) and leaves([t], ("return",)))
    return any(map(divergence.diverges, inside))


def _leaves_at_once(kernel: Function, n: int) -> bool:
    """True for `if (i >= n) return;` ahead of all barriers and of all that touches shared memory."""
    s, shared = kernel.body[n], {d.name for d in kernel.declared.values() if d.shared}
    before = [t for t in kernel.body[: n + 1] if not (isinstance(t, Declare) and t.shared)]
    apart = not has_barrier(before) and shared.isdisjoint(names_used(before))
    return apart and isinstance(s, If) and not s.orelse and ends(s.then)
