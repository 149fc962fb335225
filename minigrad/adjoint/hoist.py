"""Sums in loops: led out of them, so that one addition is left, or shared out over the threads of a warp."""

from collections.abc import Callable, Container, Mapping

from minigrad.adjoint.build import ZERO, test
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import each, is_sum, name_of, reads_in, sides, used_otherwise, waits, written
from minigrad.adjoint.expr import Call, Expr, Index, Name, Target, Ternary, children, walk
from minigrad.adjoint.tree import Add, Assign, Comment, Declare, For, If, Stmt


class Hoist:
    """`for (...) { d_x[i] += e; }` becomes a sum in a variable and, behind the loop, one `d_x[i] += sum;`."""

    def __init__(self, arrays: Mapping[str, bool], fresh: Callable[[str], str], values: dict[str, int]):
        self.arrays, self.fresh, self.values = arrays, fresh, values  # arrays: gradients, and whether they are shared

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Lead the sums out of the loops of this body."""
        return [t for s in body for t in (self._loop(s) if isinstance(s, For) else [s])]

    def _loop(self, s: For) -> list[Stmt]:
        inside = each([s])
        changed, spoilt = written([s]), used_otherwise([s])
        sums: dict[Target, list[Assign]] = {}
        for t in inside:
            if is_sum(t) and isinstance(t.target, Index) and t.target.array in self.arrays:
                sums.setdefault(t.target, []).append(t)
        before: list[Stmt] = []
        behind: list[Stmt] = []
        header = count(s)
        for target, parts in sums.items():
            stays = not reads_in(children(target)) & changed and name_of(target) not in spoilt
            if stays and not (self.arrays[name_of(target)] and waits([s])):
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


class Share:
    """`for (j ...) { warp_add(&d_s[j], d); }` becomes one sum of d over the warp and the rounds taken in turns."""

    def __init__(self, uniform: Container[str], fresh: Callable[[str], str]):
        self.uniform, self.fresh = uniform, fresh  # uniform: names that are equal in all threads of a block

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Share out the loops of a body."""
        return [t for s in body for t in (self._loop(s) if isinstance(s, For) else [s])]

    def _loop(self, s: For) -> list[Stmt]:
        notes, adds = [t for t in s.body if isinstance(t, Comment)], [t for t in s.body if isinstance(t, Add)]
        header = count(s)
        if header is None or not (header.simple and header.exact) or len(notes) + len(adds) < len(s.body):
            return [s]
        if len(adds) != 1 or adds[0].by != "warp_add" or adds[0].value.names & written([s]):
            return [s]
        add, indices = adds[0], adds[0].target.indices if isinstance(adds[0].target, Index) else ()
        named = reads_in((header.bound, *indices)) - {header.var}
        if not all(n in self.uniform for n in named):
            return [s]
        turn, turns = Name(self.fresh("turn"), "int"), Name(self.fresh("turns"), "int")
        total = Name(self.fresh("d_warp"), add.target.type)
        value = add.value
        if any(isinstance(x, Index) for x in walk(value)) and not header.runs({}):
            value = Ternary(header.some, value, ZERO, total.type)  # of no round nothing may be read
        summed = Call("warp_total", (value, turn, turns), total.type)
        var = Name(header.var, "int")
        one = Add(add.target, total, add.place, add.text)
        loop = For(Declare(var.name, "int", value=turn), s.condition, Assign(var, "+=", turns), [one], place=s.place)
        given: list[Stmt] = [Declare(turn.name, "int"), Declare(turns.name, "int")]
        return [*given, *notes, Declare(total.name, total.type, value=summed, place=add.place), loop]
