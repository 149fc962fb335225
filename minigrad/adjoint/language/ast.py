"""The syntax tree of the CUDA C++ subset: types, math functions with derivatives, expressions, statements."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

HALVES = ("half", "__nv_bfloat16")  # numbers of 16 bits, whose gradients are float
FLOATS = (*HALVES, "float", "real", "double")
SMALL = ("signed char", "unsigned char", "short", "unsigned short")  # whole numbers that C++ computes with as int
LIMITS = {"bool": (0, 1), "signed char": (-128, 127), "unsigned char": (0, 255), "short": (-(2**15), 2**15 - 1),
          "unsigned short": (0, 2**16 - 1)}  # fmt: skip
RANKS = ("bool", *SMALL, "int", "unsigned", "long long", "unsigned long long", "size_t", *FLOATS)
TYPES = {kind: kind for kind in RANKS} | {"unsigned int": "unsigned", "wide": "real"}
TYPES |= {"__half": "half", "nv_bfloat16": "__nv_bfloat16"}
BYTES = {"real": 4, "float": 4, "double": 8, "int": 4, "unsigned": 4, "bool": 1, "long long": 8, "size_t": 8}
BYTES |= {"unsigned long long": 8} | dict.fromkeys(SMALL[:2], 1) | dict.fromkeys((*SMALL[2:], *HALVES), 2)
PAIRS = {"half2": "half", "__nv_bfloat162": "__nv_bfloat16"}  # of halves, by name
GRADIENTS = dict.fromkeys(HALVES, "float") | dict.fromkeys(PAIRS, "float2")
UNSIGNED = ("unsigned", "size_t", "unsigned long long")
BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
CONSTANTS = {
    "INFINITY": "float", "NAN": "float", "true": "bool", "false": "bool", "INT_MAX": "int", "INT_MIN": "int",
    "UINT_MAX": "unsigned", "FLT_MAX": "float", "FLT_MIN": "float", "FLT_EPSILON": "float", "HUGE_VALF": "float",
    "DBL_MAX": "double", "DBL_MIN": "double", "DBL_EPSILON": "double", "HUGE_VAL": "double",
    **dict.fromkeys(("M_PI", "M_PI_2", "M_PI_4", "M_1_PI", "M_2_PI", "M_2_SQRTPI", "M_SQRT2", "M_SQRT1_2"), "double"),
    **dict.fromkeys(("M_E", "M_LN2", "M_LN10", "M_LOG2E", "M_LOG10E"), "double"),
}  # fmt: skip

# Derivatives of functions of one operand x, by the name without suffix f; y is the value. Those of "" are 0 everywhere.
DERIVATIVES = {
    "exp": "y", "exp2": "y * 0.6931471805599453", "expm1": "y + 1", "log": "1 / x", "log2": "1.4426950408889634 / x",
    "log10": "0.4342944819032518 / x", "log1p": "1 / (1 + x)", "sin": "cos(x)", "cos": "-sin(x)",
    "tan": "1 + y * y", "asin": "rsqrt(1 - x * x)", "acos": "-rsqrt(1 - x * x)", "atan": "1 / (1 + x * x)",
    "sinh": "cosh(x)", "cosh": "sinh(x)", "tanh": "1 - y * y", "sqrt": "x > 0 ? 0.5 / y : 0",
    "cbrt": "x == 0 ? 0 : y / (3 * x)", "rsqrt": "y * y * y * -0.5", "erf": "1.1283791670955126 * exp(-x * x)",
    "erfc": "-1.1283791670955126 * exp(-x * x)", "fabs": "x < 0 ? -1 : 1", "abs": "x < 0 ? -1 : 1",
    "exp10": "y * 2.302585092994046", "sinpi": "3.141592653589793 * cospi(x)", "cospi": "-3.141592653589793 * sinpi(x)",
    "asinh": "rsqrt(1 + x * x)", "acosh": "rsqrt(x * x - 1)", "atanh": "1 / (1 - x * x)", "rcbrt": "-y / (3 * x)",
    "erfcx": "2 * x * y - 1.1283791670955126", "erfinv": "0.886226925452758 * exp(y * y)",
    "erfcinv": "-0.886226925452758 * exp(y * y)", "normcdfinv": "2.5066282746310002 * exp(y * y * 0.5)",
    "floor": "", "nearbyint": "", "ceil": "", "round": "", "trunc": "", "rint": "",
}  # fmt: skip
BINARY = ("max", "min", "fmax", "fmin", "pow", "atan2", "hypot", "fmod", "copysign", "fdim", "rhypot",
          "ldexp", "scalbn", "remainder")  # fmt: skip
TERNARY = ("fma",)
TESTS = ("isnan", "isinf", "isfinite", "signbit")
COUNTS = ("__popc", "__clz", "__ffs", "__popcll", "__clzll", "__ffsll", "__brev")  # functions of whole numbers
CLOCKS = ("clock()", "clock64()")  # names of variables that the hardware changes; no derivative may depend on them
BITS = {"int": "__float_as_int", "unsigned": "__float_as_uint", "long long": "__double_as_longlong"}  # of a float
MATH = {*DERIVATIVES, *BINARY, *TERNARY, *TESTS, *COUNTS, *BITS.values()}


def base_name(function: str) -> str:
    """`expf` -> `exp`: the name of a math function in the tables above; empty where no table has it."""
    return function if function in MATH else function[:-1] if function[-1:] == "f" and function[:-1] in MATH else ""


def arity(function: str) -> int:
    return 2 if base_name(function) in BINARY else 3 if base_name(function) in TERNARY else 1


def result_type(function: str, types: list[str]) -> str:
    if (name := base_name(function)) in TESTS:
        return "bool"
    if name in COUNTS:
        return "unsigned" if name == "__brev" else "int"
    if name in BITS.values():
        return next(kind for kind, own in BITS.items() if own == name)
    if name != function:
        return "float"
    return common_type(*types) if any(map(is_float, types)) or name in ("max", "min", "abs") else "double"


def common_type(*types: str) -> str:
    """The type to which C++ converts operands of these types; `real` ranks above float."""
    return max((*types, "int"), key=RANKS.index)


def is_float(kind: str) -> bool:
    return kind in FLOATS


def gradient_type(kind: str) -> str:
    """The type of a gradient, in which it is added up."""
    return GRADIENTS.get(kind, kind)


# The precedence of binary operators: one of a higher rank binds more tightly.
PRECEDENCE = {
    op: rank
    for rank, ops in enumerate(["||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"], 1)
    for op in ops.split()
}


class Place(NamedTuple):
    """Line and column, from 1, in the kernel's file or in one that it includes."""

    line: int
    column: int
    copy: int = 0  # of a statement that the parser has written several times
    file: str = ""  # empty for the kernel's own

    @property
    def words(self) -> str:
        return f"line {self.line}{' of ' if self.file else ''}{self.file}"


