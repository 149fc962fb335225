"""The symbol table, and the parser of types and expressions."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from minigrad.adjoint.language import ast, groups
from minigrad.adjoint.language.ast import (
    BYTES,
    FLOATS,
    TYPES,
    Expr,
    Place,
    Stmt,
    arity,
    base_name,
    common_type,
    is_float,
    result_type,
    unused_name,
)
from minigrad.adjoint.language.groups import SHUFFLES, Group
from minigrad.adjoint.language.intrinsics import INTRINSICS, LEFT_OUT
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream, way_out
from minigrad.adjoint.language.preprocessor import tokenize
from minigrad.adjoint.language.rewrite import ONE, ZERO, negative
from minigrad.adjoint.language.values import (
    VECTORS,
    Array,
    Braces,
    FunctionName,
    Kind,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    is_expression,
    leaves,
)
from minigrad.kernels.types import plain

if TYPE_CHECKING:
    from minigrad.adjoint.language.inline import Functions

Symbol = ast.Declare | ast.Parameter | Value | PointerVariable
ALLOWED_TYPES = "whole numbers, bool, float, double, real and structs of these are allowed"
INTEGER_WORDS = ("unsigned", "signed", "char", "short", "int", "long")
IGNORED = ("const", "volatile", "register", "struct", "typename", "__restrict__", "__restrict", "enum", "class")
LOCAL_TYPES = ("struct", "enum", "class", "union")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
COMPARISONS = ("||", "&&", "==", "!=", "<", "<=", ">", ">=")
POWER = "a power is x * x, or pow(x, 3)"


class SymbolTable:
    """The names known at the cursor. A new variable gets a new name where its own would be ambiguous."""

    def __init__(self, tokens: TokenStream, macros: dict[str, ast.Name] | None = None):
        self.tokens, self.macros = tokens, macros or {}
        self.functions: dict[str, ast.Function] = {}
        self.types: list[dict[str, Kind | Pointer]] = [{}]  # typedefs and templates' arguments; the innermost last
        self.scopes: list[dict[str, Symbol]] = [{}]  # the innermost last
        self.declared: dict[str, ast.Declare] = {}  # all variables of the function
        self.joined: set[str] = set()  # those of blocks on their own, whose statements join those around them
        self.bare = 0  # such blocks around the cursor
        self.parameters: dict[str, ast.Parameter] = {}  # of the function being parsed
        self.function = ""  # the name of the function being parsed
        self.pending: list[Stmt] = []  # statements that an expression needs ahead of its own statement
        self.dynamic: dict[str, str] = {}  # shared arrays whose extent the launch gives, with its macro

    @contextmanager
    def scope(self) -> Iterator[dict[str, Symbol]]:
        self.scopes.append({})
        self.types.append({})
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()
            self.types.pop()

    def lookup(self, name: str) -> Symbol | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def type(self, name: str) -> Kind | None:
        found = next((scope[name] for scope in reversed(self.types) if name in scope), None)
        return found if isinstance(found, str | StructType) else None

    def fresh(self, name: str, kind: str, value: Expr | None = None, place: Place = ast.NOWHERE) -> ast.Name:
        """A new variable, declared ahead of the current statement."""
        made = ast.Declare(name, kind, value=value, place=place)
        made.name = unused_name(name, {*self.declared, *self.tokens.words})
        self.declared[made.name] = made
        self.pending.append(made)
        return ast.Name(made.name, kind, place)

    def declare(self, variable: ast.Declare) -> None:
        """Enter a variable.

        It is renamed where it hides another, shares a name with one of another type, or would be declared twice once
        the statements of a block on its own have joined those around it.
        """
        name = variable.name
        if name in self.scopes[-1]:
            raise self.tokens.error(variable.place, f"{name} is declared twice in one scope.")
        if name in ast.BUILTINS:
            raise self.tokens.error(variable.place, f"{name} is the name of a builtin; choose another name.")
        other = self.declared.get(name)
        twice = other and (
            self.bare or name in self.joined or (other.type, other.dims) != (variable.type, variable.dims)
        )
        taken = base_name(name) or name in self.functions or name in self.macros
        if taken or twice or self.lookup(name) is not None:
            variable.name = unused_name(name if not taken else f"{name}_2", {*self.declared, *self.tokens.words})
        if self.bare:
            self.joined.add(name)
        self.declared[variable.name] = self.scopes[-1][name] = variable

    def variable(self, token: Token) -> Value | PointerVariable:
        """The value of a name. Raises NotDifferentiable where it is not declared."""
        name = token.text
        symbol = self.lookup(name)
        match symbol:
            case ast.Declare() if symbol.dims:
                return Array(symbol.name, symbol.type, len(symbol.dims), const=symbol.const, dims=symbol.dims)
            case ast.Parameter() if symbol.pointer:
                return Array(symbol.name, symbol.type, 1, const=symbol.const)
            case ast.Declare() | ast.Parameter():
                return ast.Name(symbol.name, symbol.type, token.place)
        if symbol is not None:
            return symbol
        if name in self.macros:
            return ast.Name(name, self.macros[name].type, token.place)
        if name in ast.CONSTANTS:
            return ast.Name(name, ast.CONSTANTS[name], token.place)
        raise self.tokens.rejected(token) or self.tokens.error(token.place, f"{name} is not declared here.")


class ExpressionParser:
    """Parses types and expressions by precedence climbing."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable, functions: "Functions | None" = None):
        self.tokens, self.symbols, self.functions = tokens, symbols, functions
        self.statement_start = -1  # the first token of the current statement

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return self.tokens.error(place, why)

    # --- types ---

    def type_length(self, at: int) -> tuple[Kind | None, int]:
        """The type that begins at a token, and the number of its tokens; None where no type does."""
        tokens, start = self.tokens.tokens, at
        words: list[str] = []
        while tokens[at].text in IGNORED or tokens[at].text in INTEGER_WORDS:
            words += [tokens[at].text] if tokens[at].text in INTEGER_WORDS else []
            at += 1
        if words:
            if words == ["long"] and tokens[at].text == "double":
                raise self.unknown_type(tokens[at])
            return _known(plain(" ".join(words))), at - start
        if tokens[at].text in ("std", "cuda") and tokens[at + 1].text == "::":
            at += 2
        elif tokens[at].text == "::":
            at += 1
        name = tokens[at].text
        if tokens[at].kind != "name" or tokens[at].text in LOCAL_TYPES:
            return None, 0
        while tokens[at + 1].text == "::" and self.symbols.type(tokens[at + 2].text) is not None:
            at += 2  # a type of a namespace
            name = tokens[at].text
        kind = self.named_type(name)
        at += 1
        while kind is not None and tokens[at].text in IGNORED:
            at += 1
        return kind, at - start if kind is not None else 0

    def named_type(self, name: str) -> Kind | None:
        alias = self.symbols.macros.get(name)
        if alias and alias.name == "a type":
            return alias.type
        if self.symbols.lookup(name) is not None:
            return None
        if (found := self.symbols.type(name)) is not None:
            return found
        if self.functions and (struct := self.functions.struct(name)) is not None:
            return struct
        if name in VECTORS:
            return VECTORS[name]
        return TYPES.get(name) or _known(plain(name))

    def peek_type(self) -> Kind | None:
        """The type that begins at the cursor; None where no type does. The cursor stays."""
        return self.type_length(self.tokens.at)[0]

    def accept_type(self) -> Kind | None:
        kind, length = self.type_length(self.tokens.at)
        self.tokens.at += length
        return kind

    def expect_type(self) -> Kind:
        if (kind := self.accept_type()) is not None:
            return kind
        raise self.unknown_type(self.tokens.next)

    def scalar_type(self) -> str:
        place, kind = self.tokens.next.place, self.expect_type()
        if isinstance(kind, StructType):
            raise self.error(place, f"a number has to stand here, and {kind} is a struct.")
        return kind

    def unknown_type(self, token: Token) -> NotDifferentiable:
        why = f"the type {token.text} is outside the differentiable subset; {ALLOWED_TYPES}."
        return self.tokens.rejected(token) or self.error(token.place, why)

    # --- expressions ---

    def expression(self, rank: int = 0) -> Expr:
        """An expression that is a number, of operators that bind more tightly than `rank`."""
        place, value = self.tokens.next.place, self.value(rank)
        return self.number(value, place)

    def number(self, value: Value, place: Place) -> Expr:
        if is_expression(value):
            return value  # type: ignore[return-value]
        what = "a struct" if isinstance(value, Struct) else "an array or a pointer"
        raise self.error(place, f"{what} stands here in place of a number; take an element or a member of it.")

    def full(self) -> Value:
        """An expression with assignments: `a = b = c`."""
        place, target = self.tokens.next.place, self.value()
        if (op := self.tokens.next).text in ASSIGNMENTS:
            self.tokens.take()
            value = (
                self.braces(target.type) if self.tokens.next.text == "{" and isinstance(target, Struct) else self.full()
            )
            return self.assign(target, op, value, place)
        return target

    def assign(self, target: Value, op: Token, value: Value, place: Place) -> Value:
        """Append the assignment to the pending statements; its value is the target."""
        raise NotImplementedError  # the parser of statements has it

    def isolated(self, parse: Callable[[], Value]) -> tuple[Value, list[Stmt]]:
        """A value, and the statements that it needs, which do not join the pending ones."""
        outer, self.symbols.pending = self.symbols.pending, []
        try:
            value = parse()
            return value, self.symbols.pending
        finally:
            self.symbols.pending = outer

    def value(self, rank: int = 0) -> Value:
        tokens, place = self.tokens, self.tokens.next.place
        left = self.unary()
        while (op := tokens.next.text) in ast.PRECEDENCE and ast.PRECEDENCE[op] > rank:
            token = tokens.take()
            if op == tokens.next.text == "*" and tokens.next.place.column == token.place.column + 1:
                raise self.error(token.place, f"** is no operator of C++; {POWER}.")
            right, needed = self.isolated(lambda op=op: self.value(ast.PRECEDENCE[op]))  # type: ignore[misc]
            if needed and op in ("&&", "||"):  # these run only where the right side counts
                known = self.symbols.fresh("both" if op == "&&" else "either", "bool", self.number(left, place), place)
                right = self.number(right, place)
                inner: list[Stmt] = [*needed, ast.Assign(known, "=", right, place)]
                condition = known if op == "&&" else ast.Unary("!", known, "bool")
                self.symbols.pending.append(ast.If(condition, inner, [], place))
                left = known
                continue
            self.symbols.pending += needed
            left = self.binary(token, left, right)
        if rank == 0 and tokens.next.text == "?":
            return self.ternary(self.number(left, place), tokens.take().place)
        return left

    def binary(self, op: Token, left: Value, right: Value) -> Value:
        if isinstance(left, Struct) or isinstance(right, Struct):
            return self.called(f"operator{op.text}", [left, right], op)
        if op.text in "+-" and isinstance(left, Array | Pointer) and is_expression(right):
            by = self.number(right, op.place)
            return self.pointer(left, op.place).moved(by if op.text == "+" else negative(by))
        if op.text == "+" and isinstance(right, Array | Pointer) and is_expression(left):
            return self.pointer(right, op.place).moved(self.number(left, op.place))
        if isinstance(left, Array | Pointer) and isinstance(right, Array | Pointer):
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
        null = [p.array is None and p.target is None for p in (left, right)]
        if op.text in ("==", "!=") and any(null):  # an adjoint needs every array
            return ast.Number("true" if (op.text == "!=") != all(null) else "false", "bool")
        same = left.array and right.array and left.array.name == right.array.name
        same = same and left.array.indices == right.array.indices  # type: ignore[union-attr]
        if op.text not in ("-", *COMPARISONS[2:]) or not same:
            raise self.error(
                op.place, f"{op.text} of these pointers is outside the subset; compare indices of one array."
            )
        kind = "bool" if op.text in COMPARISONS else common_type(left.offset.type, right.offset.type)
        return ast.Binary(op.text, left.offset, right.offset, kind)

    def ternary(self, condition: Expr, place: Place) -> Value:
        """A choice; a branch ahead of the statement where a side needs statements of its own."""
        yes, needed = self.isolated(self.full)
        self.tokens.expect(":")
        no, also = self.isolated(self.full)
        if isinstance(yes, Struct) and isinstance(no, Struct) and yes.type is no.type:
            if needed or also:
                result = self.copy("chosen", yes.type, None, place)
                needed = [*needed, *self.stores(result, yes, place)]
                also = [*also, *self.stores(result, no, place)]
                self.symbols.pending.append(ast.If(condition, needed, also, place))
                return result
            condition = self.simple(condition, "chosen", place)
            return self.zipped(yes, no, lambda a, b: ast.Ternary(condition, a, b, a.type))
        if isinstance(yes, Array | Pointer) and isinstance(no, Array | Pointer):
            a, b = self.pointer(yes, place), self.pointer(no, place)
            if not (needed or also) and a.array and b.array and a.array.name == b.array.name:
                offset = ast.Ternary(condition, a.offset, b.offset, common_type(a.offset.type, b.offset.type))
                return replace(a, offset=offset, moves=None)
            raise self.error(place, "this pointer points into one of two arrays; write a branch for each.")
        first, second = self.number(yes, place), self.number(no, place)
        kind = first.type if first.type == second.type else common_type(first.type, second.type)
        if not needed and not also:
            return ast.Ternary(condition, first, second, kind)
        chosen = self.symbols.fresh("chosen", kind, ZERO, place)
        needed = [*needed, ast.Assign(chosen, "=", first, place)]
        also = [*also, ast.Assign(chosen, "=", second, place)]
        self.symbols.pending.append(ast.If(condition, needed, also, place))
        return chosen

    def unary(self) -> Value:
        """An operand, with its signs and negations."""
        token = self.tokens.next
        if token.text in ("-", "!", "~", "+"):
            self.tokens.take()
            value = self.unary()
            if isinstance(value, Struct):
                return self.called(f"operator{token.text}", [value], token)
            operand = self.number(value, token.place)
            if token.text == "~" and is_float(operand.type):
                raise self.error(token.place, "~ of a floating-point number has no meaning.")
            kind = "bool" if token.text == "!" else common_type(operand.type)
            return operand if token.text == "+" else ast.Unary(token.text, operand, kind)
        if token.text in ("++", "--"):
            self.tokens.take()
            return self.step(self.unary(), token)
        if token.text == "*":
            self.tokens.take()
            return self.element(self.pointer(self.unary(), token.place), ZERO, token.place)
        if token.text == "&":
            self.tokens.take()
            return self.address(self.unary(), token.place)
        if token.text == "(" and (cast := self.cast()) is not None:
            return cast
        return self.postfix(self.operand())

    def cast(self) -> Value | None:
        """`(float)x` or `(float*)p`; None where the parenthesis holds an expression."""
        kind, length = self.type_length(self.tokens.at + 1)
        after = self.tokens.at + 1 + length
        stars = 0
        while self.tokens.tokens[after].text in ("*", *IGNORED):
            stars += self.tokens.tokens[after].text == "*"
            after += 1
        if kind is None or self.tokens.tokens[after].text != ")":
            return None
        place, self.tokens.at = self.tokens.next.place, after + 1
        return self.converted(kind, stars, self.unary(), place)

    def converted(self, kind: Kind, stars: int, value: Value, place: Place) -> Value:
        if isinstance(value, Struct) and value.type is kind and not stars:
            return value
        if stars:
            pointer = self.pointer(value, place)
            if stars == 1 and isinstance(pointer.target, Struct) and isinstance(kind, str):
                members = list(pointer.target.members.values())
                if all(is_expression(m) and m.type == kind for m in members):
                    return Pointer(_Members(tuple(members), kind, place, self))
            if stars == 1 and (pointer.array is None or pointer.type == kind or str(pointer.type) == str(kind)):
                return pointer
            if stars == 1 and isinstance(kind, StructType) and pointer.array:
                return self.viewed(kind, pointer, place)
            raise self.error(
                place, f"a pointer to {pointer.type} is cast to {kind}{'*' * stars}, another type of element."
            )
        if isinstance(kind, StructType):
            raise self.error(place, f"a conversion to {kind} is outside the subset; write its members.")
        number = self.number(value, place)
        return ast.Cast(kind, number)

    def viewed(self, kind: StructType, pointer: Pointer, place: Place) -> Pointer:
        """`reinterpret_cast<float4*>(x)`: elements of x, several at a time."""
        array = pointer.array
        kinds = {m.type for m in kind.members}
        if kinds != {pointer.type} or any(m.dims for m in kind.members) or array is None:
            raise self.error(place, f"a pointer to {pointer.type} is cast to {kind}*, another type of element.")
        count = ast.Number(str(len(kind.members)), "int")
        return Pointer(_View(array.name, kind, 1, array.joint, (), array.const, base=pointer, count=count))

    def postfix(self, value: Value | PointerVariable) -> Value:
        """A value with what follows it: indices, members, calls of methods, steps."""
        tokens = self.tokens
        if isinstance(value, PointerVariable):
            value = Pointer(value.array, value.offset, moves=value)
        while True:
            token = tokens.next
            if tokens.accept("["):
                place, index = tokens.next.place, self.expression()
                if is_float(index.type):
                    raise self.error(place, "an index must be a whole number.")
                tokens.expect("]")
                value = self.element(value, index, token.place)
            elif token.text in (".", "->"):
                tokens.take()
                value = self.member(value, token)
            elif token.text in ("++", "--"):
                whole = tokens.at - 1 == self.statement_start or self.discarded
                tokens.take()
                value = self.step(value, token, old=not (whole and tokens.next.text in (";", ")", ",")))
            else:
                return value

    discarded = False  # true in the step of a for loop, whose value nobody reads

    def element(self, value: Value, index: Expr, place: Place) -> Value:
        match value:
            case Pointer(array=Array() as array):
                return array.at(value.moved(index).offset, place)
            case Pointer(target=target) if target is not None and index == ZERO:
                return target
            case Array():
                return value.at(index, place)
            case Struct() if any(m == "operator[]" for m in value.type.methods):
                return self.method(value, "operator[]", [index], self.tokens.next)
        what = "a pointer that points nowhere" if isinstance(value, Pointer) else "no array"
        raise self.error(place, f"[ after {what}; an array takes one index for each of its axes.")

    def member(self, value: Value, dot: Token) -> Value:
        if dot.text == "->":
            value = self.element(self.pointer(value, dot.place), ZERO, dot.place)
        name = self.tokens.identifier("a member's name")
        if isinstance(value, Group):
            self.tokens.expect("(")
            return groups.method(self, value, name.text, [self.full() for _ in self.tokens.items(")")], name)
        if not isinstance(value, Struct):
            raise self.error(dot.place, f"{name.text} is asked of a value that has no members.")
        if self.tokens.next.text == "(":
            self.tokens.take()
            return self.method(value, name.text, [self.full() for _ in self.tokens.items(")")], name)
        if name.text not in value.members:
            raise self.error(name.place, f"{value.type} has no member {name.text}; it has {', '.join(value.members)}.")
        return value.members[name.text]

    def pointer(self, value: Value, place: Place) -> Pointer:
        match value:
            case Pointer():
                return value
            case Array() if value.axes == 1:
                return Pointer(value)
            case Array():
                raise self.error(
                    place, f"{value.name} has {value.axes} axes; a pointer goes along its last axis alone."
                )
        raise self.error(place, "a pointer or an array has to stand here.")

    def address(self, value: Value, place: Place) -> Pointer:
        """`&x[i]`, or the address of a variable."""
        match value:
            case ast.Index():
                array = Array(value.array, value.type, 1, indices=value.indices[:-1], const=self.is_const(value.array))
                if len(value.indices) > 1 and value.indices[-1] == ZERO and all(i == ZERO for i in value.indices):
                    raise self.error(
                        place, f"&{value.array}[0][0] leaves out the axes of {value.array}; give it one axis."
                    )
                return Pointer(array, value.indices[-1])
            case ast.Name() | Struct():
                origin = value.origin if isinstance(value, Struct) else None
                return origin or Pointer(None, target=value)
            case Array():
                return Pointer(value)
        raise self.error(place, "& takes a variable or an element.")

    def is_const(self, name: str) -> bool:
        symbol = self.symbols.declared.get(name) or self.symbols.parameters.get(name.partition("[")[0])
        return symbol is not None and symbol.const

    def step(self, value: Value, token: Token, old: bool = False) -> Value:
        """++x, or x++ with the value from before."""
        before: Value = value
        if old:
            if isinstance(value, Pointer):
                before = replace(
                    value, offset=self.simple(value.offset, f"{_name(value)}_old", token.place, True), moves=None
                )
            else:
                number = self.number(value, token.place)
                before = self.simple(number, f"{_name(number)}_old", token.place, True)
        after = self.assign(value, token._replace(text=f"{token.text[0]}="), ONE, token.place)
        return before if old else after

    def simple(self, e: Expr, name: str, place: Place, always: bool = False) -> Expr:
        """An expression that keeps its value: in a new variable unless it is a number."""
        if isinstance(e, ast.Number) or (isinstance(e, ast.Name) and not always and "." in e.name):
            return e
        return self.symbols.fresh(name, e.type, e, place)

    def operand(self) -> Value | PointerVariable:
        """A literal, a name, a call, a conversion, or an expression in parentheses."""
        tokens = self.tokens
        token = tokens.next
        if token.kind == "number":
            return literal(tokens.take().text)
        if tokens.accept("("):
            return self.close(self.full())
        if token.text in ("static_cast", "reinterpret_cast", "const_cast"):
            return self.named_cast()
        if token.text == "sizeof":
            return self.sizeof()
        if token.kind == "string" and token.text.startswith("'"):
            return self.character(tokens.take())
        if token.text in ("nullptr", "NULL"):
            tokens.take()
            return Pointer(None)
        kind, length = self.type_length(tokens.at)
        if kind is not None and (tokens.peek(length).text in ("(", "{")):
            tokens.at += length
            return self.constructed(kind, token)
        self.qualified()
        if tokens.next.text == "std" and tokens.peek(2).text == "numeric_limits":
            return self.limit()
        name = tokens.identifier("an operand")
        if name.text in ast.BUILTINS and tokens.accept("."):
            axis = tokens.identifier("x, y or z")
            if axis.text not in "xyz":
                raise self.error(axis.place, f"{name.text}.{axis.text} does not exist; the parts are x, y and z.")
            return ast.Name(f"{name.text}.{axis.text}", "int", name.place)
        if name.text in ast.BUILTINS:
            raise self.error(name.place, f"{name.text} is used by its parts x, y and z.")
        if name.text == "warpSize":
            return ast.Number("32", "int")
        if name.text in ("tiled_partition", "this_thread_block", "reduce", "plus", "greater", "less"):
            known = self.group_call(name)
            if known is not None:
                return known
        template = tokens.next.text == "<" and self.functions is not None and name.text in self.functions
        if tokens.next.text == "(" or template:
            return self.call(name)
        return self.symbols.variable(name)

    def group_call(self, name: Token) -> Value | None:
        """A call of cooperative_groups; None where the name is the file's own."""
        tokens = self.tokens
        if self.symbols.lookup(name.text) is not None or (self.functions and name.text in self.functions):
            return None
        if name.text == "this_thread_block":
            tokens.expect("(")
            return self.close(Group(None))  # type: ignore[arg-type]
        if name.text == "reduce" and tokens.accept("("):
            return groups.reduce(self, [self.full() for _ in tokens.items(")")], name)
        if not tokens.accept("<"):
            return None
        if name.text == "tiled_partition":
            size = self.number(self.value(ast.PRECEDENCE["<"]), name.place)
            tokens.expect(">")
            tokens.expect("(")
            self.close(self.full())
            if not isinstance(size, ast.Number) or size.int_value not in (1, 2, 4, 8, 16, 32):
                raise self.error(name.place, "the number of threads of a tile is not known here.")
            return Group(size.int_value)  # type: ignore[return-value]
        self.expect_type()
        tokens.expect(">")
        closing = {"(": ")", "{": "}"}.get(tokens.take().text, ")")
        tokens.expect(closing)
        return groups.Operator(groups.REDUCTIONS[name.text])  # type: ignore[return-value]

    def character(self, token: Token) -> Expr:
        text = self.tokens.text[token.start : token.stop]
        if len(text) != 3:
            raise self.error(token.place, f"write the number of the character {text}.")
        return ast.Number(str(ord(text[1])), "signed char")

    def limit(self) -> Expr:
        """`std::numeric_limits<float>::max()`."""
        tokens = self.tokens
        place = tokens.next.place
        tokens.at += 3
        tokens.expect("<")
        kind = self.scalar_type()
        tokens.expect(">")
        tokens.expect("::")
        name = tokens.identifier("max").text
        tokens.expect("(")
        tokens.expect(")")
        short = {"float": "FLT", "double": "DBL"}.get(kind, kind.upper())
        words = {"max": f"{short}_MAX", "min": f"{short}_MIN", "epsilon": f"{short}_EPSILON", "infinity": "INFINITY",
                 "quiet_NaN": "NAN"}  # fmt: skip
        found = "-" if name == "lowest" and is_float(kind) else words.get(name, "")
        if found == "-":
            return ast.Unary("-", ast.Name(f"{short}_MAX", kind, place), kind)
        if found not in ast.CONSTANTS:
            raise self.error(place, f"std::numeric_limits<{kind}>::{name} is not known here; write its value.")
        return ast.Name(found, ast.CONSTANTS[found], place)

    def qualified(self) -> None:
        """Step over `std::` and other namespaces."""
        tokens = self.tokens
        while tokens.next.text == "::" or (tokens.next.kind == "name" and tokens.peek().text == "::"):
            if tokens.next.text == "std" and tokens.peek(2).text == "numeric_limits":
                return
            tokens.take()

    def named_cast(self) -> Value:
        tokens = self.tokens
        place = tokens.take().place
        tokens.expect("<")
        kind, stars = self.expect_type(), 0
        while tokens.next.text in ("*", "&", *IGNORED):
            stars += tokens.take().text == "*"
        tokens.expect(">")
        tokens.expect("(")
        return self.converted(kind, stars, self.close(self.full()), place)

    def sizeof(self) -> Expr:
        tokens = self.tokens
        place = tokens.take().place
        tokens.expect("(")
        kind = self.accept_type()
        if kind is None:
            kind = self.isolated(self.full)[0].type
        tokens.expect(")")
        members = [m.type for m in kind.members] if isinstance(kind, StructType) else [kind]
        if not all(isinstance(m, str) and m in BYTES and m != "real" for m in members) or len(set(members)) > 1:
            raise self.error(place, f"the bytes of {kind} are not known here; write their number.")
        return ast.Number(str(sum(BYTES[str(m)] for m in members)), "size_t")

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

    # --- structs ---

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

    def copy_array(self, name: str, m: "object", own: Value | None, place: Place) -> Array:
        raise NotImplementedError  # the parser of statements has it

    def stores(self, target: Struct, value: Struct, place: Place) -> list[Stmt]:
        """The assignments of members; by copies where the value reads what they change."""
        made: list[Stmt] = []
        changed = {n for t in leaves(target) for n in t.names}
        if changed & {n for e in leaves(value) for n in e.names}:
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

    def close(self, e: Value) -> Value:
        """The expression, with its closing parenthesis stepped over."""
        self.tokens.expect(")")
        return e

    # --- calls ---

    def call(self, name: Token) -> Value:
        """A call of a math function, an intrinsic or one of the file's functions."""
        tokens = self.tokens
        if (error := tokens.rejected(name)) and not (self.functions and name.text in self.functions):
            raise error
        if isinstance(known := self.symbols.lookup(name.text), FunctionName):
            name = name._replace(text=known.name)
        explicit = self.functions.template_arguments(self) if self.functions and tokens.next.text == "<" else []
        tokens.expect("(")
        if name.text in LEFT_OUT:
            self.skip_arguments()
            return ZERO
        arguments = [self.argument() for _ in tokens.items(")")]
        return self.called(name.text, arguments, name, explicit)

    def argument(self) -> Value:
        if not self.tokens.accept("{"):
            return self.full()
        return Braces(tuple(self.full() for _ in self.tokens.items("}")))  # type: ignore[return-value]

    def skip_arguments(self) -> None:
        depth = 1
        while depth and self.tokens.next.kind != "end":
            depth += {"(": 1, ")": -1}.get(self.tokens.take().text, 0)

    def called(self, name: str, arguments: list[Value], token: Token, explicit: list | None = None) -> Value:
        """The value of a call with these arguments."""
        if self.functions and name in self.functions:
            return self.functions.call(self, name, arguments, token, explicit or [])
        if name.startswith("make_") and name[5:] in VECTORS:
            return self.constructor(VECTORS[name[5:]], arguments, token)
        if name.startswith("operator"):
            kinds = " and ".join(str(a.type) for a in arguments)
            why = f"{name[8:]} of {kinds} is not defined in this file; write the members one by one."
            raise self.error(token.place, why)
        if name in INTRINSICS:
            return INTRINSICS[name](self, arguments, token)
        if name in SHUFFLES:
            return groups.shuffle(self, name, arguments, token)
        if name == "atomicAdd":
            why = "the value that atomicAdd returns depends on the order of the threads; use it as a statement alone."
            raise self.error(token.place, why)
        if not base_name(name):
            why = f"{name} has no derivative rule here, and is no __device__ function; {way_out(name)}."
            raise self.error(token.place, why)
        numbers = tuple(self.number(a, token.place) for a in arguments)
        if len(numbers) != arity(name):
            raise self.error(token.place, f"{name} takes {arity(name)} arguments; got {len(numbers)}.")
        return ast.Call(name, numbers, result_type(name, [e.type for e in numbers]), token.place)

    def method(self, value: Struct, name: str, arguments: list[Value], token: Token) -> Value:
        if self.functions and name in value.type.methods:
            return self.functions.method(self, value, name, arguments, token)
        raise self.error(token.place, f"{value.type} has no method {name} in this file.")

    def construct(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        assert self.functions is not None
        return self.functions.construct(self, kind, arguments, token)


class _View(Array):
    """An array seen as structs of equal members: element i has the elements count * i, ... of the array."""

    def __init__(self, *args: object, base: Pointer, count: Expr):
        super().__init__(*args)  # type: ignore[arg-type]
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "count", count)

    def at(self, index: Expr, place: Place) -> Value:
        from minigrad.adjoint.language.rewrite import plus, times

        base, kind = self.base, self.type  # type: ignore[attr-defined]
        first = plus(base.offset, times(self.count, index))  # type: ignore[attr-defined]
        members = {
            m.name: base.array.at(plus(first, ast.Number(str(n), "int")), place)
            for n, m in enumerate(kind.members)  # type: ignore[union-attr]
        }
        return Struct(kind, members)  # type: ignore[arg-type]


class _Members(Array):
    """The members of a vector seen as an array."""

    def __init__(self, members: tuple, kind: str, place: Place, parser: ExpressionParser):
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


def _known(kind: str) -> str | None:
    return kind if kind in TYPES else None


def _name(value: Value) -> str:
    if isinstance(value, Pointer):
        return value.moves.name if value.moves else "pointer"
    return value.name.replace(".", "_") if isinstance(value, ast.Name) else "value"


def literal(text: str) -> ast.Number:
    low = text.lower()
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        wide = "l" in low
        kind = ("unsigned long long" if wide else "unsigned") if "u" in low else "long long" if wide else "int"
        return ast.Number(text, kind)
    return ast.Number(text.rstrip("lL"), "float" if low.endswith("f") else "double")


def parse_expression(text: str, variables: Iterable[str] = ()) -> Expr:
    """An expression of literals, builtins and these variables of type real."""
    tokens = tokenize(text, text)
    symbols = SymbolTable(tokens)
    symbols.scopes[0] = {name: ast.Declare(name, "real") for name in variables}
    return ExpressionParser(tokens, symbols).expression()


__all__ = ["ASSIGNMENTS", "FLOATS", "ExpressionParser", "Symbol", "SymbolTable", "literal", "parse_expression"]
