"""Which elements a kernel stores once: the gradient of such an element is read once and need not be cleared."""

from collections import Counter

from minigrad.adjoint.effects import each, name_of, nested, read_here
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.polynomial import polynomial
from minigrad.adjoint.tree import Add, Assign, Declare, For, If, Index, Stmt, While


def repeated(body: list[Stmt], facts: Facts) -> set[str]:
    """The arrays into which a loop may store an element twice."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, Assign) and isinstance(s.target, Index):
            told = [facts.told(p) or set() for p in map(polynomial, s.target.indices) if p is not None]
            if not facts.rounds <= set().union(*told):
                found.add(s.target.array)
        inside = facts.inside()
        if isinstance(s, For):
            inside.enter(s)
        if isinstance(s, If):
            inside.assume(s.condition)
        if isinstance(s, For | While):
            inside.rounds = facts.rounds | {
                s.start.name if isinstance(s, For) and isinstance(s.start, Declare) else "?"
            }
        for n, inner in enumerate(nested(s)):
            found |= repeated(inner, facts.inside() if n else inside)
    return found


def apart(body: list[Stmt]) -> set[str]:
    """The arrays into which one statement alone stores."""
    stores = Counter(name_of(s.target) for s in each(body) if isinstance(s, Assign | Add))
    return {name for name, number in stores.items() if number == 1}


def first_stores(body: list[Stmt], names: set[str]) -> set[int]:
    """The statements that are the first to touch one of these arrays, where they store into it."""
    seen: set[str] = set()
    found = set()
    for s in each(body):
        touched = read_here(s) | ({name_of(s.target)} if isinstance(s, Assign | Add) else set())
        if isinstance(s, Assign) and isinstance(s.target, Index) and s.op == "=":
            name = s.target.array
            found |= {id(s)} if name in names - seen - read_here(s) else set()
        seen |= touched
    return found
