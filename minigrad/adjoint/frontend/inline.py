"""Functions of a file written in place of their calls.

A `__device__` function of numbers and whole arrays that returns a number stays a function, and has an adjoint of its
own. Any other, with references, pointers into arrays, structs or template parameters, is parsed again at each call, its
parameters bound to the arguments.
"""

import re
from dataclasses import dataclass
from typing import Any

from minigrad.adjoint.frontend.items import MODIFIERS, FileItems, FunctionItem
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Place
from minigrad.adjoint.language.control_flow import normalize_jumps, structured
from minigrad.adjoint.language.dataflow import inactive_parameters
from minigrad.adjoint.language.lexer import NotDifferentiable, Token
from minigrad.adjoint.language.rewrite import ZERO, flatten
from minigrad.adjoint.language.values import (
    Braces,
    Elements,
    Kind,
    Pointer,
    Struct,
    StructType,
    Value,
    is_expression,
)
from minigrad.adjoint.language.values import leaves as numbers

DEEP = 40  # calls within one another


@dataclass
class Bound:
    """A parameter of a call: its name, type, and the words with it."""

    name: Token
    kind: Kind | None
    stars: int
    reference: bool
    const: bool
    default: int
    array: bool


class Functions(FileItems):
    """Calls of the functions of a file."""

    def call(self, parser: Any, name: str, arguments: list[Value], token: Token, explicit: list) -> Value:
        items = [i for i in self.items[name] if not i.kernel]
        fitting = [i for i in items if self.fits(i, arguments, parser)]
        if not fitting:
            counts = sorted({str(len(self._commas(i))) for i in items})
            what = f"takes {' or '.join(counts)} arguments; got {len(arguments)}"
            raise parser.error(token.place, f"{name} {what}." if items else f"{name} is a kernel, and is called here.")
        item = max(fitting, key=lambda i: self.closeness(i, arguments, parser))
        if item in self.stack or parser.symbols.function == name:
            raise parser.error(token.place, f"{name} calls itself; recursion is outside the subset, write a loop.")
        alone = len(items) == 1 and not explicit and not item.template
        plain = self.as_function(item, parser) if alone else None
        if plain and (call := self.plain_call(plain, arguments, token, parser)) is not None:
            return call
        return self.inline(parser, item, arguments, token, explicit)

    def plain_call(self, plain: ast.Function, arguments: list[Value], token: Token, parser: Any) -> Value | None:
        """The call of a function that has an adjoint of its own; None where an argument is a part of an array."""
        given = []
        for p, a in zip(plain.params, arguments, strict=True):
            if p.pointer:
                whole = (
                    isinstance(a, Elements) and a.axes == 1 and not a.indices and a.type == p.type and a.joint == "_"
                )
                if not whole or a.name not in parser.symbols.parameters:  # type: ignore[union-attr]
                    return None
                given.append(ast.Name(a.name, p.type, token.place))  # type: ignore[union-attr]
            else:
                given.append(parser.number(a, token.place))
        return ast.Call(plain.name, tuple(given), plain.returns, token.place, plain.inactive)

    def as_function(self, item: FunctionItem, parser: Any) -> ast.Function | None:
        """The function as one with an adjoint of its own; None where it has to be written in place of its calls."""
        if item.name not in self.plain:
            self.plain[item.name] = None
            before, at = self.inlined, self.tokens.at
            try:
                self.plain[item.name] = made = self.parse_plain(item, parser)
            except NotDifferentiable:
                made = None
            finally:
                self.tokens.at = at
            if made is not None and self.inlined == before:
                parser.symbols.functions[item.name] = made
            else:
                self.plain[item.name] = None
        return self.plain[item.name]

    def parse_plain(self, item: FunctionItem, parser: Any) -> ast.Function | None:
        own = parser.alike()
        self.tokens.at = item.start
        while self.tokens.next.text in MODIFIERS or self.tokens.next.kind in ("string", "pragma"):
            self.tokens.take()
        kind = own.accept_type()
        if not isinstance(kind, str) or self.tokens.next.text != item.name:
            return None
        self.tokens.take()
        self.stack.append(item)
        try:
            made = own.function(self.tokens.tokens[item.start].place, item.name, kind)
            if made is None or own.symbols.dynamic or any(d.shared for d in made.declared.values()):
                return None
            own.finish(made)
        finally:
            self.stack.pop()
        text = self.tokens.text[self.tokens.tokens[item.start].start : self.tokens.tokens[self.tokens.at - 1].stop]
        if re.search(r"\b(?!std\b)\w+::", text) or any(n in ("[", ".") for p in made.params for n in p.name):
            return None
        made.text = text
        made.inactive = inactive_parameters(made)
        return made

    def _commas(self, item: FunctionItem) -> list[int]:
        """The first tokens of its parameters."""
        found, close = self.tokens.tokens, self._close(item.params)
        if close == item.params + 1 or (found[item.params + 1].text == "void" and close == item.params + 2):
            return []
        starts, depth = [item.params + 1], 0
        for n in range(item.params + 1, close):
            text = found[n].text
            depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
            if text == "," and not depth:
                starts.append(n + 1)
        return starts

    def fits(self, item: FunctionItem, arguments: list[Value], parser: Any) -> bool:
        starts = self._commas(item)
        if not starts or len(arguments) > len(starts):
            return not starts and not arguments
        stops = [*(s - 1 for s in starts[1:]), self._close(item.params)]
        for n, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            texts = [t.text for t in self.tokens.tokens[start:stop]]
            if n >= len(arguments):
                if "=" not in texts:
                    return False
                continue
            if isinstance(arguments[n], Braces):
                continue
            pointer = "*" in texts or "[" in texts
            if isinstance(arguments[n], Pointer | Elements) != pointer and not any(
                t in texts for _, t, _ in item.template
            ):
                return False
            if isinstance(arguments[n], Struct) and not pointer:
                kind = parser.type_length(start)[0]
                if kind is not None and kind is not arguments[n].type:
                    return False
            elif is_expression(arguments[n]) and isinstance(parser.type_length(start)[0], StructType):
                return False
        return True

    def closeness(self, item: FunctionItem, arguments: list[Value], parser: Any) -> int:
        """The number of parameters that have the very type of their arguments."""
        kinds = [parser.type_length(start)[0] for start in self._commas(item)[: len(arguments)]]
        return sum(2 * (k == a.type) for k, a in zip(kinds, arguments, strict=True)) + (not item.template)

    def method(self, parser: Any, value: Struct, name: str, arguments: list[Value], token: Token) -> Value:
        items = [i for i in value.type.methods[name] if self.fits(i, arguments, parser)]
        if not items:
            raise parser.error(token.place, f"{value.type}::{name} does not take these {len(arguments)} arguments.")
        item = max(items, key=lambda i: self.closeness(i, arguments, parser))
        return self.inline(parser, item, arguments, token, [], parser.frozen(value, token.place))

    def construct(self, parser: Any, kind: StructType, arguments: list[Value], token: Token) -> Value:
        items = [i for i in kind.methods[kind.name] if self.fits(i, arguments, parser)]
        if not items:
            raise parser.error(token.place, f"{kind} has no constructor of these {len(arguments)} arguments.")
        made = parser.copy(kind.name.lower(), kind, None, token.place)
        self.inline(parser, max(items, key=lambda i: self.closeness(i, arguments, parser)), arguments, token, [], made)
        return made

    def inline(
        self, parser: Any, item: FunctionItem, arguments: list[Value], token: Token, explicit: list,
        owner: Struct | None = None,
    ) -> Value:  # fmt: skip
        """The statements of the function, appended to the pending ones, and its value."""
        if item in self.stack or len(self.stack) > DEEP:
            raise parser.error(token.place, f"{item.name} calls itself; recursion is outside the subset, write a loop.")
        symbols = parser.symbols
        state = parser.state()
        self.inlined += 1
        self.stack.append(item)
        own = {**owner.members, "this": Pointer(None, target=owner)} if owner else {}
        symbols.scopes = [symbols.scopes[0], own]
        symbols.types = [symbols.types[0], {}]
        parser.inside_call, parser.result, parser.returned = True, None, None
        try:
            self.bind(parser, item, arguments, token, explicit)
            parser.body_end = self._close(item.body)
            if owner is not None and item.name == owner.type.name:
                self.initialize(parser, item, owner)
            value = self.body(parser, item, token)
        finally:
            self.stack.pop()
            parser.restore(state)
        return value

    def bind(self, parser: Any, item: FunctionItem, arguments: list[Value], token: Token, explicit: list) -> None:
        symbols, starts = parser.symbols, self._commas(item)
        types, scope = symbols.types[-1], symbols.scopes[-1]
        for (is_type, name, _), given in zip(item.template, explicit, strict=False):
            if is_type != isinstance(given, str | StructType):
                raise parser.error(token.place, f"the argument {name} of the template {item.name} does not fit.")
            (types if is_type else scope)[name] = given
        for start, a in zip(starts, arguments, strict=False):
            texts = [t.text for t in self.tokens.tokens[start : start + 6]]
            for is_type, name, _ in item.template:
                if is_type and name in texts and name not in types:
                    types[name] = a.type
        for is_type, name, default in item.template:
            if name in types or name in scope:
                continue
            if not default:
                raise parser.error(token.place, f"the argument {name} of the template {item.name} is not known here; "
                                   f"write {item.name}<...>.")  # fmt: skip
            self.tokens.at = default
            if is_type:
                types[name] = parser.expect_type()
            else:
                scope[name] = parser.value(ast.PRECEDENCE["<"])
        bounds = [self.parameter(parser, start) for start in starts]
        pure = not any((b.reference or b.stars or b.array) and not b.const for b in bounds) and item.owner is None
        bound: dict[str, Any] = {}
        for n, b in enumerate(bounds):
            if n < len(arguments):
                value = arguments[n]
            else:
                self.tokens.at = b.default
                value = parser.value()
            if b.name.text:
                bound[b.name.text] = self.bound(parser, item, b, value, token.place, pure)
        scope.update(bound)

    def parameter(self, parser: Any, start: int) -> Bound:
        tokens = self.tokens
        tokens.at = start
        const = False
        while tokens.next.text in ("const", "__restrict__"):
            const |= tokens.take().text == "const"
        if parser.accept_group_type():
            while tokens.next.text in ("&", "const"):
                tokens.take()
            name = tokens.take() if tokens.next.kind == "name" else Token("name", "", tokens.next.place)
            return Bound(name, None, 0, True, True, 0, False)
        void = tokens.accept("void")
        kind = None if void else parser.expect_type()
        const |= any(t.text == "const" for t in tokens.tokens[start : tokens.at])
        stars, reference = 0, False
        grouped = tokens.accept("(")
        while tokens.next.text in ("*", "&", "&&", "__restrict__", "__restrict", "const", "volatile"):
            word = tokens.take().text
            stars += word == "*"
            reference |= word in ("&", "&&")
        if stars > 1:
            raise parser.error(tokens.next.place, "a pointer to a pointer is outside the subset; pass the array.")
        name = tokens.take() if tokens.next.kind == "name" else Token("name", "", tokens.next.place)
        if grouped:
            tokens.expect(")")
        array = False
        while tokens.accept("["):
            array = True
            while not tokens.accept("]"):
                tokens.take()
        return Bound(name, kind, stars, reference, const, tokens.at + 1 if tokens.next.text == "=" else 0, array)

    def bound(self, parser: Any, item: FunctionItem, b: Bound, value: Value, place: Place, pure: bool) -> Any:
        """The argument as the function's parameter."""
        name, stop = b.name.text, self._close(item.body)
        if isinstance(value, Braces):
            if not isinstance(b.kind, StructType):
                raise parser.error(place, f"{item.name} takes no struct here.")
            value = parser.filled(b.kind, list(value.values), place)
        changed = parser.changes(name, item.body, stop)
        if b.stars or b.array:
            if isinstance(value, Elements) and value.axes > 1:
                return parser.frozen(value, place)
            pointer = parser.pointer(value, place)
            if b.kind is not None and pointer.array and str(pointer.type) != str(b.kind):
                raise parser.error(place, f"{item.name} takes a pointer to {b.kind}, and gets one to {pointer.type}.")
            if changed and pointer.array is not None:
                return parser.pointer_variable(name, pointer.type, pointer, place)
            return parser.frozen(pointer, place, name)
        if isinstance(value, Struct):
            target = all(isinstance(e, ast.Name | ast.Index) for e in numbers(value))
            if b.reference and target and not b.const:
                return parser.frozen(value, place)
            simple = all(isinstance(e, ast.Name | ast.Number) for e in numbers(value))
            if pure and simple and (b.const or not self.member_changes(name, item)):
                return value
            return parser.copy(name or "passed", value.type, value, place)
        if not is_expression(value):
            return value
        number = parser.number(value, place)
        kind = b.kind if isinstance(b.kind, str) else number.type
        if b.reference and not b.const and isinstance(number, ast.Name | ast.Index):
            return parser.frozen(number, place)
        if isinstance(number, ast.Number) and not changed and number.type == kind:
            return number
        if pure and isinstance(number, ast.Name) and not changed and number.type == kind:
            return number
        return parser.symbols.fresh(name or "passed", kind, parser.converted_number(kind, number, place), place)

    def member_changes(self, name: str, item: FunctionItem) -> bool:
        """True where the function may change a struct that it got by value."""
        found = self.tokens.tokens
        for n in range(item.body, self._close(item.body)):
            if found[n].text != name or found[n - 1].text in (".", "->"):
                continue
            if found[n - 1].text in ("++", "--", "&"):
                return True
            k = n + 1
            while found[k].text in (".", "["):
                k = k + 2 if found[k].text == "." else self._close(k) + 1
            if found[k].text in ("=", "+=", "-=", "*=", "/=", "++", "--", "%="):
                return True
            if found[n + 1].text in (",", ")") and found[n - 1].text in (",", "("):
                return True  # passed on, perhaps by reference
        return False

    def initialize(self, parser: Any, item: FunctionItem, owner: Struct) -> None:
        """`: re(r), im(i)` of a constructor."""
        tokens = self.tokens
        tokens.at = self._close(item.params) + 1
        if not tokens.accept(":"):
            return
        while tokens.next.text != "{":
            name = tokens.identifier("a member's name")
            tokens.take()
            place = tokens.next.place
            values = [parser.full() for _ in tokens.items(")" if tokens.tokens[tokens.at - 1].text == "(" else "}")]
            value = values[0] if values else ZERO
            parser.store(owner.members[name.text], value, place)
            tokens.accept(",")

    def body(self, parser: Any, item: FunctionItem, token: Token) -> Value:
        tokens, symbols = self.tokens, parser.symbols
        tokens.at = item.start
        while tokens.next.text in MODIFIERS or tokens.next.kind in ("string", "pragma"):
            tokens.take()
        constructor = item.owner is not None and item.name == item.owner.name
        kind = None if constructor or tokens.accept("auto") else parser.accept_type()
        stop = self._close(item.body)
        jumps = [n for n in range(item.body, stop) if tokens.tokens[n].text == "return"]
        single = len(jumps) == 1 and self._last(jumps[0], stop)
        if jumps and not single and kind is not None:
            place = token.place
            name = f"{re.sub(r'[^A-Za-z0-9_]', '', item.name)}_value"
            parser.result = (
                parser.copy(name, kind, None, place) if isinstance(kind, StructType)
                else symbols.fresh(name, kind, ZERO, place)
            )  # fmt: skip
        parser.returns = "void" if kind is None else kind
        tokens.at = item.body
        symbols.bare += 1
        result = parser.result
        body = parser.block()
        symbols.bare -= 1
        if any(isinstance(s, ast.Jump) for s in flatten(body)):
            made = ast.Function("", "void", (), body, token.place, "", symbols.declared)
            normalize_jumps(made, tokens.words)
            body = structured(made.body, ("return",))
        symbols.pending += body
        if single and kind is not None and parser.returned is not None:
            return self.value_of(parser, kind, parser.returned, token.place)
        return ZERO if result is None else result

    def value_of(self, parser: Any, kind: Kind, value: Value, place: Place) -> Value:
        if isinstance(kind, str) and is_expression(value):
            number = parser.number(value, place)
            if isinstance(number, ast.Number) and number.type == kind:
                return number
            name = self.stack[-1].name if self.stack[-1].name.isidentifier() else "value"
            return parser.symbols.fresh(f"{name}_value", kind, parser.converted_number(kind, number, place), place)
        if isinstance(value, Struct):
            return parser.copy("result", value.type, value, place)
        return value

    def _last(self, at: int, stop: int) -> bool:
        """True where the statement that begins at a token is the last of the body, in no branch or loop."""
        found, depth = self.tokens.tokens, 0
        if found[at - 1].text not in (";", "{", "}") or any(t.text == ":" for t in found[at - 1 : at]):
            return False
        for n in range(at, stop):
            depth += (found[n].text in ("{", "(")) - (found[n].text in ("}", ")"))
            if depth < 0:
                return False
        while found[at].text != ";":
            at += 1
        return at + 1 == stop
