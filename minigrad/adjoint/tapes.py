"""Tapes: memory for what each round of a loop begins with, short names for what is kept, and what values cost."""

from dataclasses import dataclass, field
from typing import NamedTuple

from minigrad.adjoint.build import ascending, plus, times
from minigrad.adjoint.expr import Binary, Call, Cast, Expr, Index, Name, Place, Target, Ternary, Unary, walk
from minigrad.adjoint.tree import Assign, Declare, Stmt
from minigrad.adjoint.types import floating
from minigrad.adjoint.visit import expressions

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
        made = ascending(var, extent, [made])
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
    return "value" if floating(e.type) else "index"


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
    return (s.value,) if isinstance(s, Assign | Declare) and s.value is not None else expressions(s)


def work(e: Expr) -> int:
    """The operations of an expression."""
    dear = [x for x in walk(e) if isinstance(x, Call) or (isinstance(x, Binary) and x.op == "/" and floating(x.type))]
    plain = [x for x in walk(e) if isinstance(x, Binary) and x not in dear and floating(x.left.type)]  # tests, too
    return DEAR * len(dear) + len(plain)
