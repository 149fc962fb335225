"""The device code of one kernel as one text: headers are resolved, and what the kernel does not need is left out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minigrad.scan import INCLUDE, asked, blank, end_of
from minigrad.source import Source

_NAME = re.compile(r"[A-Za-z_]\w*")
_IF = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.M)
_LINE = re.compile(r"(?:\\\n|[^\n])*\n?")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
_SKIPPED = re.compile(r"[ \t]*#[ \t]*(?:pragma[ \t]+once|line)\b")
_ATTRIBUTE = re.compile(r"\b(?:__launch_bounds__|alignas|__align__|__attribute__)\s*\(")
_TYPE = re.compile(r"(?:struct|class|union)\s+(\w+)")
_OPEN = re.compile(r'namespace\b|extern\s*"[^"]*"\s*\{|static_assert\b|asm\b')


@dataclass(frozen=True)
class Piece:
    """A declaration, a definition or a directive at the top level of a file, with the comment above it."""

    text: str

    @cached_property
    def code(self) -> str:
        return blank(self.text)

    @cached_property
    def uses(self) -> set[str]:
        """The names in its code."""
        return set(_NAME.findall(self.code))

    @cached_property
    def defines(self) -> set[str]:
        """The names that it defines; empty where that is not clear."""
        code = self.code.strip()
        if code.startswith("#"):
            body = code.partition("\n")[2].rpartition("\n")[0]
            return set(_DEFINE.findall(code)).union(*(piece.defines for piece in pieces(body)))
        head = _head(code)
        if not head or _OPEN.match(head):
            return set()
        if head.startswith("using"):
            return {_NAME.findall(head)[1]} if "=" in head else set()
        if head.startswith("typedef"):
            return set() if "(" in head else set(_NAME.findall(code)[-1:])
        if head.startswith("enum"):
            return set(_NAME.findall(code)) - {"enum", "class", "int", "unsigned"}
        if found := _TYPE.match(head):
            return {found[1]}
        if head.strip() in ("struct", "class", "union"):
            return set()
        if _is_function(head):
            return set(_NAME.findall(head.partition("(")[0])[-1:]) - {"operator"}
        names, start = set(), 0
        while start < len(head):
            stop = end_of(head, start, ",")
            names.update(_NAME.findall(re.split(r"[=\[{]", head[start:stop])[0])[-1:])
            start = stop + 1
        return names


def _head(code: str) -> str:
    """A declaration up to its body or semicolon, without template parameters and attributes."""
    code = code.lstrip()
    while code.startswith("template"):
        code = code[_behind_angle(code, code.index("<")) :].lstrip()
    while found := _ATTRIBUTE.search(code):
        code = code[: found.start()] + code[end_of(code, found.end(), "") + 1 :].lstrip()
    return code if _OPEN.match(code) else re.split(r"[{;]", code, maxsplit=1)[0]


def _behind_angle(code: str, start: int) -> int:
    """The offset behind the > that closes the < at `start`."""
    depth = 0
    for found in re.compile("[<>]").finditer(code, start):
        depth += 1 if found[0] == "<" else -1
        if not depth:
            return found.end()
    return len(code)


def _is_function(head: str) -> bool:
    before, bracket, _ = head.partition("(")
    return bool(bracket) and "=" not in before and not _TYPE.match(head)


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of a text, in order. A conditional, from #if to its #endif, is one piece."""
    code, start, at = blank(text), 0, 0
    while code[at:].strip():
        at += len(code[at:]) - len(code[at:].lstrip())
        stop = _end(code, at)
        line = code.find("\n", stop) if code.find("\n", stop) >= 0 else len(code)
        if code[stop - 1] != "\n" and not code[stop:line].strip():
            stop = line  # with the comment that ends the line
        yield Piece(_comment(text[start:at]) + text[at:stop].rstrip())
        start = at = stop


def _comment(before: str) -> str:
    """The comment lines at the end of the text before a piece, and the blanks in its own line."""
    lines = before.split("\n")
    first = len(lines) - 1
    while first > 0 and lines[first - 1].strip():
        first -= 1
    return "\n".join(lines[first:])


def _end(code: str, at: int) -> int:
    """The offset behind the piece that begins here."""
    if code[at] == "#":
        end, depth = _LINE.match(code, at).end(), 0  # type: ignore[union-attr]
        for found in _IF.finditer(code, code.rfind("\n", 0, at) + 1):
            if found.start() >= end and not depth:
                break
            depth += 1 if found[1] == "if" else -1
            end = _LINE.match(code, found.start()).end()  # type: ignore[union-attr]
            if not depth:
                break
        return end
    depth = 0
    for found in re.compile(r"[(\[{}\]);]").finditer(code, at):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth:
            continue
        head = _head(code[at : found.end()])
        if found[0] == ";" or (found[0] == "}" and (_is_function(head) or _OPEN.match(head))):
            return found.end()
    return len(code)


def expanded(source: Source) -> tuple[list[Piece], list[str]]:
    """All pieces of a source, those of its headers in place of each first #include; and the system's headers."""
    found: list[Piece] = []
    system: dict[str, None] = {}
    done: set[Path] = set()

    def follow(text: str, here: Path) -> None:
        for piece in pieces(text):
            directive = piece.text[len(piece.text) - len(piece.code.lstrip()) :]
            if include := INCLUDE.match(directive):
                path = source.find(asked(include), here)
                if path is None:  # one that the compiler brings along
                    system[f"<{include['far']}>" if include["far"] else f'"{include["near"]}"'] = None
                elif path not in done:
                    done.add(path)
                    follow(path.read_text(), path.parent)
            elif not _SKIPPED.match(directive):
                found.append(piece)

    for unit in reversed(_units(source)):
        follow(unit.text, unit.folder)
    return found, list(system)


def device_code(source: Source, kernel: str, macros: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """The text that this kernel needs, the headers of the system, and those of the macros that it uses.

    A piece without a clear name is kept; so is more than is needed, never less.
    """
    everything, system = expanded(source)
    kernels = {name for unit in _units(source) for name in unit.kernels}
    own = [piece for piece in everything if not (piece.defines and piece.defines <= macros.keys())]
    own = [piece for piece in own if not piece.defines & kernels or kernel in piece.defines]
    needed = [piece for piece in own if kernel in piece.defines or not piece.defines]
    names: set[str] = set()
    while (more := names.union(*(piece.uses for piece in needed))) != names:
        more |= {name for key, value in macros.items() if key in more for name in _NAME.findall(value)}
        names, needed = more, [piece for piece in own if piece in needed or piece.defines & more]
    text = "\n\n".join(piece.text for piece in needed)
    return text, system, {key: value for key, value in macros.items() if key in names}


def _units(source: Source) -> list[Source]:
    """The source, the one before it, and so on."""
    return [source, *(_units(source.before) if source.before else [])]
