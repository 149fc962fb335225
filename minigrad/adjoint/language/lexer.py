"""CUDA C++ cut into tokens, each with its line and column; macros set aside; the parsers' cursor over the tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import NamedTuple

from minigrad.adjoint.language.ast import Place, base_name
from minigrad.scan import blank

_TOKEN = re.compile(
    r"(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>\"[^\"\n]*\")"
    r"|(?P<op><<=|>>=|\+\+|--|->|::|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!&|^~?:;,.(){}\[\]])"
    r"|(?P<space>\s+)"
)
# names that the adjoint declares itself
RESERVED = {"tape_thread", "tape_threads", "tape_slots", "tape_needed", "warp_add", "warp_total", "block_add"}
_CONTINUED = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(?)")


class NotDifferentiable(ValueError):
    """CUDA C++ that cannot be differentiated; the text names file, line, column and the way out."""


class Token(NamedTuple):
    """kind is number, name, string, op, pragma or end; start is the offset in the file."""

    kind: str
    text: str
    place: Place
    start: int = 0


@dataclass
class TokenStream:
    """The tokens of a file, with a cursor; `head` holds the preprocessor lines, which the adjoint repeats."""

    name: str  # of the file
    text: str
    tokens: list[Token] = field(default_factory=list)
    macros: dict[str, list[Token]] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    # names of the file that are rejected where the kernel uses them
    unsupported: dict[str, NotDifferentiable] = field(default_factory=dict)
    at: int = 0

    @cached_property
    def words(self) -> set[str]:
        """Every name in the file: new names must differ from them."""
        return {t.text for t in self.tokens if t.kind == "name"} | set(self.macros)

    # --- the cursor ---

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the last one where the file ends before it."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.next
        self.at += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Step over the token if it is this one."""
        found = self.next.text == text and self.next.kind != "string"
        self.at += found
        return found

    def expect(self, text: str) -> Token:
        """Step over this token. Raises NotDifferentiable at any other."""
        if self.next.text == text:
            return self.take()
        last, ahead, found = self.tokens[max(self.at - 1, 0)], self.next, self.next.text
        if found in ("=", "+=", "-=", "*=", "/=") and text in (")", ":", "]"):
            raise self.error(ahead.place, f"{found} inside an expression is outside the subset; make it a statement.")
        if found == "," and text in (")", ";", ":", "]"):
            raise self.error(ahead.place, "the comma operator is outside the subset; write two statements.")
        if text == ";" and ahead.place.line > last.place.line:
            end = Place(last.place.line, last.place.column + len(last.text))
            raise self.error(end, "a ; is missing here, at the end of the statement.")
        raise self.rejected(ahead) or self.error(ahead.place, f"expected {text!r}, found {found or 'the end'!r}.")

    def items(self, close: str) -> Iterator[int]:
        """Number the items of a list separated by commas, up to `close`, for a loop that reads them."""
        for n in count():
            if self.accept(close):
                return
            yield n
            if self.next.text != close:
                self.expect(",")

    def identifier(self, expected: str) -> Token:
        if (rejected := self.rejected(self.next)) or self.next.kind != "name":
            found = self.next.text or "the end"
            raise rejected or self.error(self.next.place, f"expected {expected}, found {found!r}.")
        return self.take()

    def since(self, start: int) -> str:
        """The source text from a token to the cursor."""
        last = self.tokens[self.at - 1]
        return self.text[self.tokens[start].start : last.start + len(last.text)]

    def line_since(self, start: int) -> str:
        return " ".join(self.since(start).split())

    # --- errors ---

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return NotDifferentiable(f"{self.name}:{place.line}:{place.column}: {why}")

    def forbid(self, why: str, *texts: str) -> None:
        """Raise NotDifferentiable, with this sentence, where one of these tokens is next."""
        if self.next.text in texts:
            raise self.error(self.next.place, why)

    def rejected(self, token: Token) -> NotDifferentiable | None:
        """The exception for a keyword or a name of the file outside the subset; None for any other token."""
        if way_out := KEYWORDS.get(token.text):
            return self.error(token.place, f"{token.text} is outside the differentiable subset; {way_out}.")
        return self.unsupported.get(token.text)


def tokenize(text: str, name: str) -> TokenStream:
    """Cut a file of this name into tokens. Raises NotDifferentiable at text or a directive outside the subset."""
    stream, code, start = TokenStream(name, text), _CONTINUED.sub(_joined, blank(text)), 0
    if (at := code.find("/*")) >= 0:
        place = Place(code.count("\n", 0, at) + 1, at - code.rfind("\n", 0, at))
        raise stream.error(place, "this comment has no end; close it with */.")
    for number, line in enumerate(lines := code.split("\n"), 1):
        if line.lstrip().startswith("#"):
            following = next((other for other in lines[number:] if other.lstrip().startswith("#")), "")
            _directive(stream, line, number, start, following)
        else:
            stream.tokens += _cut(stream, line.removesuffix("\\"), number, start)
        start += len(line) + 1
    stream.tokens.append(Token("end", "", Place(number, len(line) + 1), len(text)))
    return stream


