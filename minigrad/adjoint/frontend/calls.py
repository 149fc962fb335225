"""The parser of calls: math functions, intrinsics, groups of threads, functions of the file, structs in braces."""

import re
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from minigrad.adjoint.frontend import intrinsics
from minigrad.adjoint.frontend.intrinsics import INTRINSICS, LEFT_OUT, SHUFFLES, Group
from minigrad.adjoint.frontend.macros import clear_memory, enumerator
from minigrad.adjoint.frontend.structs import StructParser
from minigrad.adjoint.frontend.symbols import IGNORED
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Place, arity, base_name, result_type
from minigrad.adjoint.language.lexer import Token, way_out
from minigrad.adjoint.language.rewrite import ONE, ZERO, constant, typed
from minigrad.adjoint.language.values import (
    PROMOTIONS,
    VECTORS,
    Braces,
    Elements,
    FunctionItem,
    FunctionName,
    Kind,
    Member,
    Pointer,
    Struct,
    StructType,
    Value,
    is_expression,
)

CHANGES = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")
STD = ("array", "vector", "pair", "tuple", "complex", "optional", "make_pair", "make_tuple", "function", "get")
CONVERSION = re.compile(r"operator(?=[A-Za-z_:])")  # the name of a method


class CallParser(StructParser):
    """Parses calls and casts that look like calls."""

    grouped: Any  # methods of the parser of statements
    in_order: Any

    def call(self, name: Token, path: tuple[str, ...] = ()) -> Value:
        """A call of a math function, an intrinsic or one of the file's functions."""
        tokens = self.tokens
        if (error := tokens.rejected(name)) and not (self.functions and name.text in self.functions):
            raise error
        if isinstance(known := None if path else self.symbols.lookup(name.text), FunctionName):
            name, path = name._replace(text=known.name), known.path
        if isinstance(known, FunctionItem | Struct) and self.functions and tokens.accept("("):
            return self.called_value(known, [self.argument() for _ in tokens.items(")")], name)
        if not path and (holder := self.holder(name.text)) is not None and tokens.accept("("):
            return self.method(holder, name.text, [self.argument() for _ in tokens.items(")")], name)
        explicit = self.functions.template_arguments(self) if self.functions and tokens.next.text == "<" else []
        tokens.expect("(")
        if name.text in LEFT_OUT:
            self.leave_out(name)
            return ZERO
        arguments = [self.argument() for _ in tokens.items(")")]
        return self.called(name.text, arguments, name, explicit, path)

    def called_value(self, value: Struct | FunctionItem, arguments: list[Value], token: Token) -> Value:
        """The call of an object, or of a lambda."""
        if isinstance(value, Struct):
            return self.method(value, "operator()", arguments, token)
        assert self.functions is not None
        if not self.functions.fits(value, arguments, self):
            raise self.error(token.place, f"{value.name} does not take these {len(arguments)} arguments.")
        return self.functions.inline(self, value, arguments, token, [])

    def holder(self, name: str) -> Struct | StructType | None:
        """The object, or the type, whose method is being parsed, if it has a method of this name."""
        if self.functions is None or self.symbols.lookup(name) is not None:
            return None
        this, stack = self.symbols.lookup("this"), self.functions.stack
        object_ = this.target if isinstance(this, Pointer) and isinstance(this.target, Struct) else None
        kind = object_.type if object_ else stack[-1].owner if stack else None
        return (object_ or kind) if kind and name in kind.methods and name != kind.short else None

    def argument(self) -> Value:
        if not self.tokens.accept("{"):
            return self.full()
        values, names = list[Value](), list[str]()
        for _ in self.tokens.items("}"):
            if self.tokens.accept("."):
                names.append(self.tokens.identifier("a member's name").text)
                self.tokens.accept("=")
            values.append(self.ordered(values, self.argument))
        if names and len(names) < len(values):
            raise self.error(self.tokens.next.place, "write all values in these braces with .name =, or none.")
        return Braces(tuple(values), tuple(names))

    def leave_out(self, name: Token) -> None:
        """Step over the arguments of a call that computes nothing. Rejects those that change something."""
        start = self.tokens.at
        self.skip_arguments()
        given = self.tokens.tokens[start : self.tokens.at] if name.text != "static_assert" else []  # which never runs
        for before, token, after in zip([name, *given], given, [*given[1:], name], strict=False):
            items = self.functions.items.get(token.text, ()) if self.functions and token.kind == "name" else ()
            changes = any(self.functions.changes_arguments(i) for i in items)
            changes |= before.text in (".", "->") and after.text == "("  # a method, which may change its object
            if changes or token.text in CHANGES or token.text.startswith("atomic"):
                why = f"{name.text} is left out, and {token.text} may change something; write a statement ahead of it."
                raise self.error(token.place, why)

    def skip_arguments(self) -> None:
        depth = 1
        while depth and self.tokens.next.kind != "end":
            depth += {"(": 1, ")": -1}.get(self.tokens.take().text, 0)

    def called(
        self, name: str, arguments: list[Value], token: Token, explicit: list | None = None, path: tuple = ()
    ) -> Value:
        """The value of a call with these arguments."""
        if name.startswith("operator") and self.has_operator(name, arguments):
            return self.method(arguments[0], name, arguments[1:], token)  # type: ignore[arg-type]
        if self.functions and name in self.functions:
            return self.functions.call(self, name, arguments, token, explicit or [], path)
        return self.builtin(name, arguments, token)

    def has_operator(self, name: str, arguments: list[Value]) -> bool:
        """True where an operator is a method of its first operand."""
        first, found = arguments[0], self.functions
        methods = first.type.methods.get(name, ()) if isinstance(first, Struct) and found else ()
        return any(found.fits(i, arguments[1:], self) for i in methods)

    def builtin(self, name: str, arguments: list[Value], token: Token) -> Value:
        """The value of a call of a function of CUDA or C++."""
        if name.startswith("make_") and name[5:] in VECTORS:
            return self.constructor(VECTORS[name[5:]], arguments, token)
        if name.startswith("operator"):
            kinds = " and ".join(str(a.type) for a in arguments)
            why = f"{name[8:]} of {kinds} is not defined in this file; write the members one by one."
            raise self.error(token.place, why)
        if name == "memcpy" and len(arguments) == 3:
            return self.memcpy(arguments, token)
        if name == "memset" and len(arguments) == 3:
            value, size = (self.number(a, token.place) for a in arguments[1:])
            return clear_memory(self, arguments[0], value, size, token)
        if name in INTRINSICS:
            return INTRINSICS[name](self, arguments, token)
        if name in SHUFFLES:
            return intrinsics.shuffle(self, name, arguments, token)
        if name == "atomicAdd":
            why = "the value that atomicAdd returns depends on the order of the threads; use it as a statement alone."
            raise self.error(token.place, why)
        if not base_name(name):
            why = f"{name} has no derivative rule here, and is no __device__ function; {way_out(name)}."
            raise self.tokens.unknown(token.place, why)
        numbers = tuple(self.number(a, token.place) for a in arguments)
        if len(numbers) != arity(name):
            raise self.error(token.place, f"{name} takes {arity(name)} arguments; got {len(numbers)}.")
        return ast.Call(name, numbers, result_type(name, [e.type for e in numbers]), token.place)

    def method(
        self, value: Struct | StructType, name: str, arguments: list[Value], token: Token, explicit: Any = ()
    ) -> Value:
        kind = value if isinstance(value, StructType) else value.type
        if self.functions and name in kind.methods:
            return self.functions.method(self, value, name, arguments, token, explicit)
        raise self.error(token.place, f"{kind} has no method {name} whose body stands in it.")

    def conversions(self, value: Value, kind: Kind | None = None, explicit: bool = False, to: str = "") -> list[str]:
        """The methods by which C++ makes a number of an object, `operator double()`, best this one, or this struct.

        explicit: by a cast. to: * for a pointer.
        """
        methods = value.type.methods if isinstance(value, Struct) and self.functions else {}
        found = {name: items[0] for name, items in methods.items() if items[0].returns and CONVERSION.match(name)}
        kinds: dict[str, Any] = {}
        for name, item in found.items():
            own = self.functions.kind_of(item, item.returns, self)
            if name[-1:] in "*&" and name[-1:] != to:
                continue
            if (own is kind if isinstance(kind, StructType) else isinstance(own, str)) or to:
                kinds[name] = own
        named = [n for n in kinds if explicit or not self.functions.is_explicit(found[n])] or [*kinds]
        exact = [n for n in named if kinds[n] == kind] or [n for n in named if PROMOTIONS.get(kinds[n]) == kind]
        best = exact or named
        return best[:1] if len({kinds[n] for n in best}) == 1 else best

    def converts_to(self, value: Value, kind: StructType, explicit: bool = False) -> str:
        """The method by which C++ makes this struct of a value, which for a constructor has its name; or ""."""
        if kind is VECTORS["dim3"] and (is_expression(value) or value.type is VECTORS["uint3"]):
            return kind.name
        if self.functions is None:
            return ""
        constructed = any(self.functions.converts(i, value, self, explicit) for i in kind.methods.get(kind.short, ()))
        return next(iter(self.conversions(value, kind, explicit)), kind.short if constructed else "")

    def kind_of_both(self, yes: Value, no: Value) -> Kind | None:
        """The type of a choice between an object and another value: the one of which the other can become."""

        def becomes(value: Value, kind: Kind) -> bool:
            if isinstance(kind, str):
                return bool(self.conversions(value))
            return (isinstance(value, Struct) and value.type.extends(kind)) or bool(self.converts_to(value, kind))

        found = [b.type for a, b in ((yes, no), (no, yes)) if becomes(a, b.type)]
        return found[0] if len(found) == 1 else None

    def converts(self, name: str, operands: list[Value]) -> bool:
        """True where an operator is not defined for objects, and takes the numbers that these become."""
        known = self.has_operator(name, operands) or (self.functions and name in self.functions)
        return not known and any(map(self.conversions, operands))

    def constructed(self, kind: Kind, token: Token) -> Value:
        """`float(x)`, `float4{a, b, c, d}` or `Complex(re, im)`."""
        if self.tokens.next.text == "{":
            return self.convert(self.argument(), kind, token.place)
        self.tokens.expect("(")
        arguments = [self.argument() for _ in self.tokens.items(")")]
        if isinstance(kind, StructType):
            return self.constructor(kind, arguments, token)
        if len(arguments) > 1:
            raise self.error(token.place, f"a {kind} is made of one value.")
        return self.cast_to(kind, [], arguments[0], token.place) if arguments else typed(ZERO, kind)

    def constructor(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        vector = (len(arguments) == len(kind.members) and kind.name in VECTORS) or kind.name == "dim3"
        if len(arguments) == 1 and not vector and (kind.short not in kind.methods or arguments[0].type is kind):
            return self.cast_to(kind, [], arguments[0], token.place)
        if self.is_constructed(kind, token) or (arguments and kind.short in kind.methods):
            return self.construct(kind, arguments, token)
        if not arguments:
            made = self.copy(kind.short.lower(), kind, None, token.place)
            for member in made.members.values():
                if isinstance(member, Elements) and member.name in self.symbols.declared:
                    self.symbols.declared[member.name].values = (ZERO,)
            return made
        if vector:
            return self.filled(kind, arguments, token.place)
        raise self.error(
            token.place, f"{kind} has no constructor of {len(arguments)} arguments here; write its members."
        )

    def listed(self, kind: Kind, braces: Braces, place: Place, stored: bool = False) -> Value:
        """`{a, b, c}`: the members in order, the missing ones 0; or what a constructor makes of them."""
        values = list(braces.values)
        if braces.names:
            return self.filled(kind, self.in_order(kind, braces, place), place)  # type: ignore[arg-type]
        if isinstance(kind, str):
            if len(values) > 1:
                raise self.error(place, f"a {kind} has one value in braces.")
            return self.convert(values[0] if values else ZERO, kind, place, stored=stored)
        token = Token("name", kind.short, place)
        if kind.short in kind.methods and (values or self.is_constructed(kind, token)):
            return self.constructor(kind, values, token)
        if len(values) == 1 and isinstance(of := values[0], Struct) and (of.type is kind or of.type.extends(kind)):
            return self.cast_to(kind, [], of, place)
        return self.filled(kind, values, place)

    def filled(self, kind: StructType, values: list[Value], place: Place) -> Struct:
        given: list[Value] = []
        for value in values if kind.bases else self.grouped(kind, (), values):
            base = kind.base_at(len(given))
            if base and (isinstance(value, Braces) or (isinstance(value, Struct) and value.as_base(base).type is base)):
                own = self.convert(value, base, place)
                given += [own.members[m.name] for m in base.members]
            else:
                given.append(value)
        while (
            (base := kind.base_at(len(given))) and base.members and self.is_constructed(base, Token("name", "", place))
        ):
            given += [*self.construct(base, [], Token("name", base.short, place)).members.values()]  # type: ignore[union-attr]
        given += [ONE] * (3 - len(given)) if kind.name == "dim3" else []
        if len(given) > len(kind.members):
            raise self.error(place, f"{kind} has {len(kind.members)} members; got {len(given)} values.")
        if any(m.dims for m in kind.members):
            return replace(self.copy(kind.short.lower(), kind, None, place, given), temporary=True)
        members: dict[str, Value] = {}
        for m, value in zip_longest(kind.members, given):
            value = self.initial(kind, m, members) if value is None and m.value else value
            if m.pointer:
                own = Pointer(None) if value is None else self.pointer(value, place)
                members[m.name] = self.pointer_to(m.type, own, place)
            else:
                members[m.name] = self.convert(Braces(()) if value is None else value, m.type, place)
        return Struct(kind, members, passing=True)

    def initial(self, kind: StructType, m: Member, members: dict[str, Value]) -> Any:
        """The value that the struct's text gives a member, which may read those ahead of it."""
        symbols: Any = self.symbols
        at, self.tokens.at = self.tokens.at, m.value
        outer = symbols.scopes, symbols.types
        symbols.scopes, symbols.types = [symbols.scopes[0], kind.values, {**members}], [symbols.types[0], kind.types]
        try:
            return self.argument()
        finally:
            self.tokens.at, (symbols.scopes, symbols.types) = at, outer

    def static_member(self, kind: Kind, name: Token) -> Value:
        """`Row::width`, or the call `Row::zeros()`; inside of a struct that extends Row also a member of this one."""
        if isinstance(kind, str):
            of = self.tokens.tokens[self.tokens.at - 3].text
            if of not in self.symbols.enums or name.text not in self.symbols.enums[of].values:
                raise self.error(name.place, f"{of}::{name.text} is not known here; write its value.")
            return enumerator(int(self.symbols.enums[of].values[name.text]), kind)
        if name.text in kind.values:
            return kind.values[name.text]
        this = self.symbols.lookup("this")
        object_ = this.target if isinstance(this, Pointer) else None
        own = object_.seen_as(kind) if isinstance(object_, Struct) and object_.type.extends(kind) else None
        if own and name.text in own.members:
            return own.members[name.text]
        if name.text not in kind.methods or not self.tokens.accept("("):
            raise self.error(name.place, f"{kind} has no static {name.text} with a value here.")
        return self.method(own or kind, name.text, [self.argument() for _ in self.tokens.items(")")], name)

    def construct(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        if kind is VECTORS["dim3"]:
            return self.filled(kind, arguments, token.place)
        assert self.functions is not None
        return self.functions.construct(self, kind, arguments, token)

    def is_constructed(self, kind: StructType, token: Token) -> bool:
        """True if a constructor without arguments sets members of the struct, of one that it extends or holds."""
        own = [i for i in kind.methods.get(kind.short, ()) if i.owner is kind]
        if own:
            return any(self.functions and self.functions.constructs(i, self) for i in own)
        parts = (*kind.bases, *(m.type for m in kind.members if not m.pointer))
        return any(isinstance(part, StructType) and self.is_constructed(part, token) for part in parts)

    def group_call(self, name: Token) -> Value | None:
        """A call of cooperative_groups; None where the name is the file's own."""
        tokens = self.tokens
        if self.symbols.lookup(name.text) is not None or (self.functions and name.text in self.functions):
            return None
        if name.text in ("this_thread_block", "this_grid"):
            tokens.expect("(")
            return self.close(Group(None, name.text == "this_grid"))  # type: ignore[arg-type]
        if name.text in ("reduce", *intrinsics.SCANS) and tokens.accept("("):
            return intrinsics.collective(self, [self.full() for _ in tokens.items(")")], name)
        if name.text in intrinsics.UNKNOWN:
            why = "only the running kernel knows the threads of this group; take a tile, where those left out give 0."
            raise self.error(name.place, f"{name.text}: {why}")
        if name.text == "tiled_partition" and tokens.next.text in ("<", "("):
            return self.tile(name)
        if not tokens.accept("<"):
            return None
        self.expect_type()
        tokens.expect(">")
        closing = {"(": ")", "{": "}"}.get(tokens.take().text, ")")
        tokens.expect(closing)
        return intrinsics.Operator(intrinsics.REDUCTIONS[name.text])  # type: ignore[return-value]

    def tile(self, name: Token) -> Value:
        """`cg::tiled_partition<4>(block)`, or (block, 4)."""
        tokens = self.tokens
        static = tokens.accept("<")
        size = self.number(self.value(ast.PRECEDENCE["<"]), name.place) if static else None
        if static:
            tokens.expect(">")
        tokens.expect("(")
        self.full()
        if size is None:
            tokens.expect(",")
            size = self.number(self.full(), name.place)
        tokens.expect(")")
        if (lanes := constant(size)) not in (1, 2, 4, 8, 16, 32):
            raise self.error(name.place, "the number of threads of a tile is not known here; write 4, 8, 16 or 32.")
        return Group(lanes)  # type: ignore[return-value]

    def qualified(self) -> tuple[str, ...]:
        """Step over `std::` and other namespaces; their names."""
        tokens, start = self.tokens, self.tokens.at
        while tokens.next.text == "::" or (tokens.next.kind == "name" and tokens.peek().text == "::"):
            if tokens.next.text == "std" and tokens.peek(2).text == "numeric_limits":
                break
            tokens.take()
        words = [t.text for t in tokens.tokens[start : tokens.at]]
        for error in (tokens.unsupported[w] for w in words if w in tokens.unsupported):
            raise error
        if words == ["std", "::"] and tokens.next.text in STD:
            why = "is of C++'s library, outside the subset; write a struct or an array of numbers"
            raise self.error(tokens.next.place, f"std::{tokens.next.text} {why}.")
        return tuple(w for w in (["", *words] if words[:1] == ["::"] else words) if w != "::")

    def named_cast(self) -> Value:
        tokens = self.tokens
        bits, place = tokens.next.text == "reinterpret_cast", tokens.take().place
        tokens.expect("<")
        kind, words = self.expect_type(), list[str]()
        while tokens.next.text in ("*", "&", "&&", *IGNORED):
            words.append(tokens.take().text)
        tokens.expect(">")
        tokens.expect("(")
        value = self.close(self.full())
        return self.cast_to(kind, words, value, place, memory=bits and bool({"&", "&&"} & {*words}))

    def close(self, e: Value) -> Value:
        """The expression, with its closing parenthesis stepped over."""
        self.tokens.expect(")")
        return e
