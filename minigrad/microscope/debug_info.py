"""Lines of the reader's files for the places in a compiled kernel."""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from minigrad.simulator.messages import Frame, frames
from minigrad.simulator.module import Module
from minigrad.simulator.translate import column as original
from minigrad.source import blank


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int  # 0: unknown
    text: str

    @property
    def told(self) -> tuple[str, int | None, str]:
        """As a problem has it: None for a line that is unknown."""
        return self.file, self.line or None, self.text


NOWHERE = Place("", 0, "")


def indexed(text: str, column: int) -> str:
    """The array that an index is for: Clang has the column of its name, GCC that of the closing bracket. Empty where
    there is no name, as in a macro or behind (p + 1).
    """
    before = text.encode()[: column - 1].decode(errors="ignore")
    if text[len(before) :].startswith("]"):
        return _before_bracket(before)
    match = re.match(r"[A-Za-z_]\w*\b(?!\s*\()", text[len(before) :])
    return match[0] if match else ""


def _before_bracket(text: str) -> str:
    """The name with which `s[i].row[j` begins, the last bracket of which is open."""
    depth, at = 1, len(text)
    while at and depth:
        at -= 1
        depth += (text[at] == "]") - (text[at] == "[")
    head = text[:at].rstrip()
    if head.endswith("]"):
        return _before_bracket(head[:-1])
    match = re.search(r"\b([A-Za-z_]\w*)(?:\s*(?:\.|->)\s*\w+)*$", head)
    if not match:
        return ""
    member = re.search(r"(\S?)\s*(?:\.|->)\s*$", head[: match.start()])
    if not member:
        return match[1]
    return _before_bracket(head[: member.start()]) if member[1] == "]" else ""


class Site(NamedTuple):
    """Where an instruction stands in the source."""

    place: Place
    column: int  # in the text, from 1; 0 where code of another file was inlined
    function: str  # that the instruction is in, as the linker names it
    written: bool  # the code is the reader's, and not inlined from the simulator's own files


_PLACES: dict[Path, "Places"] = {}  # a compiled file's name holds all that it was made of


def places(module: Module) -> "Places":
    """The sites of a module: those that were looked up are kept."""
    if module.path not in _PLACES:
        _PLACES[module.path] = Places(module)
    return _PLACES[module.path]


class Places:
    """The sites of a module by their addresses in it, looked up once each."""

    def __init__(self, module: Module):
        self._module = module
        self._known: dict[int, Site] = {}
        self._names = {Path(name).name: name for name in module.parts}
        self._lines = {name: text.splitlines() for name, text in module.parts.items()}

    def sites(self, pcs: Iterable[int]) -> dict[int, Site]:
        """The site of each address: the reader's own, where code of another file was inlined into it."""
        wanted = [int(pc) for pc in pcs]
        new = sorted(set(wanted) - self._known.keys())
        if new:
            self._known |= dict(zip(new, map(self._site, new, frames(self._module.path, new)), strict=True))
        return {pc: self._known[pc] for pc in wanted}

    def of(self, pc: int) -> Place:
        """The line of an address."""
        return self.sites([pc])[int(pc)].place

    def at(self, file: str, line: int) -> Place:
        """The line of that number; the text is known of the reader's files."""
        name = self._names.get(Path(file).name, Path(file).name)
        return Place(name, line, self._raw(name, line).strip())

    def text(self, file: str) -> str:
        """The text of one of the reader's files, without comments; empty of another."""
        return blank("\n".join(self._lines.get(file, [])))

    def barrier(self, file: str, first: int, last: int) -> int:
        """The line of a barrier that stands between two lines; 0 where there is none."""
        lines = self.text(file).splitlines()[first : last - 1]
        return next((number for number, line in enumerate(lines, first + 1) if "__syncthreads" in line), 0)

    def indexed(self, file: str, line: int, column: int) -> str:
        """The name of the array that has an index at the column."""
        name = self.at(file, line).file
        return indexed(self._raw(name, line), self._read(name, line, column))

    def _read(self, name: str, line: int, column: int) -> int:
        """The column in the reader's text of one in the compiled text."""
        return original(self._module.changes.get((name, line), []), column)

    def _raw(self, name: str, line: int) -> str:
        lines = self._lines.get(name, [])
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _site(self, pc: int, found: Sequence[Frame]) -> Site:
        own = [frame for frame in found if Path(frame.path).name in self._names]
        written = len(own) == len(found)
        place = self.at(*(own[0] if own else found[-1])[1:])
        indent = self._raw(place.file, place.line).find(place.text)
        column = self._read(place.file, place.line, self._columns.at(pc)) - indent if written else 0
        return Site(place, max(column, 0), found[-1].function, written)

    @cached_property
    def _columns(self) -> "Columns":
        return Columns(self._module.path)


