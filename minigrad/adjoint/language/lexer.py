"""CUDA C++ cut into tokens, each with its line and column; object-like macros set aside."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from minigrad.adjoint.language.ast import Place, plain
from minigrad.source import blank

_TOKEN = re.compile(
    r"(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>\"[^\"\n]*\")"
    r"|(?P<op><<=|>>=|\+\+|--|->|::|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!&|^~?:;,.(){}\[\]])"
    r"|(?P<space>\s+)"
)
# names in what is emitted
OWN = {"tape_thread", "tape_threads", "tape_slots", "tape_needed", "warp_add", "warp_total", "block_add"}
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(?)[ \t]*(.*)")


class Refused(ValueError):
    """CUDA C++ that cannot be differentiated; the text names file, line, column and the way out."""


class Token(NamedTuple):
    """One token: its kind (number, name, string, op, pragma or end), its text and where it stands."""

    kind: str
    text: str
    place: Place
    start: int = 0

    @property
    def stop(self) -> int:
        """Where it ends in the text."""
        return self.start + len(self.text)


@dataclass
class Tokens:
    """The tokens of a file; `head` holds its preprocessor lines, which the adjoint repeats."""

    file: str
    text: str
    tokens: list[Token] = field(default_factory=list)
    macros: dict[str, list[Token]] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    calls: dict[str, Place] = field(default_factory=dict)  # macros with arguments, and where they are defined
    untold: tuple[str, Place] | None = None  # an #ifndef in the line before

    @cached_property
    def words(self) -> set[str]:
        """Every name in the file, so that a new one can be another."""
        return {t.text for t in self.tokens if t.kind == "name"} | set(self.macros)

    def refuse(self, place: Place, why: str) -> Refused:
        """The exception that says where and why."""
        return Refused(f"{self.file}:{place.line}:{place.column}: {why}")


def tokenize(text: str, file: str) -> Tokens:
    """Cut a file into tokens. Raises Refused at what is no token or a directive outside the subset."""
    found = Tokens(file, text)
    code, start = blank(text), 0
    if (at := code.find("/*")) >= 0:
        place = Place(code.count("\n", 0, at) + 1, at - code.rfind("\n", 0, at))
        raise found.refuse(place, "this comment has no end; close it with */.")
    for line, words in enumerate(code.split("\n"), 1):
        if words.lstrip().startswith("#"):
            _directive(found, words, line, start)
        else:
            found.tokens += _cut(found, words.removesuffix("\\"), line, start)
        start += len(words) + 1
    if found.untold:
        raise _choice(found, "ifndef", found.untold[1])
    found.tokens.append(Token("end", "", Place(line, len(words) + 1), len(text)))
    return found


def _cut(found: Tokens, words: str, line: int, start: int, column: int = 0) -> list[Token]:
    made, at = [], column
    while at < len(words):
        match = _TOKEN.match(words, at)
        if match is None:
            raise found.refuse(Place(line, at + 1), f"{words[at]!r} is outside the differentiable subset.")
        if match.group() in OWN:
            raise found.refuse(Place(line, at + 1), f"{match.group()} is a name of the adjoint's own; choose another.")
        if match.lastgroup == "number":
            _decimal(found, words[at:], match.group(), Place(line, at + 1))
        if match.lastgroup != "space":
            made.append(Token(str(match.lastgroup), match.group(), Place(line, at + 1), start + at))
        at = match.end()
    return made


def _decimal(found: Tokens, words: str, number: str, place: Place) -> None:
    """Raises Refused for a literal that is neither decimal nor plain hexadecimal: 010 is 8 in C++, 0b11 is 3."""
    whole = re.match(r"[\w.]*", words).group()  # type: ignore[union-attr]
    if len(whole) > len(number):
        raise found.refuse(place, f"the literal {whole} is outside the differentiable subset; write it in decimal.")
    if re.fullmatch(r"0\d+[uUlL]*", number):
        raise found.refuse(place, f"{number} is octal in C++; write it in decimal, without the 0 in front.")


def _directive(found: Tokens, words: str, line: int, start: int) -> None:
    """#define and #include, #pragma for the parser, and #ifndef where it stands before the #define of its own name."""
    place, text = Place(line, words.index("#") + 1), words.strip()
    kind, name = re.match(r"#\s*(\w*)\s*(\w*)", text).groups()  # type: ignore[union-attr]
    if found.untold and (kind, name) != ("define", found.untold[0]):
        raise _choice(found, "ifndef", found.untold[1])
    if text.endswith("\\"):
        raise found.refuse(place, f"this #{kind} goes on in the next line; write it in one line.")
    found.untold = (name, place) if kind == "ifndef" else None
    if kind == "pragma":
        found.tokens.append(Token("pragma", text, place, start + words.index("#")))
        return
    if kind == "define":
        _define(found, words, place, start)
    elif kind not in ("include", "ifndef", "endif"):
        raise _choice(found, kind, place)
    found.head.append(found.text[start : start + len(words)].strip() if kind == "include" else text)


