"""Jumps and barriers: jumps made into branches, and barriers that not all threads would reach."""

from minigrad.adjoint.build import opposite
from minigrad.adjoint.effects import each, expressions, heads, nested, read_here, written_here
from minigrad.adjoint.expr import NOWHERE, Expr, Index, Name, Place, walk
from minigrad.adjoint.module import Module
from minigrad.adjoint.tree import JUMPS, Assign, Barrier, For, Function, If, Jump, Stmt

THREAD = {"threadIdx.x", "threadIdx.y", "threadIdx.z"}


def structured(module: Module, body: list[Stmt], kinds: tuple[str, ...], result: Name | None = None) -> list[Stmt]:
    """The same statements without the jumps of these kinds; a returned value is assigned to `result`."""
    made: list[Stmt] = []
    for n, s in enumerate(body):
        if isinstance(s, Jump) and s.kind in kinds:
            value = [Assign(result, "=", s.value, s.place, s.text)] if result and s.value is not None else []
            return [*made, *value]
        if isinstance(s, For) and "return" in kinds and leaves([s], ("return",)):
            raise module.refuse(s.place, "a return inside a loop is outside the subset; leave the loop with break.")
        if isinstance(s, If) and leaves([s], kinds):
            return [*made, *_branch(module, s, body[n + 1 :], kinds, result)]
        made.append(s)
    return made


def _branch(module: Module, s: If, rest: list[Stmt], kinds: tuple[str, ...], result: Name | None) -> list[Stmt]:
    """A branch with a jump: what follows it moves into the side that does not jump."""
    then, orelse = s.then, s.orelse
    if ends(then, kinds):
        orelse = [*orelse, *rest]
    elif ends(orelse, kinds):
        then = [*then, *rest]
    elif rest:
        raise module.refuse(s.place, "a jump deep inside this branch; end one side of the if with the jump.")
    then, orelse = structured(module, then, kinds, result), structured(module, orelse, kinds, result)
    return branch(s.condition, then, orelse, s.place, s.text)


def branch(condition: Expr, then: list[Stmt], orelse: list[Stmt], place: Place = NOWHERE, text: str = "") -> list[Stmt]:
    """A branch, turned round where only its second side does anything; nothing where neither does."""
    if then:
        return [If(condition, then, orelse, place, text)]
    return [If(opposite(condition), orelse, [], place)] if orelse else []


def leaves(body: list[Stmt], kinds: tuple[str, ...] = ("break",)) -> bool:
    """Whether a jump of these kinds leaves the statements; break and continue of inner loops do not."""
    if kinds == ("return",):
        return any(isinstance(s, Jump) and s.kind == "return" for s in each(body))
    return any(
        (isinstance(s, Jump) and s.kind in kinds) or (isinstance(s, If) and leaves([*s.then, *s.orelse], kinds))
        for s in body
    )


def ends(body: list[Stmt], kinds: tuple[str, ...] = ("return",)) -> bool:
    """Whether statements end with a jump of these kinds, whatever way they take."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, If):
        return ends(last.then, kinds) and ends(last.orelse, kinds)
    return isinstance(last, Jump) and last.kind in kinds


class Divergence:
    """The variables of a function whose values differ between the threads of a block.

    control: also those that differ only because not all threads come by.
    """

    def __init__(self, function: Function, control: bool = True):
        self.control = control
        self.local = {d.name for d in function.declared.values() if not d.shared}
        self.varying = set(THREAD)
        while True:
            before = len(self.varying)
            self._spread(function.body, False)
            if len(self.varying) == before:
                break

    def differs(self, e: Expr) -> bool:
        """Whether an expression differs between threads. A shared or global element at one index is one value."""
        if isinstance(e, Index):
            return any(map(self.differs, e.indices)) or e.array in self.varying
        if isinstance(e, Name):
            return e.name in self.varying
        return any(isinstance(x, Name | Index) and self.differs(x) for x in walk(e) if x is not e)

    def _spread(self, body: list[Stmt], apart: bool) -> None:
        """Mark what is written with differing values, or where only some threads come by (`apart`)."""
        for s in body:
            inside = self.control and (apart or (isinstance(s, If | For) and self.parts(s)))
            for one in heads(s):
                if inside or (read_here(one) & self.varying and any(map(self.differs, expressions(one)))):
                    self.varying |= written_here(one) & self.local
            for inner in nested(s):
                self._spread(inner, inside)

    def parts(self, s: Stmt) -> bool:
        """Whether threads take different ways at a branch, or leave a loop after different numbers of rounds."""
        if isinstance(s, If):
            return self.differs(s.condition)
        if isinstance(s, For):
            return self.differs(s.condition) or self._jumps_apart(s.body)
        return False

    def _jumps_apart(self, body: list[Stmt]) -> bool:
        return any(
            isinstance(s, If)
            and leaves([s], JUMPS)
            and (self.differs(s.condition) or any(map(self._jumps_apart, nested(s))))
            for s in body
        )


def check_barriers(module: Module, divergence: Divergence) -> None:
    """Raise Refused at a barrier that some threads of a block might not reach."""

    def visit(body: list[Stmt], apart: bool) -> None:
        for s in body:
            if isinstance(s, Barrier) and apart:
                raise module.refuse(
                    s.place, "__syncthreads() where only some threads come by: a condition around it, or a jump "
                    "before it, differs between threads. Move it out."
                )  # fmt: skip
            inside = apart or divergence.parts(s)
            for inner in nested(s):
                visit(inner, inside)
            apart = apart or (isinstance(s, If) and divergence.parts(s) and leaves([s], ("return",)))

    visit(module.kernel.body, False)
    for function in module.functions.values():
        for s in each(function.body):
            if isinstance(s, Barrier):
                raise module.refuse(s.place, "__syncthreads() inside a device function is outside the subset.")
