"""Tapes: memory for what each round of a loop begins with, short names for what is kept, and what values cost."""

from collections.abc import Set
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from minigrad.adjoint.analyse.regions import Fill
from minigrad.adjoint.analyse.trip_counts import LOCAL_BYTES, evaluate
from minigrad.adjoint.language.ast import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Declare,
    Expr,
    Function,
    If,
    Index,
    Name,
    Number,
    Place,
    Stmt,
    Target,
    Ternary,
    Unary,
    is_float,
    unused_name,
    walk,
)
from minigrad.adjoint.language.dataflow import assigned_once
from minigrad.adjoint.language.file import KernelFile
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ZERO, count_up, logical_not, own_expressions, plus, replace_parts, times

STORED = {"unsigned": "int", "size_t": "long long"}  # how global memory holds what has no dtype of its own
OPERATIONS = 8  # in the time of one byte: 33e12 instructions and 4.2e12 bytes a second on an H200
DEAR = 16  # instructions of a division or a function


@dataclass(frozen=True)
class Tape:
    """Memory for one value a round: in the thread's own memory (`size`) or, for all threads, in global memory."""

    name: str
    type: str
    size: Expr | None  # rounds, known to the compiler
    trips: Expr | None  # rounds, as the host computes them; None where they are counted while the kernel runs
    value: str
    place: Place
    counter: str  # the variable that counts the rounds
    dims: tuple[Expr, ...] = ()  # of a whole array a round
    of: str = ""  # the expression whose values it holds; empty where they are those that rounds begin with
    every: int = 1  # of so many rounds one is stored

    def slot(self, k: Expr, indices: tuple[Expr, ...] = ()) -> Index:
        """Where round k stands; of neighbouring threads side by side."""
        if self.size is not None:
            return Index(self.name, (k, *indices), self.type)
        for e, extent in zip(indices, self.dims, strict=True):
            k = plus(times(k, extent), e)
        column = Binary("+", times(k, Name("tape_threads", "size_t")), Name("tape_thread", "size_t"), "size_t")
        return Index(self.name, (column,), self.type)


def copying(source: Expr, target: Target, elements: tuple[Name, ...], dims: tuple[Expr, ...]) -> Stmt:
    """A variable copied, or an array by loops over its elements."""
    made: Stmt = Assign(target, "=", source)
    for var, extent in reversed(list(zip(elements, dims, strict=True))):
        made = count_up(var, extent, [made])
    return made


class Numbered(NamedTuple):
    """A loop: how many rounds it makes at most, as the host knows it, and which one this is, as the kernel has it."""

    rounds: Expr
    this: Expr


@dataclass
class Rounds:
    """A loop being reversed: its round k, the length of its tapes, and the arrays that a round cannot compute again."""

    k: Name
    size: Expr | None
    trips: Expr | None
    lost: set[str]
    filled: frozenset[str]  # arrays that each round fills anew
    place: Place
    outer: "Rounds | None"
    counter: str
    number: Numbered | None
    pushes: dict[Place, list[Stmt]] = field(default_factory=dict)
    wide: dict[tuple[Place, Expr], Tape] = field(default_factory=dict)  # of values at a place

    @property
    def checked(self) -> bool:
        """Whether only the running kernel knows how many rounds there are."""
        return self.size is None and self.trips is None


def base(e: Expr) -> str:
    """A short name for a value."""
    match e:
        case Name():
            return e.name
        case Index():
            return e.array
        case Ternary():
            return base(e.yes)
        case Unary() | Cast():
            return base(e.operand)
        case Call():
            return e.function
        case Binary() if e.type == "bool":
            return "condition"
    return "value" if is_float(e.type) else "index"


@dataclass(frozen=True)
class Counted:
    """What a round costs: bytes that a tape of all rounds moves; bytes and operations where most are run again."""

    store: float
    again: float
    work: int

    def __str__(self) -> str:
        count = f"{self.work} operation{'s' * (self.work != 1)}"
        return f"{self.again:g} and {count}, as long as {self.again + self.work / OPERATIONS:.3g}"

    @property
    def pays(self) -> bool:
        """Whether to run rounds again: for less than half, for to count is not to measure."""
        return 2 * (self.again + self.work / OPERATIONS) < self.store


