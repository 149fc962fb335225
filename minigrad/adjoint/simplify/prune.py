"""Dead code elimination: the sweeps are written in full, and only the statements that a result needs stay."""

from collections.abc import Iterable, Set
from dataclasses import replace

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Stmt
from minigrad.adjoint.language.dataflow import names_in, own_reads, own_writes, target_name, written
from minigrad.adjoint.language.rewrite import flatten, with_header


class Live(set[str]):
    """The names that are read further on, with a record of its changes, so that a branch copies no names."""

    def __init__(self, names: Iterable[str] = ()):
        super().__init__(names)
        self.changes: list[tuple[bool, set[str]]] = []  # True for names that it gained

    def gain(self, names: Set[str]) -> None:
        if new := names - self:
            self.update(new)
            self.changes.append((True, set(new)))

    def lose(self, names: Set[str]) -> None:
        if old := self & names:
            self.difference_update(old)
            self.changes.append((False, old))

    def become(self, names: Set[str]) -> None:
        self.lose(self - names)
        self.gain(names)

    def undo(self, mark: int) -> tuple[set[str], set[str]]:
        """Undo all but the first `mark` changes. Returns the names gained by these, and those lost."""
        gained, lost = set[str](), set[str]()
        while len(self.changes) > mark:
            new, names = self.changes.pop()
            into, other = (gained, lost) if new else (lost, gained)
            into |= names - other
            other -= names
            (self.difference_update if new else self.update)(names)
        return gained, lost


class Prune:
    """Liveness analysis, from the last statement to the first: `live`, the names live after them, become those before.

    own: variables, arrays and tapes that end with the kernel; all else that it writes is a result.
    """

    def __init__(self, own: set[str]):
        self.own = own
        self.used: set[str] = set()  # names in the statements that stay
        self.jumps = True  # False while a loop is tried without its jumps
        self.after: dict[str, set[str]] = {}  # the names live where a break or continue leads
        self.following: dict[int, set[str]] = {}  # those live after an iteration, by id of the loop, as known so far
        self.staying = set[int]()  # ids of the loops that are known to stay
        self.inside: dict[int, tuple[set[str], bool]] = {}  # by id of a loop: what it writes, and whether it has a jump

    def body(self, body: list[Stmt], live: Live) -> list[Stmt]:
        """The statements that stay; a comment stays with the statement after it."""
        kept: list[Stmt] = []  # the last first
        for s in reversed(body):
            if type(s) is not ast.Comment:
                if (new := self.statement(s, live)) is not None:
                    kept.append(new)
            elif kept and kept[-1].place == s.place and not isinstance(kept[-1], ast.Comment):
                kept.append(s)
        return kept[::-1]

    def statement(self, s: Stmt, live: Live) -> Stmt | None:
        match s:
            case ast.Assign() | ast.AtomicAdd():
                return self.store(s, live)
            case ast.Declare():
                return self.declare(s, live)
            case ast.If():
                return self.branch(s, live)
            case ast.For():
                return self.loop(s, live)
            case ast.CallStmt() if not set(s.writes) - self.own and not set(s.writes) & live:
                return None
            case ast.Jump():
                live.become(self.after[s.kind])
                return s if self.jumps else None
        reads = own_reads(s)
        self.used |= reads
        live.gain(reads)
        return s

    def store(self, s: ast.Assign | ast.AtomicAdd, live: Live) -> Stmt | None:
        name = target_name(s.target)
        if name in self.own and name not in live:
            return None
        reads = own_reads(s)
        self.used |= reads
        self.used.add(name)
        if type(s) is ast.Assign and s.op == "=" and type(s.target) is ast.Name:
            live.lose({name})
        live.gain(reads)
        return s

    def declare(self, s: ast.Declare, live: Live) -> Stmt | None:
        """A declaration stays while the name is used, its value while the value is."""
        used = s.name in self.used
        self.used.discard(s.name)  # ahead of this, the name is another variable
        if s.name in live:
            reads = own_reads(s)
            self.used |= reads
            self.used |= names_in(s.dims) if s.dims else set()
            live.lose({s.name})
            live.gain(reads)
            return s
        return ast.Declare(s.name, s.type, s.dims, shared=s.shared, place=s.place) if used else None

    def branch(self, s: ast.If, live: Live) -> Stmt | None:
        mark = len(live.changes)
        then = self.body(s.then, live)
        gained, lost = live.undo(mark)
        orelse = self.body(s.orelse, live)
        other_gained, other_lost = live.undo(mark)
        both = [*then, *orelse]
        if not _has_effect(both) and not any(isinstance(t, ast.Jump) for t in flatten(both)):
            return _barrier(s)
        self.used |= s.condition.names
        live.lose(lost & other_lost)
        live.gain(gained | other_gained | s.condition.names)
        return ast.If(s.condition, then, orelse, s.place, s.text)

    def loop(self, s: ast.For, live: Live) -> Stmt | None:
        """A loop stays where its body does without its jumps, or where its variable is read after it."""
        counts, jumps, after = not live.isdisjoint(written(with_header(s)[1:])), self.jumps, self.after
        kept, before = self.iterations(s, live, counts)
        self.jumps, self.after = jumps, after
        if not kept and not counts:
            return _barrier(s)
        start = s.start
        self.used |= own_reads(s)
        if start:
            before = (before - own_writes(start)) | own_reads(start)
            self.used = (self.used - own_writes(start)) | own_reads(start)
        live.become(before)
        if isinstance(start, ast.Assign):  # the variable is declared before the loop
            self.used |= written(with_header(s)[1:])
        return replace(s, start=start, body=kept)

    def iterations(self, s: ast.For, live: Live, counts: bool) -> tuple[list[Stmt], set[str]]:
        """A loop's body at the fixed point: the names live before an iteration are live after the one before it.

        Empty where the body is dead. counts: the variable is read after the loop.
        """
        following = live | self.following.get(id(s), set())
        self.after = {"break": live, "continue": following}
        if id(s) not in self.inside:
            self.inside[id(s)] = written(s.body), any(isinstance(t, ast.Jump) for t in flatten(s.body))
        changed, has_jump = self.inside[id(s)]
        if not (has_jump and id(s) in self.staying):
            self.jumps = self.jumps and not has_jump
            kept = self.body(s.body, before := Live(following))
            if not counts and not _has_effect(kept):
                return [], set(live)
            self.staying.add(id(s))  # as more and more is live
        if has_jump:
            self.jumps = True
            kept = self.body(s.body, before := Live(following))
        filled = s.reversal.filled if s.reversal else frozenset()
        more = {*own_reads(s), *(own_reads(s.step) if s.step else ()), *(before - filled)}
        while (more - following) & changed:
            following |= more
            kept = self.body(s.body, before := Live(following))
            more = before - filled
        self.following[id(s)] = following
        return kept, following | more


def _barrier(s: Stmt) -> ast.Barrier | None:
    """One barrier in place of those of a dead branch or loop, as they may order the statements around it."""
    found = [t.warp for t in flatten([s]) if isinstance(t, ast.Barrier)]
    return ast.Barrier(s.place, warp=all(found), added=True) if found else None


def _has_effect(body: list[Stmt]) -> bool:
    """False where all statements are barriers, jumps, and branches around them."""
    for s in body:
        if isinstance(s, ast.If):
            if _has_effect(s.then) or _has_effect(s.orelse):
                return True
        elif not isinstance(s, ast.Barrier | ast.Jump | ast.Comment):
            return True
    return False
