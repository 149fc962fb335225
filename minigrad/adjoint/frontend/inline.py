"""Functions of a file written in place of their calls.

A `__device__` function of numbers and whole arrays that returns a number stays a function, and has an adjoint of its
own. Any other, with references, pointers into arrays, structs or template parameters, is parsed again at each call, its
parameters bound to the arguments.
"""

import re
from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import Any

from minigrad.adjoint.frontend.arguments import BY_USER, ArgumentBinder, storage
from minigrad.adjoint.frontend.intrinsics import INTRINSICS
from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Place, base_name
from minigrad.adjoint.language.control_flow import normalize_jumps, structured
from minigrad.adjoint.language.lexer import MODIFIERS, NotDifferentiable, Token
from minigrad.adjoint.language.rewrite import ZERO, flatten
from minigrad.adjoint.language.values import (
    VECTORS,
    Braces,
    Elements,
    FunctionItem,
    Kind,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    alike,
    as_temporary,
    is_expression,
)
from minigrad.adjoint.language.values import leaves as numbers

NO_BASE = "a constructor sets the members of its own struct alone; write them out."
ITSELF = "{} calls itself; recursion is outside the subset, write a loop."
DEEP = 40  # calls within one another


class NotPlain(Exception):
    """A function calls one that has to be written in place of its call, and so has no adjoint of its own."""


