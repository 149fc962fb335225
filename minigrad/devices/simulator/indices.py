"""Indices that are evaluated once, in the text for g++, which takes a read for free of effects and may repeat it.

Without this its front end reads p twice in `s[p[i]] += 1`, again where it checks the bounds of s, and once in
`p[i] + p[i]`. An index that declares a variable, `s[({auto v=p[i];v;})]`, has an effect: none is repeated or left out.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

BEFORE, AFTER = "({auto minigrad_index=", ";minigrad_index;})"

_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define\b")
_SIGN = re.compile(r"[{}()\[\],]")
_NO_FUNCTION = re.compile(r'\b(?:namespace|struct|class|union|enum)\b[^;{}()=]*$|\bextern\s*"\s*"\s*$')
_WHOLE = re.compile(r"\b(?:assert|static_assert|decltype|sizeof|alignof)\s*$")  # their text, or their type, is meant
_CONSTANT = re.compile(r"[\sA-Z0-9_+*/()-]*")  # which an extent has to stay
_END = re.compile(r"[;{}]|\Z")
_NAME = re.compile(r"(\w+)\s*$")
_BEGINS = {"return", "else", "do", "case", "throw", "and", "or", "not"}  # words behind which an expression begins
_NO_NAME = _BEGINS | {"auto", "operator", "delete", "new", "constexpr", "mutable"}
_DECLARATION = re.compile(r"\s*(?!return\b|else\b)\w[\w:]*(?:<[^;{}]*>)?[\s*&]+\w")


class _Open(NamedTuple):
    """A bracket that is open."""

    sign: str
    at: int
    live: bool  # what is in it runs, in a function


def indices(code: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each, in functions and macros, of code whose comments are blank; no constants.

    The extent in a declaration is none. Where the text leaves it open whether it is, it is taken for an extent.
    """
    for found in _DIRECTIVE.finditer(code):
        if _DEFINE.match(found[0]):
            yield from _Reader(code, True).read(found.start(), found.end())
    plain = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)
    yield from _Reader(plain, False).read(0, len(plain))


class _Reader:
    """Goes from bracket to bracket."""

    def __init__(self, code: str, live: bool):
        self.code, self.opened = code, [_Open("", -1, live)]
        self.begins: dict[int, int] = {}  # of each bracket that is closed, where it was opened
        self.found: set[int] = set()  # where a subscript is closed
        self.listed: set[int] = set()  # where brackets are opened that have a comma of their own

    def read(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for match in _SIGN.finditer(self.code, start, stop):
            at = match.start()
            if match[0] == ",":
                self.listed.add(self.opened[-1].at)
            elif match[0] in "([{":
                self.opened.append(_Open(match[0], at, self._live(match[0], at)))
            elif len(self.opened) > 1:
                _, begin, live = self.opened.pop()
                self.begins[at] = begin
                if match[0] == "]" and live:
                    self.found.add(at)
                    if begin not in self.listed and self._wanted(begin + 1, at):
                        yield begin + 1, at

    def _live(self, sign: str, at: int) -> bool:
        live = self.opened[-1].live
        if sign == "{":
            return not _NO_FUNCTION.search(self.code, max(0, at - 300), at)
        if sign == "(":
            return live and not _WHOLE.search(self.code, max(0, at - 50), at)
        return live and self._subscripts(at)

    def _wanted(self, start: int, stop: int) -> bool:
        index = self.code[start:stop].strip()
        packed = "..." in self.code[self._statement(start) : _END.search(self.code, stop).start()]  # type: ignore[union-attr]
        return not _CONSTANT.fullmatch(index) and index[0] not in "[{" and not packed  # GCC 12 breaks down at a pack

    def _subscripts(self, at: int) -> bool:
        """Whether the bracket stands behind what has elements, rather than in a declaration or before a lambda."""
        last = self._before(at)
        if self.code[last] == "]":
            return last in self.found
        if self.code[last] == ")":
            before = self._before(self.begins.get(last, 0))
            return self.code[before] != ">" and (self._word(before + 1) or "return") in _BEGINS
        name = self._word(last + 1)
        if not name or name in _NO_NAME:
            return False
        before = self._before(last + 1 - len(name))
        if self.code[before] == "," and self.opened[-1].sign in ("", "{"):
            return not _DECLARATION.match(self.code, self._statement(before), before)
        return (self._word(before + 1) or "return") in _BEGINS

    def _statement(self, at: int) -> int:
        """Where the one begins that this is in."""
        return max(self.code.rfind(sign, 0, at) for sign in ";{}") + 1

    def _before(self, at: int) -> int:
        """Where the last sign before it stands that is no space."""
        while at > 0 and self.code[at - 1].isspace():
            at -= 1
        return max(at - 1, 0)

    def _word(self, stop: int) -> str:
        found = _NAME.search(self.code, max(0, stop - 100), stop)
        return found[1] if found else ""
