"""Saved values: the registers and tapes of the storage plan, and the expressions by which the sweeps read them."""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import LOCAL_BYTES, Count, evaluate
from minigrad.adjoint.decide.store_or_recompute import LoopPlan, Storage, StoragePlan, Tape, replace_header
from minigrad.adjoint.language import ast, rewrite
from minigrad.adjoint.language.ast import HALVES, Expr, Stmt, is_float
from minigrad.adjoint.language.dataflow import always_read, own_arrays, written
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, comparison, logical_not, replace_parts

LOST = "?"  # begins the name of a value that can be neither recomputed nor saved
INNER = (
    "is overwritten in an outer loop and read in an inner one while the gradient still needs it, and only the running "
    "kernel knows how many iterations that takes; give it a bound that the launch knows, and leave it with break"
)
HEADER = (
    "is overwritten in an outer loop and read in the header of an inner one while the gradient still needs it; "
    "copy it into a variable before the inner loop, or test it in the body of a for that break leaves"
)


class Iteration(NamedTuple):
    """The current iteration of a loop: an upper bound of the trip count, if the host knows one, and its number."""

    most: Expr | None
    number: Expr


@dataclass
class ReversedLoop:
    """A loop whose iterations are being reversed: the names of its variables, and its tapes."""

    plan: LoopPlan
    k: ast.Name  # the iteration that is run again
    counter: str
    iteration: Iteration  # as the kernel's own loop has it
    outer: "ReversedLoop | None"
    pushes: dict[ast.Place, list[Stmt]] = field(default_factory=dict)  # stores onto its tapes, by the next statement
    tapes: dict[tuple[ast.Place, Expr], Tape] = field(default_factory=dict)  # of values at a place in loops inside


