"""Checkpoints: a global tape may store every eighth iteration, and those between are computed again.

A tape of all iterations moves each value twice, to memory and back; one of every EVERY-th moves 1/EVERY of that. The
backward sweep then takes EVERY iterations at a time: it runs them forwards from the stored state, saves the state at
the start of each in a local array, and reverses them. A count of bytes and operations decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from minigrad.adjoint.analyse.activity import repeatable
from minigrad.adjoint.analyse.trip_counts import count
from minigrad.adjoint.decide.store_or_recompute import Tape
from minigrad.adjoint.language import ast, dataflow, rewrite
from minigrad.adjoint.language.ast import BYTES, Expr, Stmt, is_float, walk
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, flatten, minus, over, plus, times
from minigrad.adjoint.simplify.prune import Live, Prune

OPERATIONS = 8  # in the time of one byte: 33e12 instructions and 4.2e12 bytes a second on an H200
EXPENSIVE = 16  # instructions of a division or a function
EVERY = 8
NTH = rewrite.int_literal(EVERY)
SMALL = 12  # statements of an iteration that is unrolled, so that the states stay in registers


@dataclass(frozen=True)
class TapeCost:
    """The cost of an iteration: bytes moved by a full tape; bytes and operations with checkpoints."""

    store: float
    again: float
    work: int

    def __str__(self) -> str:
        moved = f"{self.again:g} byte{'s' * (self.again != 1)}"
        count = f"{self.work} operation{'s' * (self.work != 1)}"
        return f"{moved} + {count}, as long as {self.again + self.work / OPERATIONS:.4g} bytes"

    @property
    def pays(self) -> bool:
        """True if checkpoints cost less than half, since a count is not a measurement."""
        return 2 * (self.again + self.work / OPERATIONS) < self.store


def values(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement computes, without indices."""
    return (s.value,) if isinstance(s, ast.Assign | ast.Declare) and s.value is not None else rewrite.own_expressions(s)


def work(e: Expr) -> int:
    """The number of operations of an expression."""
    operations = [x for x in walk(e) if isinstance(x, ast.Binary)]
    expensive = [x for x in operations if x.op == "/" and is_float(x.type)]
    cheap = [x for x in operations if x not in expensive and is_float(x.left.type)]
    return EXPENSIVE * (len(expensive) + sum(isinstance(x, ast.Call) for x in walk(e))) + len(cheap)


class Checkpoints:
    """Finds loops that fill tapes, and the loops that read them."""

    def __init__(self, tapes: dict[str, Tape], arrays: set[str], fresh: Callable[[str], str]):
        self.tapes, self.arrays, self.fresh = tapes, arrays, fresh  # arrays: those that several threads see
        self.costs: dict[str, TapeCost] = {}  # by tape
        self.obstacle: dict[str, str] = {}  # by tape: why its iterations cannot be run again
        self.writes: dict[Stmt, set[str]] = {}  # by statement: what it and those in it write

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """The body with checkpoints where they pay."""
        loops = [s for s in body if isinstance(s, ast.For)] if self.tapes else []
        reads = [dataflow.read([s]) & set(self.tapes) for s in loops]
        for n, forward in enumerate(loops):
            names = sorted(dataflow.written(forward.body) & set(self.tapes))
            after = zip(loops[n + 1 :], reads[n + 1 :], strict=True) if names and forward in body else ()
            back = next((s for s, tapes in after if not tapes.isdisjoint(names)), None)
            found = TapedLoop(self, forward, back, names, body) if back else None
            why = found.obstacle if found else "a different loop reads the tape"
            self.obstacle |= dict.fromkeys(names, why) if why else {}
            if found and not why:
                self.costs |= dict.fromkeys(names, found.cost)
                if found.cost.pays and all(self.tapes[n].size is None for n in names):
                    body = found.changed()
        return body

    def written(self, s: Stmt) -> set[str]:
        if s not in self.writes:
            self.writes[s] = dataflow.written([s])
        return self.writes[s]


