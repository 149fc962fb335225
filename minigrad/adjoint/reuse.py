"""Arrays in global memory that a kernel reads again after it has stored into them."""

from minigrad.adjoint.effects import nested, read_here, written_here
from minigrad.adjoint.tree import Declare, For, Stmt, While


def read_again(body: list[Stmt]) -> set[str]:
    """The arrays of which a read may come after a store; the others are read as the kernel found them."""
    stored: set[str] = set()
    found: set[str] = set()

    def visit(body: list[Stmt]) -> None:
        for s in body:
            head = [s, *(t for t in (getattr(s, "start", None), getattr(s, "step", None)) if t)]
            for one in head:
                found.update(_reads(one) & stored)
                stored.update(written_here(one) if not isinstance(one, Declare) else set())
            for inner in nested(s):
                visit(inner)
                if isinstance(s, For | While):
                    visit(inner)  # what the end of a round stores, the next one may read

    visit(body)
    return found


def _reads(s: Stmt) -> set[str]:
    return read_here(s)
