"""Loops backwards: each round is run again from what it began with, then its gradient is taken."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from minigrad.adjoint.analyse.regions import filled
from minigrad.adjoint.analyse.trip_counts import Count, capacity, count, evaluate, nests, shifted, trips_of, widest
from minigrad.adjoint.decide.store_or_recompute import HEADER, Numbered, Rounds, copying
from minigrad.adjoint.differentiate.sweep import Pair, Sweep
from minigrad.adjoint.language.ast import (
    Assign,
    CallStmt,
    Declare,
    Expr,
    For,
    If,
    Index,
    Name,
    Place,
    Reversal,
    Stmt,
    Target,
)
from minigrad.adjoint.language.control_flow import structured
from minigrad.adjoint.language.dataflow import always_read, declared, inline, own_arrays, own_reads, read, written
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, count_down, minus, replace_parts, with_header


class Loops(Sweep):
    """Makes the two sweeps of loops."""

    def loop(self, s: For, after: set[str]) -> Pair:
        """The loop as it is, noting what each round begins with, if needed; then the rounds from last to first."""
        self.at(s, after | self.kills(s))
        s = self.headed(s)
        header = count(s)
        rounds = self.rounds_of(s, header, after)
        before, outer, self.rounds = self.before, self.rounds, rounds
        body = self.both(structured(s.body, ("break", "continue")))
        restore, note = self.state(s, header, rounds)
        self.rounds = outer
        ahead = self.ahead(s, header, rounds, note)
        self.at(s, after | self.kills(s))
        back = self.back(s, header, rounds, [*restore, *body])
        saved, again = self.outside(s, after, back)
        return [*before, *self.before, *saved, *ahead], [*again, *back]

    def rounds_of(self, s: For, header: Count | None, after: set[str]) -> Rounds:
        """Where the tapes of this loop stand, and which arrays its rounds cannot compute again."""
        k = Name(header.var if header and header.simple else self.fresh("k"), "int")
        size, trips = self.length(s, header)
        arrays = {n for n in read([s]) if self.is_array(n)} - self.dropped
        own = self.kills(s) - declared(s.body)
        anew = frozenset(n for n in sorted(own) if self.is_array(n) and filled(self, s, n))
        lost = {n for n in arrays - self.own_arrays() - anew if n in after or n in own}
        counter = self.fresh(f"trips_{s.place.line}")
        return Rounds(k, size, trips, lost, anew, s.place, self.rounds, counter, self.numbered(s))

    def numbered(self, s: For) -> Numbered | None:
        """How the rounds of a loop are numbered, where the host knows how many there are at most."""
        header = count(s)
        if header is None:
            return None
        size, trips = self.length(s, header)
        if (most := size or trips) is None:
            wide = widest(header, self.nests.get(s.place, ()), self.fixed)
            most = self.hosted(trips_of(wide, self.file.values, self.fixed))
        var = Name(header.var, "int")
        return None if most is None else Numbered(most, var if header.simple else header.round(var))

    @cached_property
    def nests(self) -> dict[Place, tuple[Count, ...]]:
        """The headers around each loop."""
        return nests(self.of.body)

    def length(self, s: For, header: Count | None) -> tuple[Expr | None, Expr | None]:
        """The most rounds where the compiler knows it, else as the host computes them; None where neither does."""
        size = capacity(self.file, s, header)
        return size, None if size or header is None else self.hosted(trips_of(header, self.file.values, self.fixed))

    def headed(self, s: For) -> For:
        """The loop, of whose header the tape of the loop around has what a round of that could not read again.

        There is one slot for all rounds of this loop, so only what is the same in all may stand in it; and it is
        filled in front of the loop, so only what the kernel reads there too, in whatever case.
        """
        lost = {n for part in with_header(s) for n in own_reads(part) if self.is_array(n) and self.is_lost(n)}
        if not lost:
            return s

        def kept(e: Expr, sure: set[Expr]) -> Expr:
            def new(x: Expr) -> Expr | None:
                if not own_arrays(x) & lost:
                    return None
                return self.taped(x) if x in sure else self.lost(x, HEADER)

            return replace_parts(e, new)

        first, changed = s.start.value if s.start else None, written([s])
        start = replace(s.start, value=kept(first, {*always_read(first)})) if s.start and first else s.start
        condition = kept(s.condition, {x for x in always_read(s.condition) if not x.names & changed})
        step = s.step and replace(s.step, value=kept(s.step.value, set()))
        return replace(s, start=start, condition=condition, step=step)

    def hosted(self, e: Expr) -> Expr | None:
        """An expression as the host can evaluate it, of parameters, macros and the launch's extents; None where not."""
        e = inline(e, self.fixed)
        known = {p.name: 1 for p in self.of.params if not p.pointer and p.type == "int"} | self.file.values
        axes = {f"{b}.{a}": 1 for b in ("blockDim", "gridDim") for a in "xyz"}  # of all threads alike
        return e if self.of is self.file.kernel and evaluate(e, known | axes) is not None else None

    def state(self, s: For, header: Count | None, rounds: Rounds) -> tuple[list[Stmt], list[Stmt]]:
        """What a round begins with: taken from the tape, and noted on it. What nobody reads falls away later."""
        told = header is not None or shifted(s, rounds.k) is not None
        changed, inner = self.kills(s) - declared(s.body), s.variable
        restore: list[Stmt] = []
        note: list[Stmt] = []
        for d in self.own(changed - rounds.filled - ({inner} if told else set())):
            put, take = self.moves(d, lambda e: self.tape(rounds, d.name, d.type, d.dims).slot(rounds.k, e))  # noqa: B023
            restore.append(Declare(d.name, d.type, value=take.value) if d.name == inner else take)  # type: ignore[union-attr]
            note.append(self.bounded(rounds, put))
        return restore, note

    def own(self, names: set[str]) -> list[Declare]:
        """Those of these variables and arrays that are a thread's own."""
        return [self.of.declared[n] for n in sorted(names) if n in self.own_arrays() or not self.is_array(n)]

    def moves(self, d: Declare, slot: Callable[[tuple[Name, ...]], Target]) -> tuple[Stmt, Stmt]:
        """A variable, or a whole array, put into a slot, and taken from it."""
        elements = tuple(Name(self.fresh("element"), "int") for _ in d.dims)
        own, place = Index(d.name, elements, d.type) if d.dims else Name(d.name, d.type), slot(elements)
        return copying(own, place, elements, d.dims), copying(place, own, elements, d.dims)

    def ahead(self, s: For, header: Count | None, rounds: Rounds, note: list[Stmt]) -> list[Stmt]:
        """The forward sweep of a loop: the loop itself, with tapes and a counter."""
        trips, front, behind = Name(rounds.counter, "int"), list(note), []
        counted = not (header and header.exact) or rounds.checked
        if counted:
            front = [*note, Assign(trips, "+=", ONE, s.place)]
        if not (header and header.simple):
            value = header.round(Name(header.var, "int")) if header else trips
            front = [Declare(rounds.k.name, "int", value=value, place=s.place), *front]
        if rounds.checked:
            slots = Name("tape_slots", "int")
            full: list[Stmt] = [CallStmt("atomicMax", (Name("tape_needed", "int"), trips), ("tape_needed",))]
            behind = [If(comparison(">", trips, slots), [*full, Assign(trips, "=", slots)], [], s.place)]
        self.around.append(rounds.number)
        body = [*front, *self.rerun(s.body, rounds.pushes)]
        self.around.pop()
        loop = For(s.start, self.replay_value(s.condition), s.step, body, s.pragma, s.place)
        begin: list[Stmt] = [Declare(trips.name, "int", value=ZERO, place=s.place)] if counted else []
        return [*begin, loop, *behind]

    def back(self, s: For, header: Count | None, rounds: Rounds, body: list[Stmt]) -> list[Stmt]:
        """The rounds from the last to the first. One whose order is free may take the header of the loop itself."""
        counter = Name(rounds.counter, "int")
        formula = self.keep(trips_of(header, self.file.values, self.fixed)) if header and header.exact else None
        trips: Expr = formula if formula and not rounds.checked else counter
        value = self.variable(s, header, rounds.k)
        if value is not None:
            body = [Declare(s.variable, "int", value=value, place=s.place), *body]
        cleared = frozenset(map(self.gradient, rounds.filled & self.active))
        turns = header is not None and header.exact and self.keep(header.trips) == header.trips
        known = Reversal(s if header else None, counter.name, formula, turns, rounds.filled, cleared)
        back = count_down(rounds.k, minus(trips, ONE), body, s.place)
        return [replace(back, pragma=s.pragma, reversal=known)]

    def variable(self, s: For, header: Count | None, k: Expr) -> Expr | None:
        """The variable of a loop in round k, by formula; None where it is k itself, or where no formula tells it."""
        if header is None:
            halved = shifted(s, k)
            return None if halved is None else self.keep(halved)
        start, step = self.keep(header.start), self.keep(header.step)
        return None if header.simple else replace(header, start=start, step=step).value(k)

    def outside(self, s: For, after: set[str], back: list[Stmt]) -> Pair:
        """Variables that the rounds read and that are changed after the loop: saved before it, set again behind it."""
        names = read(back) & after - self.kills(s) - declared(back)
        saved: list[Stmt] = []
        again: list[Stmt] = []
        for d in self.own(names):
            keep = self.fresh(f"{d.name}_{s.place.line}")
            put, take = self.moves(d, lambda e: Index(keep, e, d.type) if e else Name(keep, d.type))  # noqa: B023
            value = None if d.dims else Name(d.name, d.type)
            saved += [Declare(keep, d.type, d.dims, value, place=s.place), *([put] if d.dims else [])]
            again.append(take)
        return saved, again
