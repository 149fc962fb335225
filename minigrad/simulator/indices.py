"""Indices in CUDA C++, which `translate` makes statements of their own for g++.

g++ takes a read for free of side effects and may repeat it: its front end reads p twice in `s[p[i]] += 1`, again where
it checks the bounds of s, and once in `p[i] + p[i]`. An index that declares a variable, `s[({auto v=p[i];v;})]`, has a
side effect, so it is evaluated exactly once.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from minigrad.scan import DIRECTIVE, Edit

_DEFINE = re.compile(r"[ \t]*#[ \t]*define\b")
_SIGN = re.compile(r"[{}()\[\],]")
_ALIGNED = r"\b(?:alignas|__align__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)"  # within the head of a struct
NOT_FUNCTION = re.compile(
    rf'\b(?:namespace|struct|class|union|enum)\b(?:[^;{{}}()=]|{_ALIGNED})*$|\bextern\s*"\s*"\s*$'
)
_UNEVALUATED = re.compile(r"\b(?:assert|static_assert|decltype|sizeof|alignof)\s*$")  # assert prints its text
_CONSTANT = re.compile(r"[\sA-Z0-9_+*/()-]*")  # an extent must remain one
_END = re.compile(r"[;{}]|\Z")
_IDENTIFIER = re.compile(r"(\w+)\s*$")
_BEFORE_EXPRESSION = {"return", "else", "do", "case", "throw", "and", "or", "not"}
_NOT_NAME = _BEFORE_EXPRESSION | {"auto", "operator", "delete", "new", "constexpr", "mutable"}
_ARRAY = re.compile(r"\b[A-Za-z_]\w*(?:(?:\.|->|::)\w+|\[(?:[^][{}]|\[[^][{}]*\])*\])*$")
_NUMBER = re.compile(r"\]\s*\.\s*\w+\b(?!\s*\()")
_DECLARATION = re.compile(r"\s*(?!return\b|else\b)\w[\w:]*(?:<[^;{}]*>)?[\s*&]+\w")


def evaluations(code: str) -> Iterator[Edit]:
    """The edits by which each index is evaluated once. For the copy of a struct the compiler allows the index right
    behind the array, as it copies by address: MINIGRAD_INDEX finds that one.
    """
    for start, stop in indices(code):
        array = array_of(code, start, stop)
        yield start, start, "({auto minigrad_index="
        yield stop, stop, f";MINIGRAD_INDEX({array})minigrad_index;}})" if array else ";minigrad_index;})"


def array_of(code: str, start: int, stop: int) -> str:
    """The array that has its index there, as `s[i].row`; empty where it is no path of names and indices, where only the
    element's address is taken, or a number of it is read.
    """
    first = max(0, start - 100)
    found = _ARRAY.search(code, first, start - 1)
    if not found or 0 < first == found.start() or _NUMBER.match(code, stop):
        return ""
    before = code[max(0, found.start() - 20) : found.start()].rstrip().replace("&&", "")
    return "" if before.endswith(("&", ".", "->", "::")) else found[0]


class _OpenBracket(NamedTuple):
    """A bracket without its counterpart so far."""

    sign: str
    at: int
    live: bool  # encloses code that runs, in a function


def indices(code: str) -> Iterator[tuple[int, int]]:
    """Start and stop of each index in functions and macros, constants excepted. Comments in the code must be blank.

    Extents in declarations are no indices. Where the text is ambiguous, brackets count as an extent.
    """
    for found in DIRECTIVE.finditer(code):
        if _DEFINE.match(found[0]):
            yield from _IndexFinder(code, True).find(found.start(), found.end())
    plain = DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)
    yield from _IndexFinder(plain, False).find(0, len(plain))


class _IndexFinder:
    """Walks over the brackets of a text."""

    def __init__(self, code: str, live: bool):
        self.code, self.opened = code, [_OpenBracket("", -1, live)]
        self.begins: dict[int, int] = {}  # closed bracket -> its opening bracket
        self.found: set[int] = set()  # closing brackets of subscripts
        self.listed: set[int] = set()  # opening brackets with a comma at their level

    def find(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for match in _SIGN.finditer(self.code, start, stop):
            at = match.start()
            if match[0] == ",":
                self.listed.add(self.opened[-1].at)
            elif match[0] in "([{":
                self.opened.append(_OpenBracket(match[0], at, self._live(match[0], at)))
            elif len(self.opened) > 1:
                _, begin, live = self.opened.pop()
                self.begins[at] = begin
                if match[0] == "]" and live:
                    self.found.add(at)
                    if begin not in self.listed and self._is_index(begin + 1, at):
                        yield begin + 1, at

    def _live(self, sign: str, at: int) -> bool:
        live = self.opened[-1].live
        if sign == "{":
            return not NOT_FUNCTION.search(self.code, max(0, at - 300), at)
        if sign == "(":
            return live and not _UNEVALUATED.search(self.code, max(0, at - 50), at)
        return live and self._is_subscript(at)

    def _is_index(self, start: int, stop: int) -> bool:
        index = self.code[start:stop].strip()
        pack = "..." in self.code[self._statement(start) : _END.search(self.code, stop).start()]  # type: ignore[union-attr]
        return not _CONSTANT.fullmatch(index) and index[0] not in "[{" and not pack  # GCC 12 crashes at a pack

    def _is_subscript(self, at: int) -> bool:
        """True behind an expression with elements; False in a declaration or before a lambda."""
        last = self._before(at)
        if self.code[last] == "]":
            return last in self.found
        if self.code[last] == ")":
            before = self._before(self.begins.get(last, 0))
            return self.code[before] != ">" and (self._word(before + 1) or "return") in _BEFORE_EXPRESSION
        name = self._word(last + 1)
        if not name or name in _NOT_NAME:
            return False
        before = self._before(last + 1 - len(name))
        if self.code[before] == "," and self.opened[-1].sign in ("", "{"):
            return not _DECLARATION.match(self.code, self._statement(before), before)
        return (self._word(before + 1) or "return") in _BEFORE_EXPRESSION

    def _statement(self, at: int) -> int:
        """The start of the statement around a position."""
        return max(self.code.rfind(sign, 0, at) for sign in ";{}") + 1

    def _before(self, at: int) -> int:
        """The position of the last non-space character before this one."""
        while at > 0 and self.code[at - 1].isspace():
            at -= 1
        return max(at - 1, 0)

    def _word(self, stop: int) -> str:
        found = _IDENTIFIER.search(self.code, max(0, stop - 100), stop)
        return found[1] if found else ""
