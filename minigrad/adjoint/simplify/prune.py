"""What nobody reads, left out: the sweeps are written in full, and only what the gradient needs stays."""

from dataclasses import replace

from minigrad.adjoint.language.ast import (
    Assign,
    AtomicAdd,
    Barrier,
    CallStmt,
    Comment,
    Declare,
    For,
    If,
    Jump,
    Name,
    Stmt,
)
from minigrad.adjoint.language.dataflow import names_in, own_reads, own_writes, target_name, written
from minigrad.adjoint.language.rewrite import flatten, with_header


class Prune:
    """Goes through statements from the last to the first, with the set of names that are read further on."""

    def __init__(self, own: set[str]):
        self.own = own  # variables, arrays and tapes that end with the kernel; what else is written is its result
        self.mentioned: set[str] = set()
        self.jumps = True
        self.after: dict[str, set[str]] = {}  # what is live where a break or continue leads to

    def body(self, body: list[Stmt], live: set[str]) -> tuple[list[Stmt], set[str]]:
        """The statements that matter, and what is live before them."""
        kept: list[Stmt] = []
        for s in reversed(body):
            if isinstance(s, Comment):
                kept = [s, *kept] if kept and kept[0].place == s.place and not isinstance(kept[0], Comment) else kept
                continue
            new, live = self.one(s, live)
            kept = [new, *kept] if new else kept
        return kept, live

    def one(self, s: Stmt, live: set[str]) -> tuple[Stmt | None, set[str]]:
        """A statement, or None where it does not matter."""
        match s:
            case Declare():
                return self.declare(s, live)
            case Assign() | AtomicAdd():
                return self.write(s, live)
            case If():
                return self.branch(s, live)
            case For():
                return self.loop(s, live)
            case CallStmt() if not set(s.writes) - self.own and not set(s.writes) & live:
                return None, live
            case Jump():
                return (s if self.jumps else None), self.after[s.kind]
        self.mentioned |= own_reads(s)
        return s, live | own_reads(s)

    def declare(self, s: Declare, live: set[str]) -> tuple[Stmt | None, set[str]]:
        """A declaration stays where the name is used; its value, where the value is."""
        used = s.name in self.mentioned
        self.mentioned.discard(s.name)  # what stands before this is another variable of the name
        if s.name in live:
            self.mentioned |= own_reads(s) | names_in(s.dims)
            return s, (live - {s.name}) | own_reads(s)
        if used:
            return Declare(s.name, s.type, s.dims, None, None, s.shared, place=s.place), live
        return None, live

    def write(self, s: Assign | AtomicAdd, live: set[str]) -> tuple[Stmt | None, set[str]]:
        """A store stays where it is the kernel's result or is read further on."""
        name = target_name(s.target)
        if name in self.own and name not in live:
            return None, live
        self.mentioned |= {name} | own_reads(s)
        if isinstance(s, Assign) and s.op == "=" and isinstance(s.target, Name):
            live = live - {name}
        return s, live | own_reads(s)

    def branch(self, s: If, live: set[str]) -> tuple[Stmt | None, set[str]]:
        """A branch stays where a side of it does."""
        then, live_then = self.body(s.then, live)
        orelse, live_else = self.body(s.orelse, live)
        both = [*then, *orelse]
        if not _matters(both) and not any(isinstance(t, Jump) for t in flatten(both)):
            return None, live
        self.mentioned |= own_reads(s)
        return If(s.condition, then, orelse, s.place, s.text), live_then | live_else | own_reads(s)

    def loop(self, s: For, live: set[str]) -> tuple[Stmt | None, set[str]]:
        """A loop stays where its body does without its jumps, or where its variable is read behind it."""
        before, counts = self.jumps, bool(s.step and own_writes(s.step) & live)
        if any(isinstance(t, Jump) for t in flatten(s.body)):
            self.jumps = False
            kept, _ = self.rounds(s, live)
            if not kept and not counts:
                self.jumps = before
                return None, live
            self.jumps = True
        kept, following = self.rounds(s, live)
        self.jumps = before
        if not kept and not counts:
            return None, live
        live = following
        self.mentioned |= own_reads(s)
        start = s.start
        if start:
            live = (live - own_writes(start)) | own_reads(start)
            self.mentioned = (self.mentioned - own_writes(start)) | own_reads(start)
        for part in with_header(s)[1:]:  # of a variable declared before the loop
            self.mentioned |= own_writes(part) if isinstance(part, Assign) and isinstance(start, Assign) else set()
        return replace(s, start=start, body=kept), live

    def rounds(self, s: For, live: set[str]) -> tuple[list[Stmt], set[str]]:
        """A loop's body once what is live in it no longer grows: what one round leaves is live in the next.

        Empty where it does not matter.
        """
        outer, following = self.after, set(live)
        self.after = {"break": live, "continue": following}
        kept, before = self.body(s.body, following)
        if not _matters(kept) and not (s.step and own_writes(s.step) & live):
            self.after = outer
            return [], live
        filled = s.reversal.filled if s.reversal else frozenset()
        changed, more = written(s.body), own_reads(s).union(own_reads(s.step) if s.step else (), before - filled)
        while (more - following) & changed:
            following |= more
            kept, before = self.body(s.body, following)
            more = before - filled
        following |= more
        self.after = outer
        return kept, following


def _matters(body: list[Stmt]) -> bool:
    """Whether statements do more than wait and jump."""
    return not all(isinstance(s, If | Barrier | Jump | Comment) for s in flatten(body))
