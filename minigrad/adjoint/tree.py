"""Statements of a kernel as a tree, each with its place and its text; the expressions are in `expr`."""

from dataclasses import dataclass, field

from minigrad.adjoint.expr import NOWHERE, Expr, Place, Target


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
