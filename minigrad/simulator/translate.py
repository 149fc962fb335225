"""CUDA C++ translated into C++ for the host compiler, line by line, and columns translated back.

Includes are inlined, as they may have shared memory too; `__shared__` declarations become references into the block's
shared memory, those outside of functions in each function that uses them; each kernel gets an entry point.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from minigrad.devices.unit import alone, numbered
from minigrad.errors import CompileError
from minigrad.scan import (
    INCLUDE,
    Edit,
    apply,
    asked,
    bare,
    blank,
    end_of,
    is_function,
    items,
    matching,
    outside,
    split,
    without_directives,
)
from minigrad.simulator.indices import indices
from minigrad.simulator.updates import returns, updates
from minigrad.source import Source

BEFORE, AFTER = "({auto minigrad_index=", ";minigrad_index;})"  # around an index that is evaluated once
DEEPEST = 20  # times that a file may stand inside itself
PTX = "MINIGRAD_PTX"  # an undefined name: an `asm` is an error only where it is compiled

NATIVE = Path(__file__).parent / "native" / "include"
_SHARED = re.compile(
    r"\b(?:(?:extern|static|volatile|(?:alignas|__align__)\s*\([^()]*\))\s+)*(?:extern\s+[\w:]+\s+)?__shared__\b"
)
# At the head of a header that is read once.
_GUARD = r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*$"
_ONCE = re.compile(rf"#[ \t]*pragma[ \t]+once|{_GUARD}", re.M)
_DEVICE = frozenset({"__device__", "__constant__", "__managed__"})
_ALIGNED = re.compile(r"\b(?:alignas|__align__)\s*\([^()]*\)")
_HEAD = re.compile(rf"(?:{_ALIGNED.pattern}|[^(){{}}=\[;])*")  # of a declaration, up to its brackets
_TOKEN = re.compile(r"\b(?:asm|__asm__|__asm)\b|(?<!\()\b__noinline__\b")
_OPENS_NAMESPACE = re.compile(r'(?:\bnamespace\b[\w\s:]*|\bextern\s*"\s*")\s*$')
_NAME = re.compile(r"(\w+)[\s)]*$")  # the last word, also of `float (*rows`
_NO_EXTENT = re.compile(r"\[\s*\]")
_STRUCT = re.compile(r"(?:struct|class|union)\b")
_NESTED = r"\((?:[^()]|\([^()]*\))*\)"
# Up to its body; one that captures by reference sees the variables themselves.
_LAMBDA = re.compile(rf"\[(?!\s*&\s*[],])[^][]*\]\s*(?:{_NESTED})?\s*(?:(?:mutable|__\w+__)\s*)*(?:->[\w\s:*&<>]+)?\{{")

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]+((?:\\\n|[^\n])*)", re.M)
BRACKET = r"\s*\("

Scope = tuple[int, dict[str, str]]  # an offset, and the places of shared variables by the names known behind it


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
    edits = [*source.edits, *_edits(code, device, translation.evaluate_once, translation.note_updates)]
    edits += _entries(source, code, translation.kernel)
    declared, outer, inner = _shared(code, _macros(source))
    edits += declared
    scopes = [(0, dict(translation.shared))]
    edits += _includes(source, text, code, here, translation, outer, scopes)
    edits += _in_functions(source, code, [*scopes, *outer], inner)
    edits += _in_heads(code, [*scopes, *outer])
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
def _edits(code: str, device: frozenset[str], evaluate_once: bool, note_updates: bool) -> list[Edit]:
    """The edits that no wanted kernel changes. They are kept, as many files include the same headers.

    device: the words of a variable in the GPU's memory, among them macros of the file.
    """
    edits = [*_device(code, device), *_tokens(code)]
    if evaluate_once:
        edits += [(at, at, text) for span in indices(code) for at, text in zip(span, (BEFORE, AFTER), strict=True)]
    return [*edits, *updates(code), *returns(code)] if note_updates else edits


def _tokens(code: str) -> list[Edit]:
    """PTX becomes an undefined name; __noinline__ is spelt out, as a macro would break the C++ library."""
    names = {"__noinline__": "__attribute__((noinline))"}
    return [(m.start(), m.end(), names.get(m.group(), PTX)) for m in _TOKEN.finditer(code)]


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


def _macros(source: Source) -> tuple[tuple[str, str, str], ...]:
    """The macros with `__shared__` in their values: name, parameters in their brackets, value."""
    names = source.standing_for({"__shared__"}) - {"__shared__"}
    found = (each for text in (source.texts if names else []) for each in _DEFINE.findall(blank(text)))
    return tuple((name, args, value.replace("\\\n", " ")) for name, args, value in found if name in names)


@lru_cache(512)
def _shared(
    code: str, macros: tuple[tuple[str, str, str], ...] = (), inside: bool | None = None
) -> tuple[list[Edit], list[Scope], list[Scope]]:
    """Declarations with `__shared__` -> references into the block's shared memory, and the references of these: those
    outside of functions, which no edit has, and the others. inside: the code is in a function; None: it has functions.
    """
    edits, outer, inner = list[Edit](), list[Scope](), list[Scope]()
    plain = without_directives(code)
    for match, stop in _declarations(_SHARED, plain):
        declaration = " ".join(code[match.end() : stop].split()).replace("alignas", "__align__")
        kept = re.sub(r"\b(?:static|__shared__)\b", " ", match.group()).replace("alignas", "__align__")
        text, extern = re.subn(r"^\s*(.*?)\bextern\b", r"\1", f"{kept} {declaration}")
        made, references = (_dynamic if extern and _NO_EXTENT.search(text) else _static)(text)
        within = _inside_function(code, match.start()) if inside is None else inside
        (inner if within else outer).append((stop, references))
        made += "".join(f"auto& {name} = {place}; " for name, place in references.items() if within)
        newlines = "\n" * code.count("\n", match.start(), stop)
        edits.append((match.start(), stop + 1, made.rstrip() + newlines))
    for name, parameters, value in macros:
        for use in re.finditer(rf"\b{name}\b{BRACKET * bool(parameters)}", plain):
            end = matching(plain, use.end() - 1, "()") + 1 if parameters else use.end()
            given = dict(zip(split(parameters[1:-1]), split(plain[use.end() : end - 1]), strict=False))
            text = re.sub(r"\w+", lambda word, given=given: given.get(word[0], word[0]), value)  # type: ignore[misc]
            open_ended = not text.rstrip().endswith(";")
            stop = end_of(plain, end, ";") + 1 if open_ended else end
            text = re.sub(r"\s*##\s*", "", text) + plain[end:stop]
            within = _inside_function(code, use.start()) if inside is None else inside
            own, *found = _shared(text, macros, within)
            outer += [(stop, pairs) for _, pairs in found[0]]
            inner += [(stop, pairs) for _, pairs in found[1]]
            edits.append((use.start(), stop, apply(own, text) + "\n" * code.count("\n", use.start(), end)))
    return edits, outer, inner


def _in_functions(source: Source, code: str, scopes: list[Scope], inner: list[Scope]) -> list[Edit]:
    """The references at the head of each function that uses shared variables outside of it, around its own names.

    Also at that of a lambda, which would capture a reference. scopes and inner: the variables outside of functions and
    inside, each with the offset from which it is known.
    """
    edits: list[Edit] = []
    for head, start, stop in _bodies(code, 0, len(code)) if inner or any(pairs for _, pairs in scopes) else []:
        known = [pairs for at, pairs in scopes if at < start]
        places = [(head, start, stop, known)]
        for found in _LAMBDA.finditer(code, start, stop):
            ahead = code[start : found.start()].rstrip()
            if ahead.endswith("return") or not re.search(r"[\w)\]]$", ahead):  # it is no index
                own = [pairs for at, pairs in inner if start < at < found.start()]
                places.append((found[0], found.end(), matching(code, found.end() - 1, "{}"), [*known, *own]))
        for before, first, last, several in places:
            pairs = {name: text for each in several for name, text in each.items() if not _uses(before, {name})}
            body = code[first:last]
            used = [f"auto& {n} = {place}; " for n, place in pairs.items() if _uses(body, source.standing_for({n}))]
            if used:
                edits += [(first, first, f" {''.join(used)}{{"), (last, last, "}")]
    return edits


def _in_heads(code: str, scopes: list[Scope]) -> list[Edit]:
    """The places of shared variables for their names with a namespace, in defaults, and where a constructor sets."""
    edits: list[Edit] = []
    places = {name: (at, text) for at, pairs in scopes for name, text in pairs.items()}
    if not places:
        return edits
    bodies = [(head, start, stop) for head, start, stop in _bodies(code, 0, len(code))]
    names = "|".join(places)
    for found in re.finditer(rf"(?<![\w.])(?P<space>(?:\w+\s*)?::\s*)?(?P<name>{names})\b(?!\s*\()", code):
        at, text = places[found["name"]]
        word = (found["space"] or "").rstrip(": ")
        named = found["space"] is not None and (not word or re.search(rf"\bnamespace\s+{word}\b", code))
        inside = any(start <= found.start() < stop for _, start, stop in bodies)
        ahead = code[max(0, found.start() - 300) : found.start()]
        set_here = not inside and re.search(r"(?:=\s*|\)\s*:[^;{}]*)$", ahead)
        if at < found.start() and (named or (set_here and found["space"] is None)):
            edits.append(
                (
                    *found.span(),
                    text.replace("minigrad_" + found["name"], (found["space"] or "") + "minigrad_" + found["name"]),
                )
            )
    return edits


def _bodies(code: str, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
    """The functions between two offsets: the text ahead of the body, in a struct all of it, and where the body is."""
    for item in items(code[start:stop]):
        head, first, last = code[start + item.start : start + item.body], start + item.body + 1, start + item.stop - 1
        if code[first - 1] == "{" and is_function(head):
            yield head, first, last
        elif code[first - 1] == "{" and _STRUCT.match(bare(head)):
            inner = [*_bodies(code, first, matching(code, first - 1, "{}"))]
            bases = "|".join(re.findall(r"\w+", bare(head).partition(":")[2]))  # whose members are its own, too
            found = re.finditer(rf"\b(?:struct|class)\s+(?:{bases})\b[^;{{]*{{", code) if bases else ()
            texts = [_flat(code[each.end() : matching(code, each.end() - 1, "{}")]) for each in found]
            own = " ".join([*texts, apply([(a - first, b - first, "") for _, a, b in inner], code[first:last])])
            yield from ((f"{own} {each}", a, b) for each, a, b in inner)


def _flat(code: str) -> str:
    """The code without what stands in its braces."""
    return code if (less := re.sub(r"{[^{}]*}", "", code)) == code else _flat(less)


def _uses(code: str, names: Collection[str]) -> bool:
    """True if the code has one of these names, and not as a member's."""
    return bool(re.search(rf"(?<![.\w])(?<!->)(?<!::)(?:{'|'.join(names)})\b", code))


