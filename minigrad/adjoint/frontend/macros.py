"""Numbers by other names: macros, enumerators, literals, limits and sizes of types, formulas; numbers in memory."""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

from minigrad.adjoint.frontend.symbols import CHARS, FLOATS_AS, SymbolTable
from minigrad.adjoint.language import ast, printer
from minigrad.adjoint.language.ast import BYTES, TYPES, UNSIGNED, Cast, Expr, Name, Number, Place, is_float
from minigrad.adjoint.language.dataflow import inline
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream
from minigrad.adjoint.language.rewrite import (
    SUFFIXES,
    ZERO,
    constant,
    count_up,
    fits,
    folded,
    int_literal,
    int_value,
    plus,
    replace_parts,
    rescaled,
    times,
    typed,
)
from minigrad.adjoint.language.values import (
    VECTORS,
    ArrayView,
    Braces,
    Elements,
    Enum,
    Kind,
    Pointer,
    Struct,
    StructType,
    is_expression,
)

LAID_OUT = re.compile(r"\b(alignas|__align__|__attribute__|virtual)\b")  # otherwise than members follow one another
BARE = "{0} has no arguments here; let the parameter be a class, and give it {0}<...> with its arguments."
SEVERAL = "{} has several meanings in this file; give each a name of its own."
PACKED = re.compile(r"#\s*pragma\s+pack\b|\b_Pragma\b")


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
    values, numbers = dict[str, Expr](), dict[str, str]()
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
                e = inline(with_constants(symbols, parser.expression()), symbols.formulas)
            given = constant(e) if (n := int_value(e)) is None else n
            if given is None:
                raise tokens.error(at, f"the number of {own} is not known here; write it as a literal.")
            value = given - 1
        value += 1
        if not fits(value, kind):
            raise tokens.error(
                tokens.next.place, f"{own} is no {kind}; give the enum a type: enum : unsigned {{ ... }}."
            )
        values[own], numbers[own] = number, _ = enumerator(value, kind), str(value)
        if inside.setdefault(own, number) != number:
            twice(own, tokens.next.place)
    name = tokens.take().text if typedef and tokens.next.kind == "name" else name
    if not name:
        return [] if scoped else [*values]
    symbols.types[-1][name] = kind
    made = Enum(kind, scoped, numbers, place.file)
    if symbols.enums.setdefault(name, made) != made:
        twice(name, place)
    return [name, *([] if scoped else values)]


def with_constants(symbols: SymbolTable, e: Expr) -> Expr:
    """An expression with the values of constants, and of functions that are one return of such, in their place."""
    known = [s for scope in symbols.scopes for s in scope.values() if isinstance(s, ast.Declare) and s.const]
    values = {s.name: typed(s.value, s.type) for s in known if s.value is not None}

    def returned(x: Expr) -> Expr | None:
        function = symbols.functions.get(x.function) if isinstance(x, ast.Call) else None
        if function is None or len(function.body) > 1 or not isinstance(last := function.body[0], ast.Jump):
            return None
        given = [folded(typed(replace_parts(a, returned), p.type))
                 for p, a in zip(function.params, ast.children(x), strict=True)]  # fmt: skip
        if any(a.names for a in given):
            return None
        own = {p.name: a for p, a in zip(function.params, given, strict=True)}
        return last.value and typed(replace_parts(inline(inline(last.value, own), values), returned), function.returns)

    return replace_parts(inline(e, values), returned)


def evaluated(symbols: SymbolTable, made: list[Any]) -> Any:
    """A constant whose value calls no function, as none is ahead of it in the adjoint's file; None where that fails."""

    def calls(e: Expr) -> bool:
        return any(isinstance(x, ast.Call) and x.function in symbols.functions for x in ast.walk(e))

    table = next((s for s in made if isinstance(s, ast.Declare) and s.const), None)
    if table is None or table.place.file:  # the adjoint includes that file
        return table
    given = [e for e in (table.value, *(table.values or ())) if e is not None]
    if table is made[0] and not any(map(calls, given)):
        return table
    table.value = table.value and with_constants(symbols, table.value)
    if table is not made[0] or table.value is None or calls(table.value):
        return None
    table.text = f"constexpr {table.type} {table.name} = {printer.expression(table.value)};"
    return table


