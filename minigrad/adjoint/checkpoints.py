"""Recompute or store, by counting: of a global tape every eighth round may be enough, and those between run again.

A tape of every round moves each value twice, to memory and back. With every EVERY-th it moves 1/EVERY of that; the way
back then takes EVERY rounds at a time: it runs them forward from the one that is stored, keeps what they begin with in
an array of the thread's own, and goes through them backwards. What is cheaper is counted, in bytes.
"""

from collections.abc import Callable
from dataclasses import replace

from minigrad.adjoint.build import ONE, ZERO, ascending, descending, literal, minus, over, plus, test, times
from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import declared, elements, mentioned, name_of, read, waits, written
from minigrad.adjoint.expr import Binary, Call, Expr, Index, Name
from minigrad.adjoint.prune import Prune
from minigrad.adjoint.reach import repeatable
from minigrad.adjoint.tapes import Counted, Tape, values, work
from minigrad.adjoint.tree import Add, Assign, Declare, Do, For, If, Stmt
from minigrad.adjoint.types import BYTES, floating
from minigrad.adjoint.visit import each, without

EVERY = 8
SMALL = 12  # statements of a round that is unrolled, so that what it keeps stays in registers


class Checkpoints:
    """Looks for loops with a tape in global memory, and the loops that read it."""

    def __init__(self, tapes: dict[str, Tape], arrays: set[str], fresh: Callable[[str], str]):
        self.tapes, self.arrays, self.fresh = tapes, arrays, fresh  # arrays: what all threads see
        self.counted: dict[str, Counted] = {}  # by tape
        self.never: dict[str, str] = {}  # by tape: why its rounds cannot be run again

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """A body with what pays changed."""
        for forward in [s for s in body if isinstance(s, For)]:
            names = sorted(written(forward.body) & set(self.tapes))
            behind = body[body.index(forward) + 1 :] if names and forward in body else []
            back = next((s for s in behind if isinstance(s, For) and read([s]) & set(names)), None)
            found = TapedLoop(self, forward, back, names, body) if back else None
            why = found.never if found else "another loop reads it"
            self.never |= dict.fromkeys(names, why) if why else {}
            if found and not why:
                self.counted |= dict.fromkeys(names, found.cost)
                if found.cost.pays and all(self.tapes[n].size is None for n in names):
                    body = found.changed()
        return body


