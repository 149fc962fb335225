"""Which elements a kernel stores once: the gradient of such an element is read once and need not be cleared."""

from minigrad.adjoint.effects import each, name_of, nested, read_here
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.polynomial import offsets, polynomial
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
    """The arrays with one store, or with several outside loops whose indices differ by constants."""
    stores: dict[str, list[Assign | Add]] = {}
    for s in each(body):
        if isinstance(s, Assign | Add):
            stores.setdefault(name_of(s.target), []).append(s)
    inside = [t for s in each(body) if isinstance(s, For | While) for t in s.body]
    looped = {name_of(t.target) for t in each(inside) if isinstance(t, Assign | Add)}
    return {n for n, found in stores.items() if len(found) == 1 or (n not in looped and _apart(found))}


def _apart(stores: list[Assign | Add]) -> bool:
    """Whether stores never meet: their indices differ by constants."""
    indices = [s.target.indices[0] for s in stores if isinstance(s.target, Index)]
    gaps = offsets(indices)
    return gaps is not None and len(set(gaps)) == len(stores) and all(isinstance(s, Assign) for s in stores)


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
