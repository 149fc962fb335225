"""Items of a file: functions by the extents of their tokens, structs by their members, other names of types."""

import re
from functools import partial
from typing import Any

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.dataflow import inline
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.rewrite import folded
from minigrad.adjoint.language.values import (
    GROUP,
    FunctionItem,
    FunctionName,
    Kind,
    Member,
    StructTemplate,
    StructType,
    Value,
)

MODIFIERS = ("static", "inline", "__inline__", "__forceinline__", "__noinline__", "__device__", "__host__", "constexpr",
             "extern", "explicit", "friend", "virtual", "__inline")  # fmt: skip


class FileItems:
    """The functions and structs of a file by name."""

    def __init__(self, tokens: TokenStream):
        self.tokens = tokens
        self.items: dict[str, list[FunctionItem]] = {}
        self.struct_bodies: dict[str, tuple[int, str]] = {}  # the token of the brace, and the text
        self.structs: dict[str, StructType] = {}  # those of templates by name and arguments
        self.templates: dict[str, list[StructTemplate]] = {}
        self.stack: list[FunctionItem] = []
        self.outside: list[set[str]] = []  # for each call on the stack, the variables from before it
        self.plain: dict[str, ast.Function | None] = {}
        self.shared: set[str] = set()  # the arrays in shared memory of the file
        self.inlined = 0  # calls so far
        self.parser: Any = None  # of the file
        self.converting = False  # within the search for a conversion

    def __contains__(self, name: object) -> bool:
        return name in self.items

    def struct(self, name: str) -> StructType | None:
        if name not in self.structs and name in self.struct_bodies:
            brace, text = self.struct_bodies[name]
            try:
                self.define(StructType(name, (), text), brace)
            except NotDifferentiable as error:
                del self.struct_bodies[name]
                self.tokens.unsupported[name] = error
                return None
        return self.structs.get(name)

    def define(self, made: StructType, brace: int) -> StructType:
        """Read a struct from its brace on, where the names of its own types and values are known."""
        symbols, at = self.parser.symbols, self.tokens.at
        outer, self.structs[made.name] = (symbols.types, symbols.scopes), made
        made.types[made.short] = made
        symbols.types, symbols.scopes = [symbols.types[0], made.types], [symbols.scopes[0], made.values]
        self.tokens.at = brace
        try:
            self.members(made)
        except NotDifferentiable:
            del self.structs[made.name]
            raise
        finally:
            (symbols.types, symbols.scopes), self.tokens.at = outer, at
        return made

    def instance(self, parser: Any, name: str, start: int) -> tuple[StructType, int]:
        """The struct of a template with the arguments that begin at a token, and the token behind these."""
        at, self.tokens.at = self.tokens.at, start
        try:
            given = self.template_arguments(parser)
            return self.instance_of(parser, name, given, self.tokens.tokens[start]), self.tokens.at
        finally:
            self.tokens.at = at

    def instance_of(self, parser: Any, name: str, given: list, token: Token) -> StructType:
        """The struct of a template with these arguments, by the specialization that they fit, if any."""
        templates = self.templates[name]
        found = [(t, bound) for t in templates if (bound := self.specialized(parser, t, given)) is not None]
        general = next((t for t in templates if not t.arguments), None)
        template, bound = min(found, key=lambda each: len(each[1]), default=(general, {}))  # the most special one
        if template is None:
            raise parser.error(token.place, f"no {name} of this file takes these arguments.")
        if not found:
            for n, (is_type, own, default) in enumerate(template.parameters):
                if n >= len(given):
                    given.append(self.default(parser, bound, is_type, own, default, token))
                bound[own] = given[n]
        key = f"{name}<{', '.join(map(_shown, given))}>"
        if key not in self.structs:
            types = {own: v for own, v in bound.items() if isinstance(v, str | StructType)}
            values = {own: v for own, v in bound.items() if own not in types}
            made = StructType(key, (), template.text, types=types, values=values, arguments=tuple(given))
            self.define(made, template.brace)
        return self.structs[key]

    def default(self, parser: Any, bound: dict, is_type: bool, own: str, at: int, token: Token) -> Any:
        """The default of a template's parameter."""
        if not at:
            raise parser.error(token.place, f"the argument {own} of this template is missing.")
        parser.symbols.types.append({n: v for n, v in bound.items() if isinstance(v, str | StructType)})
        parser.symbols.scopes.append({n: v for n, v in bound.items() if not isinstance(v, str | StructType)})
        before, self.tokens.at = self.tokens.at, at
        found = parser.expect_type() if is_type else parser.value(ast.PRECEDENCE["<"])
        self.tokens.at = before
        parser.symbols.types.pop()
        parser.symbols.scopes.pop()
        return found

    def specialized(self, parser: Any, template: StructTemplate, given: list) -> dict[str, Any] | None:
        """The parameters of a specialization by name; None where the arguments do not fit it."""
        if not template.arguments:
            return None
        names = {own for _, own, _ in template.parameters}
        bound: dict[str, Any] = {}
        at, self.tokens.at = self.tokens.at, template.arguments + 1
        try:
            for value in given:
                alone = self.tokens.peek().text in (",", ">")
                if self.tokens.next.text in names and alone:
                    if bound.setdefault(self.tokens.take().text, value) != value:
                        return None
                elif isinstance(value, str | StructType):
                    if (kind := parser.accept_type()) is not value and kind != value:
                        return None
                elif parser.value(ast.PRECEDENCE["<"]) != value:
                    return None
                self.tokens.accept(",")
            return bound if self.tokens.next.text == ">" else None
        finally:
            self.tokens.at = at

    def members(self, made: StructType) -> None:
        """The members and methods of a struct, from its brace on."""
        tokens, parser = self.tokens, self.parser
        assert parser is not None
        made.bases = self.bases(tokens.at)
        tokens.expect("{")
        found = [m for base in made.bases for m in base.members]
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.next.text in ("public", "private", "protected") and tokens.peek().text == ":":
                tokens.at += 2
                continue
            while tokens.next.text in ("mutable", "alignas", "__align__"):
                if tokens.take().text != "mutable":
                    tokens.at = parser.matching(tokens.at) + 1
            start = tokens.at
            if tokens.next.text in ("using", "typedef"):
                self.alias(parser)
                continue
            if (function := self.function_item(start, made)) is not None:
                if function.name.startswith("~") and tokens.tokens[function.body + 1].text != "}":
                    why = f"the destructor of {made} does something; call a function for it at the end of the block."
                    raise parser.error(tokens.tokens[function.body].place, why)
                made.methods.setdefault(function.name, []).append(function)
                tokens.at = parser.matching(function.body) + 1
                continue
            if self.is_declaration(start):  # of a method, or one that is defaulted
                parser.skip_to_semicolon()
                continue
            static = False
            while tokens.next.text in ("static", "constexpr", "inline"):
                static |= tokens.take().text == "static"
            if tokens.next.text in ("struct", "class", "enum") and "{" in (tokens.peek().text, tokens.peek(2).text):
                why = f"a type within {made.name} is outside the subset; write it ahead of {made.name}, with a name."
                raise parser.error(tokens.next.place, why)
            kind, enum = parser.expect_type(), tokens.tokens[tokens.at - 1].text
            while True:
                stars = 0
                while tokens.next.text in ("*", "const", "__restrict__", "__restrict"):
                    stars += tokens.take().text == "*"
                why = (
                    f"{made.name} holds a reference or a pointer to pointers; pass the array as a parameter of its own."
                )
                tokens.forbid(why, "&", *(["*"] if stars < 2 else [tokens.next.text]))
                name = tokens.identifier("a member's name")
                tokens.forbid(f"{name.text} is a bit-field; make it a whole number, and take its bits by shifts.", ":")
                dims = []
                while tokens.accept("["):
                    dims.append(folded(inline(parser.extent(name), parser.symbols.formulas)))
                    tokens.expect("]")
                at = tokens.at if tokens.accept("=") or tokens.next.text == "{" else 0
                if not static:
                    found.append(Member(name.text, kind, tuple(dims), at, stars == 1, enum))
                elif at and isinstance(kind, str) and not dims:
                    value, _ = parser.isolated(partial(parser.braces, kind) if tokens.next.text == "{" else parser.full)
                    made.values[name.text] = folded(parser.as_type(kind, parser.number(value, name.place)))
                while tokens.next.text not in (",", ";", "}") and tokens.next.kind != "end":
                    tokens.at = (
                        self.skip_arguments(tokens.at) if tokens.next.kind == "name" else self._close(tokens.at) + 1
                    )
                if not tokens.accept(","):
                    break
            tokens.expect(";")
        if len({m.name for m in found}) < len(found):
            why = f"{made} and a struct that it extends have members of one name; give each a name of its own."
            raise parser.error(tokens.next.place, why)
        made.members = tuple(found)
        for base in made.bases:
            never = base.short, f"~{base.short}", "operator="  # are inherited
            own = {name: items for name, items in base.methods.items() if name not in never}
            for hidden in own.keys() & made.methods.keys():  # which is meant depends on the type it is seen as
                why = f"{made} and {base}, which it extends, both have a method {hidden}; give each a name of its own."
                raise parser.error(tokens.next.place, why)
            made.methods, made.types, made.values = (
                own | made.methods,
                base.types | made.types,
                base.values | made.values,
            )

    def bases(self, brace: int) -> tuple[StructType, ...]:
        """The structs that a struct extends: `struct B : public A {`, read back from its brace."""
        tokens, parser, found = self.tokens, self.parser, list[StructType]()
        start = brace
        while tokens.tokens[start].text not in (":", ";", "}", "struct", "class") and start:
            start -= 1
        if tokens.tokens[start].text != ":":
            return ()
        tokens.at = start
        while tokens.at < brace:
            tokens.take()
            tokens.forbid("a virtual base is outside the subset; leave virtual out.", "virtual")
            tokens.accept("public") or tokens.accept("private") or tokens.accept("protected")
            place, kind = tokens.next.place, parser.expect_type()
            if not isinstance(kind, StructType) or "virtual" in kind.text.split():
                why = (
                    f"{kind} has virtual methods and is extended; leave virtual out, and call the method that is meant."
                )
                raise parser.error(place, why)
            found.append(kind)
        return tuple(found)

    def copies(self, kind: StructType, method: str) -> bool:
        """True where a method copies a struct other than member by member."""
        for item in (i for i in kind.methods.get(method, ()) if i.counts == 1):
            found = self.tokens.tokens[item.params : self._close(item.body) + 1]
            words = [t.text for t in found[: self._close(item.params) - item.params]]
            text = " ".join(t.text for t in found[len(words) + 1 :]).replace("this -> ", "")
            alike = rf"(\w+) (?:= {words[-1]} \. \1 ;|\( {words[-1]} \. \1 \)|{{ {words[-1]} \. \1 }})"
            left = re.sub(alike, "", text).replace("return * this ;", "")
            copied = set(re.findall(alike, text)) == {m.name for m in kind.members}
            if kind.short in words and (re.search(r"\w", left) or not copied):
                return True
        return False

    def skip_arguments(self, at: int) -> int:
        """The token behind a name, and behind the arguments of a template."""
        found = self.tokens.tokens
        if found[at].text not in self.templates or found[at + 1].text != "<":
            return at + 1
        depth = 0
        while found[at].kind != "end":
            at += 1
            depth += (found[at].text == "<") - (found[at].text == ">") - 2 * (found[at].text == ">>")
            if depth <= 0:
                break
        return at + 1

    def is_declaration(self, start: int) -> bool:
        """True for a function declared without a body, or with `= default`."""
        found, n, called = self.tokens.tokens, start, False
        while found[n].text not in (";", "=", "{", "}", "[") and found[n].kind != "end":
            called |= found[n].text == "("
            n = self._close(n) + 1 if found[n].text == "(" else n + 1
        ends = found[n].text == ";" or (found[n].text == "=" and found[n + 1].text in ("default", "delete", "0"))
        return called and ends

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
            kind = GROUP if parser.accept_group_type() else parser.expect_type()
        else:
            tokens.expect("typedef")
            kind = GROUP if parser.accept_group_type() else parser.expect_type()
            name = tokens.identifier("a type's name")
        if not tokens.accept(";"):
            raise parser.error(name.place, f"{name.text} is a pointer or an array type; write it out where it is used.")
        if parser.symbols.types[-1].setdefault(name.text, kind) != kind:
            self.twice(name.text, name.place)
        return name.text

    def twice(self, name: str, place: ast.Place) -> None:
        """Reject a name that has two meanings, as in two namespaces, where the kernel uses it."""
        why = f"{name} has several meanings in this file; give each a name of its own."
        self.parser.symbols.scopes[0].pop(name, None)
        self.tokens.unsupported.setdefault(name, self.tokens.error(place, why))

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
                stop = n + 2 + (found[n + 1].text in ("(", "["))
                while found[stop].text != "(" and found[stop].kind != "end":
                    stop += 1
                name = "operator" + "".join(t.text for t in found[n + 1 : stop])
                if (made := self._item(name, begin, stop, template, owner, kernel)) and found[n + 1].kind == "name":
                    made.returns = n + 1
                return made
            if text == "{":
                return None
            if text == "(" and found[n - 1].kind == "name":
                name = ("~" if found[n - 2].text == "~" else "") + found[n - 1].text
                return self._item(name, begin, n, template, owner, kernel)
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
        counts = sum(t.text == "," for t in found[params : self._close(params)]) + (self._close(params) > params + 1)
        return FunctionItem(name, start, params, n, template, owner, kernel, counts=counts)

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


def _shown(value: Any) -> str:
    return value.text if isinstance(value, ast.Number) else str(getattr(value, "name", value))