def table(parser: Any, kind: str, name: Token, constant: bool) -> ast.Declare:
    """A constant of numbers outside of functions, entered into the scope. constant: a launch may have its values."""
    symbols = parser.symbols
    if name.text in symbols.scopes[0]:
        raise parser.error(name.place, SEVERAL.format(name.text))
    before = len(symbols.pending)
    parser.variable(kind, name, False, True)
    made = evaluated(symbols, symbols.pending[before:])
    symbols.pending = []
    given = isinstance(made, ast.Declare) and (made.value, made.values) != (None, None)
    if not (given or (made and constant)):
        symbols.scopes[0].pop(name.text, None)
        symbols.declared.pop(name.text, None)
        raise parser.error(name.place, f"{name.text} has no values here; write them, or pass it as a parameter.")
    symbols.declared.pop(made.name, None)
    return made


def enumerator(value: int, kind: str) -> Expr:
    """A number of an enum of this type."""
    return int_literal(value, kind if kind in SUFFIXES else "int")


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
    if name == "lowest" and is_float(kind):
        return ast.Unary("-", ast.Name(words["max"], kind, place), kind)
    found = words.get(name, "")
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
    packed = isinstance(kind, StructType) and PACKED.search(tokens.text)
    if (placed := _placed(kind)) is None or packed:
        raise parser.error(place, f"the bytes of {kind} are not known here; write their number.")
    made: Expr = int_literal(_size(placed), "size_t")
    for extent in dims:
        made = ast.Binary("*", made, extent, "size_t")
    return made


