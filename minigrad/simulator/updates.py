"""Notes for the microscope: of updates of a thread's own variables, as `s += x[i]`, so that it sees one that nobody has
set; and of `return`, as a barrier waits for no thread that has returned.

Noted are variables that a statement declares without a value, and parameters that are references.
"""

import re
from collections.abc import Iterator

from minigrad.scan import DIRECTIVE, Edit, split, without_directives

_TYPE = r"(?!(?:return|goto|else|case|typedef|using|delete|throw|new|extern|static)\b)[A-Za-z_][\w:]*(?:<[^<>;]*>)?\s+"
_DECLARATION = re.compile(rf"[;{{}})]\s*(?:{_TYPE})+([A-Za-z_][^;{{}}]*)(?=;)")
_UNSET = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*")
_REFERENCE = re.compile(r"[(,]\s*(?!const\b)[\w:]+\s*&\s*(\w+)\s*(?=[,)])")
# Its index calls and reads nothing.
_PLACE = r"(?P<place>(?P<name>[A-Za-z_]\w*)(?:\[(?:(?!\+\+|--)[^\[\]()=;{}\"])+\]|\.\w+)*)"
_BEGIN = r"(?<=[;{})])\s*(?:else\s+)?"
_CHANGE = re.compile(rf"{_BEGIN}{_PLACE}\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_COUNT = re.compile(rf"{_BEGIN}(?:\+\+|--)\s*{_PLACE}")
_ASSIGNMENT = re.compile(rf"{_BEGIN}{_PLACE}\s*=(?!=)(?=(?P<value>[^;{{}}]*);)")
# `if (x > m) m = x`, with the condition's parentheses two deep
_CHOICE = re.compile(rf"\bif\s*\((?P<value>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)\s*\{{?\s*{_PLACE}\s*=(?!=)")
_RETURN = re.compile(r"\breturn\s*;")
_RETURN_OF_MACRO = re.compile(r"\breturn\s*$")  # the semicolon stands behind its use


def returns(code: str) -> Iterator[Edit]:
    """`return;` -> `{ MINIGRAD_RETURNS return; }`, and as one statement at the end of a macro."""
    for found in _RETURN.finditer(code):
        yield *found.span(), "{ MINIGRAD_RETURNS return; }"
    for line in DIRECTIVE.finditer(code):
        for found in _RETURN_OF_MACRO.finditer(line[0]):
            start = line.start() + found.start()
            yield start, start + len("return"), "do { MINIGRAD_RETURNS return; } while (0)"


def updates(code: str) -> Iterator[Edit]:
    """`s += x` -> `MINIGRAD_UPDATED(s) += x`, the same of `s++` and `++s`, and of the s that is read in
    `s = s + x` and in `if (x > s) s = x`.
    """
    code = without_directives(code)
    declared = [one for each in _DECLARATION.finditer(code) for one in split(each[1])]
    names = {found[1] for one in declared if (found := _UNSET.fullmatch(one))}
    names |= {each[1] for each in _REFERENCE.finditer(code)}
    for pattern in (_CHANGE, _COUNT):
        for found in pattern.finditer(code):
            if found["name"] in names:
                yield _noted(found.start(1), found[1])
    for found in (each for pattern in (_ASSIGNMENT, _CHOICE) for each in pattern.finditer(code)):
        if found["name"] in names and "shfl" not in found["value"]:  # which takes a lane's that is set
            place = rf"(?<![\w.>&:]){re.escape(found['place'])}(?!\s*[\w\[.(])"
            for read in re.compile(place).finditer(code, *found.span("value")):
                yield _noted(read.start(), found["place"])


def _noted(start: int, place: str) -> Edit:
    return start, start + len(place), f"MINIGRAD_UPDATED({place})"
