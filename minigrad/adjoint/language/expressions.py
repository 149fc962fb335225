"""The symbol table, and the parser of types and expressions."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import TYPES, Expr, arity, base_name, common_type, is_float, result_type, unused_name
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream, tokenize, way_out

Symbol = ast.Declare | ast.Parameter
ALLOWED_TYPES = "int, unsigned, long long, bool, float, double and real are allowed"
OTHER_TYPES = ("long", "char", "short", "signed", "void", "half")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
COMPARISONS = ("||", "&&", "==", "!=", "<", "<=", ">", ">=")
# Tokens that may not follow an operand, with the way out.
POSTFIX = {
    "++": "make it a statement", "--": "make it a statement", ".": "write a variable for each member",
    "->": "write a variable for each member", "[": "an array takes one index for each of its axes",
    "(": "only functions are called", "::": "write the name alone",
}  # fmt: skip
POWER = "a power is x * x, or pow(x, 3)"


class SymbolTable:
    """The names known at the cursor. A new variable gets a new name where its own would be ambiguous."""

    def __init__(self, tokens: TokenStream, macros: dict[str, ast.Name] | None = None):
        self.tokens, self.macros = tokens, macros or {}
        self.functions: dict[str, ast.Function] = {}
        self.scopes: list[dict[str, Symbol]] = [{}]  # the innermost last
        self.declared: dict[str, ast.Declare] = {}  # all variables of the function
        self.joined: set[str] = set()  # those of blocks on their own, whose statements join those around them
        self.bare = 0  # such blocks around the cursor
        self.function = ""  # the name of the function being parsed

    @contextmanager
    def scope(self) -> Iterator[dict[str, Symbol]]:
        self.scopes.append({})
        try:
            yield self.scopes[-1]
        finally:
            self.scopes.pop()

    def lookup(self, name: str) -> Symbol | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def declare(self, variable: ast.Declare) -> None:
        """Enter a variable.

        It is renamed where it hides another, shares a name with one of another type, or would be declared twice once
        the statements of a block on its own have joined those around it.
        """
        name = variable.name
        if name in self.scopes[-1]:
            raise self.tokens.error(variable.place, f"{name} is declared twice in one scope.")
        if base_name(name) or name in self.functions or name in self.macros or name in ast.BUILTINS:
            what = "builtin" if name in ast.BUILTINS else "function or macro"
            raise self.tokens.error(variable.place, f"{name} is the name of a {what}; choose another name.")
        other = self.declared.get(name)
        twice = other and (
            self.bare or name in self.joined or (other.type, other.dims) != (variable.type, variable.dims)
        )
        if twice or self.lookup(name):
            variable.name = unused_name(name, {*self.declared, *self.tokens.words})
        if self.bare:
            self.joined.add(name)
        self.declared[variable.name] = self.scopes[-1][name] = variable

    def variable(self, token: Token) -> ast.Name:
        """The name as a typed expression. Raises NotDifferentiable where it is not declared."""
        name = token.text
        if name in ast.CONSTANTS:
            return ast.Name(name, ast.CONSTANTS[name], token.place)
        if name in self.macros:
            return ast.Name(name, self.macros[name].type, token.place)
        if name in ast.BUILTINS:
            raise self.tokens.error(token.place, f"{name} is used by its parts x, y and z.")
        if symbol := self.lookup(name):
            return ast.Name(symbol.name, symbol.type, token.place)
        raise self.tokens.rejected(token) or self.tokens.error(token.place, f"{name} is not declared here.")


class ExpressionParser:
    """Parses types and expressions by precedence climbing."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable):
        self.tokens, self.symbols = tokens, symbols

    # --- types ---

    def peek_type(self) -> str | None:
        """The type that begins at the cursor, in one word; None where no type does. The cursor stays."""
        token, following = self.tokens.next, self.tokens.peek()
        two = f"{token.text} {following.text}"
        if two in TYPES:
            return TYPES[two]
        if token.text in OTHER_TYPES and (following.kind == "name" or following.text in "*&"):
            raise self.unknown_type(token)
        alias = self.symbols.macros.get(token.text)
        kind = TYPES.get(token.text) or (alias.type if alias and alias.name == "a type" else None)
        if kind and following.text in ("long", "char", "short", "int", "double"):
            raise self.unknown_type(token._replace(text=two))
        return kind

    def accept_type(self) -> str | None:
        if kind := self.peek_type():
            self.tokens.at += 2 if f"{self.tokens.next.text} {self.tokens.peek().text}" in TYPES else 1
        return kind

    def expect_type(self) -> str:
        if kind := self.accept_type():
            return kind
        raise self.unknown_type(self.tokens.next)

    def unknown_type(self, token: Token) -> NotDifferentiable:
        why = f"the type {token.text} is outside the differentiable subset; {ALLOWED_TYPES}."
        return self.tokens.rejected(token) or self.tokens.error(token.place, why)

    # --- expressions ---

    def expression(self, rank: int = 0) -> Expr:
        """An expression of operators that bind more tightly than `rank`."""
        tokens, left = self.tokens, self.unary()
        while (op := tokens.next.text) in ast.PRECEDENCE and ast.PRECEDENCE[op] > rank:
            token = tokens.take()
            if op == tokens.next.text == "*" and tokens.next.place.column == token.place.column + 1:
                raise tokens.error(token.place, f"** is no operator of C++; {POWER}.")
            right = self.expression(ast.PRECEDENCE[op])
            kinds = (left.type, right.type)
            if op in ("%", "&", "|", "^", "<<", ">>") and any(map(is_float, kinds)):
                instead = f"; {POWER}" if op == "^" else ""
                raise tokens.error(token.place, f"{op} of floating-point numbers has no meaning{instead}.")
            left = ast.Binary(op, left, right, "bool" if op in COMPARISONS else common_type(*kinds))
        if rank == 0 and tokens.accept("?"):
            yes = self.expression()
            tokens.expect(":")
            no = self.expression()
            return ast.Ternary(left, yes, no, common_type(yes.type, no.type))
        if rank and tokens.next.text in (*ASSIGNMENTS, "++", "--"):
            raise tokens.error(tokens.next.place, f"{tokens.next.text} inside an expression; make it a statement.")
        return left

    def unary(self) -> Expr:
        """An operand, with its signs and negations."""
        token = self.tokens.next
        if token.text in ("-", "!", "~", "+"):
            self.tokens.take()
            operand = self.unary()
            if token.text == "~" and is_float(operand.type):
                raise self.tokens.error(token.place, "~ of a floating-point number has no meaning.")
            kind = "bool" if token.text == "!" else common_type(operand.type)
            return operand if token.text == "+" else ast.Unary(token.text, operand, kind)
        if token.text in ("++", "--", "*", "&"):
            why = "make it a statement" if token.text in ("++", "--") else "write x[i] for an element"
            raise self.tokens.error(token.place, f"{token.text} before an operand is outside the subset; {why}.")
        operand, after = self.operand(), self.tokens.next
        if advice := POSTFIX.get(after.text):
            raise self.tokens.error(after.place, f"{after.text!r} is outside the differentiable subset here; {advice}.")
        return operand

    def operand(self) -> Expr:
        """A literal, a name, an element, a call, a cast, or an expression in parentheses."""
        tokens = self.tokens
        if tokens.next.kind == "number":
            return literal(tokens.take().text)
        if tokens.accept("("):
            return self.parenthesis()
        kind = self.accept_type()
        if not kind and tokens.accept("static_cast"):
            tokens.expect("<")
            kind = self.expect_type()
            tokens.expect(">")
        if kind:
            tokens.expect("(")
            return self.close(ast.Cast(kind, self.expression()))
        name = tokens.identifier("an operand")
        if name.text == "__ldg":
            return self.close(self.address(name))
        if tokens.next.text == "(":
            return self.call(name)
        if name.text in ast.BUILTINS and tokens.accept("."):
            axis = tokens.identifier("x, y or z")
            if axis.text not in "xyz":
                raise tokens.error(axis.place, f"{name.text}.{axis.text} does not exist; the parts are x, y and z.")
            return ast.Name(f"{name.text}.{axis.text}", "int", name.place)
        return self.element(name)

    def address(self, function: Token) -> ast.Index:
        """The element x[i] of `__ldg(&x[i])` or `atomicAdd(&x[i], e)`, up to its end."""
        self.tokens.expect("(")
        if not self.tokens.accept("&"):
            more = ", value" if function.text == "atomicAdd" else ""
            why = f"{function.text} takes the element: {function.text}(&x[i]{more})."
            raise self.tokens.error(self.tokens.next.place, why)
        name = self.tokens.identifier("an array")
        target = self.element(name)
        if not isinstance(target, ast.Index):
            raise self.tokens.error(name.place, f"{name.text} is no array; {function.text} takes an element of one.")
        return target

    def parenthesis(self) -> Expr:
        """A cast or an expression, after its opening parenthesis."""
        place, const = self.tokens.next.place, self.tokens.accept("const")
        if kind := self.accept_type():
            if const or self.tokens.next.text == "*":
                why = "pointers cannot be cast in the subset; pass the array with its own type."
                raise self.tokens.error(place, why)
            self.tokens.expect(")")
            return ast.Cast(kind, self.unary())
        return self.close(self.expression())

    def close(self, e: Expr) -> Expr:
        """The expression, with its closing parenthesis stepped over."""
        self.tokens.expect(")")
        return e

    def element(self, name: Token) -> ast.Name | ast.Index:
        """A variable, or an element of an array with an index for each axis."""
        variable, symbol = self.symbols.variable(name), self.symbols.lookup(name.text)
        axes = 0 if symbol is None else int(symbol.pointer) if isinstance(symbol, ast.Parameter) else len(symbol.dims)
        indices: list[Expr] = []
        while len(indices) < axes and self.tokens.accept("["):
            at = self.tokens.next.place
            indices.append(self.expression())
            if is_float(indices[-1].type):
                raise self.tokens.error(at, "an index must be a whole number.")
            self.tokens.expect("]")
        if len(indices) != axes:
            raise self.tokens.error(
                name.place, f"{name.text} is an array of {axes} axes and is used here with {len(indices)} indices; "
                "pointers cannot be moved, copied or compared in the subset."
            )  # fmt: skip
        return ast.Index(variable.name, tuple(indices), variable.type, name.place) if axes else variable

    def call(self, name: Token) -> Expr:
        """A call of a math function or of one of the file's device functions."""
        tokens, function = self.tokens, self.symbols.functions.get(name.text)
        tokens.expect("(")
        if error := tokens.unsupported.get(name.text):
            raise error
        if name.text == self.symbols.function:
            raise tokens.error(name.place, f"{name.text} calls itself; recursion is outside the subset, write a loop.")
        if name.text == "atomicAdd":
            why = "the value that atomicAdd returns depends on the order of the threads; use it as a statement alone."
            raise tokens.error(name.place, why)
        if function is None and not base_name(name.text):
            why = f"{name.text} has no derivative rule here, and is no __device__ function; {way_out(name.text)}."
            raise tokens.error(name.place, why)
        pointers = [n for n, p in enumerate(function.params) if p.pointer] if function else []
        arguments = tuple(self.whole_array() if n in pointers else self.expression() for n in tokens.items(")"))
        wanted = len(function.params) if function else arity(name.text)
        if len(arguments) != wanted:
            raise tokens.error(name.place, f"{name.text} takes {wanted} arguments; got {len(arguments)}.")
        if function:
            return ast.Call(name.text, arguments, function.returns, name.place, function.inactive)
        return ast.Call(name.text, arguments, result_type(name.text, [e.type for e in arguments]), name.place)

    def whole_array(self) -> ast.Name:
        """An array passed to a device function: a pointer parameter by its name."""
        tokens = self.tokens
        tokens.forbid("pass the array alone, and the index as a parameter of its own.", "&")
        name = tokens.identifier("an array")
        if not isinstance(self.symbols.lookup(name.text), ast.Parameter):
            raise tokens.error(name.place, "only a pointer parameter can be passed to a function as an array.")
        if tokens.next.text not in (",", ")"):
            why = f"pass {name.text} alone, and the index as a parameter of its own."
            raise tokens.error(tokens.next.place, why)
        return self.symbols.variable(name)


def literal(text: str) -> ast.Number:
    low = text.lower()
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        return ast.Number(text, "unsigned" if "u" in low else "long long" if "l" in low else "int")
    return ast.Number(text, "float" if low.endswith("f") else "double")


def parse_expression(text: str, variables: Iterable[str] = ()) -> Expr:
    """An expression of literals, builtins and these variables of type real."""
    tokens = tokenize(text, text)
    symbols = SymbolTable(tokens)
    symbols.scopes[0] = {name: ast.Declare(name, "real") for name in variables}
    return ExpressionParser(tokens, symbols).expression()
