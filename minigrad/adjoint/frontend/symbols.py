"""The names known at the cursor: the symbol table of variables and types, and the parser of types."""

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import TYPES, Expr, Place, Stmt, base_name, unused_name
from minigrad.adjoint.language.dataflow import inline, names_in, written
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.rewrite import deduced_type
from minigrad.adjoint.language.values import (
    NOTHING,
    VECTORS,
    Braces,
    Elements,
    Enum,
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

ALLOWED_TYPES = "whole numbers, bool, float, double, half, real and structs of these are allowed"
INTEGER_WORDS = ("unsigned", "signed", "char", "short", "int", "long")
IGNORED = ("const", "volatile", "register", "struct", "typename", "__restrict__", "__restrict", "enum", "class",
           "__grid_constant__")  # fmt: skip
ALIASES = {"__half2": "half2", "nv_bfloat162": "__nv_bfloat162"}
CHARS = ("signed char", "unsigned char")
FLOATS_AS = {"int": ("float",), "unsigned": ("float",), "long long": ("double",), "unsigned char": ("float",)}
LONGEST = 400  # tokens of a list of arguments that is read
T = TypeVar("T")
Symbol = ast.Declare | ast.Parameter | Value | PointerVariable


class SymbolTable:
    """The names known at the cursor. A new variable gets a new name where its own would be ambiguous."""

    def __init__(self, tokens: TokenStream, macros: dict[str, ast.Name] | None = None):
        self.tokens, self.macros = tokens, macros or {}
        self.formulas: dict[str, Expr] = {}  # of macros
        self.enums: dict[str, Enum] = {}
        self.functions: dict[str, ast.Function] = {}
        self.types: list[dict[str, Kind | Pointer]] = [{}]  # typedefs and templates' arguments; the innermost last
        self.scopes: list[dict[str, Symbol]] = [{}]  # the innermost last
        self.declared: dict[str, ast.Declare] = {}  # all variables of the function
        self.numbers: dict[str, int] = {}  # of their names, as unused_name needs them
        self.in_header, self.counters = False, set[str]()  # in the start of a loop; the names declared there
        self.joined: set[str] = set()  # those of blocks on their own, whose statements join those around them
        self.bare = 0  # such blocks around the cursor
        self.choices, self.chosen = 0, set[str]()  # branches and loops around it; values of one of two places
        self.parameters: dict[str, ast.Parameter] = {}  # of the function being parsed
        self.function = ""  # the name of the function being parsed
        self.pending: list[Stmt] = []  # statements that an expression needs ahead of its own statement
        self.dynamic: dict[str, str] = {}  # shared arrays whose extent the launch gives, with its macro
        self.null: Set[str] = frozenset()  # arrays that a launch does not give
        self.tested = False  # true where the kernel asks for one
        self.cast: dict[str, Kind] = {}  # parameters void*: the types to which they are cast
        self.typed: dict[str, str] = {}  # those declared as chars: the type of the numbers in them
        self.parts: dict[str, str] = {}  # arrays of the numbers of further types in them
        self.starts: dict[tuple[str, Expr], str] = {}  # the type from an offset in bytes on

    def extent(self, name: str) -> Expr:
        """The macro for the extent of a shared array, which a launch gives."""
        self.dynamic[name] = macro = unused_name(f"{name}_extent", self.tokens.words)
        self.macros[macro] = ast.Name(macro, "int")
        return self.macros[macro]

    def part(self, whole: ast.Declare, kind: str) -> ast.Declare:
        """The numbers of one more type in the shared memory of a launch, as an array of their own."""
        for name in (n for n, of in self.parts.items() if of == whole.name and self.declared[n].type == kind):
            return self.declared[name]
        name = unused_name(f"{whole.name}_{kind.replace(' ', '_')}", self, numbers=self.numbers)
        made = ast.Declare(name, kind, (self.extent(name),), shared=True, place=whole.place)
        self.declared[name], self.parts[name] = made, whole.name
        self.pending.append(made)
        return made

    @contextmanager
    def scope(self) -> Iterator[dict[str, Symbol]]:
        self.scopes.append({})
        self.types.append({})
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()
            self.types.pop()

    def __contains__(self, name: object) -> bool:
        """True for a name that is taken, in the file or by a variable of the function."""
        return name in self.declared or name in self.tokens.words

    def lookup(self, name: str) -> Symbol | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def array(self, made: ast.Declare) -> Elements:
        return Elements(made.name, made.type, len(made.dims), const=made.const, dims=made.dims)

    def type(self, name: str) -> Kind | None:
        found = next((scope[name] for scope in reversed(self.types) if name in scope), None)
        return found if isinstance(found, str | StructType) else None

    def type_of(self, value: Any) -> Any:
        """The type of a value where C++ deduces one from it."""
        return deduced_type(inline(value, self.formulas)) if is_expression(value) else value.type

    def fresh(self, name: str, kind: str, value: Expr | None = None, place: Place = ast.NOWHERE) -> ast.Name:
        """A new variable, declared ahead of the current statement."""
        made = ast.Declare(unused_name(name, self, numbers=self.numbers), kind, value=value, place=place)
        self.declared[made.name] = made
        self.pending.append(made)
        return ast.Name(made.name, kind, place)

    def declare(self, variable: ast.Declare) -> None:
        """Enter a variable.

        It is renamed where it hides another, shares a name with one of another type, or would be declared twice once
        the statements of a block on its own have joined those around it. A loop's variable and one of a branch, whose
        declaration may move ahead of both, share no name either.
        """
        name = variable.name
        if name in self.scopes[-1]:
            raise self.tokens.error(variable.place, f"{name} is declared twice in one scope.")
        if name in ast.BUILTINS:
            raise self.tokens.error(variable.place, f"{name} is the name of a builtin; choose another name.")
        other = self.declared.get(name)
        alike = other and (other.type, other.dims) == (variable.type, variable.dims) and not variable.shared
        apart = (name in self.counters) != self.in_header
        twice = other and (self.bare or name in self.joined or not alike or apart)
        taken = base_name(name) or name in self.functions or name in self.macros
        if taken or twice or name in self.parameters or self.lookup(name) is not None:
            variable.name = unused_name(name if not taken else f"{name}_2", self, numbers=self.numbers)
        if self.bare:
            self.joined.add(name)
        if self.in_header:
            self.counters.add(variable.name)
        self.declared[variable.name] = self.scopes[-1][name] = variable

    def variable(self, token: Token, of_file: bool = False) -> Value | PointerVariable:
        """The value of a name. of_file: no local one. Raises NotDifferentiable where it is not declared."""
        name = token.text
        symbol = self.scopes[0].get(name) if of_file else self.lookup(name)
        match symbol:
            case ast.Declare() if symbol.dims:
                return self.array(symbol)
            case ast.Parameter() if symbol.pointer:
                return Elements(symbol.name, symbol.type, 1, const=symbol.const)
            case ast.Declare() | ast.Parameter():
                return ast.Name(symbol.name, symbol.type, token.place)
        if symbol is not None:
            return symbol
        if name in self.macros:
            return ast.Name(name, self.macros[name].type, token.place)
        if name in ast.CONSTANTS:
            return ast.Name(name, ast.CONSTANTS[name], token.place)
        raise self.tokens.rejected(token) or self.tokens.unknown(token.place, f"{name} is not declared here.")


class TypeParser:
    """Parses types. functions: those of the file, with its structs; None where there are none."""

    body_end = 0  # the last token of the function being parsed

    # Methods of the parsers that extend this one.
    address: Any
    assign: Any
    changes: Any
    close: Any
    construct: Any
    conversions: Any
    element: Any
    frozen: Any
    full: Any
    holder: Any
    is_constructed: Any
    method: Any
    pointer: Any
    unary: Any
    value: Any

    def __init__(self, tokens: TokenStream, symbols: SymbolTable, functions: Any = None):
        self.tokens, self.symbols, self.functions = tokens, symbols, functions
        self.statement_start = -1  # the first token of the current statement

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return self.tokens.error(place, why)

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
            return TYPES.get(plain(" ".join(words))), at - start
        if tokens[at].text in ("std", "cuda") and tokens[at + 1].text == "::":
            at += 2
        elif tokens[at].text == "::":
            at += 1
        while self.functions and tokens[at].text in self.functions.namespaces and tokens[at + 1].text == "::":
            at += 2
        name = tokens[at].text
        if tokens[at].kind != "name" or name == "union":
            return None, 0
        while tokens[at + 1].text == "::" and self.symbols.type(tokens[at + 2].text) is not None:
            at += 2  # a type of a namespace
            name = tokens[at].text
        if name in self.tokens.unsupported:
            return None, 0
        kind = self.named_type(name)
        at += 1
        if tokens[at].text == "<" and self.is_template(name):
            kind, at = self.functions.instance(self, name, at)
        while isinstance(kind, StructType) and tokens[at].text == "::" and tokens[at + 1].text in kind.types:
            kind, at = kind.types[tokens[at + 1].text], at + 2
        while kind is not None and tokens[at].text in IGNORED:
            at += 1
        return (kind, at - start) if isinstance(kind, str | StructType) else (None, 0)

    def is_template(self, name: str) -> bool:
        """True for the template of a type or a constant that no variable hides, as `decay < x` does std::decay."""
        hidden = name in self.symbols.macros or self.symbols.lookup(name) is not None
        return not hidden and self.functions is not None and name in self.functions.templates

    def passed_on(self, at: int) -> bool:
        """True where a token is an argument that a function, method or lambda of the file may take by reference."""
        found, n, depth, place = self.tokens.tokens, at - 1, 0, 0
        while depth or found[n].text not in ("(", "{", "["):
            depth += (found[n].text in (")", "}", "]")) - (found[n].text in ("(", "{", "["))
            place += found[n].text == "," and not depth
            if (n := n - 1) < max(1, at - LONGEST):
                return True
        first = 0 if "<" in [t.text for t in found[n:at]] else place  # the commas of f<a, b>(x) were counted, too
        while (text := found[n := n - 1].text) in (">", ">>") or (depth > 0 and text not in (";", "{", "}")):
            depth += {">": 1, ">>": 2, "<": -1}.get(text, 0)  # the arguments of a template
        if items := self.functions.items.get(text):
            every = (self.functions.parameters(each.params)[first : place + 1] for each in items)
            return any("&" in words and ("*" in words or "const" not in words) for p in every for _, words, _ in p)
        if text in (*TYPES, "if", "while", "switch", "return"):
            return False
        uses = self.tokens.named.get(text, ())  # those of a function of CUDA are all calls
        behind = {found[m + 1].text for m in uses} - {"(", "<"}
        bodies = {"{", "const"} & {found[self.tokens.closing.get(m + 1, m) + 1].text for m in uses}
        return found[n - 1].text in (".", "->") or bool(behind or bodies)

    def named_type(self, name: str) -> Kind | None:
        alias = self.symbols.macros.get(name)
        if alias and alias.name == "a type":
            return alias.type
        if self.symbols.lookup(name) is not None or self.holder(name) is not None:
            return None
        if (found := self.symbols.type(name)) is not None:
            return found
        if self.functions and (struct := self.functions.struct(name)) is not None:
            return struct
        if self.functions and name in self.functions:
            return None
        known = TYPES.get(name) or VECTORS.get(name)
        return known or VECTORS.get(ALIASES.get(name, plain(name))) or TYPES.get(plain(name))

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
        return self.tokens.rejected(token) or self.tokens.unknown(token.place, why)

    def expression(self, rank: int = 0) -> Expr:
        """An expression that is a number, of operators that bind more tightly than `rank`."""
        place, value = self.tokens.next.place, self.value(rank)
        return self.number(value, place)

    def number(self, value: Value, place: Place, kind: str | None = None, explicit: bool = False) -> Expr:
        """The number that a value is, or that C++ makes of an object, best as one of this type. explicit: by a cast."""
        if is_expression(value):
            return value  # type: ignore[return-value]
        if isinstance(value, Struct) and (names := self.conversions(value, kind, explicit)):
            if len(names) > 1:
                raise self.error(place, f"{value.type} can become several types here; call a method of it instead.")
            return self.number(self.method(value, names[0], [], Token("name", names[0], place)), place)
        what = "a struct" if isinstance(value, Struct) else "an array or a pointer"
        raise self.error(place, f"{what} stands here in place of a number; take an element or a member of it.")

    def truth(self, value: Value, place: Place) -> Expr:
        """A condition; of a pointer, whether the launch gives its array."""
        if isinstance(value, Pointer | Elements):
            return self.given(self.pointer(value, place))
        return self.number(value, place, "bool", explicit=True)

    def given(self, pointer: Pointer) -> Expr:
        array, self.symbols.tested = pointer.array, True
        if array is not None and array.maybe:
            why = "a branch alone has given this pointer an array; ask what the branch asks, or keep that in a bool."
            raise self.error(self.tokens.next.place, why)
        if pointer.moves:
            pointer.moves.asked = True
        null = array.name.removesuffix("[]") in {*self.symbols.null, NOTHING} if array else pointer.target is None
        return ast.Number("false" if null else "true", "bool")

    def cast_void(self, kind: Kind, pointer: Pointer, place: Place) -> Pointer:
        """A parameter `void* p` as the array that it is in the adjoint."""
        array = pointer.array
        assert array is not None
        if (known := self.symbols.cast.setdefault(array.name, kind)) is not kind and known != kind:
            why = f"{array.name} is cast to {known}* and to {kind}*; write a parameter for each type."
            raise self.error(place, why)
        struct = isinstance(kind, StructType)
        return Pointer(replace(array, name=f"{array.name}[]" if struct else array.name, type=kind, joint="."))

    def isolated(self, parse: Callable[[], T], choice: bool = False) -> tuple[T, list[Stmt]]:
        """A value, and the statements that it needs, which do not join the pending ones. choice: some skip it."""
        outer, self.symbols.pending = self.symbols.pending, []
        self.symbols.choices += choice
        try:
            value = parse()
            return value, self.symbols.pending
        finally:
            self.symbols.pending = outer
            self.symbols.choices -= choice

    def ordered(self, values: list, parse: Callable[..., Any], *arguments: Any) -> Any:
        """The next value in braces, which may change what those ahead of it read: these are kept in variables."""
        value, needed = self.isolated(partial(parse, *arguments))

        def kept(v: Any) -> Any:
            if isinstance(v, Braces):
                return replace(v, values=tuple(map(kept, v.values)))
            if isinstance(v, Elements | Pointer) or not changed & names_in(leaves(v)):
                return v
            new = replace(v, passing=True) if isinstance(v, Struct) else self.simple(v, "first", ast.NOWHERE)
            return self.frozen(new, ast.NOWHERE)

        if changed := written(needed):
            values[:] = map(kept, values)
        self.symbols.pending += needed
        return value

    def simple(self, e: Expr, name: str, place: Place, always: bool = False, index: bool = False) -> Expr:
        """An expression that keeps its value: in a new variable unless it is a number. index: of an element."""
        if isinstance(e, ast.Number) or (isinstance(e, ast.Name) and not always and "." in e.name):
            return e
        return self.symbols.fresh(name, e.type if index else self.symbols.type_of(e), e, place)

    def is_constant(self, value: Value) -> bool:
        """True for a variable or an element that is const, and for what lies behind a pointer to const."""
        match value:
            case Pointer() | PointerVariable():
                behind = value.array or value.target
                return behind is not None and self.is_constant(behind)
            case Elements():
                return value.const
            case ast.Name() | ast.Index():
                return self.is_const(value.name if isinstance(value, ast.Name) else value.array)
        return isinstance(value, Struct) and any(map(self.is_constant, value.members.values()))

    def is_const(self, name: str) -> bool:
        symbol = self.symbols.declared.get(name) or self.symbols.parameters.get(name.partition("[")[0])
        return symbol is not None and symbol.const

    def skip_to_semicolon(self) -> None:
        while self.tokens.next.kind != "end" and self.tokens.take().text != ";":
            pass

    def taken_pending(self) -> list[Stmt]:
        found, self.symbols.pending = self.symbols.pending, []
        return found


def has_name(found: list[Token], parameter: tuple[int, str, int]) -> bool:
    """False for a parameter of a template whose default says what it is for, `typename = std::enable_if_t<...>`."""
    before, last = (found[parameter[2] - n] for n in (3, 2))  # ahead of the =
    named = last.kind == "name" and last.text not in ("typename", "class") and before.text not in ("<", ",", "::")
    return named or not parameter[2]
