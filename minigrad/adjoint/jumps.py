"""Jumps that would leave too much behind them: flags are set in their place, and the jump stands behind branch or loop.

`if (a) { if (b) break; s; } t;` becomes `stopped = false; if (a) { if (b) stopped = true; else s; } if (stopped) break;
t;`, so that one side of each branch ends with its jump, and a return inside a loop becomes a break.
"""

from collections.abc import Callable, Set
from dataclasses import replace
from functools import partial, reduce

from minigrad.adjoint.build import ZERO, opposite
from minigrad.adjoint.expr import Binary, Expr, Name, Number, unused
from minigrad.adjoint.structure import ends, leaves, structured
from minigrad.adjoint.tree import JUMPS, Assign, Declare, For, Function, If, Jump, Stmt
from minigrad.adjoint.visit import each, inside

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
