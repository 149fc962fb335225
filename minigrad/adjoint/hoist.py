"""Sums led out of loops: one addition behind the loop instead of one in each round."""

from collections.abc import Callable, Mapping

from minigrad.adjoint.build import ZERO, test
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import each, name_of, read_here, reads_in, self_read, sides, written, written_here
from minigrad.adjoint.expr import Expr, Index, Name, Target, children
from minigrad.adjoint.tidy import is_sum
from minigrad.adjoint.tree import Assign, Barrier, Declare, For, If, Stmt


class Hoist:
    """`for (...) { d_x[i] += e; }` becomes a sum in a variable and, behind the loop, one `d_x[i] += sum;`."""

    def __init__(self, arrays: Mapping[str, bool], fresh: Callable[[str], str], values: dict[str, int]):
        self.arrays, self.fresh, self.values = arrays, fresh, values  # arrays: gradients, and whether they are shared

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Lead the sums out of the loops of this body."""
        return [t for s in body for t in (self._loop(s) if isinstance(s, For) else [s])]

    def _loop(self, s: For) -> list[Stmt]:
        inside = list(each([s]))
        changed, read = written([s]), {n for t in inside for n in read_here(t) - self_read(t)}
        sums: dict[Target, list[Assign]] = {}
        spoilt = {n for t in inside if not is_sum(t) for n in written_here(t)} | read
        for t in inside:
            if is_sum(t) and isinstance(t.target, Index) and t.target.array in self.arrays:  # type: ignore[union-attr]
                sums.setdefault(t.target, []).append(t)  # type: ignore[union-attr,arg-type]
        before: list[Stmt] = []
        behind: list[Stmt] = []
        header = count(s)
        for target, parts in sums.items():
            stays = not reads_in(children(target)) & changed and name_of(target) not in spoilt
            waits = self.arrays[name_of(target)] and any(isinstance(t, Barrier) for t in inside)
            if stays and not waits:
                total = Name(self.fresh(f"{name_of(target)}_sum"), target.type)
                before.append(Declare(total.name, total.type, value=ZERO, place=s.place))
                add = Assign(target, "+=", total, parts[0].place, owned=parts[0].owned)
                runs = header is not None and header.runs(self.values)
                ways = [_way(s.body, part, changed) for part in parts] if runs else [None]
                if [] in ways:
                    behind.append(add)
                elif ways[0] is not None and all(way == ways[0] for way in ways):
                    behind.append(_guarded(ways[0], add))
                else:  # where no round has run, the element may not exist
                    behind.append(If(test("!=", total, ZERO), [add], [], s.place))
                for part in parts:
                    part.target, part.owned = total, False
        return [*before, s, *behind]


def _way(body: list[Stmt], s: Stmt, changed: set[str]) -> list[Expr] | None:
    """The conditions on the way to a statement, none of which changes; None where one does, or in another loop."""
    for t in body:
        if t is s:
            return []
        for condition, side in sides(t):
            way = _way(side, s, changed)
            if way is not None:
                return None if condition.names & changed else [condition, *way]
    return None


def _guarded(way: list[Expr], s: Stmt) -> Stmt:
    """A statement under conditions."""
    for condition in reversed(way):
        s = If(condition, [s], [], s.place)
    return s
