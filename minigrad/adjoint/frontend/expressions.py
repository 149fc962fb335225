"""The parser of expressions."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from minigrad.adjoint.frontend import intrinsics, macros
from minigrad.adjoint.frontend.calls import CHANGES, CallParser
from minigrad.adjoint.frontend.intrinsics import Group, is_packed
from minigrad.adjoint.frontend.structs import flat
from minigrad.adjoint.frontend.symbols import IGNORED, SymbolTable
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, Place, Stmt, common_type, is_float
from minigrad.adjoint.language.control_flow import known
from minigrad.adjoint.language.dataflow import names_in, written
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.preprocessor import tokenize
from minigrad.adjoint.language.rewrite import ONE, ZERO, constant, negative
from minigrad.adjoint.language.values import (
    VECTORS,
    Elements,
    FunctionItem,
    FunctionName,
    Pointer,
    PointerVariable,
    Struct,
    Value,
    as_temporary,
    holds_pointers,
    is_expression,
    is_place,
    is_target,
    leaves,
    name_of,
    nothing_for_zero,
)

ASSIGNMENTS = CHANGES[:-2]
COMPARISONS = ("||", "&&", "==", "!=", "<", "<=", ">", ">=")
POWER = "a power is x * x, or pow(x, 3)"


class ExpressionParser(CallParser):
    """Parses expressions by precedence climbing."""

    discarded = False  # true in the step of a for loop, whose value nobody reads

    def full(self) -> Value:
        """An expression with assignments: `a = b = c`."""
        place = self.tokens.next.place
        target, needed = self.isolated(self.value)
        if self.tokens.next.text not in ASSIGNMENTS:
            self.symbols.pending += needed
            return target
        op, value = self.tokens.take(), self.argument()
        self.check_order(value, needed, op)
        self.symbols.pending += needed
        return self.assign(target, op, value, place)

    def value(self, rank: int = 0) -> Value:
        tokens, place = self.tokens, self.tokens.next.place
        left = self.unary()
        while (op := tokens.next.text) in ast.PRECEDENCE and ast.PRECEDENCE[op] > rank:
            token = tokens.take()
            if op in ("&&", "||"):
                test = self.truth(left, place)
                other, needed = self.isolated(lambda: self.truth(self.value(ast.PRECEDENCE[op]), place), choice=True)
                left = self.short_circuit(op, test, other, needed, place) if needed else self.binary(token, test, other)
                continue
            right, needed = self.isolated(partial(self.value, ast.PRECEDENCE[op]))
            self.check_order(left, needed, token)
            self.symbols.pending += needed
            left = self.binary(token, left, right)
        if rank == 0 and tokens.next.text == "?":
            return self.ternary(self.truth(left, place), tokens.take().place)
        return left

    def short_circuit(self, op: str, left: Expr, right: Expr, needed: list[Stmt], place: Place) -> Expr:
        """&& or || of which the right side needs statements, which run only where it counts."""
        if (holds := known(left)) is not None:
            counts = holds == (op == "&&")
            self.symbols.pending += needed if counts else []
            return right if counts else left
        result = self.symbols.fresh("both" if op == "&&" else "either", "bool", left, place)
        inner: list[Stmt] = [*needed, ast.Assign(result, "=", right, place)]
        condition = result if op == "&&" else ast.Unary("!", result, "bool")
        self.symbols.pending.append(ast.If(condition, inner, [], place))
        return result

    def check_order(self, other: Value, needed: list[Stmt], op: Token) -> None:
        """Reject what one side of an operator reads and the other one changes: `v * twice(v)`, `q[k++] = k`."""
        names = names_in(leaves(other)) if needed and not isinstance(other, Elements | Pointer) else set()
        if changed := written(needed) & names:
            why = f"one side of this {op.text} reads {min(changed)} and the other one changes it; write two statements."
            raise self.error(op.place, why)

    def binary(self, op: Token, left: Value, right: Value) -> Value:
        if isinstance(left, Struct) and isinstance(right, Struct) and op.text in "+-*/" and is_packed(left, right):
            return self.zipped(left, right, lambda a, b: ast.Binary(op.text, a, b, a.type))
        if op.text in ("==", "!="):
            left, right = nothing_for_zero(left, right), nothing_for_zero(right, left)
        objects = isinstance(left, Struct) or isinstance(right, Struct)
        if objects and not self.converts(f"operator{op.text}", [left, right]):
            return self.called(f"operator{op.text}", [left, right], op)
        if op.text in "+-" and isinstance(left, Elements | Pointer) and is_expression(right):
            by = self.number(right, op.place)
            return self.pointer(left, op.place).moved(by if op.text == "+" else negative(by))
        if op.text == "+" and isinstance(right, Elements | Pointer) and is_expression(left):
            return self.pointer(right, op.place).moved(self.number(left, op.place))
        if isinstance(left, Elements | Pointer) and isinstance(right, Elements | Pointer):
            return self.pointers(op, self.pointer(left, op.place), self.pointer(right, op.place))
        left, right = self.number(left, op.place), self.number(right, op.place)
        kinds = (left.type, right.type)
        if op.text in ("%", "&", "|", "^", "<<", ">>") and any(map(is_float, kinds)):
            instead = f"; {POWER}" if op.text == "^" else ""
            raise self.error(op.place, f"{op.text} of floating-point numbers has no meaning{instead}.")
        kind = "bool" if op.text in COMPARISONS else common_type(*(kinds[:1] if op.text in ("<<", ">>") else kinds))
        return ast.Binary(op.text, left, right, kind)

    def pointers(self, op: Token, left: Pointer, right: Pointer) -> Expr:
        """The difference or comparison of two pointers into one array."""
        null = [known(self.given(p)) is False for p in (left, right)]
        if op.text in ("==", "!=") and any(null):
            return ast.Number("true" if (op.text == "!=") != all(null) else "false", "bool")
        same = (a := left.array) and (b := right.array) and (a.name, a.indices) == (b.name, b.indices)
        if op.text not in ("-", *COMPARISONS[2:]) or not same:
            why = f"{op.text} of these pointers is outside the subset; compare indices of one array."
            raise self.error(op.place, why)
        kind = "bool" if op.text in COMPARISONS else common_type(left.offset.type, right.offset.type)
        return ast.Binary(op.text, left.offset, right.offset, kind)

    def ternary(self, condition: Expr, place: Place) -> Value:
        """A choice; a branch ahead of the statement where a side needs statements of its own."""
        yes, needed = self.isolated(self.full, choice=True)
        self.tokens.expect(":")
        no, also = self.isolated(self.full, choice=True)
        if (isinstance(yes, Struct) or isinstance(no, Struct)) and yes.type is not no.type:
            kind = self.kind_of_both(yes, no)
            yes, more = self.isolated(partial(self.convert, yes, kind, place))
            no, others = self.isolated(partial(self.convert, no, kind, place))
            needed, also = [*needed, *more], [*also, *others]
        if isinstance(yes, Struct) and isinstance(no, Struct) and yes.type is no.type:
            if (needed or also) and not holds_pointers(yes.type):
                result = self.copy("chosen", yes.type, None, place)
                if is_place(yes) and is_place(no):
                    self.symbols.chosen |= {e.name for e in leaves(result) if isinstance(e, ast.Name)}
                needed, also = [*needed, *self.stores(result, yes, place)], [*also, *self.stores(result, no, place)]
                self.symbols.pending.append(ast.If(condition, needed, also, place))
                return result
            condition = self.simple(condition, "chosen", place)
            both = self.zipped(yes, no, lambda a, b: ast.Ternary(condition, a, b, a.type))
            return replace(both, passing=yes.passing or no.passing)
        holds = known(condition)  # w ? w + i : nullptr, or as of a template's parameter; `settle` knows w ? 3 : 1
        numbers = is_expression(yes) and is_expression(no)
        if holds is not None and not (numbers and (self.symbols.tested or yes.type != no.type)):
            self.symbols.pending += needed if holds else also
            return yes if holds else no
        if isinstance(yes, Elements | Pointer) and isinstance(no, Elements | Pointer):
            a, b = self.pointer(yes, place), self.pointer(no, place)
            if not (needed or also) and a.array and b.array and a.array.name == b.array.name:
                kind = common_type(a.offset.type, b.offset.type)
                return replace(a, offset=ast.Ternary(condition, a.offset, b.offset, kind), moves=None)
            raise self.error(place, "this pointer points into one of two arrays; write a branch for each.")
        first, second = self.number(yes, place), self.number(no, place)
        kind = first.type if first.type == second.type else common_type(first.type, second.type)
        made = ast.Ternary(condition, first, second, kind)
        if not (needed or also):
            return made
        chosen = self.symbols.fresh("chosen", self.symbols.type_of(made), ZERO, place)
        if is_place(first) and is_place(second):
            self.symbols.chosen.add(chosen.name)
        needed = [*needed, ast.Assign(chosen, "=", first, place)]
        also = [*also, ast.Assign(chosen, "=", second, place)]
        self.symbols.pending.append(ast.If(condition, needed, also, place))
        return chosen

    def as_place(self, value: ast.Name, place: Place) -> ast.Name:
        """The variable, where it is one in C++, too: to be written, or to be referred to."""
        if value.name in self.symbols.chosen:
            raise self.error(place, "this is one of two places, of which one has statements; write a branch for each.")
        return replace(value, temporary=False)

    def unary(self) -> Value:
        """An operand, with its signs and negations."""
        before, token = self.tokens.tokens[self.tokens.at - 1], self.tokens.next
        if token.text in ("-", "!", "~", "+"):
            self.tokens.take()
            value = self.unary()
            if isinstance(value, Struct) and not self.converts(f"operator{token.text}", [value]):
                return self.called(f"operator{token.text}", [value], token)
            operand = self.truth(value, token.place) if token.text == "!" else self.number(value, token.place)
            if token.text == "~" and is_float(operand.type):
                raise self.error(token.place, "~ of a floating-point number has no meaning.")
            if token.text == "+":
                return ast.Cast(common_type(self.symbols.type_of(operand)), operand)
            return ast.Unary(token.text, operand, "bool" if token.text == "!" else common_type(operand.type))
        if self.tokens.accept("++") or self.tokens.accept("--"):
            return self.step(self.unary(), token)
        if self.tokens.accept("*"):
            if self.has_operator("operator*", [value := self.unary()]):
                return self.called("operator*", [value], token)
            if is_expression(value) and (before.text, before.stop) == ("*", token.start):
                raise self.error(before.place, f"** is no operator of C++; {POWER}.")
            return self.element(self.pointer(value, token.place), ZERO, token.place)
        if self.tokens.accept("&"):
            return self.address(self.unary(), token.place)
        cast = self.cast() if token.text == "(" else None
        return self.postfix(self.operand()) if cast is None else cast

    def cast(self) -> Value | None:
        """`(float)x` or `(float*)p`; None where the parenthesis holds an expression."""
        void = int(self.tokens.peek().text == "const") + 1
        if [self.tokens.peek(void + n).text for n in range(3)] == ["void", "*", ")"]:  # a pointer to anything
            self.tokens.at += void + 3
            return self.unary()
        kind, length = self.type_length(self.tokens.at + 1)
        words = list[str]()
        while (word := self.tokens.peek(1 + length + len(words)).text) in ("*", "&", "&&", *IGNORED):
            words.append(word)
        after = self.tokens.at + 1 + length + len(words)
        if kind is None or self.tokens.tokens[after].text != ")":
            return None
        changing = all(t.text != "const" for t in self.tokens.tokens[self.tokens.at : after])
        place, self.tokens.at = self.tokens.next.place, after + 1
        return self.cast_to(kind, words, self.unary(), place, memory="&" in words and changing)

    def postfix(self, value: Value) -> Value:
        """A value with what follows it: indices, members, calls of methods, steps."""
        tokens = self.tokens
        while True:
            value, token = value.value if isinstance(value, PointerVariable) else value, tokens.next
            if tokens.accept("["):
                place, index = tokens.next.place, self.expression()
                if is_float(index.type):
                    raise self.error(place, "an index must be a whole number.")
                tokens.expect("]")
                value = self.element(value, index, token.place)
            elif token.text in (".", "->"):
                tokens.take()
                value = self.member(value, token)
            elif token.text == "(" and isinstance(value, Struct | FunctionItem):
                tokens.take()
                value = self.called_value(value, [self.argument() for _ in tokens.items(")")], token)
            elif token.text in ("++", "--"):
                whole = tokens.at - 1 == self.statement_start or self.discarded
                tokens.take()
                old = not (whole and tokens.next.text in (";", ")", ","))
                value = self.step(value, token, old, postfix=True)
            else:
                return value

    def element(self, value: Value, index: Expr, place: Place) -> Value:
        match value:
            case Pointer(array=Elements(type="void")) | Elements(type="void"):
                raise self.error(place, "a pointer to void has no numbers; cast it: ((const float*)p)[i].")
            case Pointer(array=Elements() as array):
                return array.at(value.moved(index).offset, place)
            case Pointer(target=target, offset=offset) if target is not None and offset == index == ZERO:
                return target
            case Pointer(target=first) if members := macros.members_from(self.symbols, first):
                return self.members_view(members, members[0].type).at(value.moved(index).offset, place)
            case Elements():
                return value.at(index, place)
            case Struct() if any(m == "operator[]" for m in value.type.methods):
                return self.method(value, "operator[]", [index], self.tokens.next)
        what = "one variable: write v.y" if isinstance(value, Pointer) else "a number, which has no elements"
        raise self.error(place, f"[ after {what}; an array takes one index for each of its axes.")

    def member(self, value: Value, dot: Token) -> Value:
        if dot.text == "->":
            value = self.element(self.pointer(value, dot.place), ZERO, dot.place)
        name = self.tokens.identifier("a member's name")
        if isinstance(value, Group):
            self.tokens.expect("(")
            return intrinsics.method(self, value, name.text, [self.full() for _ in self.tokens.items(")")], name)
        if not isinstance(value, Struct):
            raise self.error(dot.place, f"{name.text} is asked of a value that has no members.")
        if name.text not in value.members and name.text not in value.type.methods and self.tokens.next.text in "::<":
            self.tokens.at -= 1  # `d.Base::f()`
            base = self.expect_type()
            self.tokens.expect("::")
            value, name = value.as_base(base), self.tokens.identifier("a member's name")
        template = self.tokens.next.text == "<" and name.text in value.type.methods
        explicit = self.functions.template_arguments(self) if template else []
        if self.tokens.accept("("):
            return self.method(value, name.text, [self.argument() for _ in self.tokens.items(")")], name, explicit)
        if name.text in value.type.values and name.text not in value.members:
            return value.type.values[name.text]
        if name.text not in value.members:
            has = ", ".join(value.members) or "bits of floats, to be read as these: ((float*)&v)[0]"
            raise self.error(name.place, f"{value.type} has no member {name.text}; it has {has}.")
        found = value.members[name.text]
        if value.passing and isinstance(found, Struct):
            return replace(found, passing=True)
        if value.passing and is_target(found):
            return as_temporary(self.simple(self.number(found, name.place), name.text, name.place, True))
        return found

    def pointer(self, value: Value, place: Place) -> Pointer:
        match value:
            case Pointer():
                return value
            case PointerVariable():
                return value.value
            case Elements() if value.axes == 1:
                return Pointer(value)
            case Elements():
                why = f"{value.name} has {value.axes} axes; a pointer goes along its last axis alone."
                raise self.error(place, why)
            case Struct() if names := self.conversions(value, to="*"):
                return self.pointer(self.method(value, names[0], [], self.tokens.next), place)
        raise self.error(place, "a pointer or an array has to stand here.")

    def address(self, value: Value, place: Place) -> Pointer:
        """`&x[i]`, or the address of a variable."""
        match value:
            case ast.Index():
                const = self.is_const(value.array)
                array = Elements(value.array, value.type, 1, indices=value.indices[:-1], const=const)
                known = self.symbols.declared.get(value.array)
                columns = constant(known.dims[1]) if known is not None and len(known.dims) == 2 else None
                if columns and len(value.indices) == 2 and all(i == ZERO for i in value.indices):
                    return Pointer(flat(self.symbols.array(known), columns))  # type: ignore[arg-type]
                if len(value.indices) > 1 and value.indices[-1] == ZERO and all(i == ZERO for i in value.indices):
                    why = f"&{value.array}[0][0] leaves out the axes of {value.array}; give it one axis."
                    raise self.error(place, why)
                return Pointer(array, value.indices[-1])
            case ast.Name() | ast.Ternary() | Struct() if is_target(value):
                return (value.origin if isinstance(value, Struct) else None) or Pointer(None, target=value)
            case Elements():
                return Pointer(value)
        raise self.error(place, "& takes a variable or an element.")

    def step(self, value: Value, token: Token, old: bool = False, postfix: bool = False) -> Value:
        """++x, or x++ with the value from before."""
        if isinstance(value, Struct):
            return self.called(f"operator{token.text}", [value, *[ZERO] * postfix], token)
        before: Value = value
        if old:
            if isinstance(value, Pointer):
                kept = self.simple(value.offset, f"{name_of(value)}_old", token.place, True)
                before = replace(value, offset=kept, moves=None)
            else:
                number = self.number(value, token.place)
                before = as_temporary(self.simple(number, f"{name_of(number)}_old", token.place, True))
        after = self.assign(value, token._replace(text=f"{token.text[0]}="), ONE, token.place)
        return before if old else after

    def operand(self) -> Value:
        """A literal, a name, a call, a conversion, or an expression in parentheses."""
        tokens, token = self.tokens, self.tokens.next
        if token.kind == "number":
            return macros.literal(tokens.take().text)
        if tokens.accept("("):
            return self.close(self.full())
        if token.text == "[" and self.functions:
            return self.functions.closure(self, token._replace(text="lambda"))
        if token.text in ("static_cast", "reinterpret_cast", "const_cast"):
            return self.named_cast()
        if token.text == "sizeof":
            return macros.sizeof(self)
        if token.kind == "string" and token.text.startswith("'"):
            return macros.character(self, tokens.take())
        if tokens.accept("nullptr") or tokens.accept("NULL"):
            return Pointer(None)
        kind, length = self.type_length(tokens.at)
        if kind is not None and (tokens.peek(length).text in ("(", "{")):
            tokens.at += length
            return self.constructed(kind, token)
        if kind is not None and tokens.peek(length).text == "::":
            tokens.at += length + 1
            return self.static_member(kind, tokens.identifier("a member's name"))
        path = self.qualified()
        if tokens.next.text == "std" and tokens.peek(2).text == "numeric_limits":
            return macros.limit(self)
        name = tokens.identifier("an operand")
        if tokens.next.text == "<" and self.is_template(name.text):
            value, tokens.at = self.functions.instance(self, name.text, tokens.at)
            return value
        if name.text in ast.BUILTINS:
            axes: dict[str, Value] = {a: ast.Name(f"{name.text}.{a}", "int", name.place) for a in "xyz"}
            return Struct(VECTORS["dim3"], axes)
        if name.text == "warpSize":
            return ast.Number("32", "int")
        if name.text in intrinsics.NAMES and (known := self.group_call(name)) is not None:
            return known
        of_file = name.text in (self.functions or ()) and (path or self.symbols.lookup(name.text) is None)
        if tokens.next.text == "(" or (of_file and tokens.next.text == "<"):
            return self.call(name, path)
        if of_file:
            return FunctionName(name.text, path)  # type: ignore[return-value]
        return self.symbols.variable(name, of_file=bool(path))


def parse_expression(text: str, variables: Iterable[str] = ()) -> Expr:
    """An expression of literals, builtins and these variables of type real."""
    tokens = tokenize(text, text)
    symbols = SymbolTable(tokens)
    symbols.scopes[0] = {name: ast.Declare(name, "real") for name in variables}
    return ExpressionParser(tokens, symbols).expression()
