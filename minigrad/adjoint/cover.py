"""Whether the stores at one place fill a whole array: then nobody has to set it to 0 before.

An index is a number in a mixed radix, as in `injective`. It runs through 0, 1, ..., size - 1 where each of its digits
runs through all that it can be: the threads of the launch, the rounds of a loop, or those below a bound that is tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import unfolded
from minigrad.adjoint.expr import Binary, Expr, Name
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.polynomial import Polynomial, constant, polynomial, variable
from minigrad.adjoint.radix import EXTENTS, IDS
from minigrad.adjoint.tree import For
from minigrad.adjoint.visit import conjuncts

Pair = tuple[Polynomial, Polynomial]


@dataclass
class Cover:
    """An array of `size` elements is filled by a launch in which, of each pair, the first is at least the second."""

    size: Polynomial = field(default_factory=lambda: constant(1))
    enough: list[Pair] = field(default_factory=list)


def cover(index: Expr, facts: Facts) -> Cover | None:
    """What the stores `x[index] = ...` fill, made in these loops and under these guards; None where that is unknown."""
    ranges: dict[str, Polynomial] = {}
    for s in facts.loops:
        found = _rounds(s, facts)
        if found is None:
            return None
        ranges[found[0]] = found[1]
    tested = _tested(facts.guards)
    whole = polynomial(index)
    if tested is None or whole is None:
        return None
    made = Cover()
    digits = _digits(whole, facts, ranges, tested, made)
    if digits is None or tested:
        return None
    while digits:
        name = next((n for n, factor in digits.items() if factor == made.size), None)
        if name is None:
            return None
        made.size = made.size * ranges[name]
        del digits[name]
    limits = [(variable(name), polynomial(e)) for name, e in facts.limits.items()]
    made.enough += [(extent, most) for extent, most in limits if most is not None]  # of smaller blocks there are gaps
    return made


def _rounds(s: For, facts: Facts) -> tuple[str, Polynomial] | None:
    """The variable of a loop and how many values it takes from 0 on: in one thread, or in all of a block together."""
    header = count(s.source)
    if header is None or not header.exact or header.down:
        return None
    start, step, bound = map(polynomial, (unfolded(header.start, facts.fixed), header.step, header.bound))
    ways = [(constant(0), constant(1)), *((variable(i), _extent(facts, i)) for i in IDS[:3])]
    if bound is None or (start, step) not in ways:
        return None
    return header.var, bound


def _tested(guards: Sequence[Expr]) -> dict[str, Polynomial] | None:
    """The bounds that have been tested, by variable; None where something else has been."""
    found: dict[str, Polynomial] = {}
    for e in (e for guard in guards for e in conjuncts(guard)):
        bound = polynomial(e.right) if isinstance(e, Binary) and e.op == "<" else None
        if bound is None or not isinstance(e, Binary) or not isinstance(e.left, Name) or e.left.name in found:
            return None
        found[e.left.name] = bound
    return found


def _digits(
    whole: Polynomial, facts: Facts, ranges: dict[str, Polynomial], tested: dict[str, Polynomial], made: Cover
) -> dict[str, Polynomial | None] | None:
    """The digits of an index, each with its factor; `ranges` gets how far each goes, `tested` loses what is used."""
    while True:
        varying = [n for n in sorted(whole.names()) if facts.varies(n)]
        wider = None
        for name in (n for n in varying if n not in ranges):
            threads = _threads(name, facts)
            if threads is not None:
                ranges[name] = threads
                if name in tested:
                    made.enough.append((threads, tested[name]))
                    ranges[name] = tested.pop(name)
            else:
                wider = facts.expanded(whole, name)
                if wider is None:
                    return None
                break
        if wider is None:
            return {n: whole.of(n) for n in varying} if () not in whole else None
        whole = wider


def _threads(name: str, facts: Facts) -> Polynomial | None:
    """How many values a coordinate takes: of a thread, of a block, or of a thread in the whole grid."""
    if name in IDS:
        return _extent(facts, name)
    value = polynomial(unfolded(Name(name, "int"), facts.fixed))
    for a in "xyz":
        thread, block = f"threadIdx.{a}", f"blockIdx.{a}"
        size = _extent(facts, thread)
        if value == variable(thread):
            return size
        if value == variable(block) * size + variable(thread):
            return _extent(facts, block) * size
    return None


def _extent(facts: Facts, name: str) -> Polynomial:
    """An extent of the launch, as the kernel calls it."""
    known = facts.conditions.get(EXTENTS[name]) or facts.limits.get(EXTENTS[name])
    value = None if known is None else polynomial(known)
    return variable(EXTENTS[name]) if value is None else value