class Functions(ArgumentBinder):
    """Calls of the functions of a file."""

    def call(
        self, parser: Any, name: str, arguments: list[Value], token: Token, explicit: list, path: tuple[str, ...] = ()
    ) -> Value:
        every = self.items[name]
        items = [
            i for i in self.visible(every, path, arguments, token) if not i.special and (i.template or not explicit)
        ]
        known = name in INTRINSICS or base_name(name)
        if known and all(map(is_expression, arguments)):  # CUDA's needs no conversion to an object
            items = [i for i in items if self.fits(i, arguments, parser)]
            items = [i for i in items if BY_USER not in self.ranks(i, arguments, parser)]
        item = self.chosen(name, items, arguments, token, parser)
        if item is None and (known or name.removeprefix("make_") in VECTORS):
            return parser.builtin(name, arguments, token)
        any_number = [i for i in items if "..." in self.tokens.between(i.params, i.body)]
        if any_number and item in (None, *any_number):
            why = f"{name} takes any number of arguments; write a function for each number of them."
            raise parser.error(token.place, why)
        if not items and (special := self.special(parser, every, tuple(explicit))):
            return self.inline(parser, special, arguments, token, [])
        if item is None:
            counts = sorted({str(len(self.parameters(i.params))) for i in items})
            what = f"takes {' or '.join(counts)} arguments; got {len(arguments)}"
            what = "takes arguments of other types" if str(len(arguments)) in counts else what
            raise parser.error(token.place, f"{name} {what if items else 'is no template of this file; write it'}.")
        if item in self.stack and not item.template:
            raise parser.error(token.place, ITSELF.format(name))
        # The call of a function that has the name of one of CUDA's would have that one's rule.
        whole = len(every) == 1 and item.counts == len(arguments)  # without a default
        alone = whole and not (explicit or item.template or item.owner or base_name(name))
        plain = self.as_function(item, parser) if alone else None
        if plain and (call := self.plain_call(plain, arguments, token, parser)) is not None:
            return call
        return self.inline(parser, item, arguments, token, explicit)

    def plain_call(self, plain: ast.Function, arguments: list[Value], token: Token, parser: Any) -> Value | None:
        """The call of a function that has an adjoint of its own; None where an argument is a part of an array."""
        given, known = [], parser.symbols.parameters.keys() - parser.symbols.null
        for p, a in zip(plain.params, arguments, strict=True):
            if p.pointer:
                whole = isinstance(a, Elements) and (a.axes, a.indices, a.type, a.joint) == (1, (), p.type, "_")
                if not whole or a.name not in known:  # type: ignore[union-attr]
                    return None
                given.append(ast.Name(a.name, p.type, token.place))  # type: ignore[union-attr]
            else:
                given.append(parser.convert(a, p.type, token.place, stored=True))
        return ast.Call(plain.name, tuple(given), plain.returns, token.place, plain.inactive)

    def as_function(self, item: FunctionItem, parser: Any) -> ast.Function | None:
        """The function as one with an adjoint of its own; None where it has to be written in place of its calls."""
        if item.name not in self.plain:
            self.plain[item.name] = None
            outer, at, self.tried = self.tried, self.tokens.at, True
            try:
                self.plain[item.name] = made = self.parse_plain(item, parser)
                if made is not None:
                    parser.symbols.functions[item.name] = made
            except (NotDifferentiable, NotPlain):
                pass
            finally:
                self.tokens.at, self.tried = at, outer
        return self.plain[item.name]

    def parse_plain(self, item: FunctionItem, parser: Any) -> ast.Function | None:
        own = parser.alike()
        self.tokens.at = self.tokens.specifiers(item.start)
        kind = own.accept_type()
        if not isinstance(kind, str) or self.tokens.next.text != item.name:
            return None
        self.tokens.take()
        self.stack.append(item)
        self.running.append(())
        try:
            made = own.function(self.tokens.tokens[item.start].place, item.name, kind)
            if made is None or own.symbols.dynamic or any(d.shared for d in made.declared.values()):
                return None
            own.finish(made)
            if dataflow.read(made.body) & {*ast.CLOCKS} or dataflow.has_barrier(made.body):
                return None
        finally:
            self.stack.pop()
            self.running.pop()
        text = self.tokens.since(item.start)
        words = set(re.findall(r"\w+", text))  # a macro with several meanings has the last one in the adjoint's file
        members = [p.name for p in made.params] != [p.name for p in made.own]  # of structs, which may have none
        if members or re.search(r"\b(?!std\b)\w+::|\benum\s+\w", text) or (self.tokens.redefined | self.shared) & words:
            return None
        made.text = text
        made.inactive = dataflow.inactive_parameters(made)
        return made

    def method(
        self, parser: Any, of: Struct | StructType, name: str, arguments: list[Value], token: Token, explicit: Any = ()
    ) -> Value:
        """The call of a method of a value, or of a static one of a type."""
        kind = of if isinstance(of, StructType) else of.type
        if (item := self.chosen(f"{kind}::{name}", kind.methods[name], arguments, token, parser)) is None:
            raise parser.error(token.place, f"{kind}::{name} does not take these {len(arguments)} arguments.")
        owner = None if isinstance(of, StructType) else parser.frozen(of, token.place)
        if owner is not None and kind.extends(item.owner):
            owner = owner.seen_as(item.owner)
        return self.inline(parser, item, arguments, token, list(explicit), owner)

    def special(self, parser: Any, items: list[FunctionItem], given: tuple) -> FunctionItem | None:
        """The function that stands for a template with these arguments: `template <> double f<double>(double v)`."""
        at = self.tokens.at
        for other in (i for i in items if i.special):
            self.tokens.at = other.special
            same, self.tokens.at = alike(tuple(self.template_arguments(parser)), given), at
            if same:
                return other
        return None

    def construct(
        self, parser: Any, kind: StructType, arguments: list[Value], token: Token, part: Struct | None = None
    ) -> Value:
        """A new struct by its constructor. part: one that a struct extends, whose own constructor has made it."""
        item = self.chosen(kind.short, kind.methods.get(kind.short, []), arguments, token, parser)
        if item is None and arguments:
            raise parser.error(token.place, f"{kind} has no constructor of these {len(arguments)} arguments.")
        made = part or parser.copy(kind.short.lower(), kind, None, token.place, bare=True)
        if item is not None:
            self.inline(parser, item, arguments, token, [], made.as_base(item.owner))
        if item is None or item.owner is not kind:  # C++ writes it, or has it from a base
            self.set_parts(parser, made, {}, token, item.owner if item else None)
        arrays = any(isinstance(m, Elements) for m in made.members.values())
        return as_temporary(replace(made, temporary=True) if arrays else made)

    def inline(
        self, parser: Any, item: FunctionItem, arguments: list[Value], token: Token, explicit: list,
        owner: Struct | None = None,
    ) -> Value:  # fmt: skip
        """The statements of the function, appended to the pending ones, and its value."""
        symbols, state = parser.symbols, parser.state()
        if self.tried:
            raise NotPlain
        self.stack.append(item)
        self.outside.append(len(symbols.declared))
        own = {**owner.members, "this": Pointer(None, target=owner)} if owner else {}
        inside = item.owner or StructType("", ())
        scopes, types = item.scopes or ([symbols.scopes[0]], [symbols.types[0]])
        symbols.scopes, symbols.types = [*scopes, {**inside.values, **own}], [*types, {**inside.types}]
        parser.inside_call, parser.result, parser.returned = True, None, None
        try:
            given = self.bind_template(parser, item, arguments, token, explicit)
            running = list(zip(self.stack[:-1], self.running, strict=True))
            self.running.append(given)
            others = [i for i in self.items.get(item.name, ()) if item.template and i.space == item.space]
            if special := self.special(parser, others, given):
                return self.inline(parser, special, arguments, token, [], owner)
            if len(self.stack) > DEEP or any(i is item and alike(own, given) for i, own in running):
                raise parser.error(token.place, ITSELF.format(item.name))
            self.bind(parser, item, arguments, token)
            dataflow.lengthen(self.tokens, item.body, token.place)
            parser.body_end = self.tokens.matching(item.body)
            if owner is not None and item.name == owner.type.short:
                self.initialize(parser, item, owner)
            return self.body(parser, item, token)
        finally:
            self.stack.pop()
            del self.running[len(self.stack) :]
            self.outside.pop()
            parser.restore(state)

    def closure(self, parser: Any, name: Token) -> FunctionItem:
        """The lambda at the cursor: a function that knows the variables around it."""
        tokens, start = self.tokens, self.tokens.at
        params, found = tokens.matching(start) + 1, tokens.tokens
        while found[params].text in MODIFIERS:
            params += 1
        body, returns = self.tokens.matching(params) + 1 if found[params].text == "(" else params, 0
        while found[body].text not in ("{", ";") and found[body].kind != "end":
            returns = body + 1 if found[body].text == "->" else returns
            body += 1
        tokens.at = self.tokens.matching(body) + 1
        *outer, last = parser.symbols.scopes
        scopes = [*outer, dict(last)], [*parser.symbols.types]
        if found[body].text != "{":
            raise parser.error(name.place, f"write the lambda {name.text} as [&](double v) {{ ... }}.")
        changes = [t for t in found[params:body] if t.text == "mutable"]
        own = {t.text for last, t in pairwise(found[params:body]) if last.kind == "name" or last.text in ("&", "*")}
        named = [t for t in found[body : tokens.at] if t.kind != "name" or t.text not in own]  # but its parameters
        for token in self.captured_by_value(found[start + 1 : tokens.matching(start)], named, parser):
            if changes:
                why = f"{name.text} changes its own copies; pass them as arguments by reference, and leave mutable out."
                raise parser.error(changes[0].place, why)
            scopes[0][-1][token.text] = self.captured(parser, token)
        space = self.stack[-1].space if self.stack else self.space
        return FunctionItem(name.text, start, params, body, scopes=scopes, returns=returns, space=space)

    def captured_by_value(self, captures: list[Token], body: list[Token], parser: Any) -> list[Token]:
        """The variables around a lambda of which it has copies: a token of each."""
        for n, token in enumerate(captures):
            if token.kind != "name" and token.text not in ("&", ",") and (n or token.text != "="):
                why = "this capture is outside the subset; copy its value to a const variable first, and capture that."
                raise parser.error(token.place, why)
        by_reference = {t.text for before, t in pairwise(captures) if before.text == "&"}
        named = body if captures and captures[0].text == "=" else captures
        members, this = dict[str, Value](), parser.symbols.lookup("this")
        if isinstance(this, Pointer) and isinstance(this.target, Struct):
            members = this.target.members  # of which the lambda has a pointer
        found = dict[str, Token]()
        for before, token in zip([None, *named], named, strict=False):
            local = any(token.text in scope for scope in parser.symbols.scopes[1:])
            if not local or token.kind != "name" or (before and before.text in (".", "->", "::")):
                continue
            itself = token.text in members and members[token.text] is parser.symbols.lookup(token.text)
            if token.text not in by_reference and token.text != "this" and not itself:
                found.setdefault(token.text, token)
        return list(found.values())

    def captured(self, parser: Any, token: Token) -> Any:
        """A variable as it is now; memory that a block shares, and what does not change, as themselves."""
        symbols, name = parser.symbols, token.text
        symbol, value = symbols.lookup(name), symbols.variable(token)
        shared = any(n in symbols.declared and symbols.declared[n].shared for n in storage(value))
        if isinstance(symbol, ast.Declare) and (symbol.const or symbol.shared):
            return symbol
        if isinstance(value, Elements) and (shared or value.const or value.name in symbols.parameters):
            return symbol
        if isinstance(value, PointerVariable) and (value.array or value.target) is not None:
            return parser.frozen(value.value, token.place, name)
        if isinstance(value, Elements | PointerVariable):
            why = f"the lambda has a copy of {name}; give it {name} as an argument, or capture a const variable."
            raise parser.error(token.place, why)
        if (isinstance(value, Struct) or is_expression(value)) and shared:
            raise parser.error(token.place, f"{name} lies in shared memory; give it to the lambda as an argument.")
        if isinstance(value, Struct):
            return parser.copy(name, value.type, value, token.place)
        if isinstance(value, ast.Name | ast.Index):
            return symbols.fresh(name, value.type, value, token.place)
        return symbol

    def initialize(self, parser: Any, item: FunctionItem, owner: Struct) -> None:
        """`: re(r), im(i)` of a constructor."""
        tokens = self.tokens
        tokens.at = self.tokens.matching(item.params) + 1
        while tokens.next.text not in (":", "{"):  # noexcept
            tokens.take()
        places: dict[Any, int] = {}  # the brackets behind names of members and bases
        if tokens.accept(":"):
            while tokens.next.text != "{":
                name, kind = tokens.next, parser.accept_type()
                name = tokens.identifier("a member's name") if kind is None else name
                if kind is None and name.text not in owner.members:
                    raise parser.error(name.place, NO_BASE)
                places[kind or name.text] = tokens.at
                tokens.at = self.tokens.matching(tokens.at) + 1
                tokens.accept(",")
        if owner.type in places:  # another constructor
            self.construct_part(parser, owner, places[owner.type])
        else:
            self.set_parts(parser, owner, places, tokens.tokens[item.params - 1])

    def construct_part(self, parser: Any, part: Struct, at: int) -> None:
        """Set a base, or all of an object, by the values in brackets that open at a token."""
        values, kind, token = self.values_at(parser, at), part.type, self.tokens.tokens[at - 1]
        copied = len(values) == 1 and isinstance(values[0], Struct) and values[0].type is kind
        if kind.short in kind.methods and not copied:
            self.construct(parser, kind, values, token, part)
        else:
            parser.store(part, values[0] if copied else Braces(tuple(values)), token.place)

    def values_at(self, parser: Any, at: int) -> list[Value]:
        """The values in brackets that open at a token."""
        self.tokens.at = at
        close = ")" if self.tokens.take().text == "(" else "}"
        return [parser.argument() for _ in self.tokens.items(close)]

    def set_parts(
        self, parser: Any, owner: Struct, places: dict[Any, int], token: Token, made: StructType | None = None
    ) -> None:
        """Set bases and members ahead of a constructor's body, in the order of C++. made: a base that has been set."""
        kind, tokens = owner.type, self.tokens
        for base in (b for b in kind.bases if b is not made):
            if base in places:
                self.construct_part(parser, owner.seen_as(base), places[base])
            elif parser.is_constructed(base, token):
                self.construct(parser, base, [], token, owner.seen_as(base))
            else:
                self.set_parts(parser, owner.seen_as(base), {}, token)
        for m in kind.members[sum(len(b.members) for b in kind.bases) :]:
            member, value = owner.members[m.name], None
            if m.name not in places:
                value = parser.initial(kind, m, owner.members) if m.value else parser.unset(m, False, token.place)
            else:
                tokens.at = at = places[m.name]
                if isinstance(member, Struct):
                    value = parser.constructed(m.type, tokens.tokens[at - 1])
                else:
                    value = Braces(tuple(self.values_at(parser, at)))
            if value is not None:
                parser.set_member(member, value, token.place)
            elif isinstance(member, Struct):
                self.set_parts(parser, member, {}, token)

    def body(self, parser: Any, item: FunctionItem, token: Token) -> Value:
        tokens, symbols = self.tokens, parser.symbols
        tokens.at = self.tokens.specifiers(item.start)
        constructor = item.owner is not None and item.name == item.owner.short
        deduced = not constructor and not item.returns and (bool(item.scopes) or tokens.accept("auto"))
        tokens.at = item.returns or tokens.at
        kind = None if constructor or deduced else parser.accept_type()
        reference = tokens.next.text == "&"
        stop = self.tokens.matching(item.body)
        jumps = tokens.returns(item.body, stop)
        single = len(jumps) == 1 and self.tokens.is_last(jumps[0], stop)
        if jumps and not single and kind is not None:
            if reference:
                raise parser.error(token.place, f"{item.name} returns one of several references; return it at the end.")
            name = f"{re.sub(r'[^A-Za-z0-9_]', '', item.name)}_value"
            parser.result = (
                parser.copy(name, kind, None, token.place) if isinstance(kind, StructType)
                else symbols.fresh(name, kind, ZERO, token.place)
            )  # fmt: skip
        gives = [n for n in jumps if tokens.tokens[n + 1].text != ";"]
        if deduced and gives and not single:
            raise parser.error(token.place, f"{item.name} has several returns; write the type that it returns.")
        parser.returns = "auto" if deduced and gives else "void" if kind is None else kind
        tokens.at = item.body
        symbols.bare, result = symbols.bare + 1, parser.result
        body = parser.block(bool(jumps) and not single)
        symbols.bare -= 1
        if any(isinstance(s, ast.Jump) for s in flatten(body)):
            made = ast.Function("", "void", (), body, token.place, "", symbols.declared)
            normalize_jumps(made, tokens.words)
            body = structured(made.body, ("return",))
        symbols.pending += body
        if single and parser.returned is not None:
            if reference:
                return parser.frozen(parser.convert(parser.returned, kind, token.place), token.place)
            return self.value_of(parser, kind, parser.returned, token.place)
        return ZERO if result is None else as_temporary(result)

    def value_of(self, parser: Any, kind: Kind | None, value: Value, place: Place) -> Value:
        if isinstance(value, Pointer | Elements) and kind != "bool":
            return parser.frozen(parser.pointer_to(kind, value, place) if isinstance(value, Pointer) else value, place)
        value = parser.convert(value, kind, place, stored=True)
        if isinstance(value, ast.Number) and kind in (None, value.type):
            return value
        if is_expression(value):
            name = self.stack[-1].name if self.stack[-1].name.isidentifier() else "value"
            kind = kind or parser.symbols.type_of(value)
            return as_temporary(parser.symbols.fresh(f"{name}_value", kind, value, place))
        if isinstance(value, Struct):
            arrays = {m.name for m in value.members.values() if isinstance(m, Elements)}
            before = chain(islice(parser.symbols.declared, self.outside[-1]), parser.symbols.parameters)
            if arrays and arrays.union(*(e.names for e in numbers(value))).isdisjoint(before):  # of the function alone
                return replace(value, temporary=True)
            return as_temporary(parser.copy("result", value.type, value, place))
        return value
