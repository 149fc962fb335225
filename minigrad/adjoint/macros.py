"""The object-like macros of a file: types under another name, and expressions."""

from collections.abc import Mapping

from minigrad.adjoint.expr import Expr, Name, Number, Place
from minigrad.adjoint.expressions import Expressions
from minigrad.adjoint.tokens import Refused, Token, Tokens
from minigrad.adjoint.types import TYPES


class Macros:
    """names: the macros, typed; values: of those that are whole numbers; outside: why the others are refused."""

    def __init__(self, bodies: Mapping[str, list[Token]], tokens: Tokens):
        self.tokens = tokens
        self.names: dict[str, Name] = {}
        why = "takes arguments; write it as a __device__ function."
        self.outside = {name: tokens.refuse(at, f"the macro {name} {why}") for name, at in tokens.calls.items()}
        found: dict[str, Expr | None] = {}
        for name, body in bodies.items():
            text = " ".join(t.text for t in body)
            if text in TYPES or not text:
                self.names[name] = Name("a type", TYPES.get(text, "real"))
            elif e := self._expression(text, body):
                self.names[name], found[name] = Name(name, e.type), e
            else:
                why = "must be a type or an expression in parentheses, of numbers and macros ahead of it."
                self.outside[name] = tokens.refuse(body[0].place, f"the macro {name} {why}")
        self.values = whole_numbers(found)

    def _expression(self, text: str, body: list[Token]) -> Expr | None:
        """What a macro stands for; None where that is no expression."""
        end = Token("end", "", Place(0, 0))
        reader = Expressions(Tokens(self.tokens.file, text, [*body, end]), self.names, self.outside)
        try:
            e = reader.expression()
        except Refused:
            return None
        return None if reader.next.kind != "end" or _bare(body) else e


def whole_numbers(named: Mapping[str, Expr | None]) -> dict[str, int]:
    """The values of those that are literals of type int."""
    return {
        name: e.whole for name, e in named.items() if isinstance(e, Number) and e.type == "int" and e.whole is not None
    }


def _bare(body: list[Token]) -> bool:
    """Whether an operator stands outside parentheses: with `#define A 1 + 2`, A * x is 1 + 2 * x."""
    depth = 0
    for n, token in enumerate(body):
        depth += (token.text == "(") - (token.text == ")")
        if n and not depth and token.kind != "number" and token.text != ")":
            return True
    return False
