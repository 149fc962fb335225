"""The preprocessor: conditions, included files, and macros; those that stand for constants keep their names."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from minigrad.adjoint.language.ast import CONSTANTS, PRECEDENCE, Place, base_name
from minigrad.adjoint.language.lexer import CONTINUED, Token, TokenStream, cut
from minigrad.scan import INCLUDE, asked, blank

_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(([^)]*)\))?")
ONCE = re.compile(r"#[ \t]*pragma[ \t]+once")  # in a file; one with a guard is read again, and gives nothing
_SCOPES = ("{", "}", ";", "namespace", "extern")
DEEPEST = 60  # included files within one another
_IF_WORDS = ("if", "ifdef", "ifndef", "elif", "else", "endif")
PREDEFINED = {"__CUDACC__": "1", "__CUDA_ARCH__": "900", "__NVCC__": "1", "__cplusplus": "201703",
              "__CUDACC_VER_MAJOR__": "13", "CUDA_VERSION": "13000", "CUDART_VERSION": "13000",
              "MINIGRAD_INLINE": "static"}  # fmt: skip
# text and path of a file, from its name in an #include and the path of the file that has this; empty for the kernel's
Find = Callable[[str, str], tuple[str, str] | None]


def _divided(a: int, b: int) -> int:
    """Rounded to 0. By 0 only on a side that does not count; elsewhere the kernel does not compile."""
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


UNARY: dict[str, Callable[..., int]] = {"!": operator.not_, "-": operator.neg, "+": operator.pos, "~": operator.invert}
BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: bool(a or b), "&&": lambda a, b: bool(a and b), "|": operator.or_, "^": operator.xor,
    "&": operator.and_, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "<<": operator.lshift, ">>": operator.rshift, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": _divided, "%": lambda a, b: a - b * _divided(a, b),
}  # fmt: skip


def whole_value(words: list[str], least: int = 0) -> int:
    """The value of an expression of whole numbers with operators that bind at least so tightly; takes its words.

    A name is 0. Raises ValueError or IndexError where it is no such expression.
    """
    word = words.pop(0)
    if word == "(":
        value = whole_value(words)
        if words.pop(0) != ")":
            raise ValueError(word)
    elif word in UNARY:
        value = int(UNARY[word](whole_value(words, len(PRECEDENCE))))
    elif word[0].isdigit():
        digits = word.rstrip("uUlL")
        value = int(digits, 8 if digits.isdigit() and digits[0] == "0" else 0)
    elif word.isidentifier():
        value = int(word == "true")
    else:
        raise ValueError(word)
    while words and words[0] in BINARY and PRECEDENCE[words[0]] >= least:
        op = words.pop(0)
        value = int(BINARY[op](value, whole_value(words, PRECEDENCE[op] + 1)))
    return value


class Macro(NamedTuple):
    """A macro: its parameters, None for one without, its tokens, and whether its uses keep its name."""

    params: tuple[str, ...] | None
    body: list[Token]
    kept: bool


class TextLine(NamedTuple):
    """A line of a file that is compiled: its number, its offset in the stream's text, and the directive in it."""

    text: str
    number: int
    start: int
    directive: str
    following: str = ""  # the next directive


def tokenize(
    text: str, name: str, defines: Mapping[str, Any] | None = None, find: Find = lambda *_: None,
    ahead: Sequence[tuple[str, str]] = (),
) -> TokenStream:  # fmt: skip
    """Cut a file of this name into tokens, with its macros expanded and its conditions decided.

    defines: macros of the compiler's command line; ahead: names and texts of files that are read first.
    Raises NotDifferentiable at a comment or #if without an end.
    """
    stream = TokenStream(name, text)
    code = blank(text)
    if (at := code.find("/*")) >= 0:
        place = Place(code.count("\n", 0, at) + 1, at - code.rfind("\n", 0, at))
        raise stream.error(place, "this comment has no end; close it with */.")
    work = Preprocessor(stream, {k: str(v) for k, v in (defines or {}).items() if k != "real"}, find)
    for own, first in ahead:
        work.other_file(first, own)
    work.file(text)
    last = code.rfind("\n") + 1
    end = Token("end", "", Place(code.count("\n") + 1, len(code) - last + 1), len(text), len(text))
    stream.tokens += [end] * 4  # as many as the parser looks ahead
    return stream


