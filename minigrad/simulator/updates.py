"""Notes for the microscope: of a thread's own variables that begin without a value, and of their updates, as
`s += x[i]`, so that it sees one that nobody has set; and of the ends of functions, which a thread that returns early
does not reach, as a barrier does not wait for it.

Of an array each read is seen, and of a number that no function is handed; of another variable only what reads and
changes it: a lane may hand on what it has not set, as to a shuffle that takes another's. Parameters that are references
stand for either.
"""

import re
from bisect import bisect
from collections.abc import Collection, Iterator
from functools import lru_cache

from minigrad.scan import NO_TYPE, Edit, end_of, split, without_directives
from minigrad.simulator.indices import NOT_FUNCTION

_TYPE = rf"(?!(?:{NO_TYPE}|extern|static|__shared__)\b)[A-Za-z_]\w*(?:::\w+)*(?:<[^<>;]*>)?(?:\s*\*+\s*|\s+)"
_DECLARATION = re.compile(rf"[;{{}})]\s*(?:{_TYPE})+([A-Za-z_][^;{{}}]*)(?=;)")
_UNSET = re.compile(r"[*\s]*(\w+)\s*(?:\[[^\]]*\]\s*)*")
_REFERENCE = re.compile(r"[(,]\s*(?!const\b)[\w:]+\s*&\s*(\w+)\s*(?=[,)])")
_ASKS = "".join(rf"(?<!\b{word}{space})" for word in ("if", "while", "switch") for space in ("", " "))
_ARGUMENT = re.compile(rf"(?:{_ASKS}\(|[{{,])\s*(\w+)\s*(?=[,)}}])")
_HANDED_BACK = re.compile(r"\breturn\s+(\w+)\s*;")
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
_SHUFFLE = re.compile("shfl")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)
_LAST = re.compile(r"(?:^|[;{}])\s*(return\b[^;{}]*;)\s*$")


def ends(code: str) -> Iterator[Edit]:
    """Notes at the ends of kernels, and at both ends of other functions that contain a barrier or call one that does.

    The end is ahead of a last `return`. A kernel of which a macro has the braces has no note: its threads return.
    """
    code = without_directives(code)
    functions = list(_functions(code))
    inside = _leading_to(_BARRIER, [(found["name"], _words(body)) for found, body in functions])
    for found, body in functions:
        last = _LAST.search(body)
        end = found.end() + (last.start(1) if last else len(body))
        head = code[max(code.rfind(sign, 0, found.start()) for sign in ";{}") + 1 : found.start()]
        if "__global__" in head:
            yield end, end, "MINIGRAD_KERNEL_ENDS "
        elif _words(body) & inside:
            yield found.end(), found.end(), " MINIGRAD_CALLED"
            yield end, end, "MINIGRAD_ENDS "


def _functions(code: str) -> Iterator[tuple[re.Match, str]]:
    """Each function's head, and its body."""
    return ((found, code[found.end() : end_of(code, found.end(), "")]) for found in _FUNCTION.finditer(code))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _leading_to(pattern: re.Pattern, bodies: Collection[tuple[str | None, set[str]]]) -> set[str]:
    """The words with the pattern, and the names of the functions that have such a word, or another such name."""
    found = {word for _, words in bodies for word in words if pattern.search(word)}
    while more := {name for name, words in bodies if name and words & found} - found:
        found |= more
    return found


@lru_cache(512)
def shuffles(texts: tuple[str, ...]) -> frozenset[str]:
    """The words of the texts by which a lane takes what another has: shuffles, and functions and macros with one."""
    code = "\n".join(texts)
    if not _SHUFFLE.search(code):
        return frozenset()
    functions = [(found["name"], _words(body)) for found, body in _functions(without_directives(code))]
    return frozenset(_leading_to(_SHUFFLE, functions + [(name, _words(value)) for name, value in _MACRO.findall(code)]))


def updates(code: str, exchanges: frozenset[str]) -> Iterator[Edit]:
    """`s += x` -> `MINIGRAD_UPDATED(s) += x`, the same of `s++` and `++s`, and of the s that is read in
    `s = s + x` and in `if (x > s) s = x`; and `float s;` -> `float s; MINIGRAD_UNSET(s, 1)`,
    with 0 where a function may be handed s, or the caller gets it. exchanges: as from `shuffles`.
    """
    code = without_directives(code)
    declared = without_value(code)
    references = {each[1] for each in _REFERENCE.finditer(code)}
    names, noted = {one[1] for _, one in declared} | references, set[str]()
    for pattern in (_CHANGE, _COUNT):
        for found in pattern.finditer(code):
            if found["name"] in names:
                noted.add(found["name"])
                yield _noted(found.start(1), found[1])
    for found in (each for pattern in (_ASSIGNMENT, _CHOICE) for each in pattern.finditer(code)):
        if found["name"] in names and not exchanges & _words(found["value"]):  # which take a lane's that is set
            place = rf"(?<![\w.>&:]){re.escape(found['place'])}(?!\s*[\w\[.(])"
            for read in re.compile(place).finditer(code, *found.span("value")):
                noted.add(found["name"])
                yield _noted(read.start(), found["place"])
    handed = set(_ARGUMENT.findall(_DECLARATION.sub(lambda found: found[0].replace(",", ";"), code)))
    if references:  # a function may update what it is handed
        noted |= handed
    handed |= set(_HANDED_BACK.findall(code))
    begins, in_block = zip(*blocks(code), strict=True)
    for at, one in declared:
        each = one[1] not in handed  # read is seen
        if (one[1] in noted or "[" in one[0] or each) and in_block[bisect(begins, at - 1) - 1]:
            yield at, at, f" MINIGRAD_UNSET({one[1]}, {each:d})"


def function_at(code: str, first: int, last: int) -> int:
    """The start of the function with a name of which a line, from the offset `first` to `last`, is a part; -1: none."""
    named = (each for each in _FUNCTION.finditer(code, 0, last) if each["name"])
    return next((each.start() for each in named if first <= end_of(code, each.end(), "")), -1)


def without_value(code: str) -> list[tuple[int, re.Match]]:
    """The variables that are declared without a value: the offset behind the declaration, and the declarator."""
    found = ((each.end() + 1, split(each[1])) for each in _DECLARATION.finditer(code))
    return [(at, one) for at, each in found for declarator in each if (one := _UNSET.fullmatch(declarator))]


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
