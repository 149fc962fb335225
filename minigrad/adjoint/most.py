"""How often a loop inside others runs at most: `for (c = k + 1; c < n; ++c)` n - 1 times, as 0 <= k."""

from collections.abc import Mapping
from dataclasses import replace

from minigrad.adjoint.build import ONE, ZERO, literal, minus, plus
from minigrad.adjoint.counting import Count, count
from minigrad.adjoint.effects import unfolded
from minigrad.adjoint.expr import Expr, Name, Place
from minigrad.adjoint.polynomial import polynomial
from minigrad.adjoint.radix import COORDINATES, EXTENTS, signless
from minigrad.adjoint.tree import For, Stmt
from minigrad.adjoint.visit import nested

# of each coordinate the first value and the last
THREADS: dict[str, tuple[Expr, Expr]] = {i: (ZERO, minus(Name(n, "int"), ONE)) for i, n in EXTENTS.items()}


def nests(body: list[Stmt], around: tuple[Count, ...] = ()) -> dict[Place, tuple[Count, ...]]:
    """The headers around each loop that can be counted, the outermost first."""
    found: dict[Place, tuple[Count, ...]] = {}
    for s in body:
        header = count(s) if isinstance(s, For) else None
        if isinstance(s, For):
            found[s.place] = around
        for inner in nested(s):
            found |= nests(inner, (*around, header) if header else around)
    return found


def widest(header: Count, around: tuple[Count, ...], fixed: Mapping[str, Expr]) -> Count:
    """A header of at least as many rounds: it has variables of loops around, and coordinates of threads, at an end."""
    ends = dict(THREADS)
    for outer in around:
        first, last = outer.start, plus(outer.bound, ONE if outer.down else literal(-1))
        if not (_wraps(outer.start) or _wraps(outer.bound)):
            ends[outer.var] = (last, first) if outer.down else (first, last)

    def reaching(e: Expr, high: bool) -> Expr:
        """The lowest or the highest value, as far as an expression is a sum of such variables."""
        if _wraps(e):
            return e
        e = unfolded(e, fixed)
        for name, both in reversed(ends.items()):
            factor = None if (p := polynomial(e)) is None else p.of(name)
            if factor is not None and set(factor) <= {()}:
                e = unfolded(e, {name: unfolded(both[(factor.get((), 0) > 0) == high], fixed)})
        return e

    return replace(header, start=reaching(header.start, header.down), bound=reaching(header.bound, not header.down))


def _wraps(e: Expr) -> bool:
    """Whether C++ may have a large number where a value would be below 0."""
    return signless(e) and not (isinstance(e, Name) and e.name in COORDINATES)
