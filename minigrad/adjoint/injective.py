"""Whether an index belongs to one thread alone: no other thread has the same one.

An index is read as a number in a mixed radix: `row * n + column` with `column < n` tells row and column apart, and
`column = blockIdx.x * blockDim.x + threadIdx.x` tells block and thread apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from minigrad.adjoint.build import ONE
from minigrad.adjoint.effects import nested
from minigrad.adjoint.polynomial import Polynomial, number, polynomial
from minigrad.adjoint.tree import Assign, Binary, Declare, Expr, For, If, Index, Name, Number, Stmt, While

IDS = tuple(f"{b}.{a}" for b in ("threadIdx", "blockIdx") for a in "xyz")
EXTENTS = {f"{b}Idx.{a}": f"{e}.{a}" for b, e in (("thread", "blockDim"), ("block", "gridDim")) for a in "xyz"}


@dataclass
class Facts:
    """What holds where an index stands: values of variables, ranges of loops, conditions passed."""

    fixed: dict[str, Expr]
    constants: set[str]  # macros
    uniform: set[str]  # names that are one value for the whole launch
    still: set[str]  # names that are one value for a block, as long as no thread of it passes a barrier
    conditions: dict[str, Expr]  # extents of the launch on which the adjoint relies; added to
    loops: dict[str, tuple[Polynomial, Polynomial]] = field(default_factory=dict)  # start and step
    below: dict[str, list[Polynomial]] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)
    rounds: set[str] = field(default_factory=set)  # the variables of the loops around
    same: set[str] = field(default_factory=set)  # what of these counts for the index in question

    def inside(self) -> "Facts":
        """The same facts, to be added to."""
        below = {name: list(bounds) for name, bounds in self.below.items()}
        return Facts(
            self.fixed,
            self.constants,
            self.uniform,
            set(self.still),
            self.conditions,
            dict(self.loops),
            below,
            set(self.pinned),
        )

    def assume(self, e: Expr) -> None:
        """Learn from a condition that has been passed."""
        if not isinstance(e, Binary):
            return
        if e.op == "&&":
            self.assume(e.left)
            self.assume(e.right)
        bound = polynomial(e.right)
        if isinstance(e.left, Name) and bound is not None:
            if e.op in ("<", "<="):
                self.below.setdefault(e.left.name, []).append(bound + number(e.op == "<="))
            elif e.op == "==" and not bound.names() & set(IDS):
                self.pinned |= self.told(Polynomial({(e.left.name,): 1})) or set()

    def enter(self, s: For) -> None:
        """Learn the range of a loop's variable."""
        start, step = s.start, s.step
        if not isinstance(start, Declare) or start.value is None or step is None:
            return
        first, size = polynomial(start.value), polynomial(step.value)
        if first is None or size is None or step.op not in ("+=", "-="):
            return
        self.below.pop(start.name, None)
        if step.op == "-=":
            self.below[start.name] = [first + number(1)]
        self.loops[start.name] = (first, size) if step.op == "+=" else (number(0), number(1))
        self.assume(s.condition)

    # --- telling apart ---

    def unique(self, indices: tuple[Expr, ...], shared: bool) -> dict[str, Expr] | None:
        """The conditions under which indices belong to one thread, of its block or of the grid; None where none do."""
        before = dict(self.conditions)
        found, self.same = set(self.pinned), self.uniform | (self.still if shared else set())
        for e in indices:
            p = polynomial(e)
            found |= (self.told(p) if p is not None else None) or set()
        wanted = IDS[:3] if shared else IDS
        needed = {name: e for name, e in self.conditions.items() if name not in before}
        alone = all(w in found or before.get(EXTENTS[w]) == ONE for w in wanted)
        for name in needed:
            del self.conditions[name]
        return needed if alone else None

    def told(self, p: Polynomial, depth: int = 0) -> set[str] | None:
        """The thread and block coordinates that a value determines; None where it mixes them."""
        digits = [n for n in sorted(p.names()) if self.varies(n)]
        for order in permutations(digits) if len(digits) < 6 else ():
            if self.radix(p, order):
                return set().union(*(self.inner(d, depth) for d in order))
        for name in digits:
            wider = self.expanded(p, name) if depth < 9 else None
            if wider is not None and (found := self.told(wider, depth + 1)) is not None:
                return found
        return None if digits else set()

    def inner(self, digit: str, depth: int) -> set[str]:
        """What one digit determines in its turn."""
        if digit in IDS:
            return {digit}
        alone = self.expanded(Polynomial({(digit,): 1}), digit)
        return {digit} | ((self.told(alone, depth + 1) or set()) if alone is not None and depth < 9 else set())

    def expanded(self, p: Polynomial, name: str) -> Polynomial | None:
        """A value with a variable replaced by what it was set to, or by start + step * round of its loop."""
        if name in self.fixed and name not in self.loops:
            value = polynomial(self.fixed[name])
            return None if value is None else p.put(name, value)
        start, step = self.loops.get(name, (None, None))
        if start is None or step is None or not any(map(self.varies, start.names())):
            return None
        return p.put(name, start + step * Polynomial({(f"@{name}",): 1}))

    def radix(self, p: Polynomial, order: tuple[str, ...]) -> bool:
        """Whether these are the digits of a number in a mixed radix, the least significant first."""
        stride = number(1)
        for n, digit in enumerate(order):
            if p.of(digit) != stride or not self.natural(digit):
                return False
            if n + 1 < len(order):
                wider = next((b for b in self.bounds(digit, p.of(order[n + 1]), stride) if b is not None), None)
                if wider is None:
                    return False
                stride = stride * wider
        return True

    def bounds(self, digit: str, wanted: Polynomial | None, stride: Polynomial) -> Iterator[Polynomial | None]:
        """The bound of a digit that makes the next one's factor the wanted one, if there is such a bound."""
        known = [*self.below.get(digit, []), *([Polynomial({(EXTENTS[digit],): 1})] if digit in EXTENTS else [])]
        yield next((b for b in known if stride * b == wanted), None)
        if digit in IDS[:3] and wanted not in (None, stride) and stride == number(1) and self.constant(wanted):
            extent = EXTENTS[digit]
            ((term, factor),) = wanted.items()
            e = Name(term[0], "int") if term else Number(str(factor), "int")
            if self.conditions.setdefault(extent, e) == e:
                yield wanted

    def constant(self, p: Polynomial) -> bool:
        """Whether a value is one macro or one literal."""
        term, factor = next(iter(p.items()), ((), 0))
        return len(p) == 1 and (not term or (len(term) == 1 and factor == 1 and term[0] in self.constants))

    def varies(self, name: str) -> bool:
        """Whether a name can differ between threads or rounds."""
        if name in (self.same or self.uniform):
            return False
        if name in self.fixed and name not in self.loops:
            value = polynomial(self.fixed[name])
            return value is None or any(map(self.varies, value.names()))
        return True

    def natural(self, name: str) -> bool:
        """Whether a value is known to be 0 or more."""
        if name in IDS or name.startswith("@"):
            return True
        value = self.loops[name][0] if name in self.loops else None
        if value is None and name in self.fixed:
            value = polynomial(self.fixed[name])
        return value is not None and all(f > 0 and all(self.positive(n) for n in t) for t, f in value.items())

    def positive(self, name: str) -> bool:
        """Whether a factor of a value is 0 or more."""
        return name in self.constants or name in EXTENTS.values() or self.natural(name)


def repeated(body: list[Stmt], facts: Facts) -> set[str]:
    """The arrays into which a loop may store an element twice."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, Assign) and isinstance(s.target, Index):
            told = [facts.told(p) or set() for p in map(polynomial, s.target.indices) if p is not None]
            if not facts.rounds <= set().union(*told):
                found.add(s.target.array)
        inside = facts.inside()
        if isinstance(s, For):
            inside.enter(s)
        if isinstance(s, If):
            inside.assume(s.condition)
        if isinstance(s, For | While):
            inside.rounds = facts.rounds | {
                s.start.name if isinstance(s, For) and isinstance(s.start, Declare) else "?"
            }
        for n, inner in enumerate(nested(s)):
            found |= repeated(inner, facts.inside() if n else inside)
    return found
