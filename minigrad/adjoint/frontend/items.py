"""Items of a file: functions by the extents of their tokens, structs by their members, other names of types."""

from dataclasses import dataclass, field
from typing import Any

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.values import (
    FunctionName,
    Kind,
    Member,
    StructType,
    Value,
)

MODIFIERS = ("static", "inline", "__inline__", "__forceinline__", "__noinline__", "__device__", "__host__", "constexpr",
             "extern", "explicit", "friend", "virtual", "__inline")  # fmt: skip


@dataclass(eq=False)
class FunctionItem:
    """A function by the numbers of its tokens: its type, the parenthesis of its parameters, the brace of its body."""

    name: str
    start: int
    params: int
    body: int
    template: list[tuple[bool, str, int]] = field(
        default_factory=list
    )  # a type or a number, name, default's token or 0
    owner: StructType | None = None
    kernel: bool = False


class FileItems:
    """The functions and structs of a file by name."""

    def __init__(self, tokens: TokenStream):
        self.tokens = tokens
        self.items: dict[str, list[FunctionItem]] = {}
        self.struct_bodies: dict[str, tuple[int, str]] = {}  # the token of the brace, and the text
        self.structs: dict[str, StructType] = {}
        self.stack: list[FunctionItem] = []
        self.plain: dict[str, ast.Function | None] = {}
        self.inlined = 0  # calls so far
        self.parser: Any = None  # of the file

    def __contains__(self, name: object) -> bool:
        return name in self.items

    def struct(self, name: str) -> StructType | None:
        if name not in self.structs and name in self.struct_bodies:
            brace, text = self.struct_bodies[name]
            at, self.tokens.at = self.tokens.at, brace
            try:
                self.structs[name] = made = StructType(name, ())
                self.members(made)
                made.text = text
            except NotDifferentiable as error:
                del self.structs[name]
                del self.struct_bodies[name]
                self.tokens.unsupported[name] = error
                return None
            finally:
                self.tokens.at = at
        return self.structs.get(name)

    def members(self, made: StructType) -> None:
        """The members and methods of a struct, from its brace on."""
        tokens, parser = self.tokens, self.parser
        assert parser is not None
        tokens.expect("{")
        found: list[Member] = []
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.next.text in ("public", "private", "protected") and tokens.peek().text == ":":
                tokens.at += 2
                continue
            start = tokens.at
            if (function := self.function_item(start, made)) is not None:
                made.methods.setdefault(function.name, []).append(function)
                tokens.at = parser.matching(function.body) + 1
                continue
            static = tokens.next.text == "static"
            while tokens.next.text in ("static", "constexpr"):
                tokens.take()
            kind = parser.expect_type()
            tokens.forbid(f"{made.name} holds a pointer; pass the array as a parameter of its own.", "*", "&")
            while True:
                name = tokens.identifier("a member's name")
                dims = []
                while tokens.accept("["):
                    dims.append(parser.extent(name))
                    tokens.expect("]")
                if tokens.accept("="):
                    parser.isolated(parser.full)
                if not static:
                    found.append(Member(name.text, kind, tuple(dims)))
                if not tokens.accept(","):
                    break
            tokens.expect(";")
        made.members = tuple(found)

    def alias(self, parser: Any) -> str:
        """`typedef T name;` or `using name = T;`, entered into the types in scope; the name."""
        tokens = self.tokens
        if tokens.accept("using"):
            if tokens.accept("namespace"):
                parser.skip_to_semicolon()
                return ""
            name = tokens.identifier("a type's name")
            if not tokens.accept("="):
                parser.skip_to_semicolon()
                return ""
            kind = parser.expect_type()
        else:
            tokens.expect("typedef")
            kind = parser.expect_type()
            name = tokens.identifier("a type's name")
        if not tokens.accept(";"):
            raise parser.error(name.place, f"{name.text} is a pointer or an array type; write it out where it is used.")
        parser.symbols.types[-1][name.text] = kind
        return name.text

    def function_item(self, start: int, owner: StructType | None = None) -> FunctionItem | None:
        """The function whose definition begins at a token; None where another item does."""
        found, n = self.tokens.tokens, start
        template: list[tuple[bool, str, int]] = []
        if found[n].text == "template":
            template, n = self.template_parameters(n + 1)
        kernel, depth = False, 0
        begin = n
        while found[n].kind != "end":
            text = found[n].text
            kernel |= text == "__global__"
            if (
                text in ("__launch_bounds__", "__align__", "alignas", "__attribute__", "decltype")
                and found[n + 1].text == "("
            ):
                n = self._close(n + 1) + 1
                continue
            if text in (";", "}", "=") and not depth:
                return None
            if text == "operator":
                name = "operator" + found[n + 1].text + (found[n + 2].text if found[n + 1].text in "([" else "")
                n += 2 + (found[n + 1].text in "([")
                return self._item(name, begin, n, template, owner, kernel)
            if text == "{":
                return None
            if text == "(" and found[n - 1].kind == "name":
                return self._item(found[n - 1].text, begin, n, template, owner, kernel)
            n += 1
        return None

    def _item(
        self, name: str, start: int, params: int, template: list, owner: StructType | None, kernel: bool
    ) -> FunctionItem | None:
        found = self.tokens.tokens
        n = self._close(params) + 1
        while found[n].text in ("const", "noexcept", "override", "final"):
            n += 1
        if found[n].text == ":" and owner is not None:  # members of a constructor
            while found[n].text != "{" or found[n - 1].kind == "name":
                n = self._close(n) if found[n].text in ("(", "{") else n
                n += 1
                if found[n].kind == "end":
                    return None
        if found[n].text != "{":
            return None
        return FunctionItem(name, start, params, n, template, owner, kernel)

    def _close(self, start: int) -> int:
        assert self.parser is not None
        return self.parser.matching(start)

    def template_parameters(self, n: int) -> tuple[list[tuple[bool, str, int]], int]:
        """`<typename T, int N = 4>`: its parameters, and the token behind it."""
        found, made, depth = self.tokens.tokens, list[tuple[bool, str, int]](), 1
        n += 1
        words: list[Token] = []
        default = 0
        while found[n].kind != "end":
            text = found[n].text
            depth += (text == "<") - (text == ">") - 2 * (text == ">>")
            if depth <= 0 or (text == "," and depth == 1):
                if words:
                    made.append((words[0].text in ("typename", "class"), words[-1].text, default))
                words, default = [], 0
                if depth <= 0:
                    return made, n + 1
            elif text == "=" and depth == 1:
                default = n + 1
            elif not default:
                words.append(found[n])
            n += 1
        return made, n

    def template_arguments(self, parser: Any) -> list[Kind | Value]:
        """`<float, 32>` at the cursor."""
        tokens = self.tokens
        tokens.expect("<")
        made: list[Kind | Value] = []
        while not tokens.accept(">"):
            kind, length = parser.type_length(tokens.at)
            if kind is not None and tokens.peek(length).text in (",", ">"):
                tokens.at += length
                made.append(kind)
            elif tokens.next.text in self.items and tokens.peek().text in (",", ">"):
                made.append(FunctionName(tokens.take().text))  # type: ignore[arg-type]
            else:
                made.append(parser.value(ast.PRECEDENCE["<"]))
            if tokens.next.text != ">":
                tokens.expect(",")
        return made
