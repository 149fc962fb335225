"""What differs from thread to thread of a block, and the barriers that not all threads would reach."""

from minigrad.adjoint.effects import each, expressions, nested, read_here, written_here
from minigrad.adjoint.module import Module
from minigrad.adjoint.structure import leaves
from minigrad.adjoint.tree import Barrier, Expr, For, Function, If, Index, Name, Stmt, While, walk

THREAD = {"threadIdx.x", "threadIdx.y", "threadIdx.z"}
JUMPS = ("break", "continue", "return")


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
            inside = self.control and (apart or (isinstance(s, If | For | While) and self.parts(s)))
            for one in (s, getattr(s, "start", None), getattr(s, "step", None)):
                if one is not None and (inside or (one is not None and self._reads_differing(one))):
                    self.varying |= written_here(one) & self.local
            for inner in nested(s):
                self._spread(inner, inside)

    def _reads_differing(self, s: Stmt) -> bool:
        return bool(read_here(s) & self.varying) and any(self.differs(e) for e in expressions(s))

    def parts(self, s: Stmt) -> bool:
        """Whether threads take different ways at a branch, or leave a loop after different numbers of rounds."""
        if isinstance(s, If):
            return self.differs(s.condition)
        if isinstance(s, For | While):
            return self.differs(s.condition) or self._jumps_apart(s.body)
        return False

    def _jumps_apart(self, body: list[Stmt]) -> bool:
        return any(
            isinstance(s, If) and leaves([s], JUMPS) and (self.differs(s.condition) or self._jumps_apart(s.then))
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
