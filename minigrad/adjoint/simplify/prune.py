"""Dead code elimination: the sweeps are written in full, and only the statements that a result needs stay."""

from dataclasses import replace

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Stmt
from minigrad.adjoint.language.dataflow import has_barrier, names_in, own_reads, own_writes, target_name, written
from minigrad.adjoint.language.rewrite import flatten, with_header

Live = set[str]  # names that are read further on


class Prune:
    """Liveness analysis, from the last statement to the first; methods return the names live before their statements.

    The set of names that a method of one statement is given may be changed by it.

    own: variables, arrays and tapes that end with the kernel; all else that it writes is a result.
    """

    def __init__(self, own: set[str]):
        self.own = own
        self.used: set[str] = set()  # names in the statements that stay
        self.jumps = True  # False while a loop is tried without its jumps
        self.after: dict[str, Live] = {}  # the names live where a break or continue leads

    def body(self, body: list[Stmt], live: Live) -> tuple[list[Stmt], Live]:
        """The statements that stay; a comment stays with the statement after it."""
        kept: list[Stmt] = []  # the last first
        live = set(live)  # one copy, which the statements change
        for s in reversed(body):
            if not isinstance(s, ast.Comment):
                new, live = self.statement(s, live)
                kept += [new] if new else []
            elif kept and kept[-1].place == s.place and not isinstance(kept[-1], ast.Comment):
                kept.append(s)
        return kept[::-1], live

    def statement(self, s: Stmt, live: Live) -> tuple[Stmt | None, Live]:
        match s:
            case ast.Declare():
                return self.declare(s, live)
            case ast.Assign() | ast.AtomicAdd() if (name := target_name(s.target)) in self.own and name not in live:
                return None, live
            case ast.If():
                return self.branch(s, live)
            case ast.For():
                return self.loop(s, live)
            case ast.CallStmt() if not set(s.writes) - self.own and not set(s.writes) & live:
                return None, live
            case ast.Jump():
                return (s if self.jumps else None), set(self.after[s.kind])
        reads = own_reads(s)
        self.used |= reads
        if isinstance(s, ast.Assign | ast.AtomicAdd):
            name = target_name(s.target)
            self.used.add(name)
            if isinstance(s, ast.Assign) and s.op == "=" and isinstance(s.target, ast.Name):
                live.discard(name)
        live |= reads
        return s, live

    def declare(self, s: ast.Declare, live: Live) -> tuple[Stmt | None, Live]:
        """A declaration stays while the name is used, its value while the value is."""
        used = s.name in self.used
        self.used.discard(s.name)  # ahead of this, the name is another variable
        if s.name in live:
            reads = own_reads(s)
            self.used |= reads | names_in(s.dims)
            live.discard(s.name)
            live |= reads
            return s, live
        return (ast.Declare(s.name, s.type, s.dims, shared=s.shared, place=s.place) if used else None), live

    def branch(self, s: ast.If, live: Live) -> tuple[Stmt | None, Live]:
        then, live_then = self.body(s.then, live)
        orelse, live_else = self.body(s.orelse, live)
        both = [*then, *orelse]
        if not _has_effect(both) and not any(isinstance(t, ast.Jump) for t in flatten(both)):
            return _barrier(s), live
        self.used |= s.condition.names
        return ast.If(s.condition, then, orelse, s.place, s.text), live_then | live_else | s.condition.names

    def loop(self, s: ast.For, live: Live) -> tuple[Stmt | None, Live]:
        """A loop stays where its body does without its jumps, or where its variable is read after it."""
        jumps, counts = self.jumps, bool(s.step and own_writes(s.step) & live)
        has_jump = any(isinstance(t, ast.Jump) for t in flatten(s.body))
        self.jumps = jumps and not has_jump
        kept, before = self.iterations(s, live)
        if has_jump and (kept or counts):
            self.jumps = True
            kept, before = self.iterations(s, live)
        self.jumps = jumps
        if not kept and not counts:
            return _barrier(s), live
        live, start = before, s.start
        self.used |= own_reads(s)
        if start:
            live = (live - own_writes(start)) | own_reads(start)
            self.used = (self.used - own_writes(start)) | own_reads(start)
        if isinstance(start, ast.Assign):  # the variable is declared before the loop
            self.used |= written(with_header(s)[1:])
        return replace(s, start=start, body=kept), live

    def iterations(self, s: ast.For, live: Live) -> tuple[list[Stmt], Live]:
        """A loop's body at the fixed point: the names live before an iteration are live after the one before it.

        Empty where the body is dead.
        """
        outer, following = self.after, set(live)
        self.after = {"break": live, "continue": following}
        kept, before = self.body(s.body, following)
        if not _has_effect(kept) and not (s.step and own_writes(s.step) & live):
            self.after = outer
            return [], live
        filled = s.reversal.filled if s.reversal else frozenset()
        changed, more = written(s.body), own_reads(s).union(own_reads(s.step) if s.step else (), before - filled)
        while (more - following) & changed:
            following |= more
            kept, before = self.body(s.body, following)
            more = before - filled
        self.after = outer
        return kept, following | more


def _barrier(s: Stmt) -> ast.Barrier | None:
    """One barrier in place of those of a dead branch or loop, as they may order the statements around it."""
    return ast.Barrier(s.place, added=True) if has_barrier([s]) else None


def _has_effect(body: list[Stmt]) -> bool:
    """False where all statements are barriers, jumps, and branches around them."""
    for s in body:
        if isinstance(s, ast.If):
            if _has_effect(s.then) or _has_effect(s.orelse):
                return True
        elif not isinstance(s, ast.Barrier | ast.Jump | ast.Comment):
            return True
    return False
