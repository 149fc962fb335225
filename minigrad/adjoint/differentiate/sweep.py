"""The forward sweep, which computes the values, and the backward sweep, which propagates the gradients.

Both are made together, statement by statement from the last to the first, and in full: whatever the gradient does not
need is dead code, which is removed afterwards.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import Count, count, shifted, trips_of
from minigrad.adjoint.decide.store_or_recompute import StoragePlan, copying
from minigrad.adjoint.differentiate.rules import Gradients, Rules
from minigrad.adjoint.differentiate.saved import ReversedLoop, Saved
from minigrad.adjoint.language import ast, rewrite
from minigrad.adjoint.language.ast import Expr, Stmt, Target
from minigrad.adjoint.language.dataflow import declared, names_used, read, target_name
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, minus, numeric_value

Pair = tuple[list[Stmt], list[Stmt]]  # forward and backward sweep
MOST_AGAIN = 4000  # loops that are run again for those around them, each counted as often as these are
TOO_NESTED = (
    "from here on loops are nested too deeply for an adjoint, which runs each again for those around it: about 28 "
    "within one another are the most; put the inner ones into a __device__ function that returns a number."
)


class Sweep:
    """Makes both sweeps of a body, as the plan says."""

    def __init__(self, facts: KernelFacts, plan: StoragePlan, gradients: Gradients):
        self.facts, self.plan, self.gradients = facts, plan, gradients
        self.saved = Saved(facts, plan)
        self.rules = Rules(facts, self.saved, gradients)
        self.again = 0  # loops run again

    # --- bodies ---

    def both(self, body: list[Stmt]) -> list[Stmt]:
        """The forward sweep, directly followed by the backward sweep. A branch at the end holds both of its own."""
        last = body[-1] if body else None
        if not isinstance(last, ast.If):
            forward, backward = self.pairs(body)
            return [*self.hoisted(forward, backward), *self.zeros(body), *backward]
        head = body[:-1]
        forward, backward = self.pairs(head)
        self.saved.at(last)
        condition = self.saved.replayed(last.condition)
        whole = ast.If(condition, self.both(last.then), self.both(last.orelse), last.place)
        return [*self.hoisted(forward, [whole, *backward]), *self.zeros(head), whole, *backward]

    def pairs(self, body: list[Stmt]) -> Pair:
        found = [self.pair(s) for s in reversed(body)]
        return [s for ahead, _ in reversed(found) for s in ahead], [s for _, back in found for s in back]

    def pair(self, s: Stmt) -> Pair:
        match s:
            case ast.Barrier():
                return [s], [ast.Barrier(s.place, warp=s.warp)]
            case ast.For():
                return self.loop(s)
            case ast.If():
                return self.branch(s)
        self.saved.at(s)
        backward = self.rules.adjoint(s, self.plan.points[id(s)].after)
        note = ast.Comment(f"adjoint of {s.place.words}: {s.text}", s.place)
        for made in backward:
            made.place = s.place
        return [*self.saved.before, *self.replay(s)], [*([note] if backward and s.text else []), *backward]

    def branch(self, s: ast.If) -> Pair:
        """A branch: the backward sweep tests the condition again, or its saved value."""
        self.saved.at(s)
        condition = self.saved.replayed(s.condition)
        if condition == s.condition and self.saved.keep(s.condition) != s.condition:
            self.saved.before = []
            condition = self.saved.in_register(s.condition, "taken")
        before = self.saved.before
        then, back_then = self.pairs(s.then)
        orelse, back_else = self.pairs(s.orelse)
        back_then, back_else = [*self.zeros(s.then), *back_then], [*self.zeros(s.orelse), *back_else]
        forward, backward = (ast.If(condition, *sides, s.place) for sides in ((then, orelse), (back_then, back_else)))
        return [*before, forward], [backward]

    def zeros(self, body: list[Stmt]) -> list[Stmt]:
        """The gradients of the variables that a body declares, initially 0."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, ast.Declare) and s.name in self.facts.active and not s.shared:
                values: tuple[Expr, ...] | None = () if s.dims else None
                kind = ast.gradient_type(s.type)
                made.append(ast.Declare(self.gradients[s.name], kind, s.dims, None if s.dims else ZERO, values))
        return made

    def hoisted(self, forward: list[Stmt], backward: list[Stmt]) -> list[Stmt]:
        """The forward sweep; variables declared in its branches that the backward sweep reads are declared first."""
        branches = (side for s in forward if isinstance(s, ast.If) for side in rewrite.bodies(s))
        within = {n for side in branches for n in declared(t for t in side if not isinstance(t, ast.For))}
        if not within:
            return forward
        wanted = within & names_used(backward) - {s.name for s in forward if isinstance(s, ast.Declare)}
        front: dict[str, Stmt] = {}
        body = _lift(forward, wanted, front, self.facts.fixed)
        return [*front.values(), *body]

    # --- statements run again ---

    def replay(self, s: Stmt) -> list[Stmt]:
        """A statement of the forward sweep, as the adjoint runs it."""
        if isinstance(s, ast.Assign | ast.AtomicAdd):
            array = target_name(s.target)
            if array in self.facts.dropped or self.saved.is_lost(array):
                return []
        if isinstance(s, ast.Declare | ast.Assign | ast.AtomicAdd):
            rewrite.map_expressions(s := replace(s), self.saved.replayed)
        return [s]

    def rerun(self, body: list[Stmt], pushes: dict[ast.Place, list[Stmt]]) -> list[Stmt]:
        """Statements as the kernel has them, each after the stores onto tapes that belong to it."""
        return [t for s in body for t in (*pushes.get(s.place, []), *self.copy(s, pushes))]

    def copy(self, s: Stmt, pushes: dict[ast.Place, list[Stmt]]) -> list[Stmt]:
        self.saved.at(s)
        match s:
            case ast.If():
                condition = self.saved.replayed(s.condition)
                return [ast.If(condition, self.rerun(s.then, pushes), self.rerun(s.orelse, pushes), s.place)]
            case ast.For():
                self.again += len(self.saved.inside)
                if self.again > MOST_AGAIN:
                    raise self.facts.file.error(s.place, TOO_NESTED)
                loop = self.saved.with_saved_header(s)
                self.saved.inside.append(self.saved.iteration(s, count(loop)))
                body = self.rerun(s.body, pushes)
                self.saved.inside.pop()
                return self.saved.counting(replace(loop, body=body, text=""))
            case ast.Jump() | ast.Barrier():
                return [s]
        return self.replay(s)

    # --- loops ---

    def loop(self, s: ast.For) -> Pair:
        """The loop itself, with stores onto its tapes; and its iterations from the last to the first."""
        self.saved.at(s)
        plan, loop = self.plan.loops[id(s)], self.saved.with_saved_header(s)
        header, names = count(loop), self.facts.names
        k = ast.Name(header.var if header and header.simple else names.fresh("k"), "int")
        counter, outer = names.fresh(f"trips_{s.place.line}"), self.saved.loop
        made = ReversedLoop(plan, k, counter, self.saved.iteration(s, header), outer)
        before, self.saved.loop = self.saved.before, made
        body = self.both(plan.flow)
        restore, note = self.state(made)
        self.saved.loop = outer
        ahead = self.ahead(loop, header, made, note)
        self.saved.at(s)
        back = self.back(loop, header, made, [*restore, *body])
        saved, again = self.outside(s, back)
        return [*before, *self.saved.before, *saved, *ahead], [*again, *back]

    def state(self, loop: ReversedLoop) -> Pair:
        """The state at the start of an iteration: taken from the tape, and put there. Dead code is removed later."""
        restore: list[Stmt] = []
        note: list[Stmt] = []
        for d in (self.facts.function.declared[n] for n in loop.plan.state):
            put, take = self.moves(d, lambda e: self.saved.tape(loop, d.name, d.type, d.dims).slot(loop.k, e))  # noqa: B023
            own = d.name == loop.plan.loop.variable
            restore.append(ast.Declare(d.name, d.type, value=take.value) if own else take)  # type: ignore[union-attr]
            note.append(self.saved.if_room(loop, put))
        return restore, note

    def moves(self, d: ast.Declare, slot: Callable[[tuple[ast.Name, ...]], Target]) -> tuple[Stmt, Stmt]:
        """A variable, or a whole array, copied into a slot, and back."""
        elements = tuple(ast.Name(self.facts.names.fresh("element"), "int") for _ in d.dims)
        own, place = ast.Index(d.name, elements, d.type) if d.dims else ast.Name(d.name, d.type), slot(elements)
        return copying(own, place, elements, d.dims), copying(place, own, elements, d.dims)

    def ahead(self, s: ast.For, header: Count | None, loop: ReversedLoop, note: list[Stmt]) -> list[Stmt]:
        """The forward sweep of a loop: the loop itself, with tapes and a counter."""
        trips, front, after = ast.Name(loop.counter, "int"), list(note), []
        counted = not (header and header.exact) or loop.plan.counted
        if counted:
            front = [*note, ast.Assign(trips, "+=", ONE, s.place)]
        if not (header and header.simple):
            value = header.iteration(ast.Name(header.var, "int")) if header else trips
            front = [ast.Declare(loop.k.name, "int", value=value, place=s.place), *front]
        if loop.plan.counted:
            slots = ast.Name("tape_slots", "int")
            full: list[Stmt] = [ast.CallStmt("atomicMax", (ast.Name("tape_needed", "int"), trips), ("tape_needed",))]
            after = [ast.If(comparison(">", trips, slots), [*full, ast.Assign(trips, "=", slots)], [], s.place)]
        self.saved.inside.append(loop.iteration)
        body = [*front, *self.rerun(s.body, loop.pushes)]
        self.saved.inside.pop()
        made = ast.For(s.start, self.saved.replayed(s.condition), s.step, body, s.pragma, s.place)
        begin: list[Stmt] = [ast.Declare(trips.name, "int", value=ZERO, place=s.place)] if counted else []
        return [*begin, *self.saved.counting(made), *after]

    def back(self, s: ast.For, header: Count | None, loop: ReversedLoop, body: list[Stmt]) -> list[Stmt]:
        """The iterations from the last to the first; `reversal` says how to restore the kernel's own order."""
        counter, facts, keep = ast.Name(loop.counter, "int"), self.facts, self.saved.keep
        formula = keep(trips_of(header, facts.file.values, facts.fixed)) if header and header.exact else None
        trips: Expr = formula if formula and not loop.plan.counted else counter
        value = self.variable(s, header, loop.k)
        if value is not None:
            body = [ast.Declare(s.variable, "int", value=value, place=s.place), *body]
        empty = (n for n in loop.plan.filled & facts.active if not self.plan.read_outside(loop.plan, n))
        cleared = frozenset(self.gradients[n] for n in empty)
        turns = header is not None and header.exact and keep(header.trips) == header.trips
        known = ast.Reversal(s if header else None, counter.name, formula, turns, loop.plan.filled, cleared)
        back = rewrite.count_down(loop.k, minus(trips, ONE), body, s.place)
        return [replace(back, pragma=s.pragma, reversal=known)]

    def variable(self, s: ast.For, header: Count | None, k: Expr) -> Expr | None:
        """The variable of a loop in iteration k, by formula; None if it is k itself or on the tape."""
        if header is None:
            halved = shifted(s, k)
            return None if halved is None else self.saved.keep(halved)
        start, step = self.saved.keep(header.start), self.saved.keep(header.step)
        return None if header.simple else replace(header, start=start, step=step).value(k)

    def outside(self, s: ast.For, back: list[Stmt]) -> Pair:
        """Save variables that the iterations read and that change after the loop, and restore them."""
        facts = self.facts
        after, own = self.plan.points[id(s)].after, facts.overwrites(s) | declared(back)
        names = {name for name in read(back) - own if name in after}
        saved: list[Stmt] = []
        again: list[Stmt] = []
        for name in sorted(names - facts.function.memory):
            d = facts.function.declared[name]
            keep = facts.names.fresh(f"{d.name}_{s.place.line}")
            put, take = self.moves(d, lambda e: ast.Index(keep, e, d.type) if e else ast.Name(keep, d.type))  # noqa: B023
            value = None if d.dims else ast.Name(d.name, d.type)
            saved += [ast.Declare(keep, d.type, d.dims, value, place=s.place), *([put] if d.dims else [])]
            again.append(take)
        return saved, again


