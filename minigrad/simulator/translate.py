"""CUDA C++ translated into C++ for the host compiler, line by line, and columns translated back.

Includes are inlined, as they may have shared memory too; `__shared__` declarations become references into the block's
shared memory, those outside of functions in each function that uses them; each kernel gets an entry point.
"""

import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from minigrad.devices.unit import alone, numbered
from minigrad.errors import CompileError
from minigrad.scan import (
    INCLUDE,
    NO_TYPE,
    Edit,
    asked,
    blank,
    items,
    split,
    without_directives,
)
from minigrad.simulator.indices import evaluations
from minigrad.simulator.shared_memory import (
    NAME,
    Scope,
    declarations,
    in_functions,
    in_heads,
    in_types,
    inside_function,
    macros,
    shared,
)
from minigrad.simulator.updates import blocks, ends, shuffles, updates
from minigrad.source import Source

DEEPEST = 20  # times that a file may stand inside itself
PTX = "MINIGRAD_PTX"  # an undefined name: an `asm` is an error only where it is compiled

NATIVE = Path(__file__).parent / "native" / "include"
# At the head of a header that is read once.
_GUARD = r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*$"
_ONCE = re.compile(rf"#[ \t]*pragma[ \t]+once|{_GUARD}", re.M)
_DEVICE = frozenset({"__device__", "__constant__", "__managed__"})
_ALIGNED = re.compile(r"\b(?:alignas|__align__)\s*\([^()]*\)")
_HEAD = re.compile(rf"(?:{_ALIGNED.pattern}|[^(){{}}=\[;])*")  # of a declaration, up to its brackets
# An `asm` without an instruction, a barrier for the compiler as in `asm volatile("" ::: "memory")`, stays.
_BARRIER = r'(?!\s*(?:volatile|__volatile__)?\s*\(\s*""[\s:]*(?:"[^"]*"\s*)?\))'
_TOKEN = re.compile(rf"\b(?:asm|__asm__|__asm)\b{_BARRIER}|(?<!\()\b__noinline__\b")
# A declaration of an array in a function. Its size may be less than 16 bytes, up to which g++ aligns it by its element.
_TYPE = rf"(?!(?:{NO_TYPE}|do|extern|static)\b)(?:(?:un)?signed\s+)?[A-Za-z_]\w*(?:::\w+)*(?:<[^<>;]*>)?"
_LOCAL_ARRAY = re.compile(rf"[;{{}}]\s*(?=(?:const\s+)?{_TYPE}\s+(?!auto\b)\w+\s*\[)")

_BRACKET = re.compile(r"\(|\)(?P<index>\s*\[)?")
_NO_CALL = re.compile(r"(?:[^\w\s)\]>}]|}\s|\breturn)\s*$")  # ahead of a bracket


class Change(NamedTuple):
    """A replacement in a line: the column in the reader's text, from 0, and the bytes before and after."""

    column: int
    old: int
    new: int


def change(text: str, start: int, stop: int, replacement: str) -> Change:
    """The replacement of text[start:stop] by `replacement`, as seen in its last line."""
    begin = text.rfind("\n", 0, stop) + 1
    first = max(begin, start)
    return Change(
        len(text[begin:first].encode()), len(text[first:stop].encode()), len(replacement.rpartition("\n")[2].encode())
    )


def column(changes: Iterable[Change], compiled: int) -> int:
    """The column in the reader's line for a column in the compiled line, both from 1. changes: sorted by column."""
    for one in changes:
        beyond = compiled - 1 - one.column
        compiled += one.old - one.new if beyond >= one.new else -max(beyond, 0)
    return compiled


@dataclass
class Translation:
    """C++ text for the host compiler, and its sources."""

    evaluate_once: bool = False  # each index becomes a statement
    note_updates: bool = False  # of variables that may not be set
    host: bool = False  # a program for the processor, of which no function is left out
    kernel: str = ""  # the only one that is compiled; "" for all of the file
    text: str = ""
    parts: dict[str, str] = field(default_factory=dict)  # the source texts, by their names in messages
    files: list[Path] = field(default_factory=list)  # included
    around: list[Path] = field(default_factory=list)  # those in which the present text stands
    missing: list[str] = field(default_factory=list)  # headers that are not here
    changes: dict[tuple[str, int], list[Change]] = field(default_factory=dict)  # by part and line
    shared: dict[str, str] = field(default_factory=dict)  # the references of variables outside of functions, so far


