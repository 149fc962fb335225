"""What a kernel stores into its arrays: which it reads again, which elements it stores once, which it fills anew."""

from typing import TYPE_CHECKING

from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import each, heads, name_of, nested, read_here, written, written_here
from minigrad.adjoint.effects import read as read_in
from minigrad.adjoint.expr import Expr, Index, Name, Target
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.polynomial import offsets, polynomial, stride
from minigrad.adjoint.structure import leaves
from minigrad.adjoint.tree import Add, Assign, Declare, For, If, Stmt

if TYPE_CHECKING:
    from minigrad.adjoint.keeping import Keeping


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
        touched = read_here(s) | ({name_of(s.target)} if isinstance(s, Assign | Add) else set())
        touched |= {s.name} if isinstance(s, Declare) and s.values else set()
        if isinstance(s, Assign) and isinstance(s.target, Index) and s.op == "=":
            name = s.target.array
            found |= {id(s)} if name in names - seen - read_here(s) else set()
        seen |= touched
    return found


def covers(sweep: "Keeping", s: For, array: str) -> bool:
    """Whether a round stores every element of an array before any thread reads one.

    Each axis is gone through by the threads, `tile[threadIdx.y][threadIdx.x]` of a block of that shape, which becomes a
    condition of the launch, or by a loop over all of it.
    """
    dims = sweep.of.declared[array].dims if array in sweep.of.declared else ()
    for stmt in s.body:
        if dims and array not in read_in([stmt]) and _fills(sweep, stmt, array, {}):
            return True
        if array in read_in([stmt]) or array in written([stmt]):
            return False
    return False


def _fills(sweep: "Keeping", s: Stmt, array: str, loops: dict[str, Expr]) -> bool:
    """Whether one statement, on whatever way through it, stores all elements."""
    match s:
        case If():
            return all(any(_fills(sweep, t, array, loops) for t in side) for side in (s.then, s.orelse))
        case For() if (header := count(s)) and header.simple and header.exact and not leaves(s.body, ("continue",)):
            return any(_fills(sweep, t, array, {**loops, header.var: header.bound}) for t in s.body)
        case Assign(op="=", target=Index()) if name_of(s.target) == array:
            return _all_axes(sweep, s.target, loops)  # type: ignore[arg-type]
    return False


def _all_axes(sweep: "Keeping", target: Index, loops: dict[str, Expr]) -> bool:
    """Whether each axis has a loop, or threads, of its own."""
    declared, seen = sweep.of.declared[target.array], set()
    for e, extent in zip(target.indices, declared.dims, strict=True):
        axis = axis_of(sweep.fixed, e) if declared.shared else None
        if axis and sweep.conditions.setdefault(f"blockDim.{axis}", extent) == extent:
            seen.add(axis)
        elif isinstance(e, Name) and loops.get(e.name) == extent:
            seen.add(e.name)
        else:
            return False
    return len(seen) == len(declared.dims)


def axis_of(fixed: dict[str, Expr], e: Expr) -> str | None:
    """x, y or z where an expression is that part of threadIdx, or a variable that was set to it once."""
    if isinstance(e, Name) and e.name.startswith("threadIdx."):
        return e.name[-1]
    return axis_of(fixed, fixed[e.name]) if isinstance(e, Name) and e.name in fixed else None
