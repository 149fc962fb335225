"""Which elements of an array statements read and store, and in what loops and under what conditions."""

from dataclasses import replace
from typing import NamedTuple

from minigrad.adjoint.counting import Count, count
from minigrad.adjoint.effects import accesses, conjuncts, heads, sides
from minigrad.adjoint.expr import Expr, Index
from minigrad.adjoint.structure import leaves
from minigrad.adjoint.tree import Assign, For, If, Stmt


class Touch(NamedTuple):
    """An element that is read, or stored, in loops and under conditions; of a loop that nothing counts None."""

    element: Index
    stores: bool
    loops: tuple[Count | None, ...] = ()
    guards: tuple[Expr, ...] = ()


def touches(body: list[Stmt], array: str) -> list[Touch]:
    """What statements do to an array, in order; of a loop first all that it reads, then what it stores."""
    found: list[Touch] = []
    for s in body:
        own = [(kind, x) for part in heads(s) for kind, x in accesses(part) if isinstance(x, Index)]
        stores = isinstance(s, Assign) and s.op == "="
        found += [Touch(x, stores and kind == "write") for kind, x in own if x.array == array]
        if isinstance(s, If):
            found += _either(s, array)
        if isinstance(s, For):
            inner = [t._replace(loops=(_most(s), *t.loops)) for t in touches(s.body, array)]
            found += [t for t in inner if not t.stores]
            if (header := count(s)) and header.exact and not leaves(s.body, ("continue",)):
                found += [t for t in inner if t.stores]
    return found


def _most(s: For) -> Count | None:
    """The count of a loop, or one that it does not exceed: of `j < T && start + j < n` that of `j < T`."""
    return next((found for e in conjuncts(s.condition) if (found := count(replace(s, condition=e)))), None)


def _either(s: If, array: str) -> list[Touch]:
    """What a branch does: each side under its condition, and what both sides store without one."""
    ways = [(condition, touches(side, array)) for condition, side in sides(s)]
    (_, then), (_, orelse) = ways
    both = [t for t in then if t.stores and t in orelse]
    guarded = [t._replace(guards=(*conjuncts(condition), *t.guards)) for condition, found in ways for t in found]
    return [*guarded, *both]
