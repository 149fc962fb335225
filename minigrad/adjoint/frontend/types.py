"""The parser of types, and the helpers of all parsers above it."""

from collections.abc import Callable
from typing import Any

from minigrad.adjoint.frontend.symbols import SymbolTable
from minigrad.adjoint.language.ast import (
    TYPES,
    Expr,
    Place,
    Stmt,
)
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.values import (
    VECTORS,
    Kind,
    Pointer,
    Struct,
    StructType,
    Value,
    is_expression,
)
from minigrad.kernels.types import plain

ALLOWED_TYPES = "whole numbers, bool, float, double, half, real and structs of these are allowed"
INTEGER_WORDS = ("unsigned", "signed", "char", "short", "int", "long")
IGNORED = ("const", "volatile", "register", "struct", "typename", "__restrict__", "__restrict", "enum", "class")
ALIASES = {"__half2": "half2", "nv_bfloat162": "__nv_bfloat162"}
LOCAL_TYPES = ("struct", "enum", "class", "union")


class TypeParser:
    """Parses types. functions: those of the file, with its structs; None where there are none."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable, functions: Any = None):
        self.tokens, self.symbols, self.functions = tokens, symbols, functions
        self.statement_start = -1  # the first token of the current statement

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return self.tokens.error(place, why)

    def type_length(self, at: int) -> tuple[Kind | None, int]:
        """The type that begins at a token, and the number of its tokens; None where no type does."""
        tokens, start = self.tokens.tokens, at
        words: list[str] = []
        while tokens[at].text in IGNORED or tokens[at].text in INTEGER_WORDS:
            words += [tokens[at].text] if tokens[at].text in INTEGER_WORDS else []
            at += 1
        if words:
            if words == ["long"] and tokens[at].text == "double":
                raise self.unknown_type(tokens[at])
            return _known(plain(" ".join(words))), at - start
        if tokens[at].text in ("std", "cuda") and tokens[at + 1].text == "::":
            at += 2
        elif tokens[at].text == "::":
            at += 1
        name = tokens[at].text
        if tokens[at].kind != "name" or tokens[at].text in LOCAL_TYPES:
            return None, 0
        while tokens[at + 1].text == "::" and self.symbols.type(tokens[at + 2].text) is not None:
            at += 2  # a type of a namespace
            name = tokens[at].text
        kind = self.named_type(name)
        at += 1
        while kind is not None and tokens[at].text in IGNORED:
            at += 1
        return kind, at - start if kind is not None else 0

    def named_type(self, name: str) -> Kind | None:
        alias = self.symbols.macros.get(name)
        if alias and alias.name == "a type":
            return alias.type
        if self.symbols.lookup(name) is not None:
            return None
        if (found := self.symbols.type(name)) is not None:
            return found
        if self.functions and (struct := self.functions.struct(name)) is not None:
            return struct
        if self.functions and name in self.functions:
            return None
        return TYPES.get(name) or VECTORS.get(ALIASES.get(name, name)) or _known(plain(name))

    def peek_type(self) -> Kind | None:
        """The type that begins at the cursor; None where no type does. The cursor stays."""
        return self.type_length(self.tokens.at)[0]

    def accept_type(self) -> Kind | None:
        kind, length = self.type_length(self.tokens.at)
        self.tokens.at += length
        return kind

    def expect_type(self) -> Kind:
        if (kind := self.accept_type()) is not None:
            return kind
        raise self.unknown_type(self.tokens.next)

    def scalar_type(self) -> str:
        place, kind = self.tokens.next.place, self.expect_type()
        if isinstance(kind, StructType):
            raise self.error(place, f"a number has to stand here, and {kind} is a struct.")
        return kind

    def unknown_type(self, token: Token) -> NotDifferentiable:
        why = f"the type {token.text} is outside the differentiable subset; {ALLOWED_TYPES}."
        return self.tokens.rejected(token) or self.error(token.place, why)

    def expression(self, rank: int = 0) -> Expr:
        """An expression that is a number, of operators that bind more tightly than `rank`."""
        place, value = self.tokens.next.place, self.value(rank)
        return self.number(value, place)

    def number(self, value: Value, place: Place) -> Expr:
        if is_expression(value):
            return value  # type: ignore[return-value]
        what = "a struct" if isinstance(value, Struct) else "an array or a pointer"
        raise self.error(place, f"{what} stands here in place of a number; take an element or a member of it.")

    def isolated(self, parse: Callable[[], Value]) -> tuple[Value, list[Stmt]]:
        """A value, and the statements that it needs, which do not join the pending ones."""
        outer, self.symbols.pending = self.symbols.pending, []
        try:
            value = parse()
            return value, self.symbols.pending
        finally:
            self.symbols.pending = outer

    def assign(self, target: Value, op: Token, value: Value, place: Place) -> Value:
        """Append the assignment to the pending statements; its value is the target."""
        raise NotImplementedError  # the parser of statements has it

    def matching(self, start: int) -> int:
        """The token that closes the bracket at a token."""
        depth = 0
        for n in range(start, len(self.tokens.tokens)):
            text = self.tokens.tokens[n].text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if not depth:
                return n
        return len(self.tokens.tokens) - 1

    def skip_to_semicolon(self) -> None:
        while self.tokens.next.kind != "end" and self.tokens.take().text != ";":
            pass

    def taken_pending(self) -> list[Stmt]:
        found, self.symbols.pending = self.symbols.pending, []
        return found

    # Methods of the parsers that extend this one.

    def full(self) -> Value:
        raise NotImplementedError

    def value(self, rank: int = 0) -> Value:
        raise NotImplementedError

    def element(self, value: Value, index: Expr, place: Place) -> Value:
        raise NotImplementedError

    def pointer(self, value: Value, place: Place) -> Pointer:
        raise NotImplementedError

    def simple(self, e: Expr, name: str, place: Place, always: bool = False) -> Expr:
        raise NotImplementedError

    def construct(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        raise NotImplementedError

    def close(self, e: Value) -> Value:
        raise NotImplementedError


def _known(kind: str) -> str | None:
    return kind if kind in TYPES else None
