"""Arrays that each round of a loop fills anew before it reads them."""

from typing import TYPE_CHECKING

from minigrad.adjoint.counting import count
from minigrad.adjoint.effects import name_of, read_here, written
from minigrad.adjoint.effects import read as read_in
from minigrad.adjoint.tree import Assign, Expr, For, If, Index, Loop, Name, Stmt

if TYPE_CHECKING:
    from minigrad.adjoint.keeping import Keeping


def covers(sweep: "Keeping", s: Loop, array: str) -> bool:
    """Whether a round stores every element of an array before any thread reads one.

    By each thread its own: `tile[threadIdx.y][threadIdx.x]` of a block of that shape, which becomes a condition of the
    launch; or, of a local array, by a loop over all indices.
    """
    dims = sweep.of.declared[array].dims if array in sweep.of.declared else ()
    for stmt in s.body:
        if dims and _fills(sweep, stmt, array, dims):
            return True
        if array in read_in([stmt]) or array in written([stmt]):
            return False
    return False


def _fills(sweep: "Keeping", s: Stmt, array: str, dims: tuple[Expr, ...]) -> bool:
    """Whether one statement, on whatever way through it, stores all elements."""
    if isinstance(s, If):
        return all(any(_fills(sweep, t, array, dims) for t in side) for side in (s.then, s.orelse)) and (
            array not in read_in([s])
        )
    if isinstance(s, For):
        return _loop_fills(s, array, dims)
    if not isinstance(s, Assign) or name_of(s.target) != array or s.op != "=" or array in read_here(s):
        return False
    if not sweep.of.declared[array].shared or not isinstance(s.target, Index):
        return False
    axes = [axis_of(sweep.fixed, i) for i in s.target.indices]
    if None in axes or len(set(axes)) != len(axes):
        return False
    for axis, extent in zip(axes, dims, strict=True):
        sweep.conditions.setdefault(f"blockDim.{axis}", extent)
    return all(sweep.conditions[f"blockDim.{axis}"] == extent for axis, extent in zip(axes, dims, strict=True))


def _loop_fills(s: For, array: str, dims: tuple[Expr, ...]) -> bool:
    """`for (int j = 0; j < N; ++j) f[j] = ...`, of an array of one axis."""
    header = count(s)
    if header is None or not header.simple or (header.bound,) != dims or array in read_in([s]):
        return False
    own = (Name(header.var, "int"),)
    stores = [t for t in s.body if isinstance(t, Assign) and t.op == "=" and isinstance(t.target, Index)]
    return any(t.target.array == array and t.target.indices == own for t in stores)  # type: ignore[union-attr]


def axis_of(fixed: dict[str, Expr], e: Expr) -> str | None:
    """x, y or z where an expression is that part of threadIdx, or a variable that was set to it once."""
    if isinstance(e, Name) and e.name.startswith("threadIdx."):
        return e.name[-1]
    return axis_of(fixed, fixed[e.name]) if isinstance(e, Name) and e.name in fixed else None