def _placed(kind: Kind) -> tuple[int, int] | None:
    """Where the last member of a type ends, and at multiples of how many bytes it begins; None where that is not known.

    A base is placed as a member is where nothing is left at its end, which C++ gives to what follows in some cases.
    """
    if isinstance(kind, str):
        return None if kind == "real" or kind not in BYTES else (BYTES[kind], BYTES[kind])
    if LAID_OUT.search(kind.text):
        return None
    parts = [(_placed(base), 1) for base in kind.bases if base.members]
    if any(placed and placed[0] != _size(placed) for placed, _ in parts):
        return None
    end, align = 0, 1
    for m in kind.members[sum(len(base.members) for base in kind.bases) :]:
        count = prod(constant(d) or 0 for d in m.dims)
        parts.append(((8, 8) if m.pointer else _placed(m.type) if count else None, count))
    for placed, count in parts:
        if placed is None:
            return None
        end = -(-end // placed[1]) * placed[1] + _size(placed) * count
        align = max(align, placed[1])
    count = len(kind.members)
    return end, min(align * (count & -count), 16) if VECTORS.get(kind.name) is kind else align


def _size(placed: tuple[int, int]) -> int:
    end, align = placed
    return -(-max(end, 1) // align) * align


def literal(text: str) -> ast.Number:
    low = text.lower()
    if low.startswith("0x") and "p" in low:
        return ast.Number(repr(float.fromhex(low.rstrip("f"))), "float" if low.endswith("f") else "double")
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        wide = "l" in low
        value, decimal = int(low.rstrip("ul"), 0), not low.startswith("0x")
        kinds = [k for k in SUFFIXES if "u" not in low or k in UNSIGNED]
        kinds = ["int", *kinds] if "u" not in low else kinds
        kinds = [k for k in kinds if not (wide and k in ("int", "unsigned"))]
        kinds = [k for k in kinds if not (decimal and "u" not in low and k in UNSIGNED)]
        return ast.Number(text, next(k for k in kinds if fits(value, k)))
    return ast.Number(text.rstrip("lL"), "float" if low.endswith("f") else "double")


def whole_numbers(named: Mapping[str, Expr | None]) -> dict[str, int]:
    """The values of the int literals among named expressions."""
    return {name: n for name, e in named.items() if isinstance(e, Number) and (n := int_value(e)) is not None}


# --- numbers in memory ---


def in_rows(array: Elements, before: Expr, rows: list[Expr]) -> Any:
    """`double m[][3]`, whose row m[i] begins at its number 3 * i. before: the numbers ahead of it."""
    if not rows:
        return Pointer(array, before)
    size = reduce(times, rows)

    def row(n: Expr, _: Place) -> Any:
        return in_rows(array, plus(before, times(n, size)), rows[1:])

    return ArrayView(array.name, array.type, 1, const=array.const, of=row)


def members_from(symbols: SymbolTable, first: Any) -> tuple:
    """The members of an object from this one on, if they are numbers of one type: `(&x)[k]` in its operator[]."""
    known = (v.target if isinstance(v, Pointer) else v for scope in symbols.scopes for v in scope.values())
    for members in ([*v.members.values()] for v in known if isinstance(v, Struct) and first in v.members.values()):
        own = members[members.index(first) :]
        if all(is_expression(m) and m.type == first.type for m in own):
            return tuple(own)
    return ()


def shared_as(parser: Any, kind: Kind, pointer: Pointer, place: Place) -> Pointer:
    """A pointer into the shared memory of a launch as one to numbers of another type.

    Memory of chars, or cast as a whole, takes the first type. Each further one has an array of its own, with as many
    bytes as the launch gives, so that all keep their offsets. A byte that holds numbers of two types is rejected where
    the offsets show it, or nothing is stored as one of these types; where indices alone show it, or offsets that
    change, by the launch.
    """
    symbols, name = parser.symbols, pointer.array.name if pointer.array else ""
    kinds = {kind} if isinstance(kind, str) else {k for _, k, _ in kind.leaves("", "_")}
    own, whole, chars = min(kinds, default=""), symbols.parts.get(name, name), pointer.type in CHARS
    known = whole in symbols.dynamic and whole in symbols.declared
    if not known or len(kinds) != 1 or "real" in {*kinds, pointer.type}:
        return pointer
    declared = symbols.declared[whole]
    as_bits = pointer.type in FLOATS_AS.get(own, ())
    untyped = declared.type in CHARS or (own != declared.type and not as_bits and pointer.offset == ZERO)
    first = symbols.typed.setdefault(whole, own) if untyped or whole in symbols.typed else declared.type
    if own != first and not chars and as_bits and not _begins_part(symbols, kind, pointer.offset):
        return pointer
    offset = rescaled(pointer.offset, BYTES[str(pointer.type)], BYTES[own])
    start = (whole, rescaled(pointer.offset, BYTES[str(pointer.type)], 1))
    variables = pointer.offset.names & symbols.declared.keys()  # one of the parser's own may be that of a pointer
    moves = any(n not in parser.tokens.words or parser.changes(n, 0, parser.body_end) for n in variables)
    if not untyped:
        symbols.starts[whole, ZERO] = first
    if not moves and (other := symbols.starts.setdefault(start, own)) != own:
        why = f"{whole} has numbers of {other} here, and is cast to {own}*; give each type bytes of its own."
        raise parser.error(place, why)
    array = declared if own == first else symbols.part(declared, own)
    return Pointer(Elements(array.name, own, 1, dims=array.dims), offset)


def _begins_part(symbols: SymbolTable, kind: Kind, offset: Expr) -> bool:
    """True where all threads have this offset, other than 0: of bits, each thread casts the address of its own."""

    def common(e: Expr) -> bool:
        return all(
            n in symbols.macros or n.startswith(("blockDim.", "gridDim."))
            or (n in symbols.parameters and not symbols.parameters[n].pointer)
            or (n in symbols.declared and (value := symbols.declared[n].value) is not None and common(value))
            for n in e.names
        )  # fmt: skip

    return isinstance(kind, str) and offset != ZERO and common(offset)


def clear_memory(parser: Any, to: Any, value: Expr, size: Expr, token: Token) -> Expr:
    """`memset(a, 0, sizeof(a))` of a variable."""
    whole = to.target if isinstance(to, Pointer) else to
    extents = [constant(inline(e, parser.symbols.formulas)) for e in getattr(whole, "left", ())]
    placed = _placed(getattr(whole, "type", ""))
    counted = whole is not None and placed and None not in extents and (extents or not isinstance(whole, Elements))
    size = inline(size, parser.symbols.formulas)
    if not counted or constant(value) != 0 or constant(size) != _size(placed) * prod(extents):  # type: ignore[arg-type]
        raise parser.error(token.place, "memset sets a whole variable to 0 here; write a loop.")
    parser.set_member(whole, Braces(()), token.place)
    return ZERO


def copy_memory(parser: Any, to: Pointer, of: Pointer, size: Expr, token: Token) -> None:
    """`memcpy(to, of, size)` of numbers of one type: a loop over them."""
    if of.array is None or to.array is None or of.type != to.type or of.type not in BYTES:
        raise parser.error(token.place, "memcpy copies numbers of one type here; write a loop.")
    count = rescaled(size, 1, BYTES[str(of.type)])
    at = parser.symbols.fresh("copied", "int", ZERO, token.place)
    parser.symbols.pending.pop()
    target, value = to.array.at(to.moved(at).offset, token.place), of.array.at(of.moved(at).offset, token.place)
    _, body = parser.isolated(lambda: parser.assign(target, token._replace(text="="), value, token.place))
    loop = count_up(at, count if count.type == "int" else Cast("int", count), body, place=token.place)
    parser.symbols.declared[at.name] = loop.start
    parser.symbols.pending.append(loop)