NOWHERE = Place(0, 0)


def own_name(name: str) -> str:
    """The parameter or variable that holds a number: of x[].a, and of x.a, it is x."""
    return name.partition("[")[0].partition(".")[0]


class Expression:
    @cached_property
    def names(self) -> frozenset[str]:
        """The variables and arrays that the expression reads."""
        own = self.name if isinstance(self, Name) else self.array if isinstance(self, Index) else ""
        inner = frozenset().union(*(child.names for child in children(self)))  # type: ignore[arg-type]
        return inner | {own} if own else inner


@dataclass(frozen=True)
class Number(Expression):
    """A literal as written in the source; true and false too."""

    text: str
    type: str

    @property
    def int_value(self) -> int | None:
        """None for floating-point numbers, true and false."""
        return None if is_float(self.type) or self.type == "bool" else int(self.text.rstrip("uUlL"), 0)

    @property
    def value(self) -> float | None:
        """None for true and false."""
        return float(self.text.rstrip("fF")) if is_float(self.type) else self.int_value


@dataclass(frozen=True)
class Name(Expression):
    """A variable, a parameter, a macro, or a builtin such as `threadIdx.x`."""

    name: str
    type: str
    place: Place = field(default=NOWHERE, compare=False)
    temporary: bool = field(default=False, compare=False, repr=False)  # a value that has no name in the text


@dataclass(frozen=True)
class Index(Expression):
    """An element of an array: `x[i]`, `tile[ty][j]`."""

    array: str
    indices: tuple["Expr", ...]
    type: str
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Unary(Expression):
    op: str
    operand: "Expr"
    type: str


@dataclass(frozen=True)
class Binary(Expression):
    op: str
    left: "Expr"
    right: "Expr"
    type: str


@dataclass(frozen=True)
class Ternary(Expression):
    condition: "Expr"
    yes: "Expr"
    no: "Expr"
    type: str


@dataclass(frozen=True)
class Call(Expression):
    """A call of a math or `__device__` function; `inactive` numbers the operands by which its derivative is 0."""

    function: str
    arguments: tuple["Expr", ...]
    type: str
    place: Place = field(default=NOWHERE, compare=False)
    inactive: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Cast(Expression):
    """`(real)x` or `real(x)`."""

    type: str
    operand: "Expr"


Expr = Number | Name | Index | Unary | Binary | Ternary | Call | Cast
Target = Name | Index


