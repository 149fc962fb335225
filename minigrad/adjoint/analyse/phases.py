"""What the threads of a block may do at the same time: the phases of a body, parted by barriers."""

from collections.abc import Iterable

from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.language.ast import Barrier, Binary, Expr, For, If, Name, Stmt, Target
from minigrad.adjoint.language.effects import accesses, axis_of, name_of, waits
from minigrad.adjoint.language.rewrite import ONE, heads, nested

Use = tuple[str, str, frozenset | None]  # array; read, write or add; by which indices it is the thread's own


class Phases:
    """Phases by number, and which may follow which with no barrier between."""

    def __init__(self, body: list[Stmt], values: dict[str, int], fixed: dict[str, Expr], conditions: dict[str, Expr]):
        self.values, self.fixed = values, fixed
        self.axes = [a for a in "xyz" if conditions.get(f"blockDim.{a}") != ONE]
        self.flow: list[set[int]] = [set()]
        self.starts = [0]  # the phases that begin at a barrier, or with the kernel
        self.of: dict[int, int] = {}  # the phase of a statement, by its id
        self.uses: dict[int, set[Use]] = {}
        self.barriers: list[tuple[list[Stmt], Stmt, int, int]] = []  # with the body, and the phases around
        self.visit(body, 0)

    def new(self, *before: int) -> int:
        """A new phase, which no barrier parts from these."""
        self.flow.append(set())
        for phase in before:
            self.flow[phase].add(len(self.flow) - 1)
        return len(self.flow) - 1

    def visit(self, body: list[Stmt], phase: int) -> int:
        """Number the statements of a body; the phase in which it ends."""
        for s in body:
            self.of[id(s)] = phase
            if isinstance(s, Barrier):
                before, phase = phase, self.new()
                self.starts.append(phase)
                self.barriers.append((body, s, before, phase))
            elif not waits([s]):
                self.note(s, phase, {})
            elif isinstance(s, If):
                self.touch(s, phase, {})
                phase = self.new(*(self.visit(side, self.new(phase)) for side in nested(s)))
            elif isinstance(s, For):
                first = self.new(phase)
                last = self.visit(s.body, first)
                self.flow[last].add(first)
                for at in (phase, last):
                    self.touch(s, at, {})
                header = count(s)
                phase = self.new(last) if header and header.runs(self.values) else self.new(phase, last)
        return phase

    def note(self, s: Stmt, phase: int, equal: dict[Expr, str]) -> None:
        """What a statement without a barrier uses. equal: parts of threadIdx, by the value that they have here."""
        self.of[id(s)] = phase
        self.touch(s, phase, equal)
        for part in heads(s)[1:]:
            self.note(part, phase, equal)
        for n, side in enumerate(nested(s)):
            inside = equal
            if isinstance(s, If) and not n and isinstance(s.condition, Binary) and s.condition.op == "==":
                axis = axis_of(self.fixed, s.condition.left)
                inside = equal | ({s.condition.right: axis} if axis else {})
            for t in side:
                self.note(t, phase, inside)

    def touch(self, s: Stmt, phase: int, equal: dict[Expr, str]) -> None:
        """What a statement itself uses."""
        found = {(name_of(x), kind, self.own(x, equal)) for kind, x in accesses(s)}
        self.uses.setdefault(phase, set()).update(found)

    def own(self, e: Target, equal: dict[Expr, str]) -> frozenset | None:
        """Which index is which part of threadIdx, where together they name one thread of the block."""
        if isinstance(e, Name):
            return None
        axes = [(n, equal.get(i) or axis_of(self.fixed, i)) for n, i in enumerate(e.indices)]
        found = frozenset((n, a) for n, a in axes if a)
        return found if {a for _, a in found} >= set(self.axes) else None

    def reached(self, start: int) -> set[int]:
        """The phases in which a thread may be, from this one on and before the next barrier."""
        found, left = {start}, [start]
        while left:
            new = self.flow[left.pop()] - found
            found |= new
            left += new
        return found

    def together(self, phase: int) -> set[int]:
        """The phases in which other threads may be while one is in this."""
        return set().union(*(found for found in map(self.reached, self.starts) if phase in found))

    def tidy(self, memory: set[str]) -> None:
        """Leave out every barrier on whose two sides no two threads touch one element of this memory.

        At first those that the kernel has not; of them the one within a loop before the one ahead of it.
        """
        own = [b for b in self.barriers if isinstance(b[1], Barrier) and b[1].made]
        for body, barrier, before, after in [*reversed(own), *(b for b in self.barriers if b not in own)]:
            ahead = self.all(p for p in range(len(self.flow)) if before in self.reached(p))
            behind = self.all(self.reached(after))
            if not any(a[0] in memory and _meet(a, b) for a in ahead for b in behind):
                body[:] = [s for s in body if s is not barrier]
                self.flow[before].add(after)
                self.starts.remove(after)

    def all(self, phases: Iterable[int]) -> set[Use]:
        """What is touched in phases."""
        return set().union(*(self.uses.get(p, set()) for p in phases))


def _meet(a: Use, b: Use) -> bool:
    """Whether two threads may come to one element, and the order of the two matters."""
    alike = a[1] == b[1] and a[1] in ("read", "add")
    return a[0] == b[0] and not alike and (a[2] is None or a[2] != b[2])