def _device(code: str, words: frozenset[str]) -> list[Edit]:
    """After each __device__ or __constant__ variable its address for the host, and of the first a note for a watch."""
    edits: list[Edit] = []
    code = without_directives(code)
    for match, stop in _declarations(re.compile(rf"\b(?:{'|'.join(sorted(words))})\b"), code):
        head = _HEAD.match(code, match.end())
        function = code[head.end() : head.end() + 1] in ("(", "{") or "operator" in head.group()  # type: ignore[union-attr]
        template = re.search(r"\btemplate\s*<[^;{}]*$", code[max(0, match.start() - 500) : match.start()])
        if not (function or template or _inside_function(code, match.start())):
            declaration = _ALIGNED.sub(" ", code[match.end() : stop])
            names = [_NAME.search(re.split(r"[\[=]", each)[0])[1] for each in split(declaration)]  # type: ignore[index]
            before = code[max(code.rfind(sign, 0, match.start()) for sign in ";}") + 1 : stop]
            if (edits and edits[-1][0] == stop + 1) or "extern" in before.split():
                continue
            note = "CONSTANT" if "__constant__" in before else "DEVICE"
            edits.append((stop + 1, stop + 1, "".join(f" MINIGRAD_NOTE_{note}({name})" for name in names)))
    return edits


