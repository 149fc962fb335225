"""Types of expressions, and the functions that have a derivative or need none."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import NamedTuple

TYPES = {
    "int": "int", "unsigned": "unsigned", "unsigned int": "unsigned", "bool": "bool", "float": "float",
    "double": "double", "real": "real", "long long": "long long", "size_t": "size_t",
}  # fmt: skip
BYTES = {"real": 4, "float": 4, "double": 8, "int": 4, "unsigned": 4, "bool": 1, "long long": 8, "size_t": 8}
UNSIGNED = ("unsigned", "size_t")
BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
CONSTANTS = {"INFINITY": "float", "true": "bool", "false": "bool", "M_PI": "double"}

# Of one operand x, by the name without its f; y stands for the value of the function itself.
DERIVATIVES = {
    "exp": "y", "exp2": "y * 0.6931471805599453", "expm1": "y + 1", "log": "1 / x", "log2": "1.4426950408889634 / x",
    "log10": "0.4342944819032518 / x", "log1p": "1 / (1 + x)", "sin": "cos(x)", "cos": "-sin(x)",
    "tan": "1 + y * y", "asin": "rsqrt(1 - x * x)", "acos": "-rsqrt(1 - x * x)", "atan": "1 / (1 + x * x)",
    "sinh": "cosh(x)", "cosh": "sinh(x)", "tanh": "1 - y * y", "sqrt": "x > 0 ? 0.5 / y : 0",
    "cbrt": "x == 0 ? 0 : y / (3 * x)", "rsqrt": "y * y * y * -0.5", "erf": "1.1283791670955126 * exp(-x * x)",
    "erfc": "-1.1283791670955126 * exp(-x * x)", "fabs": "x < 0 ? -1 : 1", "abs": "x < 0 ? -1 : 1",
    "floor": "", "ceil": "", "round": "", "trunc": "", "rint": "",
}  # fmt: skip
BINARY = ("max", "min", "fmax", "fmin", "pow", "atan2", "hypot", "fmod", "copysign")
TERNARY = ("fma",)
TESTS = ("isnan", "isinf", "isfinite")


def plain(function: str) -> str:
    """`expf` -> `exp`: the name by which the rules know a function; empty for a name that none knows."""
    known = (*DERIVATIVES, *BINARY, *TERNARY, *TESTS)
    if function in known:
        return function
    return function[:-1] if function.endswith("f") and function[:-1] in known else ""


def operands(function: str) -> int:
    """How many operands a maths function takes."""
    return 2 if plain(function) in BINARY else 3 if plain(function) in TERNARY else 1


def result(function: str, types: list[str]) -> str:
    """The type that a maths function returns."""
    if plain(function) in TESTS:
        return "bool"
    if plain(function) != function:
        return "float"
    if plain(function) in ("max", "min", "abs"):
        return common(*types)
    return common(*types) if any(t in FLOATS for t in types) else "double"


def common(*types: str) -> str:
    """The type in which C++ computes with operands of these types; `real` counts as at least float."""
    return max((*types, "int"), key=RANKS.index)


def floating(kind: str) -> bool:
    """Whether values of this type have derivatives."""
    return kind in FLOATS


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


@dataclass(eq=False)
class Declare:
    """A variable or an array, with its first value or values."""

    name: str
    type: str
    dims: tuple[Expr, ...] = ()
    value: Expr | None = None
    values: tuple[Expr, ...] | None = None  # of an array
    shared: bool = False
    const: bool = False
    place: Place = NOWHERE
    text: str = ""


@dataclass(eq=False)
class Assign:
    """`target = value`, or with `+=` and its like."""

    target: Target
    op: str
    value: Expr
    place: Place = NOWHERE
    text: str = ""
    owned: bool = False  # of a gradient: of an element that the thread stores, so that no other thread reads it


@dataclass(eq=False)
class Add:
    """`atomicAdd(&target, value)`; `warp_add` and `block_add` in its place add up over warp or block first."""

    target: Target
    value: Expr
    place: Place = NOWHERE
    text: str = ""
    by: str = "atomicAdd"


@dataclass(eq=False)
class If:
    """A branch."""

    condition: Expr
    then: list["Stmt"]
    orelse: list["Stmt"]
    place: Place = NOWHERE
    text: str = ""


@dataclass(eq=False)
class For:
    """A loop: start, condition, step; of a while the condition alone."""

    start: Declare | Assign | None
    condition: Expr
    step: Assign | None
    body: list["Stmt"]
    pragma: str = ""
    place: Place = NOWHERE
    text: str = ""
    reversal: "Reversal | None" = None

    @property
    def variable(self) -> str:
        """The variable that it declares; empty where it declares none."""
        return self.start.name if isinstance(self.start, Declare) else ""

    @property
    def source(self) -> "For":
        """The loop as the kernel has it."""
        return (self.reversal and self.reversal.loop) or self


@dataclass(frozen=True)
class Reversal:
    """Of a loop that runs the rounds of another from the last to the first."""

    loop: For | None  # the other, if its rounds can be counted
    counter: str  # the variable that has counted them
    trips: Expr | None  # their number by formula, until it is known which of the two is read
    turns: bool  # whether they may run from the first to the last, if no round reads what another writes
    filled: frozenset[str]  # arrays that each round fills anew
    cleared: frozenset[str]  # the gradients of these


JUMPS = ("break", "continue", "return")


@dataclass(eq=False)
class Jump:
    """`break`, `continue`, or `return` with or without a value."""

    kind: str
    value: Expr | None = None
    place: Place = NOWHERE
    text: str = ""


@dataclass(eq=False)
class Barrier:
    """`__syncthreads()`."""

    place: Place = NOWHERE
    text: str = ""
    made: bool = False  # for the adjoint's own order of reads and stores; the kernel has none there


@dataclass(eq=False)
class Comment:
    """A line of comment in what is emitted."""

    text: str
    place: Place = NOWHERE


@dataclass(eq=False)
class Do:
    """A call as a statement: the adjoint of a function, `f_adjoint(x, d_y, d_x);`, and what it writes."""

    function: str
    arguments: tuple[Expr, ...]
    writes: tuple[str, ...]
    place: Place = NOWHERE
    text: str = ""
    stale: dict[str, frozenset[str]] = field(default_factory=dict)  # parameters whose arrays now have other values


Stmt = Declare | Assign | Add | If | For | Jump | Barrier | Comment | Do


@dataclass(frozen=True)
class Param:
    """A parameter: a scalar, or a pointer to an array."""

    name: str
    type: str
    pointer: bool
    const: bool
    place: Place = field(default=NOWHERE, compare=False)
    restrict: bool = False


@dataclass(eq=False)
class Function:
    """A kernel or a device function: parameters and body; `returns` is void for a kernel."""

    name: str
    returns: str
    params: tuple[Param, ...]
    body: list[Stmt]
    place: Place
    text: str
    declared: dict[str, Declare] = field(default_factory=dict)

    def param(self, name: str) -> Param | None:
        """The parameter of that name."""
        return next((p for p in self.params if p.name == name), None)