def _lift(body: list[Stmt], wanted: set[str], front: dict[str, Stmt], fixed: dict[str, Expr]) -> list[Stmt]:
    """Make declarations inside branches assignments, and enter the declarations into `front`.

    A number that never changes is declared there with its value, from which a compiler can compute others.
    """
    made: list[Stmt] = []
    for s in body:
        match s:
            case ast.If():
                made.append(rewrite.map_bodies(s, partial(_lift, wanted=wanted, front=front, fixed=fixed)))
            case ast.Declare() if s.name in wanted and s.name in fixed and numeric_value(fixed[s.name]) is not None:
                front[s.name] = s
            case ast.Declare() if s.name in wanted and s.values and all(numeric_value(v) is not None for v in s.values):
                front[s.name] = s
            case ast.Declare() if s.name in wanted:
                values: tuple[Expr, ...] | None = None if s.values is None else ()
                front[s.name] = ast.Declare(s.name, s.type, s.dims, None if s.dims else ZERO, values, place=s.place)
                for n, v in enumerate(s.values or ()):
                    element = ast.Index(s.name, (rewrite.int_literal(n),), s.type)
                    made.append(ast.Assign(element, "=", v, s.place, s.text))
                if s.value is not None:
                    made.append(ast.Assign(ast.Name(s.name, s.type), "=", s.value, s.place, s.text))
            case _:
                made.append(s)
    return made