def unused_name(base: str, *taken: Container[str], numbers: dict[str, int] | None = None) -> str:
    """The first of base, base_2, base_3, ... that is not taken. numbers: by base, that of the last name given out."""
    numbers = {} if numbers is None else numbers
    n = numbers.get(base, 1)
    while any((name := base if n == 1 else f"{base}_{n}") in names for names in taken):
        n += 1
    numbers[base] = n
    return name


CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Number: lambda e: (), Name: lambda e: (), Index: attrgetter("indices"), Call: attrgetter("arguments"),
    Unary: lambda e: (e.operand,), Cast: lambda e: (e.operand,), Binary: attrgetter("left", "right"),
    Ternary: attrgetter("condition", "yes", "no"),
}  # fmt: skip


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in the order of evaluation."""
    return CHILDREN[type(e)](e)


def walk(e: Expr) -> Iterator[Expr]:
    """An expression and all its parts, the whole first."""
    left = [e]
    while left:
        yield (e := left.pop())
        left += children(e)[::-1]


@dataclass(eq=False)
class Declare:
    """The declaration of a variable or an array, with its initial values."""

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
    """`target = value`, or a compound assignment such as `target += value`."""

    target: Target
    op: str
    value: Expr
    place: Place = NOWHERE
    text: str = ""
    owned: bool = False  # adds to the gradient of an element that this thread alone stores: no other thread reads it


@dataclass(eq=False)
class AtomicAdd:
    """`atomicAdd(&target, value)`; by `warp_add` or `block_add` the warp or block first sums its own values."""

    target: Target
    value: Expr
    place: Place = NOWHERE
    text: str = ""
    by: str = "atomicAdd"


@dataclass(eq=False)
class If:
    condition: Expr
    then: list["Stmt"]
    orelse: list["Stmt"]
    place: Place = NOWHERE
    text: str = ""


@dataclass(eq=False)
class For:
    """A for loop; a while loop has neither start nor step."""

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
        """The variable declared in the header; empty where there is none."""
        return self.start.name if isinstance(self.start, Declare) else ""

    @property
    def source(self) -> "For":
        """The kernel's own loop that this one reverses, or the loop itself."""
        return (self.reversal and self.reversal.loop) or self


@dataclass(frozen=True)
class Reversal:
    """Facts about a loop that runs the iterations of another from the last to the first."""

    loop: For | None  # the other loop, if its iterations can be counted
    counter: str  # the variable that has counted them
    trips: Expr | None  # their number by formula, until it is known whether formula or counter is read
    reorderable: bool  # they may also run from first to last, if no iteration reads what another writes
    filled: frozenset[str]  # arrays that each iteration overwrites before it reads them
    cleared: frozenset[str]  # those of their gradients that are 0 ahead of each iteration


JUMPS = ("break", "continue", "return")


@dataclass(eq=False)
class Jump:
    kind: str
    value: Expr | None = None
    place: Place = NOWHERE
    text: str = ""


@dataclass(eq=False)
class Barrier:
    """`__syncthreads()`, or `__syncwarp()`."""

    place: Place = NOWHERE
    text: str = ""
    warp: bool = False
    added: bool = False  # needed by the order of the adjoint's reads and stores alone; the kernel has none here


@dataclass(eq=False)
class Comment:
    """A comment line of the adjoint."""

    text: str
    place: Place = NOWHERE


@dataclass(eq=False)
class CallStmt:
    """A call as a statement: the adjoint of a device function, `f_adjoint(x, d_y, d_x);`, and the names it writes."""

    function: str
    arguments: tuple[Expr, ...]
    writes: tuple[str, ...]
    place: Place = NOWHERE
    text: str = ""
    stale: dict[str, frozenset[str]] = field(default_factory=dict)  # parameters, with their overwritten arrays


Stmt = Declare | Assign | AtomicAdd | If | For | Jump | Barrier | Comment | CallStmt


@dataclass(frozen=True)
class Parameter:
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
    params: tuple[Parameter, ...]
    body: list[Stmt]
    place: Place
    text: str
    declared: dict[str, Declare] = field(default_factory=dict)
    inactive: frozenset[int] = frozenset()  # parameters, by number, by which the derivative of its value is 0
    own: tuple[Parameter, ...] = ()  # as the text has them: a struct is one, of which params holds the numbers
    pointed: dict[str, tuple[str, str]] = field(default_factory=dict)  # arrays to which members of structs point

    @cached_property
    def memory(self) -> set[str]:
        """The arrays that several threads see."""
        return {p.name for p in self.params if p.pointer} | {n for n, d in self.declared.items() if d.shared}
