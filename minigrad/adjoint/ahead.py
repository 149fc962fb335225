"""Gradients of outputs read ahead of the loops of the forward sweep, so that a thread waits for memory once, not twice.

In `sum over j of s[j]; d = d_y[i]` the compiler leaves the load of d_y[i] behind the loop, where nothing else is left
to do while it is on its way. Nobody writes what was given, so it can be read as soon as its index is known.
"""

from collections.abc import Container

from minigrad.adjoint.effects import reads_in, written
from minigrad.adjoint.expr import Index
from minigrad.adjoint.tree import Comment, Declare, For, Stmt


class Ahead:
    """Moves `real d = d_y[i];` up to the first loop behind what it reads."""

    def __init__(self, given: Container[str]):
        self.given = given  # gradients that the adjoint only reads

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Move those of a body."""
        made = list(body)
        for s in body:
            if isinstance(s, Declare) and isinstance(s.value, Index) and s.value.array in self.given:
                self._move(made, s)
        return made

    def _move(self, body: list[Stmt], s: Declare) -> None:
        assert isinstance(s.value, Index)
        at, names = body.index(s), reads_in((s.value,))
        known = next((n + 1 for n in reversed(range(at)) if names & written([body[n]])), 0)
        loop = next((n for n in range(known, at) if isinstance(body[n], For)), None)
        if loop is not None:
            note = body[at - 1]
            alone = at + 1 == len(body) or getattr(body[at + 1], "place", None) != s.place
            del body[at - (isinstance(note, Comment) and note.place == s.place and alone) : at + 1]
            body[loop:loop] = [Comment(f"adjoint of line {s.place.line}, ahead of the loop", s.place), s]
