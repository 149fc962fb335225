"""Which elements of an array statements touch: as written, and as numbers over all threads and rounds of a block."""

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from minigrad.adjoint.counting import Count, applied, count
from minigrad.adjoint.effects import accesses
from minigrad.adjoint.expr import Binary, Cast, Expr, Index, Name, Number, Unary
from minigrad.adjoint.radix import signless
from minigrad.adjoint.structure import leaves
from minigrad.adjoint.tree import Assign, For, If, Stmt
from minigrad.adjoint.types import floating
from minigrad.adjoint.visit import conjuncts, heads, sides

MOST = 1 << 16  # rounds of all threads that are gone through
Values = np.ndarray | None


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


class Space:
    """Whole numbers over all threads of a block, each along an axis of its own."""

    def __init__(self, fixed: dict[str, Expr], known: dict[str, int], extents: dict[str, int], shared: bool):
        self.fixed, self.numbers = fixed, {name: np.array(n) for name, n in {**known, **extents}.items()}
        for n, axis in enumerate("xyz") if shared else ():
            shape = [1, 1, 1]
            shape[n] = -1
            self.numbers[f"threadIdx.{axis}"] = np.arange(extents[f"blockDim.{axis}"]).reshape(shape)

    def places(self, touch: Touch) -> tuple[np.ndarray, ...] | None:
        """The elements that are touched, one array of numbers an axis: stored for sure, or perhaps read."""
        outside = dict(self.numbers)
        chosen = [self.rounds(header, depth) for depth, header in enumerate(touch.loops)]
        tests = [self.value(e) for e in touch.guards]
        indices = [self.value(e) for e in touch.element.indices]
        self.numbers = outside
        known = [x for x in (*chosen, *tests) if x is not None]
        if any(i is None for i in indices) or (touch.stores and len(known) < len(chosen) + len(tests)):
            return None
        mask: np.ndarray = reduce(np.logical_and, known, np.array(True))
        *all_indices, mask = np.broadcast_arrays(*indices, mask)  # type: ignore[arg-type]
        return tuple(i[mask] for i in all_indices)

    def rounds(self, header: Count | None, depth: int) -> Values:
        """Enter a loop; which of the numbers of its variable it reaches."""
        if header is None:
            return None
        start, bound, step = (self.value(e) for e in (header.start, header.bound, header.step))
        if start is None or bound is None or step is None or not step.all():
            return None
        most = int(np.ceil((bound - start) / step).max(initial=0))
        if not 0 <= most * max(start.size, step.size) <= MOST:
            return None
        number = start + step * np.arange(most).reshape(-1, *[1] * (3 + depth))
        self.numbers[header.var] = number
        return number > bound if header.down else number < bound

    def value(self, e: Expr) -> Values:
        """An expression of whole numbers; None of what only the running kernel knows."""
        match e:
            case Number() if e.whole is not None:
                return np.array(e.whole)
            case Name():
                if e.name in self.numbers or e.name not in self.fixed:
                    return self.numbers.get(e.name)
                return None if floating(e.type) else self.value(self.fixed[e.name])
            case Cast() if not floating(e.type):
                return self.value(e.operand)
            case Unary(op="-" | "!"):
                inner = self.value(e.operand)
                return inner if inner is None else ~inner.astype(bool) if e.op == "!" else -inner
            case Binary():
                left, right = self.value(e.left), self.value(e.right)
                if left is None or right is None:
                    return None
                found = applied(e.op, left, right, np.all)
                if found is None or not (signless(e.left) or signless(e.right)):
                    return found
                return None if any((n < 0).any() for n in (left, right, found)) else found  # C++ has a large number
        return None
