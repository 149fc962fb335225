"""Tapes: memory for what each round of a loop begins with; and short names for what is kept."""

from dataclasses import dataclass, field

from minigrad.adjoint.build import times
from minigrad.adjoint.tree import (
    NOWHERE,
    Binary,
    Call,
    Cast,
    Expr,
    Index,
    Name,
    Place,
    Stmt,
    Ternary,
    Unary,
)
from minigrad.adjoint.types import floating


@dataclass(frozen=True)
class Tape:
    """Memory for one value a round: in the thread's own memory (`size`) or, for all threads, in global memory."""

    name: str
    type: str
    size: Expr | None  # rounds, known to the compiler
    trips: Expr | None  # rounds, as the host computes them; None where they are counted while the kernel runs
    value: str
    place: Place

    def slot(self, k: Expr) -> Index:
        """Where round k stands."""
        return Index(self.name, (k if self.size else _column(k),), self.type)


def _column(k: Expr) -> Expr:
    """Slot k of this thread: neighbouring threads side by side."""
    return Binary("+", times(k, Name("tape_threads", "size_t")), Name("tape_thread", "size_t"), "size_t")


@dataclass
class Rounds:
    """A loop being reversed: its round k, its tapes, and the arrays that a round cannot compute again."""

    k: Expr
    size: Expr | None
    trips: Expr | None
    lost: set[str]
    place: Place
    outer: "Rounds | None"
    pushes: dict[int, list[Stmt]] = field(default_factory=dict)

    @property
    def checked(self) -> bool:
        """Whether only the running kernel knows how many rounds there are."""
        return self.size is None and self.trips is None


def place(s: Stmt | None) -> Place:
    """Where a statement stands."""
    return NOWHERE if s is None else s.place


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