def values(s: Stmt) -> tuple[Expr, ...]:
    """What a statement computes, its indices left aside."""
    return (s.value,) if isinstance(s, Assign | Declare) and s.value is not None else own_expressions(s)


def work(e: Expr) -> int:
    """The operations of an expression."""
    dear = [x for x in walk(e) if isinstance(x, Call) or (isinstance(x, Binary) and x.op == "/" and is_float(x.type))]
    plain = [x for x in walk(e) if isinstance(x, Binary) and x not in dear and is_float(x.left.type)]  # tests, too
    return DEAR * len(dear) + len(plain)


LOST = "?"  # the name of a value that cannot be had again
INNER = (
    "is overwritten in an outer loop and read in an inner one while the gradient still needs it, and only the running "
    "kernel knows how many rounds that makes; give it a bound that the launch knows, and leave it with break"
)
HEADER = (
    "is overwritten in an outer loop and read in the header of an inner one while the gradient still needs it; "
    "copy it into a variable before the inner loop, or test it in the rounds of a for that break leaves"
)


class Keeping:
    """Knows, at each statement, which values will be gone when the gradient passes by."""

    def __init__(self, file: KernelFile, function: Function, active: set[str]):
        self.file, self.of, self.active = file, function, active
        self.used = {*function.declared, *file.tokens.words}
        self.fixed = assigned_once(function.body)
        self.conditions: dict[str, Expr] = {}  # extents of the launch on which the adjoint relies
        self.limits: dict[str, Expr] = {}  # and those that may be smaller
        self.fills: list[Fill] = []  # what the block of a launch has to store in each round of a loop
        self.tapes: dict[str, Tape] = {}
        self.saved_names: dict[str, str] = {}  # variables in which a value is kept, and what the kernel has for it
        self.atomic: dict[str, str] = {}  # elements that are added to by atomics, and why no thread owns them
        self.gone: set[str] = set()
        self.here: Stmt = Comment("")
        self.known: tuple[Expr, Name] | None = None  # the value just assigned, and the variable that still holds it
        self.before: list[Stmt] = []
        self.kept: dict[tuple[Expr, tuple[Expr, ...]], Expr] = {}
        self.rounds: Rounds | None = None
        self.guards: list[Expr] = []
        self.around: list[Numbered | None] = []  # the loops around, of a statement as the kernel has it
        self.why: dict[str, tuple[Place, str]] = {}

    def at(self, s: Stmt, gone: set[str]) -> None:
        """Move to a statement."""
        self.here, self.gone, self.before, self.kept, self.guards, self.known = s, gone, [], {}, [], None

    def fresh(self, base: str) -> str:
        """A name that is not in use."""
        name = unused_name(base, self.used)
        self.used.add(name)
        return name

    def keep(self, e: Expr) -> Expr:
        """An expression that gives, at the mirrored place, the value that `e` has here."""
        if self.known and e == self.known[0] and not isinstance(e, Number):
            return self.known[1]
        return replace_parts(e, self._kept)

    def _kept(self, e: Expr) -> Expr | None:
        match e:
            case Name() if e.name in self.gone:
                return self.capture(e)
            case Index() if e.array in self.gone or self.is_lost(e.array):
                return self.capture(e)
            case Call() if self.overwritten(e):
                return self.capture(e)
            case Ternary():
                condition = self.keep(e.condition)
                yes, no = self.guarded(e.condition, e.yes), self.guarded(logical_not(e.condition), e.no)
                return Ternary(condition, yes, no, e.type)
            case Binary() if e.op in ("&&", "||"):
                guard = e.left if e.op == "&&" else logical_not(e.left)
                return Binary(e.op, self.keep(e.left), self.guarded(guard, e.right), e.type)
        return None

    def guarded(self, condition: Expr, e: Expr) -> Expr:
        """keep(e), of an expression that is evaluated only under a condition."""
        self.guards.append(condition)
        kept = self.keep(e)
        self.guards.pop()
        return kept

    def is_lost(self, array: str) -> bool:
        """Whether the round that is being run again, or one of a loop outside, would find other values in an array."""
        rounds = self.rounds
        while rounds and array not in rounds.lost:
            rounds = rounds.outer
        return rounds is not None

    def overwritten(self, e: Call) -> set[str]:
        """The arrays that a call hands to a function of the file, and that will hold other values."""
        params = self.file.functions[e.function].params if e.function in self.file.functions else ()
        arrays = [a.name for p, a in zip(params, e.arguments, strict=False) if p.pointer and isinstance(a, Name)]
        return {a for a in arrays if a in self.gone or self.is_lost(a)}

    def reads_lost(self, e: Expr) -> bool:
        """Whether it reads an array whose values are lost to the round that is being run again."""
        return any(map(self.is_lost, e.names))

    def capture(self, e: Expr) -> Expr:
        """The value saved at this statement, once: in a register, or on a tape where the round cannot repeat it."""
        guards = tuple(self.guards) if isinstance(e, Index) else ()  # a variable can be read in any case
        if (e, guards) not in self.kept:
            value = e
            for guard in reversed(guards):
                value = Ternary(guard, value, Number("0", e.type), e.type)
            self.kept[e, guards] = self.taped(value) if self.reads_lost(value) else self.saved(value)
        return self.kept[e, guards]

    def saved(self, value: Expr, name: str = "") -> Expr:
        """The value in a variable of its own."""
        name = self.fresh(f"{name or base(value)}_{self.here.place.line}")
        self.saved_names[name] = expression(value)
        self.before.append(Declare(name, value.type, value=value, place=self.here.place))
        return Name(name, value.type)

    def taped(self, value: Expr) -> Expr:
        """The value on the tape of the outermost loop whose rounds cannot repeat it, which loops inside make wider."""
        outermost, inside = self.losing(value.names)
        numbers = [number for number, _ in inside if number is not None]
        if outermost is None or len(numbers) < len(inside):
            return self.lost(value)
        key = self.here.place, value
        if not inside or key not in outermost.wide:
            dims, at = tuple(n.rounds for n in numbers), tuple(n.this for n in numbers)
            outermost.wide[key] = tape = self.tape(outermost, base(value), value.type, dims, expression(value))
            store = self.bounded(outermost, Assign(tape.slot(outermost.k, at), "=", value))
            outermost.pushes.setdefault(self.here.place, []).append(store)
        return outermost.wide[key].slot(outermost.k, tuple(k for _, k in inside))

    def losing(self, arrays: Set[str]) -> tuple[Rounds | None, list[tuple[Numbered | None, Expr]]]:
        """The outermost loop in which one of these is lost, and those inside: how it is numbered, and which is run."""
        around: list[tuple[Numbered | None, Expr]] = [(n, n.this if n else ZERO) for n in self.around]
        outermost, inside, rounds = None, around, self.rounds
        while rounds:
            if arrays & rounds.lost:
                outermost, inside = rounds, around
            around, rounds = [(rounds.number, rounds.k), *around], rounds.outer
        return outermost, inside

    def lost(self, value: Expr, why: str = INNER) -> Name:
        """A value that cannot be had again: an error only if what needs it stays in the adjoint."""
        name = f"{LOST}{len(self.why)}"
        arrays = sorted(filter(self.is_lost, value.names))
        self.why[name] = self.here.place, f"{arrays[0]} {why}."
        return Name(name, value.type)

    def tape(self, rounds: Rounds, value: str, kind: str, dims: tuple[Expr, ...] = (), of: str = "") -> Tape:
        """A new tape of a loop that is being reversed: in the thread's own memory while it is short.

        of: what it is for that a round computes; empty for what a round begins with.
        """
        size, trips, function = rounds.size, rounds.trips, ""
        if size is not None:
            extents = [evaluate(e, self.file.values) for e in (size, *dims)]
            if None in extents or 8 * prod(e or 0 for e in extents) > LOCAL_BYTES:
                size, trips = None, size
        if size is None and self.of is not self.file.kernel:
            function = f" of {self.of.name}"  # the kernel hands it over, under this name
        name = self.fresh(f"{value}{function.replace(' ', '_')}_tape")
        self.tapes[name] = Tape(name, kind, size, trips, value + function, rounds.place, rounds.counter, dims, of)
        return self.tapes[name]

    def bounded(self, rounds: Rounds, store: Stmt) -> Stmt:
        """A store onto a tape, made only where there is a slot for this round."""
        if not rounds.checked:
            return store
        return If(Binary("<", rounds.k, Name("tape_slots", "int"), "bool"), [store], [])
