"""How often a loop runs, never below 0; inside others at most: `for (c = k + 1; c < n; ++c)` n - 1 times, as 0 <= k."""

from collections.abc import Mapping
from dataclasses import replace

from minigrad.adjoint.build import ONE, ZERO, literal, minus, plus
from minigrad.adjoint.counting import Count, count, evaluate
from minigrad.adjoint.effects import unfolded
from minigrad.adjoint.expr import Expr, Name, Place, Ternary
from minigrad.adjoint.polynomial import polynomial, variable
from minigrad.adjoint.radix import COORDINATES, EXTENTS, signless
from minigrad.adjoint.tree import For, Stmt
from minigrad.adjoint.visit import nested

# of each coordinate the first value and the last
THREADS: dict[str, tuple[Expr, Expr]] = {i: (ZERO, minus(Name(n, "int"), ONE)) for i, n in EXTENTS.items()}


def trips_of(header: Count, values: Mapping[str, int], fixed: Mapping[str, Expr]) -> Expr:
    """The number of rounds, 0 of a loop that makes none: where the formula may give more, its condition is asked.

    It may where the step is known to the running kernel alone, which may have a sign that ends no loop, or be 0;
    and where C++ computes without a sign, as beside blockDim.x.
    """
    positive = evaluate(header.size, values)
    signed = not any(map(signless, (header.start, header.bound, header.step)))
    begins = header.simple and (header.bound.type == "unsigned" or header.bound.names & {*EXTENTS.values()})
    if (signed and positive is not None and positive > 0) or begins or _strided(header, fixed):
        return header.trips
    return Ternary(header.some, header.trips, ZERO, "int")


def _strided(header: Count, fixed: Mapping[str, Expr]) -> bool:
    """Whether the threads, or the blocks, share out a range whose bound is not below 0: n, and not n - 2."""
    start, step, bound = (polynomial(unfolded(e, fixed)) for e in (header.start, header.step, header.bound))
    if bound is None or any(factor < 0 for factor in bound.values()):
        return False
    shares = [(variable(i), variable(n)) for i, n in EXTENTS.items()]
    for a in "xyz":
        width = variable(f"blockDim.{a}")
        first = variable(f"blockIdx.{a}") * width + variable(f"threadIdx.{a}")
        shares.append((first, width * variable(f"gridDim.{a}")))
    return (start, step) in shares


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
