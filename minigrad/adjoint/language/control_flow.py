"""Jumps and barriers: jumps made into branches, and barriers that not all threads would reach."""

from collections.abc import Callable, Set
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from minigrad.adjoint.analyse.indices import EXTENTS, IDS
from minigrad.adjoint.language.ast import (
    JUMPS,
    NOWHERE,
    Assign,
    Barrier,
    Binary,
    Declare,
    Expr,
    For,
    Function,
    If,
    Jump,
    Name,
    Number,
    Place,
    Stmt,
    unused,
)
from minigrad.adjoint.language.effects import read_here, written_here
from minigrad.adjoint.language.rewrite import ZERO, each, heads, inside, nested, opposite

if TYPE_CHECKING:
    from minigrad.adjoint.language.file import Module


def structured(
    body: list[Stmt],
    kinds: tuple[str, ...],
    marks: Callable[[Jump], list[Stmt]] = lambda jump: [],
    goes: Expr | None = None,
) -> list[Stmt]:
    """The same statements without the jumps of these kinds: `marks` gives what stands in their place.

    What follows a branch with a jump moves into the side that does not jump. It needs neither side to jump on every way
    where `goes` is a condition that holds unless a jump has been marked.
    """
    made: list[Stmt] = []
    for n, s in enumerate(body):
        if isinstance(s, Jump) and s.kind in kinds:
            return [*made, *marks(s)]
        if isinstance(s, If) and leaves([s], kinds):
            then, orelse, rest = s.then, s.orelse, body[n + 1 :]
            if ends(then, kinds):
                orelse, rest = [*orelse, *rest], []
            elif ends(orelse, kinds):
                then, rest = [*then, *rest], []
            then, orelse = (structured(side, kinds, marks, goes) for side in (then, orelse))
            made += branch(s.condition, then, orelse, s.place, s.text)
            if rest:
                assert goes is not None, "jumps has left a branch in which neither side ends with its jump"
                made.append(If(goes, structured(rest, kinds, marks, goes), [], s.place))
            return made
        made.append(s)
    return made


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
    """The variables of a function whose values differ between the threads of a block: `varying`.

    control: also those that differ only because not all threads come by. alike: the names that have one value in all.
    """

    def __init__(self, function: Function, control: bool = True):
        self.control = control
        self.local = {d.name for d in function.declared.values() if not d.shared}
        self.varying, size = {*IDS[:3]}, 0
        while size != (size := len(self.varying)):
            self._spread(function.body, False)
        names = {p.name for p in function.params if not p.pointer}
        names |= {n for n, d in function.declared.items() if not d.dims}
        self.alike = {*names, *IDS, *EXTENTS.values()} - self.varying

    def _spread(self, body: list[Stmt], apart: bool) -> None:
        """Mark what is written with differing values, or where only some threads come by (`apart`)."""
        for s in body:
            inside = self.control and (apart or self.parts(s))
            for one in heads(s):
                if inside or read_here(one) & self.varying:
                    self.varying |= written_here(one) & self.local
            for inner in nested(s):
                self._spread(inner, inside)

    def parts(self, s: Stmt) -> bool:
        """Whether threads take different ways at a branch, or leave a loop after different numbers of rounds."""
        differs = isinstance(s, If | For) and not s.condition.names.isdisjoint(self.varying)
        return differs or (isinstance(s, For) and self._jumps_apart(s.body))

    def _jumps_apart(self, body: list[Stmt]) -> bool:
        branches = [s for s in body if isinstance(s, If) and leaves([s], JUMPS)]
        return any(self.parts(s) or any(map(self._jumps_apart, nested(s))) for s in branches)


def check_barriers(module: "Module", divergence: Divergence) -> None:
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


FLAGS = {"break": "stopped", "continue": "skipped", "return": "returned"}


def name(d: Declare) -> Name:
    """A variable as an expression."""
    return Name(d.name, d.type)


class LedOut:
    """Changes the body of a function. words: the names of its file."""

    def __init__(self, function: Function, words: Set[str]):
        self.function, self.words = function, words
        function.body = self.branches(self.loops(function.body), False)

    def loops(self, body: list[Stmt]) -> list[Stmt]:
        """No return in a loop."""
        made: list[Stmt] = []
        for s in body:
            s = inside(s, self.loops)
            made += self.flagged(s) if isinstance(s, For) and leaves([s], ("return",)) else [s]
        return made

    def branches(self, body: list[Stmt], follows: bool) -> list[Stmt]:
        """No branch that others follow and of which neither side ends with its jump. follows: whether more comes."""
        made: list[Stmt] = []
        for n, s in enumerate(body):
            if isinstance(s, For):
                s = replace(s, body=self.branches(s.body, False))
            if not isinstance(s, If):
                made.append(s)
                continue
            more = follows or n + 1 < len(body)
            deep = more and leaves([s], JUMPS) and not (ends(s.then, JUMPS) or ends(s.orelse, JUMPS))
            for one in self.flagged(s) if deep else [s]:
                if isinstance(one, If):
                    then, orelse = (
                        self.branches(side, more and not ends(side, JUMPS)) for side in (one.then, one.orelse)
                    )
                    one = replace(one, then=then, orelse=orelse)
                made.append(one)
        return made

    def flagged(self, s: If | For) -> list[Stmt]:
        """A statement with flags set in place of its jumps, and behind it the jumps."""
        kinds = [kind for kind in FLAGS if isinstance(s, If) and leaves([s], (kind,))] or ["return"]
        flags = {kind: self.declared(FLAGS[kind], "bool", Number("false", "bool")) for kind in kinds}
        returns = [t for t in each([s]) if isinstance(t, Jump) and t.value is not None]
        value = self.declared("value", self.function.returns, ZERO) if returns else None

        def marks(jump: Jump) -> list[Stmt]:
            made: list[Stmt] = [Assign(name(flags[jump.kind]), "=", Number("true", "bool"))]
            if value and jump.value is not None:
                made = [Assign(name(value), "=", jump.value, jump.place, jump.text), *made]
            return made if isinstance(s, If) else [*made, Jump("break", place=jump.place)]

        if isinstance(s, If):
            passed = (opposite(name(d)) for d in flags.values())
            one = structured([s], tuple(kinds), marks, reduce(lambda a, b: Binary("&&", a, b, "bool"), passed))
        else:
            one = [inside(s, partial(replaced, marks=marks))]
        behind = [
            If(name(d), [Jump(kind, name(value) if value and kind == "return" else None)], [], s.place)
            for kind, d in flags.items()
        ]
        return [*([value] if value else []), *flags.values(), *one, *behind]

    def declared(self, base: str, kind: str, value: Expr) -> Declare:
        """A new variable of the function."""
        made = Declare(unused(base, {*self.words, *self.function.declared}), kind, value=value)
        self.function.declared[made.name] = made
        return made


def replaced(body: list[Stmt], marks: Callable[[Jump], list[Stmt]]) -> list[Stmt]:
    """Statements with marks in place of their returns."""
    made: list[Stmt] = []
    for s in body:
        made += marks(s) if isinstance(s, Jump) and s.kind == "return" else [inside(s, partial(replaced, marks=marks))]
    return made
