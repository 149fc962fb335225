"""Assignments: to variables, elements, structs and pointers; and the value that a function returns."""

from minigrad.adjoint.frontend.declarations import DeclarationParser
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import (
    Place,
    Stmt,
    is_float,
)
from minigrad.adjoint.language.dataflow import target_name
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO
from minigrad.adjoint.language.values import (
    Pointer,
    PointerVariable,
    Struct,
    Value,
)
from minigrad.adjoint.language.values import leaves as numbers


class AssignmentParser(DeclarationParser):
    """Appends assignments to the pending statements."""

    result: Value | None = None  # where the value of a function goes that is written in place of its call
    returned: Value | None = None  # that value, where it has one return at its end
    inside_call = False
    hoisted: list[ast.Declare]  # offsets of pointers that get their array later, declared at the start of the function

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
        if isinstance(target, Struct):
            if not isinstance(value, Struct) or value.type is not target.type:
                raise self.error(place, f"a {target.type} is given another value.")
            self.symbols.pending += self.stores(target, value, place)
        else:
            number = self.converted_number(target.type, value, place)  # type: ignore[arg-type]
            self.symbols.pending.append(ast.Assign(target, "=", number, place))  # type: ignore[arg-type]

    def assign(self, target: Value, op: Token, value: Value, place: Place) -> Value:
        match target:
            case Struct():
                return self.assign_struct(target, op, value, place)
            case Pointer() if target.moves is not None:
                return self.move(target.moves, op, value, place)
            case ast.Name() | ast.Index():
                self.check_writable(target)
                number = self.number(value, op.place)
                if is_float(number.type) and not is_float(target.type) and target.type != "bool":
                    if op.text != "=":
                        why = f"a {number.type} becomes {target.type} here; write the cast: (int)(...)."
                        raise self.error(op.place, why)
                    number = ast.Cast(target.type, number)
                self.symbols.pending.append(ast.Assign(target, op.text, number, place))
                return target
        raise self.error(place, "write the target of the assignment as a variable or as an element: y[i] = ...;")

    def assign_struct(self, target: Struct, op: Token, value: Value, place: Place) -> Value:
        if op.text == "=":
            self.check_members(target)
            self.store(target, value, place)
        elif self.functions and f"operator{op.text}" in self.functions:
            self.called(f"operator{op.text}", [target, value], op)
        elif self.functions and f"operator{op.text}" in target.type.methods:
            self.functions.method(self, target, f"operator{op.text}", [value], op)
        else:
            result = self.binary(op._replace(text=op.text[:-1]), target, value)
            assert isinstance(result, Struct)
            self.store(target, result, place)
        return target

    def check_members(self, target: Struct) -> None:
        for number in numbers(target):
            if not isinstance(number, ast.Name | ast.Index):
                raise self.error(self.tokens.next.place, "this struct cannot be assigned; it is a value.")
            self.check_writable(number)

    def move(self, variable: PointerVariable, op: Token, value: Value, place: Place) -> Value:
        """`p = x + n`, `p += n`, `++p`."""
        if op.text == "=":
            pointer = self.pointer(value, place)
            if variable.array is None and pointer.array is not None:
                made = self.pointer_variable(variable.name, pointer.type, pointer, place)
                variable.array, variable.offset = made.array, made.offset
                declared = self.symbols.declared[made.offset.name]
                self.hoisted.append(declared)
                self.symbols.pending = [s for s in self.symbols.pending if s is not declared]
                self.symbols.pending.append(ast.Assign(made.offset, "=", pointer.offset, place))
                declared.value = ZERO
                return Pointer(variable.array, variable.offset, moves=variable)
            same = pointer.array and variable.array and pointer.array.name == variable.array.name
            if not same and pointer.array and variable.depth == len(self.symbols.scopes):  # it points there from now on
                made = self.pointer_variable(variable.name, pointer.type, pointer, place)
                variable.array, variable.offset = made.array, made.offset
                return Pointer(variable.array, variable.offset, moves=variable)
            if not same or pointer.array.indices != variable.array.indices:  # type: ignore[union-attr]
                raise self.error(place, f"{variable.name} points into two arrays; use a pointer for each.")
            self.symbols.pending.append(ast.Assign(variable.offset, "=", pointer.offset, place))
        elif op.text in ("+=", "-="):
            self.symbols.pending.append(ast.Assign(variable.offset, op.text, self.number(value, place), place))
        else:
            raise self.error(place, f"{op.text} of a pointer is outside the subset; use + or -.")
        return Pointer(variable.array, variable.offset, moves=variable)

    def check_writable(self, target: ast.Name | ast.Index) -> None:
        """Reject stores into constants, parameters and unknown names."""
        name = target_name(target)
        declared = self.symbols.declared.get(name)
        if declared is not None:
            if declared.const:
                raise self.error(target.place, f"{name} is const and is written here.")
            return
        base = name.partition("[")[0]
        symbol = self.symbols.parameters.get(base)
        if symbol is None:
            why = f"{name} cannot be assigned."
        elif symbol.const:
            why = f"{base} is const and is written here."
        elif symbol.pointer and self.returns != "void" and not self.inside_call:
            why = f"a __device__ function stores into {name}; return the value instead."
        else:
            return
        raise self.error(target.place, why)
