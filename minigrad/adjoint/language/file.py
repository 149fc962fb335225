"""The parser of a file: macros, constants, device functions and one kernel. `parse` is the entry point."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from minigrad.adjoint.language.ast import TYPES, Assign, AtomicAdd, Declare, Expr, Function, Name, Number, Place
from minigrad.adjoint.language.control_flow import leaves, normalize_jumps
from minigrad.adjoint.language.dataflow import inactive_parameters, read, target_name
from minigrad.adjoint.language.expressions import ExpressionParser, SymbolTable
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream, tokenize
from minigrad.adjoint.language.parser import StatementParser
from minigrad.adjoint.language.rewrite import flatten, int_value

QUALIFIERS = (
    "extern", "static", "inline", "__inline__", "__forceinline__", "__noinline__", "const", "constexpr",
    "__global__", "__device__", "__host__", "__constant__", "__launch_bounds__",
)  # fmt: skip
TOO_DEEP = "this is nested too deeply; put a part of an expression, or of a sum of hundreds of terms, into a variable."


@dataclass
class KernelFile:
    """One kernel, the device functions it calls, callees first, constant tables, and the values of whole numbers."""

    tokens: TokenStream
    kernel: Function
    functions: dict[str, Function]
    tables: list[Declare]
    values: dict[str, int]  # of macros and constants

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return self.tokens.error(place, why)


def parse(text: str, name: str, kernel: str, defines: Mapping[str, Any]) -> KernelFile:
    """Parse a kernel of a file of this name. Raises NotDifferentiable with line and column."""
    tokens = tokenize(text, name)
    defined = {name: [Token("number", str(value), Place(0, 0))] for name, value in defines.items() if name != "real"}
    macros, values = _typed_macros(tokens, tokens.macros | defined)
    parser = FileParser(tokens, SymbolTable(tokens, macros))
    try:
        parser.items(kernel)
    except RecursionError:
        raise tokens.error(tokens.next.place, TOO_DEEP) from None
    if parser.kernel is None:
        raise ValueError(f"{name} has no kernel {kernel!r}.")
    functions = _called(parser.kernel, parser.symbols.functions)
    for f in (parser.kernel, *functions.values()):
        if f"{f.name}_adjoint" in tokens.words:
            raise tokens.error(f.place, f"the name {f.name}_adjoint is taken in this file; the adjoint needs it.")
    values |= _whole_numbers({t.name: t.value for t in parser.tables})
    return KernelFile(tokens, parser.kernel, functions, parser.tables, values)


def _typed_macros(tokens: TokenStream, macros: Mapping[str, list[Token]]) -> tuple[dict[str, Name], dict[str, int]]:
    """The macros that stand for types or expressions, with their types, and the values of whole numbers.

    The others are entered into `tokens.unsupported`.
    """
    names: dict[str, Name] = {}
    values: dict[str, Expr | None] = {}
    for name, body in macros.items():
        text = " ".join(t.text for t in body)
        if text in TYPES or not text:
            names[name] = Name("a type", TYPES.get(text, "real"))
        elif e := _macro_expression(tokens, text, body, names):
            names[name], values[name] = Name(name, e.type), e
        else:
            why = f"the macro {name} must be a type or an expression in parentheses, of numbers and macros ahead of it."
            tokens.unsupported[name] = tokens.error(body[0].place, why)
    return names, _whole_numbers(values)


def _macro_expression(tokens: TokenStream, text: str, body: list[Token], macros: dict[str, Name]) -> Expr | None:
    """The expression for which a macro stands; None if it is not one, or changes its meaning without parentheses."""
    stream = TokenStream(tokens.name, text, [*body, Token("end", "", Place(0, 0))], unsupported=tokens.unsupported)
    try:
        e = ExpressionParser(stream, SymbolTable(stream, macros)).expression()
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


def _whole_numbers(named: Mapping[str, Expr | None]) -> dict[str, int]:
    """The values of the int literals among named expressions."""
    return {name: n for name, e in named.items() if isinstance(e, Number) and (n := int_value(e)) is not None}


def _called(kernel: Function, functions: Mapping[str, Function]) -> dict[str, Function]:
    """The device functions that the kernel reaches, callees first: a function is defined ahead of its callers."""
    callers, reached = [kernel], set()
    for function in reversed(functions.values()):  # type: ignore[call-overload]
        if any(re.search(rf"\b{function.name}\s*\(", f.text) for f in callers):
            callers.append(function)
            reached.add(function.name)
    return {name: function for name, function in functions.items() if name in reached}


class FileParser:
    def __init__(self, tokens: TokenStream, symbols: SymbolTable):
        self.tokens, self.symbols, self.statements = tokens, symbols, StatementParser(tokens, symbols)
        self.kernel: Function | None = None
        self.tables: list[Declare] = []
        self.open_braces = 0  # of extern "C" and namespaces

    def items(self, kernel: str) -> None:
        """Parse all items. One outside the subset is rejected only where the kernel uses it."""
        tokens = self.tokens
        while tokens.next.kind != "end":
            start, self.symbols.function = tokens.at, ""
            try:
                self.item(kernel)
            except NotDifferentiable as error:
                if self.symbols.function == kernel or tokens.tokens[start].text in ("{", "}"):
                    raise
                tokens.at = start
                name = self.skip()
                if {"__global__", kernel} <= {t.text for t in tokens.tokens[start : tokens.at]}:
                    raise  # the item has no end of its own before the kernel
                if name not in TYPES:  # `enum class E : int { A, B };` has no known name
                    tokens.unsupported[name] = error

    def item(self, kernel: str) -> None:
        """A kernel, a device function, constants, or the braces of extern "C"."""
        tokens, start, place = self.tokens, self.tokens.at, self.tokens.next.place
        words = self.qualifiers()
        if ("extern" in words or self.opens_namespace()) and tokens.accept("{"):
            self.open_braces += 1
        elif self.open_braces and tokens.accept("}"):
            self.open_braces -= 1
        elif "__global__" in words:
            tokens.expect("void")
            self.qualifiers()
            if tokens.next.text == kernel:
                self.function(start, place, "void")
            else:
                self.skip()
        elif "__device__" in words and self.ahead()[1] == "(":
            tokens.forbid("a __device__ function must return a number; void is none.", "void")
            self.function(start, place, self.statements.expressions.accept_type() or "")
        elif words & {"const", "constexpr", "__constant__"}:
            self.tables.append(self.table(start))
        elif tokens.next.text == "}":
            raise tokens.error(place, "this } closes nothing; there is one too many, or a { is missing.")
        elif tokens.next.kind != "end":
            raise tokens.rejected(tokens.next) or tokens.error(
                place, f"{tokens.next.text!r} outside a function is outside the subset; make it a parameter of the "
                "kernel, or a constant with its values."
            )  # fmt: skip

    def opens_namespace(self) -> bool:
        """Step over `namespace`, or `namespace a::b`, ahead of its brace."""
        if not (found := self.tokens.accept("namespace")):
            return False
        while self.tokens.next.kind == "name" or self.tokens.next.text == "::":
            self.tokens.take()
        return found

    def qualifiers(self) -> set[str]:
        """The words ahead of a declaration; the numbers of __launch_bounds__(256, 2) do not change the adjoint."""
        words = set()
        while self.tokens.next.text in QUALIFIERS or self.tokens.next.kind in ("string", "pragma"):
            words.add(word := self.tokens.take().text)
            if word == "__launch_bounds__":
                self.tokens.expect("(")
                depth = 1
                while self.tokens.next.kind != "end" and depth:
                    depth += {"(": 1, ")": -1}.get(self.tokens.take().text, 0)
        return words

    def function(self, start: int, place: Place, returns: str) -> None:
        """A kernel or a device function, whose jumps become branches; it is known from its definition on."""
        self.symbols.declared, self.symbols.joined, self.symbols.bare = {}, set(), 0
        made = self.statements.function(place, self.tokens.take().text, returns)
        if made is None:
            return
        assigned = {target_name(s.target) for s in flatten(made.body) if isinstance(s, Assign | AtomicAdd)}
        for name in sorted(read(made.body) & set(made.declared) - assigned):
            variable = made.declared[name]
            if variable.value is None and variable.values is None:
                raise self.tokens.error(variable.place, f"{name} is read and never given a value; give it one.")
        if leaves(made.body, ("break", "continue")):
            raise self.tokens.error(place, f"{made.name} has a break or continue outside any loop; leave it out.")
        normalize_jumps(made, self.tokens.words)
        made.text = self.tokens.since(start)
        if returns == "void":
            self.kernel = made
            return
        if made.name in self.symbols.functions or made.name in self.tokens.unsupported:
            why = f"{made.name} is defined twice, with other parameters; give each function a name of its own."
            raise self.tokens.error(place, why)
        made.inactive = inactive_parameters(made)
        self.symbols.functions[made.name] = made

    def table(self, start: int) -> Declare:
        """`__constant__ int STEP[3] = {1, 2, 3};`, the same for all threads."""
        table = self.statements.variable(self.statements.expressions.expect_type(), {"const"})
        if table.value is None and table.values is None:
            why = f"{table.name} has no values here; write them, or pass it as a parameter."
            raise self.tokens.error(table.place, why)
        self.tokens.expect(";")
        table.text = self.tokens.since(start)
        return table

    def ahead(self) -> tuple[str, str]:
        """The name of the item at the cursor, and the token after it."""
        pairs = pairwise(self.tokens.tokens[self.tokens.at :])
        return next(((a.text, b.text) for a, b in pairs if b.text in ("(", "{", "=", ";", "[")), ("", ""))

    def skip(self) -> str:
        """Step over the item at the cursor; return its name."""
        name, depth = self.ahead()[0], 0
        while self.tokens.next.kind != "end":
            text = self.tokens.take().text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if not depth and text in (";", "}"):
                self.tokens.accept(";")
                break
        return name