def translate(
    source: Source, evaluate_once: bool = False, note_updates: bool = False, host: bool = False, kernel: str = ""
) -> Translation:
    """The file with its includes inlined, as C++. The flags are those of a Translation."""
    settings = evaluate_once, note_updates, host, kernel
    translation = translate(source.before, *settings) if source.before else Translation(*settings)
    translation.text += f'\n#line 1 "{source.name}"\n' + _translate(source, source.folder, translation)
    return translation


def _translate(source: Source, here: Path, translation: Translation, part: bool = False) -> str:
    """part: it is included within a function, whose statements are no code of the host."""
    translation.parts[source.name] = source.text
    text = source.text if translation.host or part else source.device_text
    code = blank(text)
    device = source.standing_for(_DEVICE)
    exchanges = shuffles(tuple(map(blank, source.texts))) if translation.note_updates else frozenset()
    edits = [*source.edits, *_edits(code, device, exchanges, translation.evaluate_once, translation.note_updates)]
    edits += _entries(source, code, translation.kernel)
    declared, outer, inner = shared(code, macros(source))
    edits += declared
    scopes = [(0, dict(translation.shared))]
    edits += _includes(source, text, code, here, translation, outer, scopes)
    edits += in_functions(source, code, [*scopes, *outer], inner)
    edits += in_heads(code, [*scopes, *outer])
    edits += in_types(source, code, [*scopes, *outer, *inner])
    translation.shared.update(pair for _, pairs in outer for pair in pairs.items())
    chunks, at = [], 0
    for start, stop, replacement in sorted(edits):
        if start >= at:  # outside the previous replacement
            chunks += [text[at:start], replacement]
            at = stop
            line = source.text.count("\n", 0, stop) + 1
            changes = translation.changes.setdefault((source.name, line), [])
            changes.append(change(source.text, start, stop, replacement))
    return "".join([*chunks, text[at:]])


def _includes(
    source: Source, whole: str, code: str, here: Path, translation: Translation, outer: list[Scope], scopes: list[Scope]
) -> list[Edit]:
    """`#include "common.cuh"` -> its text. The headers of others that are not here are left out and noted.

    outer: the shared variables of the text outside of functions; those of the headers join `scopes`.
    """
    edits = []
    for match in INCLUDE.finditer(whole):
        if code[match.start() : match.end()].lstrip()[:1] != "#":
            continue  # inside a comment
        wanted = asked(match)
        own = bool(match["near"]) and (here / wanted).is_file()
        if ((NATIVE / wanted).is_file() and not own) or (path := source.find(wanted, here)) is None:
            if wanted and not (NATIVE / wanted).is_file() and not translation.host:
                translation.missing.append(wanted)
                edits.append((match.start(), match.end(), ""))
            continue
        root = Path(*Path(source.name).parts[:1]) if "/" in source.name else Path()
        name = (root / path.relative_to(source.folder) if path.is_relative_to(source.folder) else path).as_posix()
        text = path.read_text(errors="replace")
        line = source.text.count("\n", 0, match.start()) + 2
        again = path in translation.files and _ONCE.search(text)
        if translation.around.count(path) > DEEPEST and not again:
            raise CompileError(f"{source.name}({line - 1}): {name} includes itself. Put #pragma once at its top.")
        if path not in translation.files:
            translation.files.append(path)
        header = _header(replace(source, text=text, name=name, template="", before=None, words=source.device_words))
        translation.shared.update(pair for at, pairs in outer if at < match.start() for pair in pairs.items())
        translation.around.append(path)
        part = any(each.body < match.start() < each.stop for each in items(code))
        inner = "" if again else _translate(header, path.parent, translation, part)
        translation.around.pop()
        scopes.append((match.end(), dict(translation.shared)))
        edits.append((match.start(), match.end(), f'#line 1 "{name}"\n{inner}\n#line {line} "{source.name}"'))
    return [*edits, *numbered(code, source.name)] if edits else edits


