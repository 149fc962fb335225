"""Whether each round of a loop stores what it reads of an array: then no round needs what another one has stored.

The threads of a block and the rounds of the loops inside are gone through one by one, as numbers. So it does not matter
how a tile is stored: an element a thread, several of them, a column left free, rows in one axis, a loop over `q / T`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from minigrad.adjoint.counting import Count, evaluate
from minigrad.adjoint.effects import axis_of, reads_in, unfolded
from minigrad.adjoint.expr import Expr, walk
from minigrad.adjoint.space import Space, Touch, touches
from minigrad.adjoint.tree import Declare, For
from minigrad.adjoint.visit import each, expressions

if TYPE_CHECKING:
    from minigrad.adjoint.keeping import Keeping

MOST = 1 << 16  # elements of an array that are gone through
THREADS = 1024  # of a block


@dataclass(frozen=True)
class Fill:
    """An array, and what a round of the loop at `line` does to it, in order."""

    array: Declare
    line: int
    touches: tuple[Touch, ...]
    fixed: dict[str, Expr]
    known: dict[str, int]  # the values of macros

    @property
    def axes(self) -> list[str]:
        """The parts of threadIdx on which it depends."""
        parts = (e for t in self.touches for e in (*t.element.indices, *t.guards, *_parts(t.loops)))
        names = reads_in(unfolded(e, self.fixed) for e in parts)
        return [a for a in "xyz" if {f"threadIdx.{a}", f"blockDim.{a}"} & names]

    def holds(self, extents: dict[str, int]) -> bool | None:
        """Whether, in a block of these extents, all that is read has been stored in the same round.

        None where threads of such a block store beyond the array, so that the kernel cannot be meant for it.
        """
        shape = [evaluate(d, self.known) or 0 for d in self.array.dims]
        if not 0 < np.prod(shape) <= MOST:
            return False
        stored = np.zeros(shape, bool)
        space = Space(self.fixed, self.known, extents, self.array.shared)
        for touch in self.touches:
            if stored.all() and not touch.stores:
                continue
            found = space.places(touch)
            if found is None and not touch.stores:
                return False
            if found is None:
                continue
            inside = all(((i >= 0) & (i < n)).all() for i, n in zip(found, shape, strict=True))
            if touch.stores and not inside:
                return None
            if not inside or not (touch.stores or stored[found].all()):
                return False
            stored[found] = True
        return bool(stored.all()) or any(not t.stores for t in self.touches)


def _parts(loops: tuple[Count | None, ...]) -> Iterator[Expr]:
    yield from (e for header in loops if header for e in (header.start, header.bound, header.step))


def filled(sweep: "Keeping", s: For, array: str) -> bool:
    """Whether a round of a loop stores each element of an array that it reads before any thread reads it.

    Extents of the block that the indices tell become conditions of the launch. Where it holds in a smaller block, too,
    or where nothing tells them and it holds in the largest block of which no thread stores beyond the array, a launch
    is asked whether it holds in its own.
    """
    if array not in sweep.of.declared or not sweep.of.declared[array].dims:
        return False
    found = touches(s.body, array)
    if not found or not found[0].stores:
        return False
    fill = Fill(sweep.of.declared[array], s.place.line, tuple(found), sweep.fixed, sweep.module.values)
    told = {a: _told(sweep, fill, a) for a in fill.axes}
    for wanted in _choices(sweep, told):
        if fill.holds(_extents(sweep, wanted)):
            if _in_smaller(sweep, fill, wanted):
                sweep.fills.append(fill)
            else:
                sweep.conditions |= {f"blockDim.{a}": e for a, e in wanted.items()}
            return True
    if not fill.array.shared or all(t.stores for t in found):
        return False
    others = constants(sweep)
    told = {a: e if f"blockDim.{a}" in sweep.conditions else [*e, *_within(sweep, a, others)] for a, e in told.items()}
    blocks = sorted((_extents(sweep, some) for some in _choices(sweep, told)), key=lambda e: -prod(e.values()))
    if next((known for block in blocks if (known := fill.holds(block)) is not None), False):
        sweep.fills.append(fill)
        return True
    return False


def _told(sweep: "Keeping", fill: Fill, axis: str) -> list[Expr]:
    """How long the block is along an axis, where the indices tell it; at first what the launch relies on anyway."""
    name = f"blockDim.{axis}"
    if known := sweep.conditions.get(name):
        return [known]
    stores = [t.element.indices for t in fill.touches if t.stores and not t.guards]
    along = [d for i in stores for e, d in zip(i, fill.array.dims, strict=True) if axis_of(sweep.fixed, e) == axis]
    return [sweep.limits[name]] if name in sweep.limits else along[:1]


def _in_smaller(sweep: "Keeping", fill: Fill, wanted: dict[str, Expr]) -> bool:
    """Whether it holds in a smaller block, too, as of an array with a column more than threads."""
    relied, values = {**sweep.conditions, **sweep.limits}, sweep.module.values
    free = {a for a in wanted if fill.array.shared and f"blockDim.{a}" not in relied}
    numbers = constants(sweep) if free else []
    fewer = {
        a: [*(n for n in numbers if a in free and (evaluate(n, values) or 0) < (evaluate(e, values) or 0)), e]
        for a, e in wanted.items()
    }
    return any(fill.holds(_extents(sweep, some)) for some in _choices(sweep, fewer) if some != wanted)


def _within(sweep: "Keeping", axis: str, numbers: list[Expr]) -> list[Expr]:
    """Those of some numbers that a block may have along an axis."""
    limit = sweep.limits.get(f"blockDim.{axis}")
    most = None if limit is None else evaluate(limit, sweep.module.values)
    return [e for e in numbers if most is None or (evaluate(e, sweep.module.values) or 0) <= most]


def constants(sweep: "Keeping") -> list[Expr]:
    """The numbers in a kernel, as the compiler knows them, that may be an extent of a block."""
    body = each(sweep.of.body)
    whole = [e for s in body for one in (*expressions(s), *getattr(s, "dims", ())) for e in walk(one)]
    named = {evaluate(e, sweep.module.values): e for e in whole if e.type == "int"}
    return [e for n, e in sorted((n, e) for n, e in named.items() if n is not None and 0 < n <= THREADS)]


def _choices(sweep: "Keeping", told: dict[str, list[Expr]]) -> Iterator[dict[str, Expr]]:
    """The extents to try, one of each axis; no more threads than a block may have."""
    for several in product(*told.values()):
        if np.prod([evaluate(e, sweep.module.values) or THREADS + 1 for e in several]) <= THREADS:
            yield dict(zip(told, several, strict=True))


def _extents(sweep: "Keeping", wanted: dict[str, Expr]) -> dict[str, int]:
    """Extents of a block as numbers, 1 along the axes that do not matter."""
    return {f"blockDim.{a}": evaluate(wanted[a], sweep.module.values) or 1 if a in wanted else 1 for a in "xyz"}
