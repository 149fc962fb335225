"""A `.cu` file: its functions found, and the chosen kernel read with the device functions it calls."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minigrad.adjoint.expressions import number
from minigrad.adjoint.parser import Parser
from minigrad.adjoint.tokens import Refused, Token, Tokens, tokenize
from minigrad.adjoint.tree import Declare, Function, Name, Number, Place
from minigrad.adjoint.types import TYPES

HEADS = ("extern", "static", "inline", "__forceinline__", "__noinline__", "const", "constexpr")


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

    def file_of(self, kernel: str) -> Module:
        """The kernel with what it needs. Other kernels of the file are stepped over."""
        found, tables = None, []
        while self.next.kind != "end":
            start, place = self.at, self.next.place
            words = []
            while self.next.text in (*HEADS, "__global__", "__device__", "__constant__") or self.next.kind == "string":
                words.append(self.take().text)
            if "__constant__" in words or ("const" in words and "__device__" not in words):
                tables.append(self.table(start))
            elif "__global__" in words and self.peek() != kernel:
                self.skip()
            elif "__global__" in words or "__device__" in words:
                found = self.one(start, place, "__global__" in words) or found
            else:
                raise self.refuse(place, f"{self.next.text!r} outside a function is outside the subset.")
        if found is None:
            raise ValueError(f"{self.file.file} has no kernel {kernel!r}.")
        return Module(self.file, found, self.functions, tables)

    def one(self, start: int, place: Place, kernel: bool) -> Function | None:
        """A kernel, or a device function, which is entered under its name."""
        if kernel:
            self.expect("void")
            returns = "void"
        else:
            returns = self.take_type() or ""
            if not returns:
                raise self.refuse(self.next.place, "a __device__ function returns a number.")
        name = self.identifier("the function's name")
        self.declared = {}
        made = self.function(place, name.text, returns)
        made.text = self.file.text[self.tokens[start].start : self.tokens[self.at - 1].stop]
        if not kernel:
            self.functions[name.text] = made
        return made if kernel else None

    def table(self, start: int) -> Declare:
        """`__constant__ int STEP[3] = {1, 2, 3};`, the same for all threads."""
        kind = self.take_type()
        if kind is None:
            raise self.refuse(self.next.place, f"expected a type, found {self.next.text!r}.")
        made = self.variable_of(kind, {"const"}, self.next.place)
        self.expect(";")
        made.text = self.file.text[self.tokens[start].start : self.tokens[self.at - 1].stop]
        return made

    def skip(self) -> None:
        """Step over a function that is not asked for."""
        while self.next.text not in ("{", "") or self.next.kind == "string":
            self.take()
        depth = 0
        while self.next.kind != "end":
            text = self.take().text
            depth += (text == "{") - (text == "}")
            if not depth:
                return


def read(text: str, file: str, kernel: str, defines: Mapping[str, Any]) -> Module:
    """Parse a kernel of a file. Raises Refused with line and column."""
    tokens = tokenize(text, file)
    given = {name: [Token("number", str(value), Place(0, 0))] for name, value in defines.items() if name != "real"}
    macros, values = _macros(tokens.macros | given, tokens)
    module = Reader(tokens, macros, {}).file_of(kernel)
    module.values = values
    module.functions = _called(module)
    for f in (module.kernel, *module.functions.values()):
        if f"{f.name}_adjoint" in tokens.words:
            raise tokens.refuse(f.place, f"the name {f.name}_adjoint is taken in this file; the adjoint needs it.")
    return module


def _macros(bodies: dict[str, list[Token]], tokens: Tokens) -> tuple[dict[str, Name], dict[str, int]]:
    """The object-like macros as typed names, and the values of those that are whole numbers."""
    names: dict[str, Name] = {}
    values: dict[str, int] = {}
    for name, body in bodies.items():
        text = " ".join(t.text for t in body)
        if text in TYPES or not text:
            names[name] = Name("a type", TYPES.get(text, "real"))
            continue
        made = Reader(Tokens(tokens.file, text, [*body, Token("end", "", Place(0, 0))]), names, {})
        expression = made.expression()
        if made.next.kind != "end" or _bare(body):
            raise tokens.refuse(body[0].place, f"the macro {name} must be a type or an expression in parentheses.")
        names[name] = Name(name, expression.type)
        if isinstance(expression, Number) and number(expression.text).type == "int":
            values[name] = int(expression.text, 0)
    return names, values


def _bare(body: list[Token]) -> bool:
    """Whether an operator stands outside parentheses: with `#define A 1 + 2`, A * x is 1 + 2 * x."""
    depth = 0
    for n, token in enumerate(body):
        depth += (token.text == "(") - (token.text == ")")
        if n and not depth and token.kind != "number" and token.text != ")":
            return True
    return False


def _called(module: Module) -> dict[str, Function]:
    """The device functions that the kernel reaches, callees first. Recursion cannot be written in the subset."""
    wanted = {module.kernel.name}
    for function in reversed(list(module.functions.values())):
        others = [f for n, f in module.functions.items() if n in wanted] + [module.kernel]
        if any(re.search(rf"\b{function.name}\s*\(", f.text) for f in others):
            wanted.add(function.name)
    return {name: function for name, function in module.functions.items() if name in wanted}
