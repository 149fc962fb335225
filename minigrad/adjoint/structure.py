"""Jumps made into branches: `if (c) return; rest` is `if (!c) { rest }`."""

from minigrad.adjoint.effects import each, opposite
from minigrad.adjoint.module import Module
from minigrad.adjoint.tree import Assign, For, If, Jump, Name, Stmt, While


def structured(module: Module, body: list[Stmt], kinds: tuple[str, ...], result: Name | None = None) -> list[Stmt]:
    """The same statements without the jumps of these kinds; a returned value is assigned to `result`."""
    made: list[Stmt] = []
    for n, s in enumerate(body):
        if isinstance(s, Jump) and s.kind in kinds:
            value = [Assign(result, "=", s.value, s.place, s.text)] if result and s.value is not None else []
            return [*made, *value]
        if isinstance(s, For | While) and "return" in kinds and _jumps([s], ("return",)):
            raise module.refuse(s.place, "a return inside a loop is outside the subset; leave the loop with break.")
        if isinstance(s, If) and _jumps([s], kinds):
            return [*made, *_branch(module, s, body[n + 1 :], kinds, result)]
        made.append(s)
    return made


def _branch(module: Module, s: If, rest: list[Stmt], kinds: tuple[str, ...], result: Name | None) -> list[Stmt]:
    """A branch with a jump: what follows it moves into the side that does not jump."""
    then, orelse = s.then, s.orelse
    if _ends(then, kinds):
        orelse = [*orelse, *rest]
    elif _ends(orelse, kinds):
        then = [*then, *rest]
    elif rest:
        raise module.refuse(s.place, "a jump deep inside this branch; end one side of the if with the jump.")
    then, orelse = structured(module, then, kinds, result), structured(module, orelse, kinds, result)
    if then:
        return [If(s.condition, then, orelse, s.place, s.text)]
    return [If(opposite(s.condition), orelse, [], s.place, s.text)] if orelse else []


def _jumps(body: list[Stmt], kinds: tuple[str, ...]) -> bool:
    """Whether a jump of these kinds leaves the statements; break and continue of inner loops do not."""
    if kinds == ("return",):
        return any(isinstance(s, Jump) and s.kind == "return" for s in each(body))
    return any(
        (isinstance(s, Jump) and s.kind in kinds) or (isinstance(s, If) and _jumps([*s.then, *s.orelse], kinds))
        for s in body
    )


def _ends(body: list[Stmt], kinds: tuple[str, ...]) -> bool:
    if not body:
        return False
    last = body[-1]
    if isinstance(last, If):
        return _ends(last.then, kinds) and _ends(last.orelse, kinds)
    return isinstance(last, Jump) and last.kind in kinds


def leaves(body: list[Stmt], kinds: tuple[str, ...] = ("break",)) -> bool:
    """Whether a loop's body can leave the loop, or the iteration, before its end."""
    return _jumps(body, kinds)
