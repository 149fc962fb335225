"""The object-like macros of a file: types under another name, and expressions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minigrad.adjoint.language.ast import TYPES, Add, Assign, Declare, Expr, Function, Name, Number, Place, Stmt
from minigrad.adjoint.language.control_flow import LedOut, leaves
from minigrad.adjoint.language.effects import name_of, read
from minigrad.adjoint.language.expressions import Expressions
from minigrad.adjoint.language.lexer import Refused, Token, Tokens, tokenize
from minigrad.adjoint.language.parser import Parser
from minigrad.adjoint.language.rewrite import each


class Macros:
    """names: the macros, typed; values: of those that are whole numbers; outside: why the others are refused."""

    def __init__(self, bodies: Mapping[str, list[Token]], tokens: Tokens):
        self.tokens = tokens
        self.names: dict[str, Name] = {}
        why = "takes arguments; write it as a __device__ function."
        self.outside = {name: tokens.refuse(at, f"the macro {name} {why}") for name, at in tokens.calls.items()}
        found: dict[str, Expr | None] = {}
        for name, body in bodies.items():
            text = " ".join(t.text for t in body)
            if text in TYPES or not text:
                self.names[name] = Name("a type", TYPES.get(text, "real"))
            elif e := self._expression(text, body):
                self.names[name], found[name] = Name(name, e.type), e
            else:
                why = "must be a type or an expression in parentheses, of numbers and macros ahead of it."
                self.outside[name] = tokens.refuse(body[0].place, f"the macro {name} {why}")
        self.values = whole_numbers(found)

    def _expression(self, text: str, body: list[Token]) -> Expr | None:
        """What a macro stands for; None where that is no expression."""
        end = Token("end", "", Place(0, 0))
        reader = Expressions(Tokens(self.tokens.file, text, [*body, end]), self.names, self.outside)
        try:
            e = reader.expression()
        except Refused:
            return None
        return None if reader.next.kind != "end" or _bare(body) else e


def whole_numbers(named: Mapping[str, Expr | None]) -> dict[str, int]:
    """The values of those that are literals of type int."""
    return {
        name: e.whole for name, e in named.items() if isinstance(e, Number) and e.type == "int" and e.whole is not None
    }


def _bare(body: list[Token]) -> bool:
    """Whether an operator stands outside parentheses: with `#define A 1 + 2`, A * x is 1 + 2 * x."""
    depth = 0
    for n, token in enumerate(body):
        depth += (token.text == "(") - (token.text == ")")
        if n and not depth and token.kind != "number" and token.text != ")":
            return True
    return False


HEADS = (
    "extern", "static", "inline", "__inline__", "__forceinline__", "__noinline__", "const", "constexpr",
    "__global__", "__device__", "__host__", "__constant__", "__launch_bounds__",
)  # fmt: skip

DEEP = "this goes deeper than can be followed; put a part of an expression, or of a sum of hundreds, into a variable."


@dataclass
class Module:
    """One kernel, the device functions it calls, constant tables, macros, and the lines that head the file."""

    tokens: Tokens
    kernel: Function
    functions: dict[str, Function] = field(default_factory=dict)
    tables: list[Declare] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)  # of the macros that are whole numbers

    def refuse(self, place: Place, why: str) -> Refused:
        """The exception for a place."""
        return self.tokens.refuse(place, why)


class Reader(Parser):
    """Reads what stands at the top level of a file."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.found: Function | None = None
        self.tables: list[Declare] = []
        self.braces = 0  # of extern "C" that are open

    def file_of(self, kernel: str) -> Module:
        """The kernel with what it needs. What is outside the subset is refused where the kernel comes to it."""
        while self.next.kind != "end":
            start = self.at
            try:
                self.item(kernel)
            except Refused as refused:
                if self.reading == kernel or self.tokens[start].text in ("{", "}"):
                    raise
                del self.scopes[1:]
                self.at = start
                name = self.leave()
                if {"__global__", kernel} <= {t.text for t in self.tokens[start : self.at]}:
                    raise  # it has no end of its own before the kernel
                if name not in TYPES:  # of `enum class E : int { A, B };` no name is known
                    self.outside[name] = refused
        if self.found is None:
            raise ValueError(f"{self.file.file} has no kernel {kernel!r}.")
        return Module(self.file, self.found, self.functions, self.tables)

    def item(self, kernel: str) -> None:
        """One thing at the top level: a kernel, a device function, constants, or the braces of extern "C"."""
        start, place, words, self.reading = self.at, self.next.place, set[str](), ""
        while self.next.text in HEADS or self.next.kind in ("string", "pragma"):
            words.add(token := self.take().text)
            if token == "__launch_bounds__":
                self.bounds()
        if "extern" in words and self.accept("{"):
            self.braces += 1
        elif self.braces and self.accept("}"):
            self.braces -= 1
        elif "__global__" in words:
            self.expect("void")
            if self.accept("__launch_bounds__"):
                self.bounds()
            if self.next.text == kernel:
                self.found = self.one(start, place, "void") or self.found
            else:
                self.leave()
        elif "__device__" in words and self.ahead()[1] == "(":
            self.bar("a __device__ function must return a number; void is none.", "void")
            self.one(start, place, self.take_type() or "")
        elif words & {"const", "constexpr", "__constant__"}:
            self.tables.append(self.table(start))
        elif self.next.text == "}":
            raise self.refuse(place, "this } closes nothing; there is one too many, or a { is missing.")
        elif self.next.kind != "end":
            raise self.stray(self.next) or self.refuse(
                place, f"{self.next.text!r} outside a function is outside the subset; make it a parameter of the "
                "kernel, or a constant with its values."
            )  # fmt: skip

    def bounds(self) -> None:
        """Step over `(256, 2)`: how the kernel is built, which says nothing about the adjoint."""
        self.expect("(")
        while not self.accept(")"):
            self.take()

    def one(self, start: int, place: Place, returns: str) -> Function | None:
        """A kernel, or a device function, which is entered under its name."""
        self.declared, name = {}, self.take()
        made = self.function(place, name.text, returns)
        if made is None:
            return None  # what is declared here is known from where it is defined
        self.unset(made.body)
        if leaves(made.body, ("break", "continue")):
            raise self.refuse(place, f"{name.text} has a break or continue that stands in no loop; leave it out.")
        LedOut(made, self.file.words)
        made.text = self.since(start)
        if returns == "void":
            return made
        if name.text in self.functions or name.text in self.outside:
            why = f"{name.text} is defined twice, with other parameters; give each function a name of its own."
            raise self.refuse(place, why)
        self.functions[name.text] = made
        return None

    def unset(self, body: list[Stmt]) -> None:
        """Raise Refused for a variable or an array that is read and never given a value."""
        given = {name_of(s.target) for s in each(body) if isinstance(s, Assign | Add)}
        for name in sorted(read(body) & set(self.declared) - given):
            found = self.declared[name]
            if found.value is None and found.values is None:
                raise self.refuse(found.place, f"{name} is read and never given a value; give it one.")

    def table(self, start: int) -> Declare:
        """`__constant__ int STEP[3] = {1, 2, 3};`, the same for all threads."""
        made = self.variable_of(self.expect_type(), {"const"}, self.next.place)
        if made.value is None and made.values is None:
            raise self.refuse(made.place, f"{made.name} has no values here; write them, or pass it as a parameter.")
        self.expect(";")
        made.text = self.since(start)
        return made

    def ahead(self) -> tuple[str, str]:
        """The name of what stands at the cursor, and what follows it."""
        for n in range(self.at, len(self.tokens) - 1):
            if self.tokens[n + 1].text in ("(", "{", "=", ";", "["):
                return self.tokens[n].text, self.tokens[n + 1].text
        return "", ""

    def leave(self) -> str:
        """Step over what stands at the cursor; its name."""
        name, depth = self.ahead()[0], 0
        while self.next.kind != "end":
            text = self.take().text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if not depth and text in (";", "}"):
                self.accept(";")
                break
        return name