@lru_cache(512)
def _header(read: Source) -> Source:
    """The header as it was read, or the equal one of an earlier file, whose items and macros are known."""
    return read


@lru_cache(512)
def _edits(
    code: str, device: frozenset[str], exchanges: frozenset[str], evaluate_once: bool, note_updates: bool
) -> list[Edit]:
    """The edits that no wanted kernel changes. They are kept, as many files include the same headers.

    device: the words of a variable in the GPU's memory, among them macros of the file. exchanges: as from `shuffles`.
    """
    edits = [*_device(code, device), *_tokens(code), *_aligned(code), *_choices(code)]
    if evaluate_once:
        edits += evaluations(code)
    return [*edits, *updates(code, exchanges), *ends(code)] if note_updates else edits


def _tokens(code: str) -> list[Edit]:
    """PTX becomes an undefined name; __noinline__ is spelt out, as a macro would break the C++ library."""
    names = {"__noinline__": "__attribute__((noinline))"}
    return [(m.start(), m.end(), names.get(m.group(), PTX)) for m in _TOKEN.finditer(code)]


def _aligned(code: str) -> Iterator[Edit]:
    """Arrays of a thread are aligned for any vector, as nvcc aligns them for what they are read as: `*(half2*)h`."""
    code = without_directives(code)
    begins, in_block = zip(*blocks(code), strict=True)
    for found in _LOCAL_ARRAY.finditer(code):
        if in_block[bisect(begins, found.start() + 1) - 1]:
            yield found.end(), found.end(), "__attribute__((aligned(16))) "


def _choices(code: str) -> Iterator[Edit]:
    """`(c ? a : b)[i % 3]` -> `::minigrad::chosen((c ? a : b))[i % 3]`: g++ 12 evaluates an index of both arrays, in
    which its sanitizer asks for a division by zero, only where the first one is chosen.
    """
    opened = list[int]()
    for found in _BRACKET.finditer(code):
        if found[0] == "(":
            opened.append(found.start())
        elif opened:
            start, stop = opened.pop(), found.start() + 1
            choice = found["index"] and "?" in code[start:stop]
            if choice and _NO_CALL.search(code[max(0, start - 10) : start]):
                yield start, start, " ::minigrad::chosen("
                yield stop, stop, ")"


def _entries(source: Source, code: str, kernel: str) -> list[Edit]:
    """An entry point after the kernel, or each kernel, on its last line; none where a brace stays open, or for a
    template. The other kernels give way to their directives.
    """
    edits: list[Edit] = []
    for name, at in source.kernels.items():
        if (
            kernel in ("", name)
            and at.stop <= len(code)
            and not source.is_open(name)
            and code[at.start : at.stop].strip()
        ):
            edits += [(stop, stop, f" MINIGRAD_KERNEL({name})") for stop in at.stops]
    return [*edits, *alone(source, kernel, code)]


def _device(code: str, words: frozenset[str]) -> list[Edit]:
    """After each __device__ or __constant__ variable its address for the host, and of the first a note for a watch."""
    edits: list[Edit] = []
    code = without_directives(code)
    found = re.finditer(rf"\b(?:{'|'.join(sorted(words))})\b", code)
    for match, stop in declarations((each for each in found if not _begins_function(code, each.end())), code):
        template = re.search(r"\btemplate\s*<[^;{}]*$", code[max(0, match.start() - 500) : match.start()])
        if not (template or inside_function(code, match.start())):
            declaration = _ALIGNED.sub(" ", code[match.end() : stop])
            names = [NAME.search(re.split(r"[\[=]", each)[0])[1] for each in split(declaration)]  # type: ignore[index]
            before = code[max(code.rfind(sign, 0, match.start()) for sign in ";}") + 1 : stop]
            if (edits and edits[-1][0] == stop + 1) or "extern" in before.split():
                continue
            note = "CONSTANT" if "__constant__" in before else "DEVICE"
            edits.append((stop + 1, stop + 1, "".join(f" MINIGRAD_NOTE_{note}({name})" for name in names)))
    return edits


def _begins_function(code: str, start: int) -> bool:
    """True where a function's head goes on."""
    head = _HEAD.match(code, start)
    assert head is not None
    return code[head.end() : head.end() + 1] in ("(", "{") or "operator" in head.group()