def _declarations(start: re.Pattern, code: str) -> Iterator[tuple[re.Match, int]]:
    """The matches that a semicolon follows, and its index."""
    for match in start.finditer(code):
        stop = end_of(code, match.end(), ";")
        if code[stop : stop + 1] == ";":
            yield match, stop


def _static(declaration: str) -> tuple[str, dict[str, str]]:
    """`float a[2][3], b` -> typedefs with the same declarators and slots, and a reference for each name."""
    declarators = split(declaration)
    names = [_NAME.search(_head(each))[1] for each in declarators]  # type: ignore[index]
    text = f"typedef {', '.join(map(_rename, declarators))}; "
    text += "".join(f'static minigrad::Slot minigrad_{name}_slot = {{"{name}"}}; ' for name in names)
    kinds = {name: f"minigrad_{name}_type" for name in names}
    return text, {name: f"minigrad::shared<{kind}>(minigrad_{name}_slot)" for name, kind in kinds.items()}


def _dynamic(declaration: str) -> tuple[str, dict[str, str]]:
    """`float s[]` -> a typedef, and a reference to the dynamic shared memory."""
    name = _NAME.search(_head(declaration))[1]  # type: ignore[index]
    return f"typedef {_rename(declaration)}; ", {name: f'minigrad::dynamic_shared<minigrad_{name}_type>("{name}")'}


def _head(declarator: str) -> str:
    """The declarator up to its extents."""
    return declarator[: next(outside(declarator, "[", "(<{", ")>}"), None)]


def _rename(declarator: str) -> str:
    head = _head(declarator)
    return _NAME.sub(lambda m: f"minigrad_{m[1]}_type" + m.group()[len(m[1]) :], head) + declarator[len(head) :]


def _inside_function(code: str, position: int) -> bool:
    """True inside a brace other than that of a namespace or an extern "C"."""
    open_braces = []
    for match in re.finditer(r"[{}]", code[:position]):
        if match.group() == "{":
            open_braces.append(bool(_OPENS_NAMESPACE.search(code[: match.start()][-200:])))
        elif open_braces:
            open_braces.pop()
    return not all(open_braces)