class Saved:
    """Gives the sweeps an expression for each value, and declares the register or tape that this takes."""

    def __init__(self, facts: KernelFacts, plan: StoragePlan):
        self.facts, self.plan, self.names = facts, plan, facts.names
        self.tapes: dict[str, Tape] = {}
        self.registers: dict[str, str] = {}  # variables that hold a saved value: what the kernel calls it
        self.why: dict[str, tuple[ast.Place, str]] = {}  # values that cannot be saved: where, and why not
        self.loop: ReversedLoop | None = None  # the innermost loop that is being reversed
        self.turns: dict[ast.Place, str] = {}  # the counters of loops whose header does not number their iterations
        self.inside: list[Iteration] = []  # loops inside that one, which are run forwards
        self.guards: list[Expr] = []  # conditions under which the current expression is evaluated
        self.at(ast.Comment(""))

    def at(self, s: Stmt) -> None:
        self.here, self.guards = s, []
        self.before: list[Stmt] = []  # declarations for the forward sweep, in front of the statement
        self.captured: dict[tuple[Expr, tuple[Expr, ...]], Expr] = {}
        self.held: tuple[Expr, ast.Name] | None = None  # the value just assigned, and the variable that still holds it

    def keep(self, e: Expr) -> Expr:
        """An expression that has, in the backward sweep, the value that `e` has at this statement."""
        if self.held and e == self.held[0] and not isinstance(e, ast.Number):
            return self.held[1]
        return replace_parts(e, self._kept) if self.plan.may_change(self.here, e) else e

    def _kept(self, e: Expr) -> Expr | None:
        match e:
            case ast.Name() | ast.Index() | ast.Call() if self.plan.changed(self.here, e):
                return self.capture(e)
            case ast.Ternary():
                condition = self.keep(e.condition)
                yes, no = self.under(e.condition, e.yes), self.under(logical_not(e.condition), e.no)
                return ast.Ternary(condition, yes, no, e.type)
            case ast.Binary() if e.op in ("&&", "||"):
                guard = e.left if e.op == "&&" else logical_not(e.left)
                return ast.Binary(e.op, self.keep(e.left), self.under(guard, e.right), e.type)
        return None

    def under(self, condition: Expr, e: Expr) -> Expr:
        """keep(e), of an expression that is evaluated only under a condition."""
        self.guards.append(condition)
        kept = self.keep(e)
        self.guards.pop()
        return kept

    def capture(self, e: Expr) -> Expr:
        """The expression for a value that is saved at this statement."""
        guards = tuple(self.guards) if isinstance(e, ast.Index) else ()  # a variable can be read in any case
        if (e, guards) not in self.captured:
            value = e
            for guard in reversed(guards):
                zero: Expr = ast.Number("0", e.type)
                if e.type in HALVES:
                    zero = ast.Cast(e.type, ast.Number("0.0f", "float"))
                value = ast.Ternary(guard, value, zero, e.type)
            save = {Storage.REGISTER: self.in_register, Storage.TAPE: self.on_tape, Storage.LOST: self.lost}
            self.captured[e, guards] = save[self.plan.saved_in(self.here, value)](value)
        return self.captured[e, guards]

    def in_register(self, value: Expr, name: str = "") -> Expr:
        name = self.names.fresh(f"{name or short_name(value)}_{self.here.place.line}")
        self.registers[name] = expression(value)
        self.before.append(ast.Declare(name, value.type, value=value, place=self.here.place))
        return ast.Name(name, value.type)

    def on_tape(self, value: Expr) -> Expr:
        """The value on the tape of the outermost loop that loses it; each loop inside adds an axis to the tape."""
        loop, inside = self.losing(value.names)
        extents = [extent for i in inside if (extent := i[0].most) is not None]
        if loop is None or len(extents) < len(inside):
            return self.lost(value)
        key = self.here.place, value
        if not inside or key not in loop.tapes:
            numbers = tuple(i.number for i, _ in inside)
            tape = self.tape(loop, short_name(value), value.type, tuple(extents), expression(value))
            loop.tapes[key] = tape
            store = self.if_room(loop, ast.Assign(tape.slot(loop.k, numbers), "=", value))
            loop.pushes.setdefault(self.here.place, []).append(store)
        return loop.tapes[key].slot(loop.k, tuple(k for _, k in inside))

    def losing(self, arrays: Set[str]) -> tuple[ReversedLoop | None, list[tuple[Iteration, Expr]]]:
        """The outermost loop that loses an array, and the loops inside it: each with its iteration that is run now."""
        inside = [(i, i.number) for i in self.inside]
        outermost, inside_outermost, loop = None, inside, self.loop
        while loop:
            if arrays & loop.plan.lost:
                outermost, inside_outermost = loop, inside
            inside, loop = [(loop.iteration, loop.k), *inside], loop.outer
        return outermost, inside_outermost

    def is_lost(self, array: str) -> bool:
        """True if an iteration that is run again finds other values in an array."""
        return self.loop is not None and self.loop.plan.loses(array)

    def replayed(self, e: Expr) -> Expr:
        """An expression of the forward sweep; from the tape where an iteration run again cannot compute it."""
        return self.on_tape(e) if any(map(self.is_lost, e.names)) else e

    def lost(self, value: Expr, why: str = INNER) -> ast.Name:
        """A value that can be neither recomputed nor saved: an error only if the adjoint needs it in the end."""
        name = f"{LOST}{len(self.why)}"
        self.why[name] = self.here.place, f"{min(filter(self.is_lost, value.names))} {why}."
        return ast.Name(name, value.type)

    def tape(self, loop: ReversedLoop, value: str, kind: str, dims: tuple[Expr, ...] = (), of: str = "") -> Tape:
        """A new tape of a loop, in the thread's own memory if it is short. of: the expression that it holds."""
        size, trips, function = loop.plan.size, loop.plan.trips, ""
        if size is not None:
            extents = [evaluate(e, self.facts.file.values) for e in (size, *dims)]
            if None in extents or 8 * prod(e or 0 for e in extents) > LOCAL_BYTES:
                size, trips = None, size
            else:  # of a loop without iterations, one element: C++ has no arrays of none
                size, *rest = (e if n and n > 0 else ONE for e, n in zip((size, *dims), extents, strict=True))
                dims = tuple(rest)
        if size is None and self.facts.function is not self.facts.file.kernel:
            function = f" of {self.facts.function.name}"  # the kernel passes it on, under this name
        name = self.names.fresh(f"{value}{function.replace(' ', '_')}_tape")
        place = loop.plan.loop.place
        self.tapes[name] = Tape(name, kind, size, trips, value + function, place, loop.counter, dims, of)
        return self.tapes[name]

    def if_room(self, loop: ReversedLoop, store: Stmt) -> Stmt:
        """A store onto a tape, guarded where the tape may be too short."""
        room = comparison("<", loop.k, ast.Name("tape_slots", "int"))
        return ast.If(room, [store], []) if loop.plan.counted else store

    def with_saved_header(self, s: ast.For) -> ast.For:
        """The loop, with values in its header from the tape of a loop around where that loses them.

        One slot serves all iterations of this loop, and it is filled in front of the loop. So it may hold only a value
        that is the same in all of them, and that the kernel reads there in any case.
        """
        if not (lost := self.plan.lost_in_header(s, self.loop.plan if self.loop else None)):
            return s

        def kept(sure: Set[Expr]) -> Callable[[Expr], Expr]:
            def new(x: Expr) -> Expr | None:
                if not own_arrays(x) & lost:
                    return None
                return self.on_tape(x) if x in sure else self.lost(x, HEADER)

            return lambda e: replace_parts(e, new)

        first, changed = s.start.value if s.start else None, written([s])
        always_first: set[Expr] = {*always_read(first)} if first else set()
        sure: set[Expr] = {x for x in always_read(s.condition) if not x.names & changed}
        return replace_header(s, kept(always_first), kept(sure), kept(set()))

    def iteration(self, s: ast.For, header: Count | None) -> Iteration:
        """The current iteration of a loop that runs forwards."""
        most = self.plan.loops[id(s)].most
        if header is None:
            turn = self.turns.get(s.place) or self.turns.setdefault(s.place, self.names.fresh("turn"))
            return Iteration(most, ast.Name(turn, "int"))
        var = ast.Name(header.var, "int")
        return Iteration(most, var if header.simple else header.iteration(var))

    def counting(self, s: ast.For) -> list[Stmt]:
        """A loop that runs forwards, and the counter of its iterations where no formula gives their number."""
        if (turn := self.turns.get(s.place)) is None:
            return [s]
        s.body = [ast.Assign(ast.Name(turn, "int"), "+=", ONE), *s.body]
        return [ast.Declare(turn, "int", value=rewrite.int_literal(-1), place=s.place), s]


def short_name(e: Expr) -> str:
    """The base of a name for a value."""
    match e:
        case ast.Name():
            return e.name
        case ast.Index():
            return e.array
        case ast.Ternary():
            return short_name(e.yes)
        case ast.Unary() | ast.Cast():
            return short_name(e.operand)
        case ast.Call():
            return e.function
        case ast.Binary() if e.type == "bool":
            return "condition"
    return "value" if is_float(e.type) else "index"
