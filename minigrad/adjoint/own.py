"""Gradients in shared memory of which each thread touches one element alone become its variables."""

from minigrad.adjoint.build import ZERO, change
from minigrad.adjoint.effects import each, expressions
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.tree import Assign, Declare, Expr, Index, Name, Stmt, walk


def scalars(body: list[Stmt], names: list[str], made: Keeping) -> list[Stmt]:
    """Shared gradients of which each thread has one element become variables."""
    for name in names:
        own = Name(made.fresh(f"{name}_own"), next(x.type for x in elements(body) if x.array == name))
        for s in each(body):
            _rename(s, name, own)
        body = [Declare(own.name, own.type, value=ZERO), *body]
    return body


def _rename(s: Stmt, array: str, own: Name) -> None:
    """An element replaced by a variable."""

    def new(e: Expr) -> Expr | None:
        return own if isinstance(e, Index) and e.array == array else None

    if isinstance(s, Declare) and s.value is not None:
        s.value = change(s.value, new)
    elif isinstance(s, Assign):
        s.value, s.target = change(s.value, new), change(s.target, new)  # type: ignore[assignment]


def elements(body: list[Stmt]) -> list[Index]:
    """Every element that statements touch."""
    targets = [s.target for s in each(body) if isinstance(s, Assign)]
    found = [x for s in each(body) for e in expressions(s) for x in walk(e)]
    return [x for x in [*targets, *found] if isinstance(x, Index)]
