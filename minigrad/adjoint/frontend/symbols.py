"""The symbol table: variables, types and parameters by the names that they have at the cursor."""

from collections.abc import Iterator
from contextlib import contextmanager

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import (
    Expr,
    Place,
    Stmt,
    base_name,
    unused_name,
)
from minigrad.adjoint.language.lexer import Token, TokenStream
from minigrad.adjoint.language.values import (
    Elements,
    Kind,
    Pointer,
    PointerVariable,
    StructType,
    Value,
)

Symbol = ast.Declare | ast.Parameter | Value | PointerVariable


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

    def array(self, made: ast.Declare) -> Elements:
        return Elements(made.name, made.type, len(made.dims), const=made.const, dims=made.dims)

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
        if taken or twice or name in self.parameters or self.lookup(name) is not None:
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
        raise self.tokens.rejected(token) or self.tokens.error(token.place, f"{name} is not declared here.")
