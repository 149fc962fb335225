"""What a kernel is differentiated with respect to: the parameters that were named, or all that can matter."""

from collections.abc import Sequence
from typing import Any

from minigrad.adjoint import activity
from minigrad.adjoint.effects import each, expressions, name_of, nested, reads_in
from minigrad.adjoint.expr import Index
from minigrad.adjoint.module import Module
from minigrad.adjoint.reach import follows
from minigrad.adjoint.structure import JUMPS, leaves, structured
from minigrad.adjoint.tree import Add, Assign, For, If, Stmt
from minigrad.adjoint.types import floating
from minigrad.require import short


def chosen(module: Module, wrt: Any) -> tuple[str, ...]:
    """The parameters named, each of which must have a derivative; those of `default` where none are named."""
    kernel = module.kernel
    if not activity.outputs(kernel):
        raise module.refuse(kernel.place, f"{kernel.name} writes to no floating-point array, so it has no gradient.")
    floats = [p.name for p in kernel.params if floating(p.type)]
    names = default(module) if wrt is None else [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(names, Sequence):
        raise TypeError(f"wrt takes the names of parameters, such as ['{floats[0]}']; got {short(wrt)}.")
    for n, name in enumerate(names):
        if name not in floats:
            raise ValueError(
                f"wrt: {kernel.name} has no floating-point parameter {name!r}; it has {', '.join(floats)}."
            )
        if name in names[:n]:
            raise ValueError(f"wrt names {name!r} twice; each parameter has one gradient.")
    if not names:
        why = "no parameter of it reaches an output" if wrt is None else "wrt is empty"
        raise ValueError(f"{kernel.name}: {why}, so there is no gradient; it has {', '.join(floats)}.")
    return tuple(names)


def default(module: Module) -> list[str]:
    """All floating-point parameters whose values at the start can reach an output.

    Of an output that the kernel does not read, these are the values of elements that it does not store. They count
    where the data decide which elements those are, not where a test of indices such as `i < n` does.
    """
    kernel = module.kernel
    read = set().union(*(sources for sources, _ in activity.edges(kernel)))
    added = {name_of(s.target) for s in each(kernel.body) if isinstance(s, Add)}
    changed = {name_of(s.target) for s in each(kernel.body) if isinstance(s, Assign) and s.op != "="}
    ends = activity.outputs(kernel)
    data = follows(kernel, (p.name for p in kernel.params if p.pointer or floating(p.type)))
    left = set(ends) - _stored(structured(module, kernel.body, ("return",)), data)
    useful = activity.reached(kernel, ends, backward=True) & (read | added | changed | left)
    return [p.name for p in kernel.params if p.name in useful and floating(p.type)]


def _stored(body: list[Stmt], data: set[str]) -> set[str]:
    """The arrays into whose elements statements store whatever the data are."""
    found: set[str] = set()
    for s in body:
        free = not reads_in(expressions(s)) & data
        match s:
            case Assign(target=Index(), op="=") if not reads_in(s.target.indices) & data:  # type: ignore[union-attr]
                found.add(name_of(s.target))
            case If():
                then, orelse = (_stored(side, data) for side in nested(s))
                found |= then | orelse if free else then & orelse
                if not free and leaves([s], JUMPS):
                    return found
            case For() if free:
                found |= _stored(s.body, data)
    return found
