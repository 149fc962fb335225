"""Whether an index belongs to one thread alone: no other thread has the same one."""

from dataclasses import replace
from typing import Any

from minigrad.adjoint.build import ONE
from minigrad.adjoint.effects import waits, written
from minigrad.adjoint.expr import Binary, Expr, Name
from minigrad.adjoint.polynomial import Polynomial, constant, polynomial, variable
from minigrad.adjoint.radix import EXTENTS, IDS, Known
from minigrad.adjoint.tree import Declare, For, Stmt
from minigrad.adjoint.visit import conjuncts, sides


class Facts(Known):
    """What holds where an index stands, learnt on the way to it."""

    @property
    def rounds(self) -> set[str]:
        """The variables of the loops around."""
        return {s.source.variable for s in self.loops}

    def within(self, s: Stmt) -> list[tuple[list[Stmt], "Facts"]]:
        """The bodies inside a statement, each with what holds in it."""
        if isinstance(s, For):
            inside = self.copied(loops=(*self.loops, s))
            if not waits([s]):
                inside.still -= written([s])  # threads may be in different rounds of it
            inside.enter(s.source)
            return [(s.body, inside)]
        made = []
        for condition, side in sides(s):
            inside = self.copied(guards=(*self.guards, condition))
            inside.assume(condition)
            made.append((side, inside))
        return made

    def copied(self, **new: Any) -> "Facts":
        """The same facts, to be added to."""
        below = {name: list(bounds) for name, bounds in self.below.items()}
        ranges, sums = dict(self.ranges), dict(self.sums)
        return replace(
            self, below=below, still=set(self.still), ranges=ranges, pinned=set(self.pinned), sums=sums, **new
        )

    def assume(self, e: Expr) -> None:
        """Learn from a condition that has been passed."""
        if not isinstance(e, Binary):
            return
        if e.op == "&&":
            self.assume(e.left)
            self.assume(e.right)
        bound, left = polynomial(e.right), polynomial(e.left)
        if isinstance(e.left, Binary) and bound is not None and left is not None and e.op == "<":
            name = f"@sum{len(self.sums)}"
            self.sums[name], self.below[name] = left, [bound]
        if isinstance(e.left, Name) and bound is not None:
            if e.op in ("<", "<="):
                self.below.setdefault(e.left.name, []).append(bound + constant(e.op == "<="))
            elif e.op == "==" and bound.names() <= self.uniform:  # else each thread may be the one
                self.pinned |= self.told(variable(e.left.name)) or set()

    def enter(self, s: For) -> None:
        """Learn the range of a loop's variable."""
        start, step = s.start, s.step
        if not isinstance(start, Declare) or start.value is None or step is None:
            return
        first, size = polynomial(start.value), polynomial(step.value)
        if first is None or size is None or step.op not in ("+=", "-="):
            return
        self.below.pop(start.name, None)
        self.ranges.pop(start.name, None)
        lowest: Polynomial | None = first
        if step.op == "-=":
            self.below[start.name] = [first + constant(1)]
            lowest, size = _lowest(s), constant(1)
        if lowest is not None:
            self.ranges[start.name] = lowest, size
        self.assume(s.condition)

    def unique(self, indices: tuple[Expr, ...], shared: bool, spread: int = 1) -> dict[str, Expr] | None:
        """The limits within which indices belong to one thread, of its block or of the grid; None where none do.

        spread: so many elements behind one another, of which the index is the first, are the thread's together.
        """
        before = dict(self.limits)
        found, self.same = set(self.pinned), self.uniform | (self.still if shared else set())
        for e in indices:
            p = polynomial(e)
            if p is not None and spread > 1:
                self.below["@offset"] = [constant(spread)]
                p = p + variable("@offset")
            found |= (self.told(p) if p is not None else None) or set()
        wanted = IDS[:3] if shared else IDS
        needed = {name: e for name, e in self.limits.items() if name not in before}
        alone = all(w in found or self.conditions.get(EXTENTS[w]) == ONE for w in wanted)
        for name in needed:
            del self.limits[name]
        return needed if alone else None


def _lowest(s: For) -> Polynomial | None:
    """The least value that the variable of a loop that counts down may have, as its condition tells it."""
    tests = [e for e in conjuncts(s.condition) if isinstance(e, Binary) and e.op in (">", ">=")]
    e = next((e for e in tests if isinstance(e.left, Name) and e.left.name == s.variable), None)
    bound = None if e is None else polynomial(e.right)
    return None if e is None or bound is None else bound + constant(e.op == ">")