class TapedLoop:
    """A loop that fills tapes, and the one that reads them, of its rounds from the last to the first."""

    def __init__(self, of: Checkpoints, forward: For, back: For, names: list[str], body: list[Stmt]):
        self.of, self.forward, self.back, self.names, self.body = of, forward, back, names, body
        self.pushes = {s: found for s in forward.body if (found := self.pushed(s)) is not None}
        self.pulls = {s: name for s in back.body if (name := self.pulled(s)) is not None}
        assert isinstance(back.start, Declare) and back.start.value is not None and back.reversal
        self.counter = back.reversal.counter
        self.k = Name(back.variable, "int")
        self.trips = plus(back.start.value, ONE)
        self.states = {v.name for _, v in self.pushes.values()}
        self.var = forward.variable
        self.head = [s for s in back.body if isinstance(s, Declare) and s.name == self.var and s not in self.pulls]
        self.again = self.slice()

    def pushed(self, s: Stmt) -> tuple[str, Name] | None:
        """The tape that a statement fills, and the variable that it puts there."""
        s = s.then[0] if isinstance(s, If) and len(s.then) == 1 and not s.orelse else s
        match s:
            case Assign(target=Index(array=tape), value=Name() as variable) if tape in self.names:
                return tape, variable
        return None

    def pulled(self, s: Stmt) -> str | None:
        """The tape from which a statement takes a variable."""
        value = s.value if isinstance(s, Assign | Declare) else None
        return value.array if isinstance(value, Index) and value.array in self.names else None

    def slice(self) -> list[Stmt]:
        """Of a round what its state needs, to be run again."""
        own = {id(s) for s in self.forward.body if s in self.pushes or self.counts(s)}
        kept = without(self.forward.body, own)
        prune = Prune(written(kept))
        prune.after = {"break": self.states, "continue": self.states}
        return prune.body(kept, set(self.states))[0]

    def counts(self, s: Stmt) -> bool:
        """Whether a statement is about the number of the round alone."""
        if isinstance(s, Declare):
            return s.name in (self.counter, self.k.name)
        return isinstance(s, Assign) and name_of(s.target) == self.counter

    @property
    def never(self) -> str:
        """Why no round can be run again and find what it found; empty where one can.

        Of a loop that counts nothing rounds may be few.
        """
        between = self.body[self.body.index(self.forward) + 1 : self.body.index(self.back)]
        inside = each([*self.forward.body, *self.back.body])
        new = declared(self.again) | {s.name for s in self.head} | {self.k.name}
        changed = written([*between, *self.forward.body, *self.back.body]) - self.states - new
        apart = {*self.pulls.values()} <= {*self.names} == {name for name, _ in self.pushes.values()}
        apart = apart and len(self.pushes) == len(self.names)
        apart = apart and mentioned([s for s in self.back.body if s not in self.pulls]).isdisjoint(self.names)
        adds = any(isinstance(s, Add) for s in inside[: len(each(self.forward.body))])
        writes = written(self.again) - declared(self.again) - self.states or written(self.again) & self.of.arrays
        counts = count(self.forward) is not None and self.var in ("", self.k.name, *(s.name for s in self.head))
        reasons = {
            "only the running kernel knows which rounds there are": not counts,
            "a round needs more than variables that it begins with": not apart,
            "threads wait for one another in it": waits(inside),
            "a round adds to memory": adds,
            "a round changes what the next one reads": bool(writes or read(self.again) & changed),
            "a round has a loop of its own": any(isinstance(s, Do | For) for s in each(self.again)),
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @property
    def cost(self) -> Counted:
        """What a round costs either way."""
        sizes = sum(BYTES[self.of.tapes[n].type] for n in self.names)
        new = {x for x in elements(self.again) if x.array in self.of.arrays}.difference(elements(self.back.body))
        again = 2 * sizes / EVERY + sum(BYTES[x.type] for x in new)
        updates = sum(isinstance(s, Assign) and s.op != "=" and floating(s.target.type) for s in each(self.again))
        return Counted(2 * sizes, again, updates + sum(work(e) for s in each(self.again) for e in values(s)))

    def changed(self) -> list[Stmt]:
        """The two loops, of which the first one stores less."""
        part, near = Name(self.of.fresh("part"), "int"), Name(self.of.fresh("near"), "int")
        kept = {n: self.of.fresh(f"{self.of.tapes[n].value}_near") for n in self.names}
        every = literal(EVERY)
        for s, (name, _) in self.pushes.items():
            self.thinned(s, self.of.tapes[name])
        here = plus(times(every, part), near)
        free = repeatable(self.again, self.states, self.of.arrays)  # then the loads of all rounds can begin at once
        number = Declare(self.k.name, "int", value=self.last(here) if free else here)
        inside = test("<", here if free else self.k, self.trips)
        begin, note, restore = list[Stmt](), list[Stmt](), dict[int, Stmt]()
        for name, variable in self.pushes.values():
            tape = self.of.tapes[name]
            begin += [Declare(kept[tape.name], tape.type, (every,)), Assign(variable, "=", tape.slot(part))]
            note.append(Assign(Index(kept[tape.name], (near,), tape.type), "=", variable))
        for s, name in self.pulls.items():
            value = Index(kept[name], (near,), self.of.tapes[name].type)
            assert isinstance(s, Assign | Declare)
            restore[id(s)] = replace(s, value=value)
        place = self.back.place
        again = [*map(replace, self.head), *note, *self.again]
        up = ascending(near, every, [number, *(again if free else [If(inside, again, [])])], place=place)
        taken: Stmt = If(inside, [restore.get(id(s), s) for s in self.back.body], [])
        down = descending(near, literal(EVERY - 1), [replace(number), taken], place)
        if len(each(self.again)) <= SMALL and len(each(self.back.body)) <= 2 * SMALL:
            up.pragma = down.pragma = "#pragma unroll"
        parts = over(plus(self.trips, literal(EVERY - 1)), every)
        whole = descending(part, minus(parts, ONE), [*begin, up, down], place)
        for n in self.names:
            tape = self.of.tapes[n]
            trips = tape.trips and over(plus(tape.trips, literal(EVERY - 1)), every)
            self.of.tapes[n] = replace(tape, trips=trips, every=EVERY)
        return [self.full(s) if s is not self.back else whole for s in self.body]

    def last(self, here: Expr) -> Expr:
        """The number of a round; beyond the last one, of that."""
        return Call("min", (here, minus(self.trips, ONE)), "int")

    def thinned(self, s: Stmt, tape: Tape) -> None:
        """A value put onto the tape in every EVERY-th round."""
        every, at = literal(EVERY), self.forward.body.index(s)
        store = s.then[0] if isinstance(s, If) else s
        assert isinstance(store, Assign)
        round_ = over(self.k, every)
        first: Expr = test("==", Binary("%", self.k, every, "int"), ZERO)
        if isinstance(s, If):
            first = Binary("&&", first, test("<", round_, Name("tape_slots", "int")), "bool")
        self.forward.body[at] = If(first, [Assign(tape.slot(round_), "=", store.value)], [], s.place)

    def full(self, s: Stmt) -> Stmt:
        """The check behind the loop whether the tape was long enough, for one that is shorter now."""
        counter, slots = Name(self.counter, "int"), Name("tape_slots", "int")
        if not (isinstance(s, If) and s.condition == test(">", counter, slots)):
            return s
        every = literal(EVERY)
        needed, room = over(plus(counter, literal(EVERY - 1)), every), times(every, slots)
        then: list[Stmt] = [Do("atomicMax", (Name("tape_needed", "int"), needed), ("tape_needed",))]
        return If(test(">", counter, room), [*then, Assign(counter, "=", room)], [], s.place)
