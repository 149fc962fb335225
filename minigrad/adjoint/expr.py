"""Expressions of a kernel as a tree: each knows its type, and where it stands in the text."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import NamedTuple

FLOATS = ("float", "real", "double")
RANKS = ("bool", "int", "unsigned", "long long", "size_t", *FLOATS)


class Place(NamedTuple):
    """Line and column, from 1."""

    line: int
    column: int


NOWHERE = Place(0, 0)


class Tree:
    """What all expressions have."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables and arrays that it reads."""
        own = self.name if isinstance(self, Name) else self.array if isinstance(self, Index) else ""
        inner = frozenset().union(*(child.names for child in children(self)))  # type: ignore[arg-type]
        return inner | {own} if own else inner


@dataclass(frozen=True)
class Number(Tree):
    """A literal as it was written; true and false too."""

    text: str
    type: str

    @property
    def whole(self) -> int | None:
        """Its value, of a whole number."""
        return int(self.text.rstrip("uUlL"), 0) if self.type in ("int", "unsigned", "long long") else None

    @property
    def value(self) -> float | None:
        """Its value; None of true and false."""
        whole = self.whole
        return float(self.text.rstrip("fF")) if whole is None and self.type != "bool" else whole


@dataclass(frozen=True)
class Name(Tree):
    """A variable, a parameter, a macro, or a builtin such as `threadIdx.x`."""

    name: str
    type: str
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Index(Tree):
    """An element of an array: `x[i]`, `tile[ty][j]`."""

    array: str
    indices: tuple["Expr", ...]
    type: str
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Unary(Tree):
    """`-x`, `!x` or `~x`."""

    op: str
    operand: "Expr"
    type: str


@dataclass(frozen=True)
class Binary(Tree):
    """Two operands and an operator between them."""

    op: str
    left: "Expr"
    right: "Expr"
    type: str


@dataclass(frozen=True)
class Ternary(Tree):
    """`condition ? yes : no`."""

    condition: "Expr"
    yes: "Expr"
    no: "Expr"
    type: str


@dataclass(frozen=True)
class Call(Tree):
    """A call of a maths function or of a `__device__` function; `flat` are operands on which no derivative depends."""

    function: str
    arguments: tuple["Expr", ...]
    type: str
    place: Place = field(default=NOWHERE, compare=False)
    flat: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Cast(Tree):
    """`(real)x` or `real(x)`."""

    type: str
    operand: "Expr"


Expr = Number | Name | Index | Unary | Binary | Ternary | Call | Cast
Target = Name | Index


def unused(base: str, taken: Container[str]) -> str:
    """The first name of base, base_2, base_3, ... that is not taken."""
    return next(name for name in chain([base], (f"{base}_{n}" for n in count(2))) if name not in taken)


def children(e: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    match e:
        case Index():
            return e.indices
        case Unary() | Cast():
            return (e.operand,)
        case Binary():
            return (e.left, e.right)
        case Ternary():
            return (e.condition, e.yes, e.no)
        case Call():
            return e.arguments
    return ()


def walk(e: Expr) -> Iterator[Expr]:
    """An expression and all within it."""
    yield e
    for child in children(e):
        yield from walk(child)
