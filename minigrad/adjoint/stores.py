"""What a kernel stores into its arrays: which it reads again, which elements it stores once, which it fills anew."""

from minigrad.adjoint.effects import name_of, read_here, written_here
from minigrad.adjoint.expr import Index, Target
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.polynomial import offsets, polynomial, stride
from minigrad.adjoint.tree import Add, Assign, Declare, For, Stmt
from minigrad.adjoint.visit import each, heads, nested


def read_again(body: list[Stmt]) -> set[str]:
    """The arrays of which a read may come after a store; the others are read as the kernel found them."""
    stored: set[str] = set()
    found: set[str] = set()

    def visit(body: list[Stmt]) -> None:
        for s in body:
            for one in heads(s):
                found.update(read_here(one) & stored)
                stored.update(written_here(one) if not isinstance(one, Declare) else set())
            for inner in nested(s):
                visit(inner)
                if isinstance(s, For):
                    visit(inner)  # what the end of a round stores, the next one may read

    visit(body)
    return found


def repeated(body: list[Stmt], facts: Facts, since: dict[str, set[str]] | None = None) -> set[str]:
    """The arrays into which a loop may store an element twice. since: the loops around the declaration of an array."""
    found: set[str] = set()
    since = dict(since or {})
    for s in body:
        if isinstance(s, Declare):
            since[s.name] = facts.rounds
        if isinstance(s, Assign) and isinstance(s.target, Index):
            told = [facts.told(p) or set() for p in map(polynomial, s.target.indices) if p is not None]
            if not facts.rounds - since.get(s.target.array, set()) <= set().union(*told):
                found.add(s.target.array)
        for inner, inside in facts.within(s):
            found |= repeated(inner, inside, since)
    return found


def apart(body: list[Stmt]) -> set[str]:
    """The arrays of which no two statements store the same element: their indices differ by less than their stride."""
    stores: dict[str, list[Assign | Add]] = {}
    for s in each(body):
        if isinstance(s, Assign | Add):
            stores.setdefault(name_of(s.target), []).append(s)
    return {name for name, several in stores.items() if len(several) == 1 or _differ([s.target for s in several])}


def _differ(targets: list[Target]) -> bool:
    indices = [t.indices for t in targets if isinstance(t, Index)]
    gaps = offsets([i[0] for i in indices]) if indices and all(len(i) == 1 for i in indices) else None
    return gaps is not None and len(set(gaps)) == len(targets) and max(gaps) - min(gaps) < stride(indices[0][0])


def first_stores(body: list[Stmt], names: set[str]) -> set[int]:
    """The statements that are the first to touch one of these arrays, where they store into it."""
    seen: set[str] = set()
    found = set()
    for s in each(body):
        match s:
            case Assign(target=Index(array=name), op="=") if name in names - seen - read_here(s):
                found.add(id(s))
        seen |= read_here(s) | (set() if isinstance(s, Declare) and not s.values else written_here(s))
    return found
