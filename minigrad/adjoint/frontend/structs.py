"""Structs and vectors: values made of braces and constructors, copied and stored member by member."""

from collections.abc import Callable

from minigrad.adjoint.frontend.types import TypeParser
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import (
    Expr,
    Place,
    Stmt,
    is_float,
)
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO, plus, times
from minigrad.adjoint.language.values import (
    VECTORS,
    Elements,
    Kind,
    Pointer,
    Struct,
    StructType,
    Value,
    is_expression,
)
from minigrad.adjoint.language.values import leaves as numbers


class StructParser(TypeParser):
    """Parses values of structs, and conversions."""

    def converted(self, kind: Kind, stars: int, value: Value, place: Place) -> Value:
        if isinstance(value, Struct) and value.type is kind and not stars:
            return value
        if stars:
            pointer = self.pointer(value, place)
            if stars == 1 and isinstance(pointer.target, Struct) and isinstance(kind, str):
                members = list(pointer.target.members.values())
                if all(is_expression(m) and m.type == kind for m in members):
                    return Pointer(MembersView(tuple(members), kind, place, self))
            if stars == 1 and (pointer.array is None or pointer.type == kind or str(pointer.type) == str(kind)):
                return pointer
            if stars == 1 and isinstance(kind, str) and pointer.array and self.typed(kind, pointer):
                return self.pointer(self.symbols.array(self.symbols.declared[pointer.array.name]), place)
            if stars == 1 and isinstance(kind, StructType) and pointer.array:
                return self.viewed(kind, pointer, place)
            raise self.error(
                place, f"a pointer to {pointer.type} is cast to {kind}{'*' * stars}, another type of element."
            )
        if isinstance(kind, StructType):
            raise self.error(place, f"a conversion to {kind} is outside the subset; write its members.")
        number = self.number(value, place)
        return ast.Cast(kind, number)

    def typed(self, kind: str, pointer: Pointer) -> bool:
        """True for the whole shared memory of a launch, declared as chars and used as this type alone."""
        name = pointer.array.name if pointer.array else ""
        found, here = self.tokens.tokens, self.tokens.at
        uses = [n for n, t in enumerate(found) if t.text == name]
        declared = [n for n in uses if any(t.text == "__shared__" for t in found[max(n - 3, 0) : n])]
        first = max((n for n in declared if n < here), default=here)
        last = min((n for n in declared if n > here), default=len(found))
        made = self.symbols.declared.get(name)
        chars = made is not None and made.type in ("signed char", "unsigned char")
        if (
            not chars
            or name not in self.symbols.dynamic
            or pointer.offset != ZERO
            or sum(first <= n < last for n in uses) != 2
        ):
            return False
        made.type = kind  # type: ignore[union-attr]
        return True

    def viewed(self, kind: StructType, pointer: Pointer, place: Place) -> Pointer:
        """`reinterpret_cast<float4*>(x)`: elements of x, several at a time."""
        array = pointer.array
        kinds = {m.type for m in kind.members}
        if kinds != {pointer.type} or any(m.dims for m in kind.members) or array is None:
            raise self.error(place, f"a pointer to {pointer.type} is cast to {kind}*, another type of element.")
        count = ast.Number(str(len(kind.members)), "int")
        return Pointer(VectorView(array.name, kind, 1, array.joint, (), array.const, base=pointer, count=count))

    def constructed(self, kind: Kind, token: Token) -> Value:
        """`float(x)`, `float4{a, b, c, d}` or `Complex(re, im)`."""
        if self.tokens.next.text == "{":
            return self.braces(kind)
        self.tokens.expect("(")
        if isinstance(kind, str):
            return self.close(self.converted(kind, 0, self.full(), token.place))
        arguments = [self.full() for _ in self.tokens.items(")")]
        return self.constructor(kind, arguments, token)

    def constructor(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        if len(arguments) == 1 and isinstance(arguments[0], Struct) and arguments[0].type is kind:
            return arguments[0]
        if kind.name in kind.methods:
            return self.construct(kind, arguments, token)
        if (len(arguments) == len(kind.members) and kind.name in VECTORS) or kind.name == "dim3":
            return self.filled(kind, arguments, token.place)
        raise self.error(
            token.place, f"{kind} has no constructor of {len(arguments)} arguments here; write its members."
        )

    def braces(self, kind: Kind) -> Value:
        """`{a, b, c}`: the members in order, the missing ones 0."""
        place = self.tokens.expect("{").place
        if isinstance(kind, str):
            values = [self.full() for _ in self.tokens.items("}")]
            return values[0] if values else ZERO
        values = []
        for n in self.tokens.items("}"):
            member = kind.members[n].type if n < len(kind.members) else "float"
            values.append(self.braces(member) if self.tokens.next.text == "{" else self.full())
        return self.filled(kind, values, place)

    def filled(self, kind: StructType, values: list[Value], place: Place) -> Struct:
        if len(values) > len(kind.members) or any(m.dims for m in kind.members):
            raise self.error(place, f"{kind} has {len(kind.members)} members; set them one by one.")
        members: dict[str, Value] = {}
        for m, value in zip(kind.members, [*values, *[None] * (len(kind.members) - len(values))], strict=True):
            if isinstance(m.type, StructType):
                members[m.name] = self.filled(m.type, [], place) if value is None else value
            else:
                members[m.name] = self.as_type(m.type, ZERO if value is None else self.number(value, place))
        return Struct(kind, members)

    def as_type(self, kind: str, e: Expr) -> Expr:
        """The conversion of an assignment, written where it loses digits or a literal stands for it."""
        if e.type == kind or (is_float(kind) and isinstance(e, ast.Number) and not is_float(e.type)):
            return e
        narrower = is_float(e.type) and kind != e.type and not (kind == "double" and e.type == "float")
        return ast.Cast(kind, e) if narrower or (not is_float(kind) and e.type != kind) or kind == "double" else e

    def copy(self, name: str, kind: StructType, value: Struct | None, place: Place) -> Struct:
        """A new variable for each member."""
        members: dict[str, Value] = {}
        for m in kind.members:
            own = value.members[m.name] if value else None
            if isinstance(m.type, StructType) and not m.dims:
                members[m.name] = self.copy(f"{name}_{m.name}", m.type, own, place)  # type: ignore[arg-type]
            elif m.dims:
                members[m.name] = self.copy_array(f"{name}_{m.name}", m, own, place)
            else:
                given = ZERO if own is None else self.as_type(str(m.type), self.number(own, place))
                members[m.name] = self.symbols.fresh(f"{name}_{m.name}", str(m.type), given, place)
        return Struct(kind, members)

    def copy_array(self, name: str, m: "object", own: Value | None, place: Place) -> Elements:
        raise NotImplementedError  # the parser of statements has it

    def stores(self, target: Struct, value: Struct, place: Place) -> list[Stmt]:
        """The assignments of members; by copies where the value reads what they change."""
        made: list[Stmt] = []
        changed = {n for t in numbers(target) for n in t.names}
        if changed & {n for e in numbers(value) for n in e.names}:
            outer, self.symbols.pending = self.symbols.pending, made
            value = self.copy("copied", value.type, value, place)
            self.symbols.pending = outer
        return [*made, *self.member_stores(target, value, place)]

    def member_stores(self, target: Struct, value: Struct, place: Place) -> list[Stmt]:
        made: list[Stmt] = []
        for name, t in target.members.items():
            v = value.members[name]
            if isinstance(t, Struct) and isinstance(v, Struct):
                made += self.member_stores(t, v, place)
            elif isinstance(t, ast.Name | ast.Index) and is_expression(v):
                made.append(ast.Assign(t, "=", self.as_type(t.type, v), place))  # type: ignore[arg-type]
            else:
                raise self.error(place, f"the member {name} is an array; copy it element by element.")
        return made

    def zipped(self, a: Struct, b: Struct, join: Callable[[Expr, Expr], Expr]) -> Struct:
        def of(x: Value, y: Value) -> Value:
            if isinstance(x, Struct) and isinstance(y, Struct):
                return self.zipped(x, y, join)
            return join(x, y)  # type: ignore[arg-type]

        return Struct(a.type, {name: of(a.members[name], b.members[name]) for name in a.members})


class VectorView(Elements):
    """An array seen as structs of equal members: element i has the elements count * i, ... of the array."""

    def __init__(self, *args: object, base: Pointer, count: Expr):
        super().__init__(*args)  # type: ignore[arg-type]
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "count", count)

    def at(self, index: Expr, place: Place) -> Value:

        base, kind = self.base, self.type  # type: ignore[attr-defined]
        first = plus(base.offset, times(self.count, index))  # type: ignore[attr-defined]
        members = {
            m.name: base.array.at(plus(first, ast.Number(str(n), "int")), place)
            for n, m in enumerate(kind.members)  # type: ignore[union-attr]
        }
        return Struct(kind, members)  # type: ignore[arg-type]


class MembersView(Elements):
    """The members of a vector seen as an array."""

    def __init__(self, members: tuple, kind: str, place: Place, parser: StructParser):
        super().__init__("members", kind, 1)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "parser", parser)

    def at(self, index: Expr, place: Place) -> Value:
        members, parser = self.members, self.parser  # type: ignore[attr-defined]
        if isinstance(index, ast.Number) and index.int_value is not None and index.int_value < len(members):
            return members[index.int_value]
        index = parser.simple(index, "member", place)
        value = members[-1]
        for n in reversed(range(len(members) - 1)):
            test = ast.Binary("==", index, ast.Number(str(n), "int"), "bool")
            value = ast.Ternary(test, members[n], value, value.type)
        return value
