"""Items of a file: functions by the extents of their tokens, structs by their members, other names of types."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from minigrad.adjoint.frontend.macros import BARE, SEVERAL, enumeration
from minigrad.adjoint.frontend.symbols import has_name
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.dataflow import inline
from minigrad.adjoint.language.lexer import SPECIFIERS, NotDifferentiable, Token, TokenStream, template_parameters
from minigrad.adjoint.language.rewrite import folded
from minigrad.adjoint.language.values import GROUP, FunctionItem, Member, StructTemplate, StructType, alike

NO_POINTER = "{} is a pointer or an array type; write it out where it is used."


class FileItems:
    """The functions and structs of a file by name."""

    def __init__(self, tokens: TokenStream):
        self.tokens = tokens
        self.items: dict[str, list[FunctionItem]] = {}
        self.struct_bodies: dict[str, tuple[int, str]] = {}  # the token of the brace, and the text
        self.outside_bodies: dict[str, list[FunctionItem]] = {}  # of methods, by the struct
        self.space: tuple[str, ...] = ()  # the namespace around the cursor, and then that of the kernel
        self.declared: dict[tuple, list[int]] = {}  # functions without their bodies: the brackets of their parameters
        self.namespaces: dict[str, tuple[str, ...]] = {}  # those of the file, and other names of them
        # Namespaces, and names in them, that a `using` makes known, and the tokens between which it does.
        self.used: set[tuple[int, int, tuple[str, ...]]] = set()
        self.struct_spaces: dict[str, tuple[str, ...]] = {}
        self.structs: dict[str, StructType] = {}  # those of templates by name and arguments
        self.templates: dict[str, list[StructTemplate]] = {}
        self.stack: list[FunctionItem] = []
        self.running: list[tuple] = []  # for each call on the stack, the arguments of its template
        self.outside: list[int] = []  # for each call on the stack, the number of variables from before it
        self.plain: dict[str, ast.Function | None] = {}
        self.shared: set[str] = set()  # the arrays in shared memory of the file
        self.tried = False  # whether a function is read as one that has an adjoint of its own
        self.parser: Any = None  # of the file
        self.converting = False  # within the search for a conversion

    def __contains__(self, name: object) -> bool:
        return name in self.items

    def struct(self, name: str) -> StructType | None:
        if name not in self.structs and name in self.struct_bodies:
            brace, text = self.struct_bodies[name]
            try:
                self.define(StructType(name, (), text, space=self.struct_spaces.get(name, ())), brace)
            except NotDifferentiable as error:
                del self.struct_bodies[name]
                self.tokens.unsupported[name] = error
                return None
        return self.structs.get(name)

    def define(self, made: StructType, brace: int, special: bool = False) -> StructType:
        """Read a struct from its brace on, where the names of its own types and values are known."""
        symbols, at = self.parser.symbols, self.tokens.at
        outer, self.structs[made.name] = (symbols.types, symbols.scopes), made
        made.types[made.short] = made
        symbols.types, symbols.scopes = [symbols.types[0], made.types], [symbols.scopes[0], made.values]
        self.tokens.at = brace
        try:
            self.members(made, special)
        except NotDifferentiable:
            del self.structs[made.name]
            raise
        finally:
            (symbols.types, symbols.scopes), self.tokens.at = outer, at
        return made

    def template(self, name: str, made: StructTemplate) -> None:
        others = self.templates.setdefault(name, [])
        if not made.arguments and any(not t.arguments and t.text != made.text for t in others):
            self.twice(name, self.tokens.tokens[made.brace].place)
        others.append(made)

    def instance(self, parser: Any, name: str, start: int) -> tuple[Any, int]:
        """The type, or the variable, of a template with the arguments at a token, and the token behind these."""
        if error := self.tokens.rejected(self.tokens.tokens[start - 1]):
            raise error
        at, self.tokens.at = self.tokens.at, start
        try:
            given = self.template_arguments(parser)
            return self.instance_of(parser, name, given, self.tokens.tokens[start]), self.tokens.at
        finally:
            self.tokens.at = at

    def instance_of(self, parser: Any, name: str, given: list, token: Token) -> Any:
        """The type or the variable of a template with these arguments, by the specialization that they fit, if any."""
        templates = self.templates[name]
        found = [(t, bound) for t in templates if (bound := self.specialized(parser, t, given)) is not None]
        general = next((t for t in templates if not t.arguments), None)
        template, bound = min(found, key=lambda each: len(each[1]), default=(general, {}))  # the most special one
        if template is None:
            raise parser.error(token.place, f"no {name} of this file takes these arguments.")
        if not found:
            for n, parameter in enumerate(template.parameters):
                found = self.template_argument(parser, parameter, bound, given[n] if n < len(given) else None, token)
                bound[parameter[1]], given[n : n + 1] = found, [found]
        if template.alias:
            with self.known(parser, bound, template.brace):
                kind = parser.expect_type()
                if self.tokens.next.kind != "name":
                    return kind
                self.tokens.at += 1 + (self.tokens.peek().text == "=")
                return folded(parser.convert(parser.argument(), kind, token.place))
        key = f"{name}<{', '.join(map(_shown, given))}>"
        if key not in self.structs:
            types = {own: v for own, v in bound.items() if isinstance(v, str | StructType)}
            values = {own: v for own, v in bound.items() if own not in types}
            made = StructType(key, (), template.text, types=types, values=values, arguments=tuple(given))
            made.space = self.struct_spaces.get(name, ())
            self.define(made, template.brace, bool(template.arguments))
        return self.structs[key]

    def template_argument(self, parser: Any, parameter: tuple, bound: dict, given: Any, token: Token) -> Any:
        """The argument that is given or the default, of the parameter's own type. bound: the parameters ahead of it."""
        number, own, default = parameter
        if given is None and not default:
            raise parser.error(token.place, f"the argument {own} of this template is missing.")
        with self.known(parser, bound, default):
            if given is None:
                given = parser.value(ast.PRECEDENCE["<"]) if number else parser.expect_type()
            kind = parser.type_length(number)[0] if number else None
        fits = isinstance(kind, str) and isinstance(given, ast.Expr)
        return folded(parser.convert(given, kind, token.place)) if fits else given

    @contextmanager
    def known(self, parser: Any, bound: dict, at: int) -> Iterator[None]:
        """The parameters of a template known by their names, with the cursor at a token of it."""
        symbols, before = parser.symbols, self.tokens.at
        symbols.types.append({n: v for n, v in bound.items() if isinstance(v, str | StructType)})
        symbols.scopes.append({n: v for n, v in bound.items() if not isinstance(v, str | StructType)})
        self.tokens.at = at
        try:
            yield
        finally:
            self.tokens.at = before
            symbols.types.pop()
            symbols.scopes.pop()

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
                elif not alike((parser.value(ast.PRECEDENCE["<"]),), (value,)):
                    return None
                self.tokens.accept(",")
            return bound if self.tokens.next.text == ">" else None
        finally:
            self.tokens.at = at

    def members(self, made: StructType, special: bool) -> None:
        """The members and methods of a struct, from its brace on."""
        tokens, parser = self.tokens, self.parser
        assert parser is not None
        made.bases = parser.bases(tokens.at)
        tokens.expect("{")
        found, inherited = [m for base in made.bases for m in base.members], list[StructType]()
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.next.text in ("public", "private", "protected") and tokens.peek().text == ":":
                tokens.at += 2
                continue
            tokens.accept("mutable")
            start = tokens.at
            if tokens.next.text in ("using", "typedef"):
                self.alias(parser)
                named = [tokens.tokens[tokens.at - n].text for n in (4, 2)]
                inherited += [b for b in made.bases if named == [b.short, b.short]]
                continue
            if (function := self.function_item(start, made)) is not None:
                if function.name.startswith("~") and tokens.tokens[function.body + 1].text != "}":
                    why = f"the destructor of {made} does something; call a function for it at the end of the block."
                    raise parser.error(tokens.tokens[function.body].place, why)
                known = self.items if function.friend else made.methods
                known.setdefault(function.name, []).append(function)
                tokens.at = parser.tokens.matching(function.body) + 1
                continue
            if tokens.next.text == "friend" or tokens.is_declaration(start):  # of a method, or one that is defaulted
                self.declare(start, made)
                continue
            tokens.at = self.tokens.specifiers(start)
            static = "static" in {t.text for t in tokens.tokens[start : tokens.at]}
            if tokens.next.text in ("struct", "class", "enum") and tokens.has_brace():
                if tokens.accept("enum"):
                    enumeration(parser, False, self.twice)
                if tokens.next.text == ";":
                    continue
                why = f"a type within {made} is outside the subset; write it ahead of {made}, with a name."
                raise parser.error(tokens.next.place, why)
            kind, enum = parser.expect_type(), tokens.tokens[tokens.at - 1].text
            while True:
                stars = 0
                while tokens.next.text in ("*", "const", "__restrict__", "__restrict"):
                    stars += tokens.take().text == "*"
                why = f"{made} holds a reference or a pointer to pointers; pass the array as a parameter of its own."
                tokens.forbid(why, "&", *(["*"] if stars < 2 else [tokens.next.text]))
                name = tokens.identifier("a member's name")
                tokens.forbid(f"{name.text} is a bit-field; make it a whole number, and take its bits by shifts.", ":")
                dims = [folded(inline(e, parser.symbols.formulas)) for e in parser.extents(name)]
                at = tokens.at if tokens.accept("=") or tokens.next.text == "{" else 0
                if not static:
                    found.append(Member(name.text, kind, tuple(dims), at, stars == 1, enum))
                elif at and isinstance(kind, str) and not dims:
                    value, _ = parser.isolated(parser.argument)
                    made.values[name.text] = folded(parser.convert(value, kind, name.place))
                tokens.at = tokens.behind_value(tokens.at, parser.is_template)
                if not tokens.accept(","):
                    break
            tokens.expect(";")
        if len({m.name for m in found}) < len(found):
            why = f"{made} and a struct that it extends have members of one name; give each a name of its own."
            raise parser.error(tokens.next.place, why)
        made.members = tuple(found)
        self.defined_outside(made, special)
        for base in inherited:  # using Base::Base;
            own = [i for i in base.methods.get(base.short, ()) if i.counts and not self.copies_own(i)]
            made.methods.setdefault(made.short, []).extend(own)
        for base in made.bases:
            never = base.short, f"~{base.short}", "operator="  # are inherited
            its = {name: items for name, items in base.methods.items() if name not in never}
            made.methods, made.types = its | made.methods, base.types | made.types
            made.values = base.values | made.values

    def declare(self, start: int, owner: StructType | None = None) -> None:
        """Step over a function without its body."""
        found, n = self.tokens.tokens, self.tokens.specifiers(start)
        while found[n].text not in ("(", ";"):
            n += 1
        made = FunctionItem(found[n - 1].text, start, n, 0, owner=owner, space=owner.space if owner else self.space)
        self.declared.setdefault(self.declared_as(made), []).append(n)
        self.parser.skip_to_semicolon()

    def declared_as(self, item: FunctionItem) -> tuple:
        return item.space, item.owner.short if item.owner else "", item.name

    def copies_own(self, item: FunctionItem) -> bool:
        """True for a constructor that takes another object of its struct."""
        return item.name in {t.text for t in self.tokens.tokens[item.params : self.tokens.matching(item.params)]}

    def defined_outside(self, made: StructType, special: bool) -> None:
        """The methods of a struct whose bodies stand behind it: `double V::sq() const {`. special: of one template."""
        for item in self.outside_bodies.get(made.short, ()):
            given = item.templates[0] if made.arguments and item.templates else []
            if made.arguments:
                words = [t.text for t in self.tokens.tokens[item.arguments : item.arguments + 2 * len(given) + 1]]
                if special or not given or words[1::2] != [name for _, name, _ in given]:
                    why = f"{made.short}::{item.name} is not for all arguments of the template; write it in the struct."
                    raise self.tokens.error(self.tokens.tokens[item.start].place, why)
            for (number, name, _), value in zip(given, made.arguments, strict=False):
                known: dict = made.values if number else made.types
                if known.setdefault(name, value) != value:
                    self.twice(name, self.tokens.tokens[item.start].place)
            template = [] if len(item.templates) < 1 + bool(given) else item.templates[-1]
            made.methods.setdefault(item.name, []).append(replace(item, owner=made, template=template))

    def alias(self, parser: Any) -> str:
        """`typedef T name;` or `using name = T;`, entered into the types in scope; the name."""
        tokens, pointer = self.tokens, False
        if tokens.accept("using"):
            start = tokens.at + tokens.accept("namespace")
            name = tokens.identifier("a type's name")
            if not tokens.accept("="):
                parser.skip_to_semicolon()
                path = tuple(t.text for t in tokens.tokens[start : tokens.at] if t.kind == "name")
                path = (*self.namespaces.get(path[0], path[:1]), *path[1:])
                stop = self.tokens.matching(brace) if (brace := tokens.around[start]) >= 0 else len(tokens.tokens)
                self.used |= {(start, stop, path), (start, stop, (*self.space, *path))}
                return ""
        else:
            name = tokens.take()
        kind = GROUP if parser.accept_group_type() else parser.expect_type()
        if name.text == "typedef":
            pointer = tokens.accept("*") or tokens.accept("&") or (tokens.accept("(") and tokens.accept("*"))
            name = tokens.identifier("a type's name")
        if pointer or not tokens.accept(";"):
            error = parser.error(name.place, NO_POINTER.format(name.text))
            if len(parser.symbols.types) > 1:
                raise error
            self.tokens.unsupported.setdefault(name.text, error)
            parser.skip_to_semicolon()
            return ""
        other = len(parser.symbols.types) == 1 and name.text in (*self.struct_bodies, *self.templates)
        if parser.symbols.types[-1].setdefault(name.text, kind) != kind or (other and str(kind) != name.text):
            self.twice(name.text, name.place)
        return name.text

    def twice(self, name: str, place: ast.Place) -> None:
        """Reject a name that has two meanings, as in two namespaces, where the kernel uses it."""
        self.parser.symbols.scopes[0].pop(name, None)
        self.tokens.unsupported.setdefault(name, self.tokens.error(place, SEVERAL.format(name)))

    def function_item(self, start: int, owner: StructType | None = None) -> FunctionItem | None:
        """The function whose definition begins at a token; None where another item does."""
        found, n, templates = self.tokens.tokens, start, list[list[tuple[int, str, int]]]()
        while found[n].text == "template":
            parameters, n = template_parameters(found, n + 1)
            named = max((k for k, each in enumerate(parameters, 1) if has_name(found, each)), default=0)
            templates.append(parameters[:named])
        made = FunctionItem("", n, 0, 0, owner=owner, templates=templates)
        while found[n].kind != "end":
            text, after = found[n].text, found[n + 1].text
            made.kernel |= text == "__global__"
            made.friend |= text == "friend"
            if (text in SPECIFIERS and after == "(") or text == after == "[":
                n = self.tokens.matching(n + (text != "[")) + 1
                continue
            if text in (";", "}", "=", "{"):
                return None
            at = n - 1
            if text == "operator":
                at, n = n, n + 2 + (after in ("(", "["))
                while found[n].text != "(" and found[n].kind != "end":
                    n += 1
                made.name = "operator" + "".join(t.text for t in found[at + 1 : n])
                made.returns = at + 1 if found[at + 1].kind == "name" else 0
                return self._item(made, at, n)
            if text == "(" and found[at].text == ">" and templates[-1:] == [[]]:  # template <> double f<double>(
                while found[at].text != "<" and at > start:
                    at -= 1
                made.special, at = at, at - 1
            if text == "(" and found[at].kind == "name":
                at -= found[at - 1].text == "~"
                made.name = "".join(t.text for t in found[at : (made.special or n)])
                return self._item(made, at, n)
            n += 1
        return None

    def _item(self, made: FunctionItem, at: int, params: int) -> FunctionItem | None:
        """The function whose name, which may stand behind that of its struct or namespace, begins at a token."""
        found, path = self.tokens.tokens, list[str]()
        while found[at - 1].text == "::" and at > made.start:
            at -= 2
            arguments = at
            while found[arguments].text != "<" and found[at].text == ">" and arguments > made.start:
                arguments -= 1
            made.arguments = arguments if not path and found[at].text == ">" else made.arguments
            at = arguments - (found[at].text == ">")
            path.insert(0, found[at].text)
        if path and (path[-1] in self.struct_bodies or path[-1] in self.templates):
            made.within = path.pop()
        made.params, made.space = params, made.owner.space if made.owner else (*self.space, *path)
        n = self.tokens.matching(params) + 1
        while found[n].text in ("const", "noexcept", "override", "final", "&"):
            n = self.tokens.matching(n + 1) + 1 if found[n].text == "noexcept" and found[n + 1].text == "(" else n + 1
        if found[n].text == "->":
            made.returns = n + 1
            while found[n].text not in ("{", ";") and found[n].kind != "end":
                n = (self.tokens.matching(n) if found[n].text == "(" else n) + 1  # decltype(T{})
        if found[n].text == ":" and (made.owner is not None or made.within):  # members of a constructor
            while found[n].text != "{" or found[n - 1].kind == "name" or found[n - 1].text == ">":
                n = self.tokens.matching(n) if found[n].text in ("(", "{") else n
                n += 1
                if found[n].kind == "end":
                    return None
        if found[n].text != "{":
            return None
        inside = found[params : self.tokens.matching(params)]
        made.body, made.counts = n, sum(t.text == "," for t in inside) + (len(inside) > 1)
        made.template = made.templates[-1] if made.templates and not made.special else []
        return made

    def template_arguments(self, parser: Any) -> list[Any]:
        """`<float, 32>` at the cursor."""
        tokens, made = self.tokens, list[Any]()
        tokens.expect("<")
        while not tokens.accept(">"):
            kind, length = parser.type_length(tokens.at)
            if kind is not None and tokens.peek(length).text in (",", ">"):
                tokens.at += length
                made.append(kind)
            else:
                if parser.is_template(bare := tokens.next.text) and tokens.peek().text in (",", ">"):
                    raise tokens.error(tokens.next.place, BARE.format(bare))
                value = parser.value(ast.PRECEDENCE["<"])
                made.append(folded(value) if isinstance(value, ast.Expr) else value)
            if tokens.next.text != ">":
                tokens.expect(",")
        return made


def _shown(value: Any) -> str:
    return value.text if isinstance(value, ast.Number) else str(getattr(value, "name", value))
