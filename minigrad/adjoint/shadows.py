"""The gradients of shared arrays: as large as the arrays, set to 0 by all threads before they are added to."""

from minigrad.adjoint.build import ONE, ZERO, test
from minigrad.adjoint.effects import each, expressions
from minigrad.adjoint.expr import reads
from minigrad.adjoint.injective import EXTENTS
from minigrad.adjoint.tree import Assign, Declare, Expr, For, Function, If, Index, Name, Stmt


def unseen(function: Function) -> dict[str, Expr]:
    """The extents along the axes that a kernel does not look at: one thread, one block."""
    seen = {n for s in each(function.body) for e in expressions(s) for n in reads(e)}
    return {extent: ONE for place, extent in EXTENTS.items() if place not in seen}


def cleared(d: Declare, gradient: str, function: Function) -> list[Stmt]:
    """Declare the gradient of a shared array and clear it, each axis shared out over the threads along it."""
    left = [a for a in "xyz" if f"blockDim.{a}" not in unseen(function)] or ["x"]
    indices = [Name(f"{gradient}_{'ijk'[n]}", "int") for n in range(len(d.dims))]
    body: list[Stmt] = [Assign(Index(gradient, tuple(indices), d.type), "=", ZERO)]
    for index, extent in zip(reversed(indices), reversed(d.dims), strict=True):
        axis = left.pop(0) if left else ""
        start, step = (Name(f"threadIdx.{axis}", "int"), Name(f"blockDim.{axis}", "int")) if axis else (ZERO, ONE)
        begin = Declare(index.name, "int", value=start)
        body = [For(begin, test("<", index, extent), Assign(index, "+=", step), body)]
    for axis in left:
        body = [If(test("==", Name(f"threadIdx.{axis}", "int"), ZERO), body, [])]
    return [Declare(gradient, d.type, d.dims, shared=True), *body]
