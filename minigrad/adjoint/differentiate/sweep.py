"""The two sweeps over a body: forward, to have the values; backward, statement by statement, to hand on gradients."""

from dataclasses import replace
from functools import partial

from minigrad.adjoint.decide.store_or_recompute import Numbered
from minigrad.adjoint.differentiate.rules import Assignments
from minigrad.adjoint.language.ast import (
    Assign,
    AtomicAdd,
    Barrier,
    Comment,
    Declare,
    Expr,
    For,
    If,
    Jump,
    Name,
    Place,
    Stmt,
)
from minigrad.adjoint.language.dataflow import declared, names_used, target_name, written
from minigrad.adjoint.language.rewrite import ZERO, bodies, map_bodies, map_expressions

Pair = tuple[list[Stmt], list[Stmt]]


class Sweep(Assignments):
    """Makes forward and backward sweep of straight code and branches."""

    def loop(self, s: For, after: set[str]) -> Pair:
        """Forward and backward sweep of a loop."""
        raise NotImplementedError

    def headed(self, s: For) -> For:
        """The loop, of whose header the tape of a loop around has what a round of that could not read again."""
        raise NotImplementedError

    def numbered(self, s: For) -> Numbered | None:
        """How the rounds of a loop are numbered, where the host knows how many there are at most."""
        raise NotImplementedError

    def own_arrays(self) -> set[str]:
        """The arrays of a thread alone, which are kept as a whole."""
        return {n for n, d in self.of.declared.items() if d.dims and not d.shared}

    def is_array(self, name: str) -> bool:
        """Whether a name is that of an array."""
        found, param = self.of.declared.get(name), self.of.param(name)
        return bool((found and found.dims) or (param and param.pointer))

    # --- bodies ---

    def both(self, body: list[Stmt]) -> list[Stmt]:
        """Forward sweep and, right behind it, backward sweep. A branch at the end holds both of its own."""
        last = body[-1] if body else None
        if not isinstance(last, If):
            forward, backward = self.pairs(body, set())
            return [*self.hoisted(forward, backward), *self.zeros(body), *backward]
        head = body[:-1]
        forward, backward = self.pairs(head, self.kills(last))
        self.at(last, set())
        whole = If(self.replay_value(last.condition), self.both(last.then), self.both(last.orelse), last.place)
        return [*self.hoisted(forward, [whole, *backward]), *self.zeros(head), whole, *backward]

    def pairs(self, body: list[Stmt], after: set[str]) -> Pair:
        """Forward and backward sweep of statements, `after` which the forward sweep writes these names."""
        forward: list[Stmt] = []
        backward: list[Stmt] = []
        for s in reversed(body):
            ahead, back = self.pair(s, after)
            forward, backward = [*ahead, *forward], [*backward, *back]
            after = after | self.kills(s)
        return forward, backward

    def pair(self, s: Stmt, after: set[str]) -> Pair:
        """Forward and backward sweep of one statement."""
        if isinstance(s, Barrier):
            return [s], [Barrier(s.place)]
        if isinstance(s, For):
            return self.loop(s, after)
        if isinstance(s, If):
            return self.branch_pair(s, after)
        self.at(s, after | self.kills(s))
        backward = self.adjoint(s, after)
        note: list[Stmt] = [Comment(f"adjoint of line {s.place.line}: {s.text}", s.place)] if backward else []
        for made in backward:
            made.place = s.place
        return [*self.before, *self.replay(s)], [*note, *backward]

    def branch_pair(self, s: If, after: set[str]) -> Pair:
        """A branch: the gradient takes the same way, by a condition that is tested again or was kept."""
        self.at(s, after | self.kills(s))
        again = kept = self.replay_value(s.condition)
        if again == s.condition and self.keep(s.condition) != s.condition:
            self.before = []
            again = kept = self.saved(s.condition, "taken")
        before = self.before
        then, back_then = self.pairs(s.then, after)
        orelse, back_else = self.pairs(s.orelse, after)
        forward = If(again, then, orelse, s.place)
        back_then, back_else = [*self.zeros(s.then), *back_then], [*self.zeros(s.orelse), *back_else]
        return [*before, forward], [If(kept, back_then, back_else, s.place)]

    def zeros(self, body: list[Stmt]) -> list[Stmt]:
        """The gradients of the variables that a body declares, 0 to begin with."""
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, Declare) and s.name in self.active and not s.shared:
                values: tuple[Expr, ...] | None = () if s.dims else None
                made.append(Declare(self.gradient(s.name), s.type, s.dims, None if s.dims else ZERO, values))
        return made

    def hoisted(self, forward: list[Stmt], backward: list[Stmt]) -> list[Stmt]:
        """The forward sweep, with what its branches declare and the backward sweep reads declared before them."""
        branches = (side for s in forward if isinstance(s, If) for side in bodies(s))
        map_bodies = {n for side in branches for n in declared(t for t in side if not isinstance(t, For))}
        wanted = map_bodies & names_used(backward) - {s.name for s in forward if isinstance(s, Declare)}
        front: dict[str, Stmt] = {}
        body = _lift(forward, wanted, front)
        return [*front.values(), *body]

    def kills(self, s: Stmt) -> set[str]:
        """What the forward sweep of a statement writes."""
        return written([s]) - self.dropped

    # --- statements ---

    def replay(self, s: Stmt) -> list[Stmt]:
        """A statement of the forward sweep, as the adjoint runs it."""
        if isinstance(s, Assign | AtomicAdd):
            name = target_name(s.target)
            if name in self.dropped or self.is_lost(name):
                return []
        if isinstance(s, Declare | Assign):
            map_expressions(s := replace(s), self.replay_value)
        return [s]

    def replay_value(self, e: Expr) -> Expr:
        """An expression of the forward sweep; from the tape where the round cannot compute it again."""
        return self.taped(e) if self.reads_lost(e) else e

    def rerun(self, body: list[Stmt], pushes: dict[Place, list[Stmt]]) -> list[Stmt]:
        """Statements as the kernel has them, with what a tape wants put in front of those that it is for."""
        return [t for s in body for t in (*pushes.get(s.place, []), *self.copy(s, pushes))]

    def copy(self, s: Stmt, pushes: dict[Place, list[Stmt]]) -> list[Stmt]:
        """One statement of them."""
        self.at(s, set())
        match s:
            case If():
                condition = self.replay_value(s.condition)
                return [If(condition, self.rerun(s.then, pushes), self.rerun(s.orelse, pushes), s.place)]
            case For():
                s = self.headed(s)
                self.around.append(self.numbered(s))
                body = self.rerun(s.body, pushes)
                self.around.pop()
                return [For(s.start, s.condition, s.step, body, s.pragma, s.place)]
            case Jump() | Barrier():
                return [s]
        return self.replay(s)


def _lift(body: list[Stmt], wanted: set[str], front: dict[str, Stmt]) -> list[Stmt]:
    """Declarations inside branches made assignments; the declarations themselves go to the front."""
    made: list[Stmt] = []
    for s in body:
        match s:
            case If():
                made.append(map_bodies(s, partial(_lift, wanted=wanted, front=front)))
            case Declare() if s.name in wanted:
                front[s.name] = Declare(s.name, s.type, s.dims, None if s.dims else ZERO, place=s.place)
                if s.value is not None:
                    made.append(Assign(Name(s.name, s.type), "=", s.value, s.place, s.text))
            case _:
                made.append(s)
    return made
