"""The records of a derived adjoint: its launches as trees, the facts on which a launch relies, and the decisions."""

from dataclasses import dataclass, field
from typing import NamedTuple

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.regions import Cover, Fill
from minigrad.adjoint.decide.checkpoints import TapeCost
from minigrad.adjoint.decide.store_or_recompute import Tape
from minigrad.adjoint.language.ast import Expr, Name, Stmt


class Choice(NamedTuple):
    """One row of the decision table."""

    what: str
    how: str
    why: str
    bytes: str = ""  # memory per thread
    moved: str = ""  # bytes to and from memory, each time
    instead: str = ""  # the alternative, and the bytes that it moves


@dataclass
class AdjointLaunch:
    """One kernel of an adjoint: its body, and its grid where that is not the grid of the kernel."""

    body: list[Stmt]
    of: str = ""  # the gradients that it computes, as a part of its name; empty where it is the only launch
    extents: dict[str, Expr] = field(default_factory=dict)  # of its own grid
    blocks: dict[str, str] = field(default_factory=dict)  # parameters that pass an extent of the kernel's grid
    choices: tuple[Choice, ...] = ()  # why it is a launch of its own
    strided: set[str] = field(default_factory=set)  # gradients that it adds up in copies
    covers: dict[str, Cover] = field(default_factory=dict)  # gradients that it may fill, with the conditions


@dataclass
class Derived:
    """The adjoint of a kernel or of a device function as a tree, and the facts that a launch of it needs."""

    facts: KernelFacts
    gradients: dict[str, str]  # by parameter: the name of its gradient
    registers: dict[str, str]  # variables that hold a saved value: what the kernel calls it
    fills: list[Fill]  # arrays that the block has to fill in each iteration of a loop
    launches: list[AdjointLaunch] = field(default_factory=list)
    tapes: list[Tape] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    costs: dict[str, TapeCost] = field(default_factory=dict)  # of a tape: of storing it, and of computing it again
    never: dict[str, str] = field(default_factory=dict)  # of a tape: why the loop cannot compute its values again
    replayed: set[str] = field(default_factory=set)  # arrays that the forward sweep writes
    strides: dict[str, str] = field(default_factory=dict)  # of a gradient added up in copies: their distance
    covers: dict[str, Cover] = field(default_factory=dict)  # of a gradient that a launch may fill: the conditions
    functions: dict[str, "Derived"] = field(default_factory=dict)  # the adjoints of device functions that it calls
    result: Name | None = None  # of a device function: the variable that holds the value it returns
    seed: str = ""  # and the gradient of that

    @property
    def body(self) -> list[Stmt]:
        return [s for launch in self.launches for s in launch.body]
