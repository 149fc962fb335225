"""The parser of calls: math functions, intrinsics, groups of threads, functions of the file, structs in braces."""

import re
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from minigrad.adjoint.frontend import intrinsics
from minigrad.adjoint.frontend.intrinsics import INTRINSICS, LEFT_OUT, SHUFFLES, Group
from minigrad.adjoint.frontend.macros import enumerator
from minigrad.adjoint.frontend.structs import StructParser
from minigrad.adjoint.frontend.symbols import IGNORED
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, Place, arity, base_name, result_type
from minigrad.adjoint.language.lexer import Token, way_out
from minigrad.adjoint.language.rewrite import ZERO, constant, typed
from minigrad.adjoint.language.values import (
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
)

CHANGES = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")
CONVERSION = re.compile(r"operator(?=[A-Za-z_:])")  # the name of a method


class CallParser(StructParser):
    """Parses calls and casts that look like calls."""

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
        values: list[Value] = []
        for _ in self.tokens.items("}"):
            values.append(self.ordered(values, self.full))
        return Braces(tuple(values))  # type: ignore[return-value]

    def leave_out(self, name: Token) -> None:
        """Step over the arguments of a call that computes nothing. Rejects those that change something."""
        start = self.tokens.at
        self.skip_arguments()
        given = self.tokens.tokens[start : self.tokens.at]
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

    def conversions(self, value: Value, kind: StructType | None = None) -> list[str]:
        """The methods by which C++ makes a number of an object, `operator double()`, or this struct."""
        methods = value.type.methods if isinstance(value, Struct) and self.functions else {}
        found = {name: items[0] for name, items in methods.items() if items[0].returns and CONVERSION.match(name)}
        kinds = {name: self.functions.kind_of(i, i.returns, self) for name, i in found.items()}
        named = [name for name, own in kinds.items() if (own is kind if kind else isinstance(own, str))]
        return [n for n in named if not self.functions.is_explicit(found[n])] or named

    def conversion(self, value: Struct, place: Place) -> Expr:
        name, *others = self.conversions(value)
        if others:
            raise self.error(place, f"{value.type} can become several types here; call a method of it instead.")
        return self.number(self.method(value, name, [], Token("name", name, place)), place)

    def as_kind(self, value: Value, kind: Kind | None, place: Place) -> Value:
        """The value as one of a type to which C++ converts it of itself."""
        if kind is None or isinstance(value, Pointer | Elements | Braces) or value.type is kind or value.type == kind:
            return value
        if isinstance(kind, str):
            return self.number(value, place) if isinstance(value, Struct) else value
        if isinstance(value, Struct) and value.type.extends(kind):
            return value.seen_as(kind)
        if (name := self.converts_to(value, kind)) and isinstance(value, Struct):
            return self.method(value, name, [], Token("name", name, place))
        return self.construct(kind, [value], Token("name", kind.short, place)) if name else value

    def converts_to(self, value: Value, kind: StructType) -> str:
        """The method by which C++ makes this struct of a value, which for a constructor has its name; or ""."""
        if self.functions is None:
            return ""
        constructed = any(self.functions.converts(i, value, self) for i in kind.methods.get(kind.short, ()))
        return next(iter(self.conversions(value, kind)), kind.short if constructed else "")

    def converts(self, name: str, operands: list[Value]) -> bool:
        """True where an operator is not defined for objects, and takes the numbers that these become."""
        known = self.has_operator(name, operands) or (self.functions and name in self.functions)
        return not known and any(map(self.conversions, operands))

    def constructed(self, kind: Kind, token: Token) -> Value:
        """`float(x)`, `float4{a, b, c, d}` or `Complex(re, im)`."""
        if self.tokens.next.text == "{":
            value = self.braces(kind)
            return typed(self.number(value, token.place), kind) if isinstance(kind, str) else value
        self.tokens.expect("(")
        if isinstance(kind, str):
            none = self.tokens.next.text == ")"
            return self.close(typed(ZERO, kind) if none else self.converted(kind, 0, self.full(), token.place))
        arguments = [self.full() for _ in self.tokens.items(")")]
        return self.constructor(kind, arguments, token)

    def constructor(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        if len(arguments) == 1 and isinstance(arguments[0], Struct) and arguments[0].type is kind:
            return replace(arguments[0], passing=True)
        if kind.short in kind.methods and (self.is_constructed(kind, token) or arguments):
            return self.construct(kind, arguments, token)
        if not arguments:
            made = self.copy(kind.short.lower(), kind, None, token.place)
            for member in made.members.values():
                if isinstance(member, Elements) and member.name in self.symbols.declared:
                    self.symbols.declared[member.name].values = (ZERO,)
            return made
        if (len(arguments) == len(kind.members) and kind.name in VECTORS) or kind.name == "dim3":
            return self.filled(kind, arguments, token.place)
        raise self.error(
            token.place, f"{kind} has no constructor of {len(arguments)} arguments here; write its members."
        )

    def braces(self, kind: Kind) -> Value:
        """`{a, b, c}`: the members in order, the missing ones 0; or what a constructor makes of them."""
        brace = self.tokens.expect("{")
        place = brace.place
        if isinstance(kind, str):
            values = [self.full() for _ in self.tokens.items("}")]
            if len(values) > 1:
                raise self.error(place, f"a {kind} has one value in braces.")
            return values[0] if values else ZERO
        constructed, values = kind.short in kind.methods, []
        while not self.tokens.accept("}"):
            base = None if constructed else kind.base_at(len(values))
            n, inner = len(values), self.tokens.next.text == "{"
            if base and inner:
                value: Any = self.ordered(values, self.braces, base)
            elif inner and n < len(kind.members) and not constructed and kind.members[n].dims:
                value = Braces(tuple(self.ordered(values, self.nested, kind.members[n].type)))
            else:
                own_kind = kind.members[n].type if n < len(kind.members) else "float"
                value = self.ordered(values, *((self.braces, own_kind) if inner else (self.full,)))
            own = value.as_base(base) if base and isinstance(value, Struct) else None
            values += [own.members[m.name] for m in own.type.members] if own and own.type is base else [value]
            if self.tokens.next.text != "}":
                self.tokens.expect(",")
        if (constructed and (values or self.is_constructed(kind, brace))) or [v.type for v in values] == [kind]:
            return self.constructor(kind, values, brace)
        return self.filled(kind, values, place)

    def nested(self, kind: Kind) -> list:
        """The values in braces of an array, with those of its rows in braces within."""
        made: list[Any] = []
        self.tokens.expect("{")
        for _ in self.tokens.items("}"):
            row = isinstance(kind, str) and self.tokens.next.text == "{"
            inner = not row and self.tokens.next.text == "{"
            parse = (self.nested if row else self.braces, kind) if row or inner else (self.full,)
            made.append(self.ordered(made, *parse))
        return made

    def filled(self, kind: StructType, values: list[Value], place: Place) -> Struct:
        if len(values) > len(kind.members):
            raise self.error(place, f"{kind} has {len(kind.members)} members; got {len(values)} values.")
        if any(m.dims for m in kind.members):
            return replace(self.copy(kind.short.lower(), kind, None, place, values), temporary=True)
        members: dict[str, Value] = {}
        for m, value in zip_longest(kind.members, values):
            value = self.initial(kind, m, members) if value is None and m.value else value
            if m.pointer:
                own = Pointer(None) if value is None else self.pointer(value, place)
                members[m.name] = self.pointer_to(m.type, own, place)
            elif isinstance(m.type, StructType):
                value = self.filled(m.type, [], place) if value is None else value
                members[m.name] = self.as_kind(value, m.type, place)
            else:
                members[m.name] = typed(ZERO if value is None else self.number(value, place), m.type)
        return Struct(kind, members, passing=True)

    def set_member(self, member: Value, value: Any, place: Place) -> None:
        """Give a member its first value: an array those in braces, and zeros for the rest."""
        if not isinstance(member, Elements):
            self.store(member, value, place)
            return
        rows = list(value.values if isinstance(value, Braces) else value) if isinstance(value, Braces | list) else None
        if rows is None:
            raise self.error(place, f"write the elements of {member.name} in braces of their own.")
        parts = member.parts(place)
        if len(rows) > len(parts):
            raise self.error(place, f"{member.name} has {len(parts)} elements; got {len(rows)} values.")
        for part, row in zip(parts, [*rows, *[None] * (len(parts) - len(rows))], strict=True):
            missing: Any = [] if isinstance(part, Elements) else self.first_value(member.type, place)
            self.set_member(part, missing if row is None else row, place)

    def initial(self, kind: StructType, m: Member, members: dict[str, Value]) -> Any:
        """The value that the struct's text gives a member, which may read those ahead of it."""
        symbols: Any = self.symbols
        at, self.tokens.at = self.tokens.at, m.value
        outer = symbols.scopes, symbols.types
        symbols.scopes, symbols.types = [symbols.scopes[0], kind.values, {**members}], [symbols.types[0], kind.types]
        try:
            if self.tokens.next.text != "{":
                return self.full()
            return self.nested(m.type) if m.dims else self.braces(m.type)
        finally:
            self.tokens.at, (symbols.scopes, symbols.types) = at, outer

    def first_value(self, kind: Kind, place: Place) -> Value:
        """The value that C++ makes of `{}`."""
        return ZERO if isinstance(kind, str) else self.filled(kind, [], place)

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
        return tuple(w for w in (["", *words] if words[:1] == ["::"] else words) if w != "::")

    def named_cast(self) -> Value:
        tokens = self.tokens
        place = tokens.take().place
        tokens.expect("<")
        kind, words = self.expect_type(), list[str]()
        while tokens.next.text in ("*", "&", *IGNORED):
            words.append(tokens.take().text)
        tokens.expect(">")
        tokens.expect("(")
        return self.converted(kind, words.count("*"), self.close(self.full()), place, "&" in words)

    def close(self, e: Value) -> Value:
        """The expression, with its closing parenthesis stepped over."""
        self.tokens.expect(")")
        return e
