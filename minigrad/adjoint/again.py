"""Whether a round may run once more than it did: then it needs no test of whether it is one of the loop's."""

from minigrad.adjoint.effects import always, each, elements, expressions
from minigrad.adjoint.expr import Binary, Call, Index, walk
from minigrad.adjoint.keeping import handed
from minigrad.adjoint.reach import follows
from minigrad.adjoint.tree import Jump, Stmt
from minigrad.adjoint.types import floating


def repeatable(body: list[Stmt], states: set[str], arrays: set[str]) -> bool:
    """Whether a round runs safely from any values of `states`: it reads the elements that it has read before.

    So each element is read in any case, at an index that no state decides; no array is handed to a function, and no
    whole number is divided by what a state decides.
    """
    unsure = follows(body, states)
    found = {x for s in each(body) for x in elements(s)}
    if found - _sure(body) or {n for x in found for i in x.indices for n in i.names} & unsure:
        return False
    every = [x for s in each(body) for e in expressions(s) for x in walk(e)]
    if {n for x in every if isinstance(x, Call) for n in handed(x)} & arrays:
        return False
    divisors = [x.right for x in every if isinstance(x, Binary) and x.op in "/%" and not floating(x.type)]
    return not any(d.names & unsure for d in divisors)


def _sure(body: list[Stmt]) -> set[Index]:
    """The elements that every round reads: those ahead of the first branch that may end it."""
    found: set[Index] = set()
    for s in body:
        found |= {x for e in expressions(s) for x in always(e)}
        if any(isinstance(t, Jump) for t in each([s])):
            break
    return found
