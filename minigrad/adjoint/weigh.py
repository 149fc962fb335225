"""What a value costs: bytes that are moved, and operations, which are faster."""

from dataclasses import dataclass

from minigrad.adjoint.effects import expressions
from minigrad.adjoint.expr import Binary, Call, Expr, walk
from minigrad.adjoint.tree import Assign, Declare, Stmt
from minigrad.adjoint.types import floating

OPERATIONS = 8  # in the time of one byte: 33e12 instructions and 4.2e12 bytes a second on an H200
DEAR = 16  # instructions of a division or a function


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