class Columns:
    """Addresses with the column from which on it holds."""

    def __init__(self, library: Path):
        rows = sorted(_rows(_section(library.read_bytes(), b".debug_line")), key=lambda row: row[0])  # keeps equals
        self._starts, self._columns = [row[0] for row in rows], [row[1] for row in rows]

    def at(self, pc: int) -> int:
        """The column of an address; 0 where it is unknown."""
        index = bisect_right(self._starts, pc) - 1
        return self._columns[index] if index >= 0 else 0


def _section(image: bytes, name: bytes) -> bytes:
    """A section of a 64-bit ELF file; empty where there is none."""
    if image[:5] != b"\x7fELF\x02":
        return b""
    (table,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    heads = [struct.unpack_from("<IIQQQQ", image, table + i * size) for i in range(count)]
    for title, _, flags, _, start, length in heads:
        at = heads[names][4] + title
        compressed = flags & 0x800
        if image[at : image.index(b"\0", at)] == name and not compressed:
            return image[start : start + length]
    return b""


def _rows(section: bytes) -> Iterator[tuple[int, int]]:
    """Address and column of each row of each program of the section."""
    at = 0
    while at < len(section):
        (length,) = struct.unpack_from("<I", section, at)
        yield from _program(section[at + 4 : at + 4 + length])
        at += 4 + length


def _program(unit: bytes) -> Iterator[tuple[int, int]]:
    (version,) = struct.unpack_from("<H", unit)
    at = 4 if version >= 5 else 2  # sizes of an address and a segment come first
    (length,) = struct.unpack_from("<I", unit, at)
    at += 4
    if version < 4:
        return
    step, line_range, base = unit[at], unit[at + 4], unit[at + 5]
    operands = unit[at + 6 : at + 5 + base]
    code, address, column = _Code(unit, at + length), 0, 0
    while code.more():
        opcode = code.byte()
        if opcode >= base:
            address += (opcode - base) // line_range * step
            yield address, column
        elif opcode == 0:
            size = code.number()
            kind, rest = code.byte(), code.take(size - 1)
            if kind == 2:  # set the address
                address = int.from_bytes(rest, "little")
            elif kind == 1:  # the end of a sequence
                address = column = 0
        elif opcode == 1:  # a row
            yield address, column
        elif opcode == 2:
            address += code.number() * step
        elif opcode == 5:
            column = code.number()
        elif opcode == 8:
            address += (255 - base) // line_range * step
        elif opcode == 9:
            address += int.from_bytes(code.take(2), "little")
        else:
            for _ in range(operands[opcode - 1]):
                code.number()


class _Code:
    """Bytes that are read one after the other."""

    def __init__(self, data: bytes, at: int):
        self._data, self._at = data, at

    def more(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        """In groups of seven bits, the lowest first. The sign of those that have one is of no interest here."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


def reads_back(site: Site, stored: int) -> bool:
    """Whether a read after a write is that of the value of an assignment, as in x[i] = y[i] = 1 that of y[i] for x[i].

    stored is the column of the last write to the same array, ahead of the read in the code of its line.

    An assignment writes last. What is read after it and stands within it, from the element on its left to the end of
    its right side, is its own value. The column of a write is that of the sign, or of ++x[i] the bracket; in a macro
    all have one column, that of its name.
    """
    text, column = site.place.text, site.column
    if column < stored:
        return all(sign.isalnum() or sign in " _.->)]*" for sign in text[column : stored - 1])
    return column <= _end(text, stored) and (column > stored or text[column - 1] == "]")


def _end(text: str, start: int) -> int:
    """Where the expression ends that begins here: at a comma, a semicolon, or a bracket that was opened before."""
    depth = 0
    for at, sign in enumerate(text[start:], start):
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0 or (depth == 0 and sign in ",;:"):
            return at
    return len(text)
