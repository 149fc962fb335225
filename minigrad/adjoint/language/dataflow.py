"""Which variables carry derivatives: those that an input reaches and that reach an output."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from minigrad.adjoint.language.ast import (
    DERIVATIVES,
    TESTS,
    Add,
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    Function,
    Index,
    Jump,
    Name,
    Ternary,
    Unary,
    floating,
    plain,
)
from minigrad.adjoint.language.effects import name_of
from minigrad.adjoint.language.rewrite import each

if TYPE_CHECKING:
    from minigrad.adjoint.language.file import Module


def flows(e: Expr) -> set[str]:
    """The variables and arrays whose derivatives enter that of an expression."""
    if not floating(e.type):
        return set()
    match e:
        case Name():
            return {e.name}
        case Index():
            return {e.array}
        case Ternary():
            return flows(e.yes) | flows(e.no)
        case Unary() | Cast():
            return flows(e.operand)
        case Binary():
            return flows(e.left) | flows(e.right)
        case Call():
            flat = plain(e.function) in TESTS or DERIVATIVES.get(plain(e.function)) == ""
            return set() if flat else set().union(*(flows(a) for n, a in enumerate(e.arguments) if n not in e.flat))
    return set()


def edges(function: Function) -> Iterator[tuple[set[str], str]]:
    """For each assignment: from which variables a derivative flows to which."""
    for s in each(function.body):
        if isinstance(s, Assign | Add) and floating(s.target.type):
            yield flows(s.value), name_of(s.target)
        elif isinstance(s, Declare) and floating(s.type):
            yield set().union(*map(flows, [s.value] if s.value is not None else s.values or ())), s.name


def reached(function: Function, start: Iterable[str], backward: bool = False) -> set[str]:
    """What derivatives reach from these variables, along the flow or against it."""
    found, arrows, size = set(start), list(edges(function)), -1
    while size != (size := len(found)):
        for sources, target in arrows:
            if backward and target in found:
                found |= sources
            elif not backward and sources & found:
                found.add(target)
    return found


def outputs(function: Function) -> list[str]:
    """The floating-point arrays that a kernel writes, in the order of its parameters."""
    changed = {name_of(s.target) for s in each(function.body) if isinstance(s, Assign | Add)}
    return [p.name for p in function.params if p.pointer and p.name in changed and floating(p.type)]


def active(module: "Module", wrt: Iterable[str]) -> set[str]:
    """The variables of the kernel that carry derivatives of `wrt` to an output."""
    ends = outputs(module.kernel)
    return (reached(module.kernel, wrt) & reached(module.kernel, ends, backward=True)) | set(ends)


def flat(function: Function) -> frozenset[int]:
    """The parameters of a device function, by number, on which its value does not depend by a derivative.

    A function called detach keeps all gradients back, as that of PyTorch.
    """
    if function.name == "detach":
        return frozenset(range(len(function.params)))
    ends = set().union(*(flows(s.value) for s in each(function.body) if isinstance(s, Jump) and s.value is not None))
    deep = reached(function, ends, backward=True)
    return frozenset(n for n, p in enumerate(function.params) if not floating(p.type) or p.name not in deep)
