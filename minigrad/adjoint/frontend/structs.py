"""Structs and vectors: values made of braces and constructors, copied and stored member by member."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import prod
from typing import Any

from minigrad.adjoint.frontend.macros import copy_memory, shared_as
from minigrad.adjoint.frontend.symbols import FLOATS_AS, TypeParser
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import BITS, BYTES, Expr, Place, Stmt
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO, assigned, constant, plus, times, typed
from minigrad.adjoint.language.values import (
    VECTORS,
    ArrayView,
    Bits,
    Braces,
    Elements,
    Kind,
    Member,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    is_expression,
    is_target,
)
from minigrad.adjoint.language.values import leaves as numbers


class StructParser(TypeParser):
    """Parses values of structs, and conversions."""

    # Methods of the parsers that extend this one.
    constructor: Any
    converts_to: Any
    copy_array: Any
    initial: Any
    listed: Any
    set_member: Any
    store: Any

    def bases(self, brace: int) -> tuple[StructType, ...]:
        """The structs that a struct extends: `struct B : public A {`, read back from its brace."""
        tokens, found = self.tokens, list[StructType]()
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
            place, kind = tokens.next.place, self.expect_type()
            if not isinstance(kind, StructType) or "virtual" in kind.text.split():
                why = (
                    f"{kind} has virtual methods and is extended; leave virtual out, and call the method that is meant."
                )
                raise self.error(place, why)
            found.append(kind)
        return tuple(found)

    def part(self, value: Struct, kind: StructType) -> Struct | None:
        """The object, or the one of which it is a part, as the struct `kind`, where it is or extends that."""
        of = next((s for s in (value, value.whole) if s and (s.type is kind or s.type.extends(kind))), None)
        return of and of.as_base(kind)

    def pointer_to(self, kind: Kind | None, pointer: Pointer, place: Place) -> Pointer:
        """`Base* p = &derived;`, or back."""
        target, array = pointer.target, pointer.array
        if not isinstance(kind, StructType) or pointer.type is kind:
            return pointer
        if array is not None and isinstance(array.type, StructType) and array.type.extends(kind):
            target = array.at(pointer.offset, place)
        made = self.part(target, kind) if isinstance(target, Struct) else None
        return Pointer(None, target=self.frozen(made, place)) if made else pointer

    def convert(
        self, value: Value, kind: Kind | None, place: Place, explicit: bool = False, stored: bool = False
    ) -> Any:  # fmt: skip
        """The value as one of this type, as C++ makes it: an object itself, or its base, where that is enough.

        explicit: by a cast. stored: in memory of this type, which a number's conversion may be left to.
        """
        if kind is None or not isinstance(value, Value):  # a function, or a group of threads
            return value
        if isinstance(value, Braces):
            return self.listed(kind, value, place, stored)
        if isinstance(kind, str):
            number = self.truth(value, place) if kind == "bool" else self.number(value, place, kind, explicit)
            cast = explicit and not kind == number.type == "bool"
            return ast.Cast(kind, number) if cast else typed(number, kind, stored)
        base = (self.part(value, kind) if explicit else value.as_base(kind)) if isinstance(value, Struct) else None
        if base and base.type is kind:
            return base
        name = self.converts_to(value, kind, explicit)
        if not name:
            raise self.error(place, f"a conversion to {kind} is outside the subset; write its members.")
        if name != kind.short and isinstance(value, Struct):
            return self.method(value, name, [], Token("name", name, place))
        return self.construct(kind, [value], Token("name", kind.short, place))

    def pointer_as(self, kind: Kind, value: Value, place: Place) -> Pointer:
        """`(float4*)p`"""
        pointer = self.pointer_to(kind, self.pointer(value, place), place)
        if pointer.array and pointer.type == "void":
            return self.cast_void(kind, pointer, place)
        if isinstance(pointer.target, Bits):
            return Pointer(self.bits_view(kind, pointer.target.numbers))
        if isinstance(pointer.target, Struct) and isinstance(kind, str):
            members = list(pointer.target.members.values())
            if all(is_expression(m) and m.type == kind for m in members):
                return Pointer(self.members_view(tuple(members), kind))
        if pointer.array is pointer.target is None or str(pointer.type) == str(kind):
            return pointer
        if isinstance(seen := pointer.array, ArrayView) and seen.base:  # back to the numbers
            pointer = seen.base.moved(times(integer(seen.count), pointer.offset))
        pointer = shared_as(self, kind, pointer, place)
        if isinstance(kind, StructType):
            return self.viewed(kind, pointer, place)
        if pointer.type in FLOATS_AS.get(kind, ()):
            return Pointer(self.number_bits(self.frozen(pointer, place), kind))
        if pointer.type != kind:
            instead = f"; convert the value: ({kind})v" if is_expression(pointer.target) else ""
            raise self.error(
                place, f"a pointer to {pointer.type} is cast to {kind}*, another type of element{instead}."
            )
        return pointer

    def cast_to(self, kind: Kind, words: list[str], value: Value, place: Place, memory: bool = False) -> Value:
        """A cast to this type, with the stars and references behind it.

        memory: by a reference to another type, where no value is converted: `(int&)v` is `*(int*)&v`.
        """
        if words.count("*") > 1:
            raise self.error(place, "a pointer to a pointer is outside the subset; pass the array.")
        if "*" in words:
            return self.pointer_as(kind, value, place)
        if {"&", "&&"} & {*words} and (value.type == kind or isinstance(value, Struct)):
            return self.convert(value, kind, place, explicit=isinstance(value, Struct))
        if memory and is_expression(value):
            return self.element(self.pointer_as(kind, self.address(value, place), place), ZERO, place)
        made = self.convert(value, kind, place, explicit=True)
        return replace(made, passing=True) if isinstance(made, Struct) else made

    def viewed(self, kind: StructType, pointer: Pointer, place: Place) -> Pointer:
        """`reinterpret_cast<float4*>(x)`: elements of x, several at a time."""
        array = pointer.array
        same = {m.type for m in kind.members} == {pointer.type}
        if not same and kind.name in VECTORS and pointer.type in BYTES:
            count = len(kind.members) * BYTES.get(str(kind.members[0].type), 0) // BYTES[pointer.type]
        elif not same:
            count = 0
        else:
            count = prod(map(element_count, kind.members)) and sum(map(element_count, kind.members))
        if not count or array is None or "real" in (pointer.type, kind.members[0].type):
            raise self.error(place, f"a pointer to {pointer.type} is cast to {kind}*, another type of element.")
        base = self.frozen(pointer, place)
        assert isinstance(base, Pointer)
        return Pointer(structs_of(kind, base, count))

    def number_bits(self, base: Pointer, kind: str) -> ArrayView:
        """The bits of floats as whole numbers, or the bytes of one, which are only read: they have no derivative."""

        def element(index: Expr, place: Place) -> Value:
            if kind in BITS:
                return ast.Call(BITS[kind], (self.element(base, index, place),), kind, place)
            byte = constant(index)
            if byte is None or byte >= BYTES["float"]:
                raise self.error(place, "write the number of this byte as a literal.")
            bits: Expr = ast.Call(BITS["unsigned"], (self.element(base, ZERO, place),), "unsigned", place)
            return ast.Cast(kind, ast.Binary(">>", bits, integer(8 * byte), "unsigned") if byte else bits)

        return ArrayView("bits", kind, 1, of=element)

    def bits_view(self, kind: Kind, numbers: tuple[Expr, ...]) -> ArrayView:
        """The numbers whose bits a vector holds, as an array of these, or of structs of them."""

        def element(index: Expr, place: Place) -> Value:
            kinds = [kind] if isinstance(kind, str) else [m.type for m in kind.members]
            if {e.type for e in numbers} != set(kinds):
                raise self.error(place, f"the bits of {numbers[0].type} are read as {kind}, another type of element.")
            if isinstance(kind, str):
                return self.members_view(numbers, kind).at(index, place)
            n = index.int_value if isinstance(index, ast.Number) else None
            if n is None or n * len(kinds) >= len(numbers):
                raise self.error(place, f"write the number of this {kind} as a literal.")
            return Struct(kind, {m.name: numbers[n * len(kinds) + k] for k, m in enumerate(kind.members)})

        return ArrayView("bits", kind, 1, of=element)

    def members_view(self, members: tuple, kind: str) -> ArrayView:
        """The members of a vector seen as an array."""

        def element(index: Expr, place: Place) -> Value:
            if isinstance(index, ast.Number) and index.int_value is not None and index.int_value < len(members):
                return members[index.int_value]
            index = self.simple(index, "member", place)
            value = members[-1]
            for n in reversed(range(len(members) - 1)):
                value = ast.Ternary(ast.Binary("==", index, integer(n), "bool"), members[n], value, value.type)
            return value

        return ArrayView("members", kind, 1, of=element)

    def copy(
        self, name: str, kind: StructType, value: Struct | None, place: Place, given: list[Any] | None = None,
        bare: bool = False,
    ) -> Struct:  # fmt: skip
        """A new variable for each member. given: the values of the first ones in braces, which leave zeros.

        bare: a constructor sets them.
        """
        if value is not None and value.temporary:  # it belongs to this name from now on
            return replace(value, temporary=False, passing=False)
        if value is not None and self.functions:
            self.functions.check_copied(self, kind, "", place)
        if isinstance(value, Bits):
            return self.copied_bits(name, kind, value.numbers, place)
        members: dict[str, Value] = {}
        own: Any
        for m, first in zip_longest(kind.members, given or ()):
            own, its = value.members[m.name] if value else first, f"{name}_{m.name}"
            if value is None and first is None and m.value and not bare:
                own = self.initial(kind, m, members)
            elif value is None and first is None and not m.pointer and not bare:
                own = self.unset(m, given is not None, place)
            if m.pointer:
                at: Any = Pointer(None) if own is None else self.pointer_to(m.type, self.pointer(own, place), place)
                at = self.frozen(at, place, m.name)
                now = self.symbols.choices
                members[m.name] = PointerVariable(its, m.type, at.array, at.offset, choices=now, target=at.target)
            elif m.dims:
                whole = isinstance(own, Elements)
                members[m.name] = made = self.copy_array(its, m, own if whole else None, place)
                if own is not None and not whole:
                    self.set_member(made, own, place)
            elif isinstance(m.type, StructType):
                own = self.convert(own, m.type, place) if own is not None else None
                new = isinstance(own, Struct) and value is None and first is None and not own.passing
                members[m.name] = own if new else self.copy(its, m.type, own, place, bare=bare)
            else:
                number = self.convert(Braces(()) if own is None else own, m.type, place, stored=True)
                members[m.name] = self.symbols.fresh(its, m.type, number, place)
        return Struct(kind, members)

    def unset(self, m: Member, zeros: bool, place: Place) -> Any:
        """The value of a member to which nobody gives one; None where C++ leaves it alone."""
        runs = isinstance(m.type, StructType) and self.is_constructed(m.type, Token("name", m.name, place))
        if not m.dims or isinstance(m.type, str):
            return Braces(()) if zeros or runs else None
        if not (zeros or runs or m.type.has_values):
            return None
        if (count := constant(m.dims[0]) or 0) * len(m.dims) not in range(1, 33):
            raise self.error(
                place, f"the constructor of {m.type} runs for each of {m.name}; leave that constructor out."
            )
        return Braces((Braces(()),) * count)

    def copied_bits(self, name: str, kind: StructType, numbers: tuple[Expr, ...], place: Place) -> Bits:
        """The bits as they are now: a new variable for each number."""
        return Bits(kind, {}, numbers=tuple(self.symbols.fresh(name, e.type, e, place) for e in numbers))

    def memcpy(self, arguments: list[Value], token: Token) -> Value:
        """`memcpy(&to, &from, bytes)` between a vector that holds bits, and an array."""
        to, of = (self.pointer(a, token.place) for a in arguments[:2])
        if isinstance(of.target, Bits) and to.array is not None:
            for n, e in enumerate(of.target.numbers):
                target = to.array.at(plus(to.offset, ast.Number(str(n), "int")), token.place)
                self.store(target, e, token.place)
        elif isinstance(to.target, Struct) and of.array is not None and to.target.type.name in VECTORS:
            first = self.viewed(to.target.type, of, token.place).array
            assert first is not None
            value = first.at(ZERO, token.place)
            self.rebind(to.target, self.copied_bits("bits", to.target.type, tuple(numbers(value)), token.place))
        else:
            copy_memory(self, to, of, self.number(arguments[2], token.place), token)
        return ZERO

    def rebind(self, old: Value, new: Value) -> None:
        """Give the variable that has this value another one."""
        scope = self.symbols.scopes[-1]
        for name in [name for name, value in scope.items() if value is old]:
            scope[name] = new
            return
        raise self.error(self.tokens.next.place, "memcpy into a variable of an outer block is outside the subset.")

    def stores(self, target: Struct, value: Struct, place: Place) -> list[Stmt]:
        """The assignments of members; by copies where the value reads what they change."""
        made: list[Stmt] = []
        if isinstance(target, Bits) != isinstance(value, Bits):
            why = f"bits and numbers of {target.type} are not copied to each other; declare a variable for each."
            raise self.error(place, why)
        changed = {n for t in numbers(target) for n in t.names}
        if changed & {n for e in numbers(value) for n in e.names}:
            outer, self.symbols.pending = self.symbols.pending, made
            value = self.copy("copied", value.type, value, place)
            self.symbols.pending = outer
        return [*made, *self.member_stores(target, value, place)]

    def member_stores(self, target: Struct, value: Struct, place: Place) -> list[Stmt]:
        made: list[Stmt] = []
        pairs = [(name, t, value.members[name]) for name, t in target.members.items()]
        if isinstance(target, Bits) and isinstance(value, Bits):
            pairs = [("bits", t, v) for t, v in zip(target.numbers, value.numbers, strict=True)]
        for name, t, v in pairs:
            if isinstance(t, Struct) and isinstance(v, Struct):
                made += self.member_stores(t, v, place)
            elif isinstance(t, PointerVariable):
                made += self.isolated(partial(self.store, t, v, place))[1]
            elif is_expression(t) and is_target(t) and is_expression(v):
                made += assigned(t, "=", typed(v, t.type, stored=True), place)  # type: ignore[arg-type]
            elif isinstance(t, Elements) and isinstance(v, Elements):
                made += [s for a, b in zip(t.parts(place), v.parts(place), strict=True)
                         for s in self.member_stores(_one(a), _one(b), place)]  # fmt: skip
            else:
                raise self.error(place, f"the member {name} is an array; copy it element by element.")
        return made

    def zipped(self, a: Struct, b: Struct, join: Callable[[Expr, Expr], Expr]) -> Struct:
        def of(x: Value, y: Value) -> Value:
            if isinstance(x, Struct) and isinstance(y, Struct):
                return self.zipped(x, y, join)
            if isinstance(x, Pointer | PointerVariable):
                why = f"a choice of a {a.type}, which holds pointers; choose between elements: k ? a.p[i] : b.p[i]."
                raise self.error(self.tokens.next.place, why)
            if isinstance(x, Elements) and isinstance(y, Elements):
                return ArrayView(
                    x.name, x.type, x.axes, dims=x.dims, of=lambda i, place: of(x.at(i, place), y.at(i, place))
                )
            return join(x, y)  # type: ignore[arg-type]

        if isinstance(a, Bits) or isinstance(b, Bits):
            why = f"a {a.type} of numbers of another type is computed with; read its memory as what it holds."
            raise self.error(self.tokens.next.place, why)
        return Struct(a.type, {name: of(a.members[name], b.members[name]) for name in a.members})


def _one(value: Value) -> Struct:
    """A value as the only member of a struct."""
    return value if isinstance(value, Struct) else Struct(StructType("", ()), {"element": value})


def element_count(m: Member) -> int:
    """The numbers in a member of one axis at most; 0 where they are not known."""
    return constant(m.dims[0]) or 0 if len(m.dims) == 1 else int(not m.dims)


def structs_of(kind: StructType, base: Pointer, count: int) -> ArrayView:
    """An array seen as structs: element i has the elements count * i, ... of the array; bits, where types differ."""
    array = base.array
    assert array is not None

    def part(m: Member, first: Expr, place: Place) -> Value:
        if not m.dims:
            return array.at(first, place)
        return ArrayView(m.name, m.type, 1, dims=m.dims, of=lambda index, place: array.at(plus(first, index), place))

    def element(index: Expr, place: Place) -> Value:
        first = plus(base.offset, times(integer(count), index))
        if base.type != kind.members[0].type:
            return Bits(kind, {}, numbers=tuple(array.at(plus(first, integer(n)), place) for n in range(count)))  # type: ignore
        made: dict[str, Value] = {}
        for m in kind.members:
            made[m.name] = part(m, first, place)
            first = plus(first, integer(element_count(m)))
        return Struct(kind, made)

    return ArrayView(array.name, kind, 1, array.joint, const=array.const, of=element, base=base, count=count)


def flat(array: Elements, columns: int) -> ArrayView:
    """An array of two axes as one of one axis, from its first element on."""

    def element(index: Expr, place: Place) -> Value:
        found, width = constant(index), integer(columns)
        row: Expr = ast.Binary("/", index, width, "int") if found is None else integer(found // columns)
        column: Expr = ast.Binary("%", index, width, "int") if found is None else integer(found % columns)
        return array.at(row, place).at(column, place)  # type: ignore[union-attr]

    return ArrayView(array.name, array.type, 1, const=array.const, of=element)


def integer(n: int) -> Expr:
    return ast.Number(str(n), "int")
