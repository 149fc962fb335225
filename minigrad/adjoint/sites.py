"""The places at which a gradient in memory is added to, and what is known at each."""

from dataclasses import dataclass
from typing import NamedTuple

from minigrad.adjoint.effects import unfolded
from minigrad.adjoint.expr import Index, walk
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.tree import Assign, If, Stmt


class Choice(NamedTuple):
    """One row of the decision table."""

    what: str
    how: str
    why: str
    bytes: str = ""  # of memory that it takes, a thread
    moved: str = ""  # bytes to and from memory, each time
    instead: str = ""  # what else there was, and the bytes that it moves


@dataclass(eq=False)
class Site:
    """A place where a gradient in shared or global memory is added to."""

    body: list[Stmt]
    statement: Assign
    facts: Facts
    branch: tuple[If, Facts] | None  # that it stands in directly, and what is known ahead of that

    @property
    def target(self) -> Index:
        """The element."""
        assert isinstance(self.statement.target, Index)
        return self.statement.target

    @property
    def ranges(self) -> frozenset:
        """What the variables in its indices go through."""
        names = {n for e in self.target.indices for n in e.names}
        return frozenset((n, *map(str, self.facts.ranges[n])) for n in names if n in self.facts.ranges)

    @property
    def looked_up(self) -> bool:
        """Whether the element, in a loop, is one that a table tells: to a small array many threads may add at once."""
        behind = [x for e in self.target.indices for x in walk(unfolded(e, self.facts.fixed))]
        return bool(self.facts.loops) and any(isinstance(x, Index) for x in behind)
