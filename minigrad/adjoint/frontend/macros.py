"""Names and texts that stand for numbers: macros, enumerators, literals, limits and sizes of types, formulas."""

from collections.abc import Callable, Mapping
from typing import Any

from minigrad.adjoint.frontend.symbols import SymbolTable
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import BYTES, TYPES, Expr, Name, Number, Place, is_float
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.rewrite import constant, int_literal, int_value
from minigrad.adjoint.language.values import Elements, Enum, Pointer, StructType


def typed_macros(
    tokens: TokenStream, macros: Mapping[str, list[Token]], parser: Callable[..., Any]
) -> tuple[dict[str, Name], dict[str, Expr]]:
    """The macros that stand for types or expressions, with their types, and the expressions.

    The others are entered into `tokens.unsupported`. parser: that of expressions.
    """
    names: dict[str, Name] = {}
    formulas: dict[str, Expr] = {}
    for name, body in macros.items():
        text = " ".join(t.text for t in body)
        if text in TYPES or not text:
            names[name] = Name("a type", TYPES.get(text, "real"))
        elif e := _macro_expression(tokens, text, body, names, parser):
            names[name], formulas[name] = Name(name, e.type), e
        else:
            why = f"the macro {name} must be a type or an expression in parentheses, of numbers and macros ahead of it."
            tokens.unsupported[name] = tokens.error(body[0].place, why)
    return names, formulas


def _macro_expression(
    tokens: TokenStream, text: str, body: list[Token], macros: dict[str, Name], parser: Callable[..., Any]
) -> Expr | None:
    """The expression for which a macro stands; None if it is not one, or changes its meaning without parentheses."""
    stream = TokenStream(tokens.name, text, [*body, Token("end", "", Place(0, 0))], unsupported=tokens.unsupported)
    try:
        e = parser(stream, SymbolTable(stream, macros)).expression()
    except NotDifferentiable:
        return None
    return None if stream.next.kind != "end" or _has_bare_operator(body) else e


def _has_bare_operator(body: list[Token]) -> bool:
    """True where an operator stands outside parentheses: with `#define A 1 + 2`, A * x is 1 + 2 * x."""
    depth = 0
    for n, token in enumerate(body):
        depth += (token.text == "(") - (token.text == ")")
        if n and not depth and token.kind != "number" and token.text != ")":
            return True
    return False


def enumeration(parser: Any, typedef: bool, twice: Callable[[str, Place], None]) -> list[str]:
    """Enter an enum whose word has been read: a type of whole numbers, and names of these. Return all names of it."""
    tokens, symbols, value = parser.tokens, parser.symbols, -1
    scoped = tokens.accept("class") or tokens.accept("struct")
    place, name = tokens.next.place, tokens.take().text if tokens.next.kind == "name" else ""
    kind = parser.scalar_type() if tokens.accept(":") else "int"
    values: dict[str, Expr] = {}
    if tokens.next.text == ";":  # declared ahead
        return []
    tokens.expect("{")
    inside = symbols.scopes[-1] if not scoped else values
    for _ in tokens.items("}"):
        own = tokens.identifier("a name").text
        if tokens.accept("="):
            at = tokens.next.place
            with symbols.scope() as scope:
                scope.update(values)
                e = parser.expression()
            given = constant(e) if int_value(e) is None else int_value(e)
            if given is None:
                raise tokens.error(at, f"the number of {own} is not known here; write it as a literal.")
            value = given - 1
        value += 1
        values[own] = number = int_literal(value)
        if inside.setdefault(own, number) != number:
            twice(own, tokens.next.place)
    name = tokens.take().text if typedef and tokens.next.kind == "name" else name
    if not name:
        return [] if scoped else [*values]
    symbols.types[-1][name] = kind
    made = Enum(kind, scoped, {n: str(int_value(e)) for n, e in values.items()}, place.file)
    if symbols.enums.setdefault(name, made) != made:
        twice(name, place)
    return [name, *([] if scoped else values)]


def character(parser: Any, token: Token) -> Expr:
    text = parser.tokens.text[token.start : token.stop]
    if len(text) != 3:
        raise parser.error(token.place, f"write the number of the character {text}.")
    return ast.Number(str(ord(text[1])), "signed char")


def limit(parser: Any) -> Expr:
    """`std::numeric_limits<float>::max()`."""
    tokens = parser.tokens
    place = tokens.next.place
    tokens.at += 3
    tokens.expect("<")
    kind = parser.scalar_type()
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
        raise parser.error(place, f"std::numeric_limits<{kind}>::{name} is not known here; write its value.")
    return ast.Name(found, ast.CONSTANTS[found], place)


def sizeof(parser: Any) -> Expr:
    """`sizeof(float)`, `sizeof(q)` or `sizeof q`."""
    tokens, place = parser.tokens, parser.tokens.take().place
    inside = tokens.accept("(")
    kind, dims = parser.accept_type() if inside else None, tuple[Expr, ...]()
    if kind is None:
        value, _ = parser.isolated(parser.full if inside else parser.unary)
        kind = value.type
        if isinstance(value, Elements):
            dims = value.left
        if isinstance(value, Pointer) or (isinstance(value, Elements) and not dims):
            kind = "size_t"  # of the bytes of an address
    if inside:
        while tokens.accept("*"):
            kind = "size_t"
        tokens.expect(")")
    members = [m.type for m in kind.members] if isinstance(kind, StructType) else [kind]
    if not all(isinstance(m, str) and m in BYTES and m != "real" for m in members) or len(set(members)) > 1:
        raise parser.error(place, f"the bytes of {kind} are not known here; write their number.")
    made: Expr = Number(str(sum(BYTES[str(m)] for m in members)), "size_t")
    for extent in dims:
        made = ast.Binary("*", made, extent, "size_t")
    return made


def literal(text: str) -> ast.Number:
    low = text.lower()
    if low.startswith("0x") and "p" in low:
        return ast.Number(repr(float.fromhex(low.rstrip("f"))), "float" if low.endswith("f") else "double")
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        wide = "l" in low
        kind = ("unsigned long long" if wide else "unsigned") if "u" in low else "long long" if wide else "int"
        return ast.Number(text, kind)
    return ast.Number(text.rstrip("lL"), "float" if low.endswith("f") else "double")


def whole_numbers(named: Mapping[str, Expr | None]) -> dict[str, int]:
    """The values of the int literals among named expressions."""
    return {name: n for name, e in named.items() if isinstance(e, Number) and (n := int_value(e)) is not None}
