"""Parameters of functions; assignments to variables, elements, structs and pointers; the value that is returned."""

from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import count, repeat
from typing import Any

from minigrad.adjoint.frontend.declarations import DeclarationParser
from minigrad.adjoint.frontend.macros import in_rows
from minigrad.adjoint.frontend.structs import integer
from minigrad.adjoint.frontend.symbols import IGNORED
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import GRADIENTS, HALVES, Expr, Place, Stmt, is_float, unused_name
from minigrad.adjoint.language.dataflow import inline, target_name
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO, assigned, constant, negative
from minigrad.adjoint.language.values import (
    NOTHING,
    ArrayView,
    Braces,
    Elements,
    Kind,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    is_expression,
    is_target,
)

ONE_ARRAY = (
    "make them one, s[2][N], and let an index that changes, k = 1 - k, choose: s[k][i]; or choose between elements, "
    "k ? v[i] : w[i]"
)


class AssignmentParser(DeclarationParser):
    """Appends assignments to the pending statements."""

    result: Value | None = None  # where the value of a function goes that is written in place of its call
    returned: Value | None = None  # that value, where it has one return at its end
    inside_call = False
    hoisted: list[ast.Declare]  # offsets of pointers that get their array later, declared at the start of the function

    declared_parameter: ast.Parameter  # as the text has it
    own_parameters: list[ast.Parameter]  # the arrays to which pointers in structs point
    own_members: dict[str, tuple[str, str]]  # by their names: the struct and its member

    def copy_changed(self, params: list[ast.Parameter], scope: dict) -> None:
        """Variables for the parameters that the body changes, which are copies for each thread."""
        for p in params:
            name, place = p.name.partition("[]")[0], p.place  # of an array of structs
            if "." in name or "[" in name or name in scope or not self.changes(name, self.tokens.at, self.body_end):
                continue
            array = self.symbols.scopes[-2][name]
            if isinstance(array, ArrayView):
                why = f"{name} points to rows, and changes; let it point to elements, {name}[i * width + j]."
                raise self.error(place, why)
            if p.pointer:
                array = array if isinstance(array, Elements) else Elements(name, p.type, 1, const=p.const)
                scope[name] = self.pointer_variable(name, array.type, Pointer(array), place)
            else:
                copied = self.symbols.fresh(p.name, p.type, ast.Name(p.name, p.type), place)
                scope[p.name] = self.symbols.declared[copied.name]

    def parameter(self, scope: dict) -> list[ast.Parameter]:
        """`const real* __restrict__ x`, `int n`, `const Atom* atoms` or `Box box`: the numbers in it."""
        tokens, place = self.tokens, self.tokens.next.place
        while tokens.next.text == tokens.peek().text == "[":  # an attribute
            tokens.at = tokens.matching(tokens.at) + 1
        start = tokens.at
        kind = self.accept_type() or self.accept_void()
        if kind is None:
            n = first = next(k for k in count(start) if tokens.tokens[k].text not in IGNORED)
            while tokens.tokens[n + 1].text == "::":
                n += 2
            named = "".join(t.text for t in tokens.tokens[first : n + 1])
            why = f"a parameter of type {named!r} is outside the differentiable subset; "
            raise tokens.rejected(tokens.tokens[n]) or self.error(place, f"{why}pass arrays of numbers, and numbers.")
        const = any(t.text == "const" for t in tokens.tokens[start : tokens.at])
        of_rows, pointer, restrict = tokens.accept("("), tokens.accept("*"), False
        while pointer and tokens.next.text in ("const", "volatile", "__restrict__", "__restrict"):
            restrict |= tokens.take().text.startswith("__")
        why = "references and pointers to pointers are outside the subset as parameters of a kernel; pass an array."
        tokens.forbid(why, "*", "&", "**", "&&")
        unnamed = Token("name", unused_name("unnamed", scope), place)
        name = unnamed if tokens.next.text in (",", ")") else tokens.identifier("a name")
        if of_rows:
            tokens.expect(")")
        extents = list[Expr]()
        while tokens.accept("["):
            extents.append(self.expression() if tokens.next.text != "]" else ZERO)
            tokens.expect("]")
        pointer, rows = pointer or bool(extents), extents[not of_rows :]
        if rows and self.returns != "void":
            raise self.error(name.place, f"{name.text} is an array of rows.")  # each call is written out
        if tokens.next.text == "=" and self.returns == "void":  # a kernel's default value, which is for the host
            tokens.at = tokens.behind_value(tokens.at, self.is_template)
        tokens.forbid(f"{name.text} has a default value; leave it out and pass it every time.", "=")
        own = ast.Parameter(name.text, str(kind), pointer, const, name.place, restrict)
        self.declared_parameter = own
        made = [own] if isinstance(kind, str) else self.struct_parameter(own, kind, scope)
        array = scope.setdefault(name.text, own)
        if rows:
            array = Elements(own.name, kind, 1, const=const) if isinstance(kind, str) else array
            scope[name.text] = in_rows(array, ZERO, rows)
        return made

    def accept_void(self) -> Kind | None:
        """Step over `const void` of a kernel's `const void* p`, whose type the casts in its body show."""
        tokens, start = self.tokens, self.tokens.at
        while tokens.next.text in ("const", "volatile", "void"):
            tokens.take()
        if tokens.next.text == "*" and self.returns == "void":
            return "void"
        tokens.at = start
        return None

    def cast_parameters(self, params: list[ast.Parameter]) -> list[ast.Parameter]:
        """The numbers in parameters, those of void* by the types to which these have been cast."""
        made: list[ast.Parameter] = []
        for p in params:
            kind = self.symbols.cast.get(p.name)
            cast = replace(p, type=str(kind)) if kind else p
            made += self.struct_parameter(cast, kind, {}) if isinstance(kind, StructType) else [cast]
        return made

    def struct_parameter(self, own: ast.Parameter, kind: StructType, scope: dict) -> list[ast.Parameter]:
        """The numbers in a struct, or in an array of structs: parameters x[].a, which are printed as x[i].a."""
        before = f"{own.name}[]" if own.pointer else own.name
        array = Elements(before, kind, 1, ".", const=own.const)
        made = []
        for name, member, dims in kind.leaves(before, "."):
            pointer = own.pointer or bool(dims)
            made.append(ast.Parameter(name, member, pointer, own.const or not own.pointer, own.place, own.restrict))
        if kind.name not in GRADIENTS and any(p.type in HALVES for p in made):
            raise self.error(own.place, f"{kind} holds a {made[0].type}; pass it as float, or in an array of its own.")
        if held := kind.held_pointer(own.pointer):
            raise self.error(own.place, f"{held}; pass the array as a parameter of its own.")
        if name := self.enum_of_header(kind):
            why = f"{kind} holds a {name}, an enum of {self.symbols.enums[name].file}; make that member an int."
            raise self.error(own.place, why)
        if self.nested_arrays(kind) and own.pointer:
            raise self.error(own.place, f"{kind} holds an array of structs; pass that as an array of its own.")
        scope[own.name] = array if own.pointer else replace(array, axes=0).element(own.place)
        if not own.pointer:
            value = by_name(scope[own.name])
            scope[own.name] = Struct(kind, value.members | self.pointed(own, kind, made))  # type: ignore[union-attr]
        return made

    def pointed(self, own: ast.Parameter, kind: StructType, made: list[ast.Parameter]) -> dict[str, Value]:
        """The pointers in a struct that is passed by value: each is a parameter of its own in the adjoint."""
        found: dict[str, Value] = {}
        for m in kind.members:
            if not m.pointer:
                continue
            name = unused_name(f"{own.name}_{m.name}", self.tokens.words)
            self.own_members[name] = (own.name, m.name)
            self.own_parameters.append(ast.Parameter(name, str(m.type), True, False, own.place))
            if isinstance(m.type, StructType):
                found[m.name] = Pointer(Elements(f"{name}[]", m.type, 1, "."))
                made += [
                    ast.Parameter(leaf, number, True, False, own.place)
                    for leaf, number, _ in m.type.leaves(f"{name}[]", ".")
                ]
            else:
                found[m.name] = Pointer(Elements(name, m.type, 1))
                made.append(ast.Parameter(name, m.type, True, False, own.place))
        return found

    def enum_of_header(self, kind: StructType) -> str:
        """The type of a member that is no number in the adjoint, which includes its definition."""
        inner = (self.enum_of_header(m.type) for m in kind.members if isinstance(m.type, StructType))
        known = {name for name, enum in self.symbols.enums.items() if enum.scoped and enum.file}
        return next((m.enum for m in kind.members if m.enum in known), "") or next(filter(None, inner), "")

    def nested_arrays(self, kind: StructType) -> bool:
        return any(isinstance(m.type, StructType) and (m.dims or self.nested_arrays(m.type)) for m in kind.members)

    def return_value(self, value: Value | None, token: Token) -> list[Stmt]:
        """The return of a function that is written in place of its call."""
        if (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.error(token.place, f"{self.symbols.function} returns {what}; so must this return.")
        if value is None:
            return [ast.Jump("return", None, token.place)]
        if self.result is None:
            self.returned = value
            return []
        self.store(self.result, value, token.place)
        return [ast.Jump("return", None, token.place)]

    def store(self, target: Value, value: Value, place: Place) -> None:
        """target = value, appended to the pending statements."""
        if isinstance(target, PointerVariable):
            first = next(iter(value.values), Pointer(None)) if isinstance(value, Braces) else value
            self.move(target, Token("operator", "=", place), first, place)
        elif isinstance(target, Struct):
            self.symbols.pending += self.stores(target, self.convert(value, target.type, place), place)
        else:
            number = self.convert(value, target.type, place, stored=True)
            self.symbols.pending += assigned(target, "=", number, place)  # type: ignore[arg-type]

    def in_order(self, kind: Kind, braces: Braces, place: Place) -> list[Any]:
        """The values of `{.x = a, .z = b}` in the order of the members, None for those that it leaves out."""
        members = [m.name for m in kind.members] if isinstance(kind, StructType) and not kind.bases else []
        if not members or kind.short in kind.methods or {*braces.names} - {*members}:  # type: ignore[union-attr]
            why = f"{kind} has no such members, or a base or a constructor"
            raise self.error(place, f"{why}; write its values in their order, without .name =")
        given = dict(zip(braces.names, braces.values, strict=True))
        return [given.get(name) for name in members]

    def grouped(self, kind: Kind, dims: tuple[Expr, ...], values: Sequence[Any]) -> tuple[Any, ...]:
        """Values in braces, with those of a row or a member that have none of their own: `float m[2][2] = {1, 2, 3}`.

        What is left over comes behind them.
        """

        def whole(value: Any, own: Kind, inner: tuple[Expr, ...]) -> bool:
            """True for the value of one element or member, and not of the first number in it."""
            single = isinstance(value, Struct) or is_expression(value)
            if inner or not single:
                return not single
            if isinstance(own, str) or not own.members or own.bases or self.converts_to(value, own):
                return True
            return isinstance(value, Struct) and value.as_base(own).type is own

        def take(kind: Kind, dims: tuple[Expr, ...]) -> tuple[Any, ...]:
            made, parts = list[Any](), iter([(m.type, m.dims) for m in getattr(kind, "members", ())])
            if dims:
                extent = constant(inline(dims[0], self.symbols.formulas))
                parts = repeat((kind, dims[1:]), *[] if extent is None else [extent])
            for own, inner in parts:
                if not rest:
                    break
                made.append(rest.popleft() if whole(rest[0], own, inner) else Braces(take(own, inner)))
            return tuple(made)

        rest = deque(values)
        return *take(kind, dims), *rest

    def set_member(self, member: Value, value: Any, place: Place) -> None:
        """Give a member its first value: an array those in braces, and zeros for the rest."""
        if not isinstance(member, Elements):
            self.store(member, value, place)
            return
        if not isinstance(value, Braces) or value.names:
            raise self.error(place, f"write the elements of {member.name} in braces of their own.")
        rows = self.grouped(member.type, member.left, value.values)
        extent = constant(inline(member.left[0], self.symbols.formulas))
        if extent is None or len(rows) > extent:
            what = "an unknown number of" if extent is None else extent
            raise self.error(place, f"{member.name} has {what} elements; got {len(rows)} values.")
        for n, row in enumerate([*rows, *[Braces(())] * (extent - len(rows))]):
            self.set_member(member.at(integer(n), place), row, place)

    def assign(self, target: Value, op: Token, value: Value, place: Place) -> Value:
        match target:
            case Struct():
                return self.assign_struct(target, op, value, place)
            case Pointer() if target.moves is not None:
                return self.move(target.moves, op, value, place)
            case ast.Name() | ast.Index() | ast.Ternary() if is_target(target):
                self.check_writable(target)
                number = self.number(value, op.place) if op.text != "=" else ZERO
                if is_float(number.type) and not is_float(target.type):  # computed as a float, then cut off
                    target = self.frozen(target, place)
                    value, op = self.binary(op._replace(text=op.text[:-1]), target, number), op._replace(text="=")
                if op.text == "=":
                    number = self.convert(value, target.type, op.place, stored=True)
                if isinstance(target, ast.Ternary):
                    number, target = self.simple(number, "assigned", place), self.frozen(target, place)
                self.symbols.pending += assigned(target, op.text, number, place)  # type: ignore[arg-type]
                return target
        raise self.error(place, "write the target of the assignment as a variable or as an element: y[i] = ...;")

    def assign_struct(self, target: Struct, op: Token, value: Value, place: Place) -> Value:
        name = f"operator{op.text}"
        if self.has_operator(name, [target, value]) or (self.functions and name in self.functions):
            self.called(name, [target, value], op)
        elif op.text == "=":
            self.check_members(target)
            if self.functions:
                self.functions.check_copied(self, target.type, "operator=", place)
            self.store(target, value, place)
        else:
            result = self.binary(op._replace(text=op.text[:-1]), target, value)
            assert isinstance(result, Struct)
            self.store(target, result, place)
        return target

    def atomic(self, token: Token) -> None:
        """`atomicAdd(&y[i], value)`, whose result is not used."""
        self.tokens.expect("(")
        place = self.tokens.next.place
        target = self.element(self.pointer(self.full(), place), ZERO, place)
        self.tokens.expect(",")
        if not isinstance(target, ast.Index):
            raise self.error(place, f"{token.text} takes an element: {token.text}(&x[i], value).")
        value = self.convert(self.close(self.full()), target.type, place, stored=True)
        self.check_writable(target)
        value = ast.Unary("-", value, value.type) if token.text == "atomicSub" else value
        self.symbols.pending.append(ast.AtomicAdd(target, value, token.place))

    def check_members(self, target: Struct) -> None:
        for member in [*target.members.values(), *getattr(target, "numbers", ())]:
            if isinstance(member, Struct):
                self.check_members(member)
            elif is_expression(member) and is_target(member):
                self.check_writable(member)
            elif not isinstance(member, Elements | PointerVariable):
                raise self.error(self.tokens.next.place, "this struct cannot be assigned; it is a value.")

    def move(self, variable: PointerVariable, op: Token, value: Value, place: Place) -> Value:
        """`p = x + n`, `p += n`, `++p`."""
        surely, known = variable.choices == self.symbols.choices, variable.array
        at = variable.offset
        fixed = not isinstance(at, ast.Name) or at.name not in self.symbols.declared  # no variable holds the offset
        pointer = (
            self.pointer_to(variable.type, self.pointer(value, place), place) if op.text == "=" else variable.value
        )
        if op.text not in ("=", "+=", "-="):
            raise self.error(place, f"{op.text} of a pointer is outside the subset; use + or -.")
        if op.text != "=" and fixed:
            by = self.number(value, place)
            pointer = pointer.moved(by if op.text == "+=" else negative(by))
        elif op.text != "=":
            self.symbols.pending += assigned(at, op.text, self.number(value, place), place)
            return variable.value
        here = pointer.array
        if here is None and pointer.target is None and (known is not None or variable.target is not None):
            raise self.error(place, f"{variable.name} becomes nullptr here; keep in a bool whether it counts.")
        same = here and known and here.name == known.name and here.indices == known.indices
        if here is None or variable.target is not None or (same and fixed):
            if not surely:
                why = f"{variable.name} of a struct moves in a loop or a branch; copy it to a pointer ahead of that."
                raise self.error(place, why)
            there = self.frozen(pointer, place, variable.name)
            assert isinstance(there, Pointer)
            variable.array, variable.offset, variable.target = there.array, there.offset, there.target
        elif known is None:
            made = self.pointer_variable(variable.name, pointer.type, pointer, place)
            variable.array, variable.offset = copy(made.array), made.offset
            assert isinstance(made.offset, ast.Name)
            if not surely and variable.asked:
                raise self.error(place, f"{variable.name} is asked for ahead of this; keep the answer in a bool.")
            object.__setattr__(variable.array, "maybe", not surely)
            declared = self.symbols.declared[made.offset.name]
            self.hoisted.append(declared)
            self.symbols.pending = [s for s in self.symbols.pending if s is not declared]
            self.symbols.pending.append(ast.Assign(made.offset, "=", pointer.offset, place))
            declared.value = ZERO
        elif not same and surely:  # it points there from now on
            made = self.pointer_variable(variable.name, pointer.type, pointer, place)
            variable.array, variable.offset = made.array, made.offset
        elif not same:
            raise self.error(place, f"{variable.name} points into two arrays in turn; {ONE_ARRAY}.")
        else:
            self.symbols.pending += assigned(at, "=", pointer.offset, place)
        return variable.value

    def check_writable(self, target: ast.Name | ast.Index | ast.Ternary) -> None:
        """Reject stores into constants, parameters and unknown names."""
        if isinstance(target, ast.Ternary):
            for side in (target.yes, target.no):
                self.check_writable(side)  # type: ignore[arg-type]
            return
        if isinstance(target, ast.Name):
            self.as_place(target, target.place)
        name = target_name(target)
        declared = self.symbols.declared.get(name)
        if declared is not None:
            if declared.const:
                raise self.error(target.place, f"{name} is const and is written here.")
            return
        base = name.partition("[")[0]
        symbol = self.symbols.parameters.get(base)
        if name == NOTHING:
            return
        if symbol is None:
            why = f"{name} cannot be assigned."
        elif symbol.const:
            why = f"{base} is const and is written here."
        elif symbol.pointer and self.returns != "void" and not self.inside_call:
            why = f"a __device__ function stores into {name}; return the value instead."
        else:
            return
        raise self.error(target.place, why)


def by_name(value: Value) -> Value:
    """A struct parameter passed by value: its numbers are named box.lo.x."""
    if isinstance(value, Struct):
        return Struct(value.type, {name: by_name(member) for name, member in value.members.items()})
    return ast.Name(value.array, value.type, value.place) if isinstance(value, ast.Index) else value