def lines(text: str, start: int) -> Iterator[TextLine]:
    """The lines of a file without comments."""
    # a directive over several lines as one, with empty lines behind it: same length, same lines after it
    whole = CONTINUED.sub(lambda m: m[0].replace("\\\n", " ") + "\n" * m[0].count("\\\n"), blank(text))
    found = whole.split("\n")
    words = [match[1] if "#" in line and (match := re.match(r"\s*#\s*(\w*)", line)) else "" for line in found]
    for number, (line, word) in enumerate(zip(found, words, strict=True), 1):
        following = next((found[n] for n in range(number, len(found)) if words[n]), "") if word == "ifndef" else ""
        yield TextLine(line, number, start, word, following)
        start += len(line) + 1


class Preprocessor:
    """Fills the tokens, macros and head of a stream."""

    def __init__(self, stream: TokenStream, defines: Mapping[str, str], find: Find):
        self.stream, self.defines, self.find = stream, defines, find
        self.macros: dict[str, Macro] = {}
        for name, value in (PREDEFINED | dict(defines)).items():
            self.macros[name] = Macro(None, cut(stream, value, 0, 0), name in defines)
        self.undefined: dict[str, list[Token]] = {}  # bodies of macros from before #undef
        self.waiting: list[Token] = []  # tokens in which macros are not yet expanded
        # of each #if: whether lines count here, and whether a branch has been taken
        self.branches: list[list[bool]] = []
        self.guards: list[bool] = []  # for each #if, whether the head repeats it
        self.included: set[str] = set()
        self.path = ""  # of the file that is being read
        self.depth = 0  # of included files around the cursor
        self.scanned = 0  # tokens in which `in_body` has counted braces
        self.opened: list[bool] = []  # of each brace around the cursor: whether it is that of a namespace
        self.outer = False  # whether the next brace is

    @property
    def active(self) -> bool:
        return all(here for here, _ in self.branches)

    def file(self, text: str, start: int = 0) -> None:
        depth, active = len(self.branches), self.active
        for line in lines(text, start):
            if line.directive:
                self.directive(line)
                active = self.active
            elif active:
                self.waiting += cut(self.stream, line.text.removesuffix("\\"), line.number, line.start)
        self.flush()
        if len(self.branches) > depth:
            raise self.stream.error(Place(line.number, 1, file=self.stream.file), "an #if has no #endif.")

    def other_file(self, text: str, name: str) -> None:
        start, outer, self.stream.file = len(self.stream.text) + 1, self.stream.file, name
        self.stream.text += f"\n{text}"
        self.file(text, start)
        self.stream.file = outer

    def flush(self) -> None:
        self.stream.tokens += self.expand(self.waiting)
        self.waiting = []

    def directive(self, line: TextLine) -> None:
        text, place = line.text.strip(), Place(line.number, line.text.index("#") + 1, file=self.stream.file)
        if line.directive in _IF_WORDS:
            self.condition(line, place)
        elif not self.active:
            return
        elif line.directive == "pragma":
            self.waiting.append(
                Token("pragma", text, place, line.start + place.column - 1, line.start + len(line.text))
            )
        elif line.directive == "define":
            self.flush()
            self.define(line, place)
        elif line.directive == "undef":
            self.flush()
            if (name := text.split()[1]) in self.macros:
                self.stream.redefined |= self.made_of(name)  # at the end of the head it means nothing
            self.undefine(name)
            self.stream.head.append(text)
        elif line.directive == "include":
            self.include(line)
        elif line.directive == "error" and not self.depth:  # a header may ask for macros that only a compiler knows
            raise self.stream.error(place, f"the file does not compile: {text}.")

    def in_body(self) -> bool:
        """True within the braces of a function or a type."""
        for text in (t.text for t in self.stream.tokens[self.scanned :] if t.text in _SCOPES):
            if text == "{":
                self.opened.append(self.outer)
            elif text == "}" and self.opened:
                self.opened.pop()
            self.outer = text in ("namespace", "extern")
        self.scanned = len(self.stream.tokens)
        return not all(self.opened)

    def include(self, line: TextLine) -> None:
        """The tokens of a file of the project; the head repeats a line that stands outside of functions."""
        text = self.stream.text[line.start : line.start + len(line.text)].strip()
        self.flush()
        of = INCLUDE.match(text)
        name = of and (of["near"] or of["far"])
        found = self.find(name, self.path) if name else None
        lost = asked(of) if of and found is None else ""
        self.stream.missing = self.stream.missing or lost
        if not self.in_body() and not lost:  # the kernel is read without that file, so its adjoint needs none of it
            self.stream.head.append(text)
        if name and found is not None and not (found[1] in self.included and ONCE.search(found[0])):
            if self.depth > DEEPEST:
                place = Place(line.number, line.text.index("#") + 1, file=self.stream.file)
                raise self.stream.error(place, f"{name} includes itself; put #pragma once at its top.")
            self.included.add(found[1])
            head, outer, self.path = list(self.stream.head), self.path, found[1]
            self.depth += 1
            self.other_file(found[0], name.rpartition("/")[2])
            self.depth -= 1
            self.stream.head, self.path = head, outer

    # --- conditions ---

    def condition(self, line: TextLine, place: Place) -> None:
        kind, text = line.directive, line.text.strip()
        name = (re.match(r"#\s*\w+\s*(\w*)", text) or [""])[1]
        if kind.startswith("if"):
            guard = kind == "ifndef" and bool(re.match(rf"\s*#\s*define\s+{name}\b", line.following))
            self.guards.append(guard and self.active)
            if guard and self.active:
                self.stream.head.append(text)
                taken = name not in self.macros or name in self.defines
            elif kind == "if":
                taken = self.active and self.holds(line, place)
            else:
                taken = (name in self.macros) == (kind == "ifdef")
            self.branches.append([taken, taken])
            return
        if not self.branches:
            raise self.stream.error(place, f"this #{kind} has no #if.")
        here, before = self.branches[-1], self.branches[-1][1]
        if kind == "endif":
            self.branches.pop()
            if self.guards.pop():
                self.stream.head.append("#endif")
        elif kind == "else":
            self.guards[-1] = self.guards[-1] and self.end_guard()
            here[0], here[1] = not before, True
        else:
            here[0] = False
            here[0] = not before and all(outer for outer, _ in self.branches[:-1]) and self.holds(line, place)
            here[1] = before or here[0]

    def end_guard(self) -> bool:
        self.stream.head.append("#endif")
        return False

    def holds(self, line: TextLine, place: Place) -> bool:
        """The value of `#if defined(A) && B > 2`; a name that is no macro is 0."""
        code = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda m: str(int(m[1] in self.macros)), line.text)
        code = re.sub(r"^\s*#\s*\w+", "", code)
        found = self.expand(cut(self.stream, code, line.number, line.start), names=True)
        words = [t.text for t in found if t.kind != "end"]
        try:
            wraps = any(re.match(r"\d\w*[uU]", word) for word in words) and not {"-", "~"}.isdisjoint(words)
            value = whole_value(words)
            if words or wraps:
                raise ValueError(line.text)
            return bool(value)
        except (ValueError, IndexError):
            raise self.stream.error(
                place, "this condition is no expression of whole numbers and macros; write the number of a character."
            ) from None

    # --- macros ---

    def define(self, line: TextLine, place: Place) -> None:
        match = _DEFINE.match(line.text.strip())
        if match is None:
            raise self.stream.error(place, "this #define has no name.")
        name, params, text = match[1], match[3], line.text.strip()
        if name not in ("real", "wide", *CONSTANTS) and not (self.guards and self.guards[-1] and name in self.defines):
            at = line.text.index(match.group()) + match.end()
            body = cut(self.stream, line.text, line.number, line.start, at)
            earlier = self.macros[name].body if name in self.macros else self.undefined.get(name, body)
            if [t.text for t in earlier] != [t.text for t in body] and name not in PREDEFINED:
                self.stream.redefined |= self.made_of(name)
                self.undefine(name)  # compilers warn, and take the later one
            listed = None if params is None else tuple(p.strip() for p in params.split(",") if p.strip())
            kept = listed is None and self.is_constant(body)
            self.macros[name] = Macro(listed, body, kept)
            if kept and name not in self.defines:
                self.stream.macros[name] = body
        self.stream.head.append(text)

    def undefine(self, name: str) -> None:
        """Forget a macro. What is ahead of here keeps its value, where it has kept its name."""
        made = (n for n in self.made_of(name) if n in self.macros and self.macros[n].kept)
        bodies = {n: self.macros[n].body for n in made}
        while any(t.text in bodies and t.kind == "name" for t in self.stream.tokens):
            self.stream.tokens = [
                b if b is t else b._replace(place=t.place, start=t.start, stop=t.stop)
                for t in self.stream.tokens for b in (bodies.get(t.text, [t]) if t.kind == "name" else [t])
            ]  # fmt: skip
        self.undefined |= {name: self.macros.pop(name).body} if name in self.macros else {}
        self.stream.macros.pop(name, None)

    def made_of(self, name: str) -> set[str]:
        """A macro, and those in whose bodies it stands, which are defined after it."""
        found = {name}
        for other, macro in self.macros.items():
            if any(t.text in found for t in macro.body):
                found.add(other)
        return found

    def is_constant(self, body: list[Token]) -> bool:
        """True for numbers and macros that are constants, with all operators in parentheses: it may keep its name."""
        depth = 0
        for n, token in enumerate(body):
            depth += (token.text == "(") - (token.text == ")")
            if n and not depth and token.kind != "number" and token.text != ")":
                return False
            macro = self.macros.get(token.text)
            known = base_name(token.text) or token.text in CONSTANTS or (macro is not None and macro.kept)
            if token.kind in ("string", "bad") or (token.kind == "name" and not known):
                return False
        return bool(body) and not base_name(body[-1].text)  # as in `#define SQRT sqrtf`

    def expand(self, tokens: list[Token], hidden: Set[str] = frozenset(), names: bool = False) -> list[Token]:
        """The tokens with macros replaced. names: also those that keep their names."""
        made, tokens, n = list[Token](), [*tokens], 0
        while (at := next((k for k in range(n, len(tokens)) if tokens[k].text in self.macros), -1)) >= 0:
            made += tokens[n:at]
            token, n = tokens[at], at + 1
            macro = self.macros[token.text] if token.kind == "name" and token.text not in hidden else None
            called = n < len(tokens) and tokens[n].text == "("
            if macro is None or (macro.kept and not names) or (macro.params is not None and not called):
                made.append(token)
                continue
            body, last = macro.body, token
            if macro.params is not None:
                arguments, n = self.arguments(tokens, n + 1, token)
                last = tokens[n - 1]
                body = self.substitute(macro, arguments, token, names)
            body = [t if t.kind == "bad" else Token(t.kind, t.text, token.place, token.start, last.stop)
                    for t in body if t.text != "#"]  # fmt: skip
            around = hidden | {token.text}
            made += (found := self.expand(body, around, names))
            named = self.macros.get(found[-1].text) if found and found[-1].text not in around else None
            if named and named.params is not None and [t.text for t in tokens[n : n + 1]] == ["("]:
                n -= 1
                tokens[n] = made.pop()  # the brackets behind the body may be its last name's
        return made + tokens[n:]

    def arguments(self, tokens: list[Token], n: int, name: Token) -> tuple[list[list[Token]], int]:
        """The arguments of a macro's call, and the number of the token behind it."""
        found: list[list[Token]] = [[]]
        depth = 1
        for n in range(n, len(tokens)):  # noqa: B020
            token = tokens[n]
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if not depth:
                return found, n + 1
            if token.text == "," and depth == 1:
                found.append([])
            else:
                found[-1].append(token)
        raise self.stream.error(name.place, f"the arguments of the macro {name.text} have no end.")

    def substitute(self, macro: Macro, arguments: list[list[Token]], name: Token, names: bool) -> list[Token]:
        params = macro.params or ()
        if params and params[-1] == "...":
            comma = name._replace(kind="op", text=",")
            rest = [t for n, a in enumerate(arguments[len(params) - 1 :]) for t in ([comma] * (n > 0) + a)]
            params, arguments = (*params[:-1], "__VA_ARGS__"), [*arguments[: len(params) - 1], rest]
        if not params and arguments == [[]]:
            arguments = []
        if len(arguments) != len(params):
            why = f"the macro {name.text} takes {len(params)} arguments; got {len(arguments)}."
            raise self.stream.error(name.place, why)
        given = dict(zip(params, arguments, strict=True))
        made: list[Token] = []
        body = macro.body
        joins = any(t.text == "#" for t in body)
        for n, token in enumerate(body):
            if token.text == "##" or (token.text == "#" and token.kind == "bad"):
                continue
            pasted = joins and (_pastes(body, n - 1) or _pastes(body, n + 1))
            found = given.get(token.text)
            piece = [token] if found is None else found if pasted else self.expand(found, names=names)
            if pasted and made and piece and _pastes(body, n - 1):
                made[-1] = cut(self.stream, made[-1].text + piece[0].text, 1, 0)[0]
                piece = piece[1:]
            made += piece
        return made


def _pastes(body: list[Token], n: int) -> bool:
    """True where ## stands: two pieces that are no tokens."""
    return any([t.text for t in body[k : k + 2]] == ["#", "#"] for k in (n - 1, n) if k >= 0)
