"""Notes for the microscope: of a thread's own variables that begin without a value, and of their updates, as
`s += x[i]`, so that it sees one that nobody has set; and of the ends of functions, which a thread that returns early
does not reach, as a barrier does not wait for it.

Of an array each read is seen, of another variable only what reads and changes it: a lane may hand on what it has not
set, in a shuffle that takes another's. Parameters that are references stand for either.
"""

import re
from bisect import bisect
from collections.abc import Iterator

from minigrad.scan import NO_TYPE, Edit, end_of, split, without_directives
from minigrad.simulator.indices import NOT_FUNCTION

_TYPE = rf"(?!(?:{NO_TYPE}|extern|static|__shared__)\b)[A-Za-z_][\w:]*(?:<[^<>;]*>)?\s+"
_DECLARATION = re.compile(rf"[;{{}})]\s*(?:{_TYPE})+([A-Za-z_][^;{{}}]*)(?=;)")
_UNSET = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*")
_REFERENCE = re.compile(r"[(,]\s*(?!const\b)[\w:]+\s*&\s*(\w+)\s*(?=[,)])")
_ARGUMENT = re.compile(r"[(,]\s*(\w+)\s*(?=[,)])")
# Its index calls and reads nothing.
_PLACE = r"(?P<place>(?P<name>[A-Za-z_]\w*)(?:\[(?:(?!\+\+|--)[^\[\]()=;{}\"])+\]|\.\w+)*)"
_BEGIN = r"(?<=[;{})])\s*(?:else\s+)?"
_CHANGE = re.compile(rf"{_BEGIN}{_PLACE}\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_COUNT = re.compile(rf"{_BEGIN}(?:\+\+|--)\s*{_PLACE}")
_ASSIGNMENT = re.compile(rf"{_BEGIN}{_PLACE}\s*=(?!=)(?=(?P<value>[^;{{}}]*);)")
# `if (x > m) m = x`, with the condition's parentheses two deep
_CHOICE = re.compile(rf"\bif\s*\((?P<value>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*\{{?\s*{_PLACE}\s*=(?!=)")
_PARAMS = r"\s*\((?:[^(){};]|\([^()]*\))*\)"
_NAME = r"\b(?!(?:if|for|while|switch|catch|constexpr)\b)(?P<name>\w+)"
_AFTER = r"\s*(?:(?:const|noexcept|mutable|override)\b\s*|->[^(){};]*)*\{"
_FUNCTION = re.compile(rf"(?:{_NAME}(?:\s*\(\s*\))?{_PARAMS}|\](?:{_PARAMS})?){_AFTER}")  # or a lambda
# The head of a class, with any base; of functions only some that return a `struct S` have it.
_CLASS = re.compile(r"(?:^|[^<,(\s])\s*\b(?:struct|class|union)\b.*[^\s)]\s*$", re.S)
_BARRIER = re.compile(r"sync|barrier", re.I)  # or another word with that: the notes do no harm
_LAST = re.compile(r"(?:^|[;{}])\s*(return\b[^;{}]*;)\s*$")


def ends(code: str) -> Iterator[Edit]:
    """Notes at the ends of kernels, and at both ends of other functions that contain a barrier or call one that does.

    The end is ahead of a last `return`. A kernel of which a macro has the braces has no note: its threads return.
    """
    code = without_directives(code)
    bodies = {found: code[found.end() : end_of(code, found.end(), "")] for found in _FUNCTION.finditer(code)}
    words = {found: set(re.findall(r"\w+", body)) for found, body in bodies.items()}
    inside = {found for found, body in bodies.items() if _BARRIER.search(body)}
    while more := {found for found in bodies if words[found] & {each["name"] for each in inside}} - inside:
        inside |= more
    for found, body in bodies.items():
        last = _LAST.search(body)
        end = found.end() + (last.start(1) if last else len(body))
        head = code[max(code.rfind(sign, 0, found.start()) for sign in ";{}") + 1 : found.start()]
        if "__global__" in head:
            yield end, end, "MINIGRAD_KERNEL_ENDS "
        elif found in inside:
            yield found.end(), found.end(), " MINIGRAD_CALLED"
            yield end, end, "MINIGRAD_ENDS "


def updates(code: str) -> Iterator[Edit]:
    """`s += x` -> `MINIGRAD_UPDATED(s) += x`, the same of `s++` and `++s`, and of the s that is read in
    `s = s + x` and in `if (x > s) s = x`; and `float s;` -> `float s; MINIGRAD_UNSET(s)`.
    """
    code = without_directives(code)
    declared = [(each.end() + 1, one) for each in _DECLARATION.finditer(code) for one in _without_value(each[1])]
    references = {each[1] for each in _REFERENCE.finditer(code)}
    names, noted = {one[1] for _, one in declared} | references, set[str]()
    for pattern in (_CHANGE, _COUNT):
        for found in pattern.finditer(code):
            if found["name"] in names:
                noted.add(found["name"])
                yield _noted(found.start(1), found[1])
    for found in (each for pattern in (_ASSIGNMENT, _CHOICE) for each in pattern.finditer(code)):
        if found["name"] in names and "shfl" not in found["value"]:  # which takes a lane's that is set
            place = rf"(?<![\w.>&:]){re.escape(found['place'])}(?!\s*[\w\[.(])"
            for read in re.compile(place).finditer(code, *found.span("value")):
                noted.add(found["name"])
                yield _noted(read.start(), found["place"])
    if references:  # a function may update what it is handed
        noted |= set(_ARGUMENT.findall(code))
    begins, in_block = zip(*blocks(code), strict=True)
    for at, one in declared:
        if (one[1] in noted or "[" in one[0]) and in_block[bisect(begins, at - 1) - 1]:
            yield at, at, f" MINIGRAD_UNSET({one[1]})"


def function_at(code: str, first: int, last: int) -> int:
    """The start of the function with a name of which a line, from the offset `first` to `last`, is a part; -1: none."""
    named = (each for each in _FUNCTION.finditer(code, 0, last) if each["name"])
    return next((each.start() for each in named if first <= end_of(code, each.end(), "")), -1)


def _without_value(declarators: str) -> list[re.Match]:
    return [found for one in split(declarators) if (found := _UNSET.fullmatch(one))]


def blocks(code: str) -> Iterator[tuple[int, bool]]:
    """Each offset behind a brace, and whether statements stand there: not in a struct, and not outside of functions."""
    opened, begin = [False], 0
    yield 0, False
    for sign in re.finditer(r"[;{}]", code):
        if sign[0] == "{":
            head = code[begin : sign.start()]
            opened.append(not (NOT_FUNCTION.search(head) or _CLASS.search(head)))
        elif sign[0] == "}" and len(opened) > 1:
            opened.pop()
        if sign[0] != ";":
            yield sign.end(), opened[-1]
        begin = sign.end()


def _noted(start: int, place: str) -> Edit:
    return start, start + len(place), f"MINIGRAD_UPDATED({place})"
