"""Arrays that each round of a loop fills anew before it reads them."""

from typing import TYPE_CHECKING

from minigrad.adjoint.counting import count, exact
from minigrad.adjoint.effects import name_of, written
from minigrad.adjoint.effects import read as read_in
from minigrad.adjoint.structure import leaves
from minigrad.adjoint.tree import Assign, Expr, For, If, Index, Loop, Name, Stmt

if TYPE_CHECKING:
    from minigrad.adjoint.keeping import Keeping


def covers(sweep: "Keeping", s: Loop, array: str) -> bool:
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
        case For() if (header := count(s)) and header.simple and exact(s, header) and not leaves(s.body, ("continue",)):
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