def _define(found: Tokens, words: str, place: Place, start: int) -> None:
    name, function, _ = _DEFINE.match(words.strip()).groups()  # type: ignore[union-attr]
    if name in found.macros or name in found.calls:
        raise found.refuse(place, f"{name} is defined twice; give the second another name.")
    if function:
        found.calls[name] = place
    else:
        body = re.search(rf"define\s+{name}", words).end()  # type: ignore[union-attr]
        found.macros[name] = _cut(found, words, place.line, start, body)


def _choice(found: Tokens, kind: str, place: Place) -> Refused:
    return found.refuse(
        place, f"#{kind} is outside the differentiable subset; leave in the lines that are to be compiled. "
        "#include and #define are within, and #ifndef NAME before #define NAME."
    )  # fmt: skip


WORDS = {
    "switch": "write if and else if", "goto": "write if, or leave a loop with break",
    "do": "write its body once, and then while", "asm": "write CUDA C++",
    "template": "write the function for the one type that it is used with", "typedef": "use #define",
    "using": "use #define",
    "struct": "write a variable, or an array, for each member", "class": "write a variable for each member",
    "union": "write a variable for each member", "enum": "use #define for each number",
    "namespace": "write the names without it", "std": "write the name without std::",
    "try": "an adjoint knows no exceptions", "throw": "an adjoint knows no exceptions",
    "static_assert": "leave it out", "assert": "leave it out", "printf": "leave it out",
    "new": "declare an array of fixed extent", "delete": "declare an array of fixed extent",
    "sizeof": "write the number of bytes", "nullptr": "pass an array for every pointer",
    "reinterpret_cast": "pass the array with the type that it has", "const_cast": "pass the array without const",
    "dynamic_cast": "write (double)x", "warpSize": "write 32", "and": "write &&", "or": "write ||", "not": "write !",
    "::": "write the name alone",
    "auto": "write the type", "case": "write if and else if", "default": "write if and else if",
}  # fmt: skip
CALLS = {
    "atomic": "of the atomics only atomicAdd(&y[i], value); is within, as a statement",
    "__shfl": "pass the value on through a __shared__ array",
    "__sync": "use __syncthreads();",
    "__threadfence": "leave it out: another thread's value is had by __syncthreads()",
    "sincos": "call sin and cos",
    "__fdivide": "write a / b",
    "cooperative": "use threadIdx and blockIdx",
}


def word(token: Token) -> str | None:
    """The sentence for a word of the language that is outside the subset; None for any other."""
    way = WORDS.get(token.text)
    return way and f"{token.text} is outside the differentiable subset; {way}."


def call(name: str) -> str:
    """The way out for a function without a derivative."""
    if plain(name.removeprefix("__")):
        return f"call {name.removeprefix('__')}"  # of __expf and its like
    ways = [way for start, way in CALLS.items() if name.startswith(start)]
    return ways[0] if ways else "write it as a __device__ function of what has one, above this line"
