"""The gradients of shared arrays: as large as the arrays, set to 0 by all threads before they are added to."""

from minigrad.adjoint.analyse.indices import EXTENTS
from minigrad.adjoint.language.ast import Assign, Declare, Expr, Function, If, Index, Name, Stmt
from minigrad.adjoint.language.dataflow import read
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, count_up


def unseen(function: Function) -> dict[str, Expr]:
    """The extents along the axes that a kernel does not look at: one thread, one block."""
    seen = read(function.body)
    return {extent: ONE for place, extent in EXTENTS.items() if place not in seen}


def cleared(d: Declare, gradient: str, conditions: dict[str, Expr], limits: dict[str, Expr]) -> list[Stmt]:
    """Declare the gradient of a shared array and clear it, each axis shared out over the threads along one.

    A block that may be as long as an axis has to be: then each thread clears one element along it, without a loop.
    """
    known = {**limits, **conditions}
    left = [a for a in "xyz" if known.get(f"blockDim.{a}") != ONE]
    chosen = _shared_out(d.dims, left, known)
    thread = {n: Name(f"threadIdx.{axis}", "int") for n, axis in chosen.items()}
    own = {n for n, axis in chosen.items() if known.get(f"blockDim.{axis}") == d.dims[n]}
    conditions |= {f"blockDim.{chosen[n]}": d.dims[n] for n in own}
    indices = [thread[n] if n in own else Name(f"{gradient}_{'ijk'[n]}", "int") for n in range(len(d.dims))]
    body: list[Stmt] = [Assign(Index(gradient, tuple(indices), d.type), "=", ZERO)]
    for n in reversed(range(len(d.dims))):
        if n not in own:
            step: Expr = Name(f"blockDim.{chosen[n]}", "int") if n in chosen else ONE
            body = [count_up(indices[n], d.dims[n], body, thread.get(n, ZERO), step)]
    for axis in left:
        if axis not in chosen.values():
            body = [If(comparison("==", Name(f"threadIdx.{axis}", "int"), ZERO), body, [])]
    return [Declare(gradient, d.type, d.dims, shared=True), *body]


def _shared_out(dims: tuple[Expr, ...], axes: list[str], conditions: dict[str, Expr]) -> dict[int, str]:
    """Which axis of the block goes along which axis of an array: one as long, else the last that is left."""
    chosen: dict[int, str] = {}
    for axis in axes:
        free = [n for n in reversed(range(len(dims))) if n not in chosen]
        alike = [n for n in free if conditions.get(f"blockDim.{axis}") == dims[n]]
        if free:
            chosen[(alike or free)[0]] = axis
    return chosen
