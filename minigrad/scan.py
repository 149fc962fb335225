"""CUDA C++ text scanned without a parser: comments blanked, brackets matched, edits applied."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

_TOKENS = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.M)


_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_SIGN = re.compile(rf"[()\[\]{{}};]|{_DIRECTIVE.pattern}", re.M)
_OPENS = re.compile(r'\s*(?:(?:inline\s+)?namespace\b[^;=()]*|extern\s*" "\s*)$')
_ATTRIBUTE = re.compile(r"\b(?:alignas|__align__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)|\[\[[^\]]*\]\]")
_TEMPLATE = re.compile(r"\btemplate\s*<[^{};]*?>(?=\s*[A-Za-z_\[])")
_TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b[^()]*$")

Edit = tuple[int, int, str]  # the text between two offsets, and what replaces it


class TopLevel(NamedTuple):
    """A declaration or a definition outside of functions: its first sign, its body's brace or its end, and its end."""

    start: int
    body: int
    stop: int


def items(code: str) -> Iterator[TopLevel]:
    """The items of blanked code, also those in namespaces. Directives are none."""
    start, body, depth = 0, -1, 0
    for sign in _SIGN.finditer(code):
        mark = sign[0]
        if mark in ("(", "[", "{"):
            if mark == "{" and not depth and _OPENS.match(code, start, sign.start()):
                start = sign.end()
                continue
            if mark == "{" and not depth:
                body = sign.start()
            depth += 1
        elif mark in (")", "]", "}"):
            if not depth:  # the end of a namespace
                start, body = sign.end(), -1
                continue
            depth -= 1
        elif mark != ";" and not code[start : sign.start()].strip():
            start = sign.end()  # behind a directive
        if not depth and (mark == ";" or (mark == "}" and is_function(code[start:body]))):
            first = start + len(code[start:]) - len(code[start:].lstrip())
            yield TopLevel(first, sign.start() if body < 0 else body, sign.end())
            start, body = sign.end(), -1


def bare(head: str) -> str:
    """A declaration without its template parameters, attributes and alignment."""
    return _ATTRIBUTE.sub(" ", _TEMPLATE.sub(" ", head)).strip()


def is_function(head: str) -> bool:
    """True for a definition's text up to its brace, if that brace opens a function."""
    head = bare(head)
    before = head.partition("(")[0]
    return "(" in head and not _TYPE.match(head) and ("=" not in before or "operator" in before)


def apply(edits: list[Edit], text: str) -> str:
    """The text with its edits; of two that overlap the first one counts."""
    chunks, at = [], 0
    for start, stop, replacement in sorted(edits):
        if start >= at:
            chunks += [text[at:start], replacement]
            at = stop
    return "".join([*chunks, text[at:]])


def blank(text: str) -> str:
    """The text with spaces in place of comments and the contents of strings: same length, same lines."""

    def spaces(found: re.Match) -> str:
        token = found.group()
        filler = re.sub(r"[^\n]", " ", token)
        return token[0] + filler[1:-1] + token[-1] if token[0] in "\"'" else filler

    return _TOKENS.sub(spaces, text)


def without_directives(code: str) -> str:
    """The code with spaces in place of `#define` and the like: same length, same lines."""
    return _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)


def without_if_0(code: str) -> str:
    """The code with spaces between `#if 0` and its #else, #elif or #endif."""
    depth = start = 0  # nested #ifs since the `#if 0`; the offset after that one
    for match in _CONDITION.finditer(code):
        word = match[1]
        if not depth:
            depth, start = int((word, match[2].strip()) == ("if", "0")), match.end()
        elif word.startswith("if"):
            depth += 1
        elif word == "endif" or depth == 1:
            depth -= 1
            if not depth:
                code = code[:start] + re.sub(r"[^\n]", " ", code[start : match.start()]) + code[match.start() :]
    return code


def matching(code: str, start: int, pair: str) -> int:
    """The offset of the bracket that closes the one at `start`."""
    depth = 0
    for match in re.compile(f"[{re.escape(pair)}]").finditer(code, start):
        depth += 1 if match[0] == pair[0] else -1
        if depth == 0:
            return match.start()
    return len(code)


def end_of(code: str, start: int, signs: str) -> int:
    """The offset of the first of these signs outside of brackets, or of the bracket that closes around `start`."""
    depth = 0
    for match in re.compile(rf"[()\[\]{{}}{re.escape(signs)}]").finditer(code, start):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth < 0 or (depth == 0 and match[0] in signs):
            return match.start()
    return len(code)


def split(declaration: str) -> list[str]:
    """Split at the commas outside of brackets."""
    commas = outside(declaration, ",", "([{<", ")]}>")
    return [declaration[start + 1 : stop].strip() for start, stop in pairwise([-1, *commas, len(declaration)])]


def outside(code: str, sign: str, opening: str, closing: str) -> Iterator[int]:
    """The places of a sign outside of these brackets."""
    depth = 0
    for i, each in enumerate(code):
        if each == sign and depth == 0:
            yield i
        depth += (each in opening) - (each in closing)


def members(code: str, struct: str) -> list[tuple[str, list[str]]] | None:
    """The type and the declarators of each line of a struct, e.g. ("float", ["x", "v[3]"]); None: it is not here.

    A base class, a bit-field, a pointer or an alignment gives a member with an empty type: its layout is not read.
    """
    word = re.escape(struct)
    head = re.search(rf"\bstruct\s+(?P<more>[^{{}};()=]*?)\b{word}(?P<base>[^{{}};()=]*)\{{", code)
    if not head and (alias := re.search(rf"\}}\s*{word}\s*;", code)):  # typedef struct { ... } Name;
        typedefs = re.finditer(r"\btypedef\s+struct(?P<more>)(?P<base>)[^{};]*\{", code)
        head = next((each for each in typedefs if matching(code, each.end() - 1, "{}") == alias.start()), None)
    if not head:
        return None
    found: list[tuple[str, list[str]]] = [("", [])] * bool(head["more"].strip() or head["base"].strip())
    body = code[head.end() : matching(code, head.end() - 1, "{}")]
    body = re.sub(r"\b(?:public|private|protected)\s*:", " ", body)
    for item in items(body):
        text = body[item.start : item.stop].rstrip("; \n")
        if is_function(text) or "(" in text or re.match(r"static\b|using\b|typedef\b", text):
            continue
        first, *others = split(text)
        line = re.fullmatch(r"([\w\s:]*?)\s*(\w+(?:\s*\[[^\]]*\])*)", first)
        found.append((line[1], [line[2], *others]) if line and not re.search(r"[*&{=]|\balign", text) else ("", []))
    return found