def parse(text: str, file: str, kernel: str, defines: Mapping[str, Any]) -> Module:
    """Parse a kernel of a file. Raises Refused with line and column."""
    tokens = tokenize(text, file)
    given = {name: [Token("number", str(value), Place(0, 0))] for name, value in defines.items() if name != "real"}
    macros = Macros(tokens.macros | given, tokens)
    reader = Reader(tokens, macros.names, macros.outside)
    try:
        module = reader.file_of(kernel)
    except RecursionError:
        raise tokens.refuse(reader.next.place, DEEP) from None
    module.values = macros.values | whole_numbers({t.name: t.value for t in module.tables})
    module.functions = _called(module)
    for f in (module.kernel, *module.functions.values()):
        if f"{f.name}_adjoint" in tokens.words:
            raise tokens.refuse(f.place, f"the name {f.name}_adjoint is taken in this file; the adjoint needs it.")
    return module


def _called(module: Module) -> dict[str, Function]:
    """The device functions that the kernel reaches, callees first. Recursion cannot be written in the subset."""
    wanted = {module.kernel.name}
    for function in reversed(list(module.functions.values())):
        others = [f for n, f in module.functions.items() if n in wanted] + [module.kernel]
        if any(re.search(rf"\b{function.name}\s*\(", f.text) for f in others):
            wanted.add(function.name)
    return {name: function for name, function in module.functions.items() if name in wanted}