class TapedLoop:
    """A loop that fills tapes, and the loop that reverses its iterations and reads them."""

    def __init__(self, of: Checkpoints, forward: ast.For, back: ast.For, names: list[str], body: list[Stmt]):
        self.of, self.forward, self.back, self.names, self.body = of, forward, back, names, body
        self.pushes = {s: found for s in forward.body if (found := self.pushed(s)) is not None}
        taken = [s for s in back.body if isinstance(s, ast.Assign | ast.Declare) and isinstance(s.value, ast.Index)]
        self.pulls = {s: s.value.array for s in taken if s.value.array in names}  # type: ignore[union-attr]
        assert isinstance(back.start, ast.Declare) and back.start.value is not None and back.reversal
        self.counter = back.reversal.counter
        self.k = ast.Name(back.variable, "int")
        self.trips = plus(back.start.value, ONE)
        self.states = {v.name for _, v in self.pushes.values()}
        self.var = forward.variable
        self.head = [s for s in back.body if isinstance(s, ast.Declare) and s.name == self.var and s not in self.pulls]
        self.again = self.recomputation()

    def pushed(self, s: Stmt) -> tuple[str, ast.Name] | None:
        """The tape that a statement fills, and the variable that it stores."""
        s = s.then[0] if isinstance(s, ast.If) and len(s.then) == 1 and not s.orelse else s
        match s:
            case ast.Assign(target=ast.Index(array=tape), value=ast.Name() as variable) if tape in self.names:
                return tape, variable
        return None

    def recomputation(self) -> list[Stmt]:
        """The statements of an iteration that compute the next state."""
        number = {self.counter, self.k.name}
        others = {id(s) for s in self.forward.body if s in self.pushes or dataflow.own_writes(s) & number}
        kept = rewrite.copy_without(self.forward.body, others)
        prune = Prune(dataflow.written(kept))
        prune.after = {"break": self.states, "continue": self.states}
        return prune.body(kept, Live(self.states))

    @property
    def obstacle(self) -> str:
        """The reason why no iteration can be computed again; empty if one can."""
        between = self.body[self.body.index(self.forward) + 1 : self.body.index(self.back)]
        inside = flatten([*self.forward.body, *self.back.body])
        new = dataflow.declared(self.again) | {s.name for s in self.head} | {self.k.name}
        reads = dataflow.read(self.again) - self.states - new
        changes = not all(reads.isdisjoint(self.of.written(s)) for s in between)
        changes |= not reads.isdisjoint(dataflow.written([*self.forward.body, *self.back.body]))
        apart = {*self.pulls.values()} <= {*self.names} == {name for name, _ in self.pushes.values()}
        apart = apart and len(self.pushes) == len(self.names)
        apart = apart and dataflow.names_used([s for s in self.back.body if s not in self.pulls]).isdisjoint(self.names)
        adds = any(isinstance(s, ast.AtomicAdd) for s in inside[: len(flatten(self.forward.body))])
        writes = dataflow.written(self.again)
        shares = writes - dataflow.declared(self.again) - self.states or writes & self.of.arrays
        counts = count(self.forward) is not None and self.var in ("", self.k.name, *(s.name for s in self.head))
        reasons = {
            "the rounds are known only while the kernel runs": not counts,
            "the tape holds more than the state at the start of a round": not apart,
            "the loop contains a barrier": dataflow.has_barrier(inside),
            "a round adds to memory, which must happen only once": adds,
            "a round run twice would find changed values": bool(shares or changes),
            "a round has a loop or a call": any(isinstance(s, ast.CallStmt | ast.For) for s in flatten(self.again)),
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @property
    def cost(self) -> TapeCost:
        sizes = sum(BYTES[self.of.tapes[n].type] for n in self.names)
        new = {*dataflow.elements_read(self.again)} - {*dataflow.elements_read(self.back.body)}
        again = 2 * sizes / EVERY + sum(BYTES[x.type] for x in new if x.array in self.of.arrays)
        run = flatten(self.again)
        updates = sum(isinstance(s, ast.Assign) and s.op != "=" and is_float(s.target.type) for s in run)
        return TapeCost(2 * sizes, again, updates + sum(work(e) for s in run for e in values(s)))

    def changed(self) -> list[Stmt]:
        """The body with a first loop that stores less, and a second one that computes states again."""
        part, near = ast.Name(self.of.fresh("part"), "int"), ast.Name(self.of.fresh("near"), "int")
        kept = {n: self.of.fresh(f"{self.of.tapes[n].value}_near") for n in self.names}
        here = plus(times(NTH, part), near)
        free = repeatable(self.again, self.states, self.of.arrays)  # then the loads of all iterations can begin at once
        last = ast.Call("min", (here, rewrite.typed(minus(self.trips, ONE), "int")), "int")
        number = ast.Declare(self.k.name, "int", value=last if free else here)
        inside = comparison("<", here if free else self.k, self.trips)
        values = {n: ast.Index(kept[n], (near,), self.of.tapes[n].type) for n in self.names}
        begin, note = list[Stmt](), list[Stmt]()
        for s, (n, variable) in self.pushes.items():
            tape = self.of.tapes[n]
            self.store_rarely(s, tape.slot(over(self.k, NTH)), variable)
            begin += [ast.Declare(kept[n], tape.type, (NTH,)), ast.Assign(variable, "=", tape.slot(part))]
            note.append(ast.Assign(values[n], "=", variable))
            self.of.tapes[n] = replace(tape, trips=tape.trips and _stored(tape.trips), every=EVERY)
        place = self.back.place
        again = [*map(replace, self.head), *note, *self.again]
        up = rewrite.count_up(near, NTH, [number, *(again if free else [ast.If(inside, again, [])])], place=place)
        restore = {id(s): replace(s, value=values[n]) for s, n in self.pulls.items()}
        taken: Stmt = ast.If(inside, [restore.get(id(s), s) for s in self.back.body], [])
        down = rewrite.count_down(near, rewrite.int_literal(EVERY - 1), [replace(number), taken], place)
        if len(flatten(self.again)) <= SMALL and len(flatten(self.back.body)) <= 2 * SMALL:
            up.pragma = down.pragma = "#pragma unroll"
        whole = rewrite.count_down(part, minus(_stored(self.trips), ONE), [*begin, up, down], place)
        too_long = comparison(">", ast.Name(self.counter, "int"), ast.Name("tape_slots", "int"))
        return [
            whole
            if s is self.back
            else self.shorter_check(s)
            if isinstance(s, ast.If) and s.condition == too_long
            else s
            for s in self.body
        ]

    def store_rarely(self, s: Stmt, slot: ast.Index, variable: ast.Name) -> None:
        """Store a value in every EVERY-th iteration only."""
        first: Expr = comparison("==", ast.Binary("%", self.k, NTH, "int"), ZERO)
        if isinstance(s, ast.If):
            first = ast.Binary("&&", first, comparison("<", over(self.k, NTH), ast.Name("tape_slots", "int")), "bool")
        self.forward.body[self.forward.body.index(s)] = ast.If(first, [ast.Assign(slot, "=", variable)], [], s.place)

    def shorter_check(self, s: ast.If) -> ast.If:
        """The check after the loop that the tape was long enough, for the shorter tape."""
        counter, room = ast.Name(self.counter, "int"), times(NTH, ast.Name("tape_slots", "int"))
        note = ast.CallStmt("atomicMax", (ast.Name("tape_needed", "int"), _stored(counter)), ("tape_needed",))
        return ast.If(comparison(">", counter, room), [note, ast.Assign(counter, "=", room)], [], s.place)


def _stored(trips: Expr) -> Expr:
    """The number of stored iterations."""
    return over(plus(trips, rewrite.int_literal(EVERY - 1)), NTH)
