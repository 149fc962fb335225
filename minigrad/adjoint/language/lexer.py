"""CUDA C++ cut into tokens, each with its line and column; macros set aside; the parsers' cursor over the tokens."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import count, pairwise
from typing import Any, NamedTuple

from minigrad.adjoint.language.ast import Place

_TOKEN = re.compile(
    r"(?P<number>(?:0[xX](?:'?[0-9a-fA-F])+(?:(?:\.[0-9a-fA-F]*)?[pP][-+]?\d+)?"
    r"|(?:\d(?:'?\d)*\.?(?:\d(?:'?\d)*)?|\.\d(?:'?\d)*)(?:[eE][-+]?\d+)?)[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<op><<=|>>=|\+\+|--|->|::|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!&|^~?:;,.(){}\[\]])"
    r"|(?P<bad>\S)"
)
_REST, _OCTAL = re.compile(r"[\w.]+"), re.compile(r"0\d+[uUlL]*")
# names that the adjoint declares itself
RESERVED = {"tape_thread", "tape_threads", "tape_slots", "tape_needed", "warp_add", "warp_total", "block_add"}
CONTINUED = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)


class NotDifferentiable(ValueError):
    """CUDA C++ that cannot be differentiated; the text names file, line, column and the way out."""


class Token(NamedTuple):
    """kind is number, name, string, op, pragma or end; start and stop are offsets in the file.

    A token from a macro has the place of the macro's use.
    """

    kind: str
    text: str
    place: Place
    start: int = 0
    stop: int = 0


MODIFIERS = ("static", "inline", "__inline__", "__forceinline__", "__noinline__", "__device__", "__host__", "constexpr",
             "extern", "explicit", "friend", "virtual", "__inline")  # fmt: skip
SPECIFIERS = ("__launch_bounds__", "__align__", "alignas", "__attribute__", "decltype")  # with arguments


@dataclass
class TokenStream:
    """The tokens of a file, with a cursor; `head` holds the preprocessor lines, which the adjoint repeats."""

    name: str  # of the file
    text: str
    tokens: list[Token] = field(default_factory=list)
    macros: dict[str, list[Token]] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    redefined: set[str] = field(default_factory=set)  # macros with several meanings; the head leaves the last one
    # names of the file that are rejected where the kernel uses them
    unsupported: dict[str, NotDifferentiable] = field(default_factory=dict)
    bad: dict[int, NotDifferentiable] = field(default_factory=dict)  # by the offset of a piece that is no token
    at: int = 0
    length: int = 0  # of the kernel, with the functions that are written in place of their calls
    missing: str = ""  # an included file that nobody has
    file: str = ""  # that is being cut; empty for the kernel's own

    @cached_property
    def named(self) -> dict[str, list[int]]:
        """The tokens that are a name."""
        found: dict[str, list[int]] = {}
        for n, token in enumerate(self.tokens):
            if token.kind == "name":
                found.setdefault(token.text, []).append(n)
        return found

    @cached_property
    def words(self) -> set[str]:
        """Every name in the file: new names must differ from them."""
        return {*self.named, *self.macros}

    @cached_property
    def around(self) -> list[int]:
        """The number of the brace that is open at each token, -1 where none is."""
        found, opened = list[int](), [-1]
        for n, token in enumerate(self.tokens):
            if token.text == "}" and len(opened) > 1:
                opened.pop()
            found.append(opened[-1])
            if token.text == "{":
                opened.append(n)
        return found

    @cached_property
    def closing(self) -> dict[int, int]:
        """The number of the token that closes the bracket at a token; one too many closes none."""
        found, opened, opens = dict[int, int](), list[int](), {"}": "{", ")": "(", "]": "["}
        for n, token in enumerate(self.tokens):
            if token.text in ("{", "(", "["):
                opened.append(n)
            elif token.text in opens and opened:
                while token.text == "}" and len(opened) > 1 and self.tokens[opened[-1]].text != "{":
                    opened.pop()
                if self.tokens[opened[-1]].text == opens[token.text]:
                    found[opened.pop()] = n
        return found

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
            end = last.place._replace(column=last.place.column + len(last.text))
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

    def matching(self, start: int) -> int:
        """The token that closes the bracket at a token."""
        last = len(self.tokens) - 2  # ahead of the end
        return self.closing.get(start, last if self.tokens[start].text in ("{", "(", "[") else start)

    def is_declaration(self, start: int) -> bool:
        """True for a function declared without a body, or with `= default`."""
        found, n, called = self.tokens, self.specifiers(start), False
        while found[n].text not in (";", "=", "{", "}", "[") and found[n].kind != "end":
            called |= found[n].text == "(" and found[n - 1].text not in ("<", ",")
            n = self.matching(n) + 1 if found[n].text == "(" else n + 1 + (found[n].text == "operator")
        ends = found[n].text == ";" or (found[n].text == "=" and found[n + 1].text in ("default", "delete", "0"))
        return called and ends

    def behind_value(self, at: int, is_template: Callable[[str], bool]) -> int:
        """The comma, semicolon or bracket behind a value."""
        found = self.tokens
        while found[at].text not in (",", ";", "}", ")") and found[at].kind != "end":
            at, name = self.matching(at) + 1, found[at].text
            if found[at].text == "<" and is_template(name):
                at = template_parameters(found, at)[1]
        return at

    def specifiers(self, at: int) -> int:
        """The token behind words such as static and __device__, and attributes."""
        found = self.tokens
        while found[at].text in (*MODIFIERS, *SPECIFIERS[:-1], "[") or found[at].kind in ("string", "pragma"):
            closes = found[at].text == "[" or found[at + 1].text == "("
            at = self.matching(at + (found[at].text != "[")) + 1 if closes else at + 1
        return at

    def returns(self, start: int, stop: int) -> list[int]:
        """The tokens of a body that are its own `return`, and none of a lambda or a struct in it."""
        found, n, made = self.tokens, start + 1, list[int]()
        while n < stop:
            before, text, after = found[n - 1], found[n].text, [t.text for t in found[n + 1 : n + 3]]
            operand = before.kind == "name" and before.text != "return"  # of an index
            closure = (
                text == "[" and "[" not in (before.text, after[0]) and not operand and before.text not in ("]", ")")
            )
            if closure or (text in ("struct", "class") and "{" in after):
                while found[n].text != "{":
                    n = self.matching(n) + 1 if found[n].text in ("[", "(") else n + 1
                n = self.matching(n)
            made += [n] if text == "return" else []
            n += 1
        return made

    def identifier(self, expected: str) -> Token:
        if (rejected := self.rejected(self.next, word=True)) or self.next.kind != "name":
            found = self.next.text or "the end"
            raise rejected or self.error(self.next.place, f"expected {expected}, found {found!r}.")
        return self.take()

    def uses(self, name: str, start: int, stop: int) -> list[int]:
        """The tokens from one up to another that are this name, but not as that of a member."""
        every = self.named.get(name, [])
        within = every[bisect_left(every, start) : bisect_left(every, stop)]
        return [n for n in within if self.tokens[n - 1].text not in (".", "->")]

    def between(self, start: int, last: int) -> str:
        """The source text from a token to another."""
        return self.text[self.tokens[start].start : self.tokens[last].stop]

    def since(self, start: int) -> str:
        """The source text from a token to the cursor."""
        return self.between(start, self.at - 1)

    def line_since(self, start: int) -> str:
        return " ".join(self.since(start).split())

    def is_last(self, at: int, stop: int) -> bool:
        """True where the statement that begins at a token is the last of the body, in no branch or loop."""
        found = self.tokens
        if found[at - 1].text not in (";", "{", "}") or self.matching(self.around[at]) != stop:
            return False
        while found[at].text != ";":
            at += 1
        return at + 1 == stop

    def has_brace(self) -> bool:
        """True for `typedef struct { ... } X;`, and not for `typedef struct A B;`."""
        found, n = self.tokens, self.at
        while found[n].text not in (";", "{", "=") and found[n].kind != "end":
            n += 1
        return found[n].text == "{"

    def opens_c(self) -> bool:
        """Step over `extern "C" {`."""
        found = self.next.text == "extern" and self.peek().kind == "string" and self.peek(2).text == "{"
        self.at += 3 * found
        return found

    # --- errors ---

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return NotDifferentiable(f"{place.file or self.name}:{place.line}:{place.column}: {why}")

    def unknown(self, place: Place, why: str) -> NotDifferentiable:
        """The error at a name that this file does not have: another one may, which it includes."""
        return self.error(place, f"there is no file {self.missing}, and {why}" if self.missing else why)

    def forbid(self, why: str, *texts: str) -> None:
        """Raise NotDifferentiable, with this sentence, where one of these tokens is next."""
        if self.next.text in texts:
            raise self.error(self.next.place, why)

    def forbid_brackets(self) -> None:
        """Raise NotDifferentiable at the name in `double (*rows)[8] = ...;`."""
        if self.next.text != "(" or self.peek().text not in ("*", "&"):
            return
        _, star, name, _, last, width = (self.peek(n) for n in range(6))
        what = f"{name.text} is a {'pointer' if star.text == '*' else 'reference'} to"
        if last.text != "[":
            raise self.error(name.place, f"{what} a function; call the function by its name.")
        cast = [self.peek(n).text for n in (6, 7, 8)] == ["]", "=", "("]
        way = f"read its numbers by one index, x[i * {width.text} + j]." if cast else f"write auto& {name.text} = ...;"
        raise self.error(name.place, f"{what} an array; {way}")

    def rejected(self, token: Token, word: bool = False) -> NotDifferentiable | None:
        """The exception for a keyword or a name of the file outside the subset; None for any other token.

        word: the name may be one of a variable, which hides that of the file.
        """
        if way_out := KEYWORDS.get(token.text):
            return self.error(token.place, f"{token.text} is outside the differentiable subset; {way_out}.")
        return self.bad.get(token.start) if token.kind == "bad" or word else self.unsupported.get(token.text)


def cut(stream: TokenStream, line: str, number: int, start: int, column: int = 0) -> list[Token]:
    """The tokens of a line. A piece that is none, or an octal number, is rejected where the kernel comes to it."""
    for _, _, at, _, why in _pieces(line, column):
        if why:
            stream.bad[start + at] = stream.error(Place(number, at + 1, 0, stream.file), why)
    return _tokens(line, number, start, column, stream.file)


@lru_cache(maxsize=1 << 15)
def _tokens(line: str, number: int, start: int, column: int, file: str) -> list[Token]:
    """The tokens of a line at its place: the kernels of a file have the same headers, of up to 200,000 tokens."""
    new = tuple.__new__
    return [new(Token, (kind, text, new(Place, (number, at + 1, 0, file)), start + at, start + end))
            for kind, text, at, end, _ in _pieces(line, column)]  # fmt: skip


@lru_cache(maxsize=1 << 15)
def _pieces(line: str, column: int) -> tuple[tuple[str, str, int, int, str], ...]:
    """The pieces of a line: kind, text, where they begin and end, and why one is no token. Kernels share headers."""
    pieces = []
    for match in _TOKEN.finditer(line, column):
        kind, text, at, why = match.lastgroup, match[0], match.start(), ""
        if kind == "bad":
            why = f"{text!r} is outside the differentiable subset."
        elif kind == "number":
            text = text.replace("'", "")  # 10'000
            why = _not_decimal(text, _REST.match(line, match.end()))
        elif text in RESERVED:
            why = f"the adjoint itself uses the name {text}; choose another."
        pieces.append(("bad" if why else str(kind), text, at, match.end(), why))
    return tuple(pieces)


def _not_decimal(number: str, rest: re.Match[str] | None) -> str:
    """The reason why a literal is not accepted: 010 is 8 in C++, 0b11 is 3. Empty for decimal and hexadecimal ones."""
    if rest:
        return f"the literal {number}{rest[0]} is outside the differentiable subset; write it in decimal."
    octal = _OCTAL.fullmatch(number)
    return f"{number} is octal in C++; write it in decimal, without the 0 in front." if octal else ""


def template_parameters(found: list[Token], n: int) -> tuple[list[tuple[int, str, int]], int]:
    """`<typename T, int N = 4>`: its parameters, and the token behind it.

    Of each the token of its type, 0 where it is a type itself; its name; the token of its default, 0 where it has none.
    """
    made, depth, start = list[tuple[int, str, int]](), 1, 0
    n += 1
    words: list[Token] = []
    default = 0
    while found[n].kind != "end":
        text = found[n].text
        depth += (text == "<") - (text == ">") - 2 * (text == ">>")
        if depth <= 0 or (text == "," and depth == 1):
            if words:
                pointed = [b for a, b in pairwise(words) if a.text in ("*", "&") and b.kind == "name"]  # double (*F)()
                is_type = words[0].text in ("typename", "class")
                made.append((0 if is_type else start, (pointed or words)[-1].text, default))
            words, default = [], 0
            if depth <= 0:
                return made, n + 1
        elif text == "=" and depth == 1:
            default = n + 1
        elif not default:
            start = start if words else n
            words.append(found[n])
        n += 1
    return made, n


def written_out(texts: list[str], templates: Mapping[str, Any], tokens: TokenStream) -> list[str]:
    """The words of a type with what other names of templates stand for: `V<T>` is `Vec<T, 4>`."""
    for n, name in enumerate(texts):
        alias = next((t for t in templates.get(name, ()) if t.alias and texts[n + 1 : n + 2] == ["<"]), None)
        if alias is None:
            continue
        given, at, depth = [list[str]()], n + 2, 1
        while depth and at < len(texts):
            depth += {"<": 1, ">": -1, ">>": -2}.get(texts[at], 0)
            if depth == 1 and texts[at] == ",":
                given.append([])
            elif depth > 0:
                given[-1].append(texts[at])
            at += 1
        words = dict(zip((own for _, own, _ in alias.parameters), given, strict=False))
        stop = min(k for k in range(alias.brace, len(tokens.tokens)) if tokens.tokens[k].text == ";")
        meant = [w for t in tokens.tokens[alias.brace : stop] for w in words.get(t.text, [t.text])]
        return written_out([*texts[:n], *meant, *texts[at:]], templates, tokens)
    return texts


# Keywords outside the subset, with the way out.
KEYWORDS = {
    "goto": "write if, or leave a loop with break", "asm": "write CUDA C++", "__asm__": "write CUDA C++",
    "union": "write a variable for each member", "decltype": "write the type",
    "try": "an adjoint has no exceptions", "throw": "an adjoint has no exceptions",
    "new": "declare an array of fixed extent", "delete": "declare an array of fixed extent",
    "dynamic_cast": "write (double)x", "and": "write &&", "or": "write ||", "not": "write !",
}  # fmt: skip
VOTE = "exchange whole numbers by shuffles: k |= __shfl_xor_sync(mask, k, d) for d = 1, 2, 4 and so on"
# Functions without a derivative, by the beginning of their names.
FUNCTIONS: dict[str | tuple[str, ...], str] = {
    "atomic": "of the atomics only atomicAdd(&y[i], value); is allowed, as a statement",
    "__shfl": "since CUDA 9 it begins with the mask of its lanes: {}_sync(0xffffffff, v, o)",
    "__sync": "use __syncthreads();", "__any_sync": VOTE, "__all_sync": VOTE, "__ballot_sync": VOTE,
    "__activemask": "write the mask of the lanes that reach this line, 0xffffffff for whole warps",
    ("__int_as_", "__uint_as_", "__longlong_as_", "__hiloint"): "compute the number itself, not its bits",
    "cooperative": "use threadIdx and blockIdx",
    "swap": "swap numbers by a third; for two pointers let an index that changes choose half of one array",
    "malloc": "declare an array of fixed extent", "free": "declare an array of fixed extent",
}  # fmt: skip


def way_out(function: str) -> str:
    default = "write it as a __device__ function of differentiable ones, above this line"
    return next((way for start, way in FUNCTIONS.items() if function.startswith(start)), default).format(function)