def _joined(directive: re.Match[str]) -> str:
    """A directive over several lines as one line, with empty lines behind it: same length, same lines after it."""
    return directive.group().replace("\\\n", " ") + "\n" * directive.group().count("\\\n")


def _cut(stream: TokenStream, line: str, number: int, start: int, column: int = 0) -> list[Token]:
    tokens, at = [], column
    while at < len(line):
        match, place = _TOKEN.match(line, at), Place(number, at + 1)
        if match is None:
            raise stream.error(place, f"{line[at]!r} is outside the differentiable subset.")
        if match.group() in RESERVED:
            raise stream.error(place, f"the adjoint itself uses the name {match.group()}; choose another.")
        if match.lastgroup == "number":
            _check_decimal(stream, line[at:], match.group(), place)
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), place, start + at))
        at = match.end()
    return tokens


def _check_decimal(stream: TokenStream, line: str, number: str, place: Place) -> None:
    """Reject literals that are neither decimal nor plain hexadecimal: 010 is 8 in C++, 0b11 is 3."""
    literal = re.match(r"[\w.]*", line).group()  # type: ignore[union-attr]
    if len(literal) > len(number):
        raise stream.error(place, f"the literal {literal} is outside the differentiable subset; write it in decimal.")
    if re.fullmatch(r"0\d+[uUlL]*", number):
        raise stream.error(place, f"{number} is octal in C++; write it in decimal, without the 0 in front.")


def _directive(stream: TokenStream, line: str, number: int, start: int, following: str) -> None:
    """#define and #include, #pragma for the parser, and #ifndef if the directive that follows defines its name."""
    place, text = Place(number, line.index("#") + 1), line.strip()
    kind, name = re.match(r"#\s*(\w*)\s*(\w*)", text).groups()  # type: ignore[union-attr]
    if kind == "pragma":
        stream.tokens.append(Token("pragma", text, place, start + line.index("#")))
        return
    if kind == "define":
        _define(stream, line, place, start)
    guard = kind == "ifndef" and re.match(rf"\s*#\s*define\s+{name}\b", following)
    if kind not in ("define", "include", "endif") and not guard:
        why = f"#{kind} is outside the differentiable subset; keep only the lines that are to be compiled. "
        raise stream.error(place, f"{why}#include and #define are allowed, and #ifndef NAME before #define NAME.")
    stream.head.append(stream.text[start : start + len(line)].strip() if kind == "include" else text)


def _define(stream: TokenStream, line: str, place: Place, start: int) -> None:
    name, parameters = _DEFINE.match(line.strip()).groups()  # type: ignore[union-attr]
    if name in stream.macros or name in stream.unsupported:
        raise stream.error(place, f"{name} is defined twice; give the second another name.")
    if parameters:
        why = f"the macro {name} takes arguments; write it as a __device__ function."
        stream.unsupported[name] = stream.error(place, why)
    else:
        body = re.search(rf"define\s+{name}", line).end()  # type: ignore[union-attr]
        try:
            stream.macros[name] = _cut(stream, line, place.line, start, body)
        except NotDifferentiable as error:
            stream.unsupported[name] = error


# Keywords outside the subset, with the way out.
KEYWORDS = {
    "switch": "write if and else if", "goto": "write if, or leave a loop with break",
    "do": "write its body once, and then while", "asm": "write CUDA C++",
    "template": "write the function for the one type that it is used with", "typedef": "use #define",
    "using": "use #define",
    "struct": "write a variable, or an array, for each member", "class": "write a variable for each member",
    "union": "write a variable for each member", "enum": "use #define for each number",
    "namespace": "write the names without it", "std": "write the name without std::",
    "try": "an adjoint has no exceptions", "throw": "an adjoint has no exceptions",
    "static_assert": "leave it out", "assert": "leave it out", "printf": "leave it out",
    "new": "declare an array of fixed extent", "delete": "declare an array of fixed extent",
    "sizeof": "write the number of bytes", "nullptr": "pass an array for every pointer",
    "reinterpret_cast": "pass the array with the type that it has", "const_cast": "pass the array without const",
    "dynamic_cast": "write (double)x", "warpSize": "write 32", "and": "write &&", "or": "write ||", "not": "write !",
    "::": "write the name alone",
    "auto": "write the type", "case": "write if and else if", "default": "write if and else if",
}  # fmt: skip
# Functions without a derivative, by the beginning of their names.
FUNCTIONS = {
    "atomic": "of the atomics only atomicAdd(&y[i], value); is allowed, as a statement",
    "__shfl": "pass the value on through a __shared__ array",
    "__sync": "use __syncthreads();",
    "__threadfence": "leave it out: __syncthreads() makes the values of other threads visible",
    "sincos": "call sin and cos",
    "__fdivide": "write a / b",
    "cooperative": "use threadIdx and blockIdx",
}


def way_out(function: str) -> str:
    if base_name(function.removeprefix("__")):
        return f"call {function.removeprefix('__')}"  # instead of __expf
    ways = [way for start, way in FUNCTIONS.items() if function.startswith(start)]
    return ways[0] if ways else "write it as a __device__ function of differentiable ones, above this line"
