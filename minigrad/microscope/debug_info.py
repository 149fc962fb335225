"""Debug info of a compiled file: the source line and column of an instruction, from its DWARF line table.

addr2line finds the lines; it has no columns, so these are read from the table itself. The text around a line or column
then answers questions about loops and barriers, the array of an index, and reads of an assignment's value.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from minigrad.simulator.compiled_file import CompiledFile
from minigrad.simulator.diagnostics import InlinedCall, inlined_calls
from minigrad.simulator.translate import column as original
from minigrad.source import blank

_LOOP = re.compile(r"\b(?:for|while|do)\b")
_ADDRESS = itemgetter(0)


class SourceLine(NamedTuple):
    """A line of a file."""

    file: str
    line: int  # 0: unknown
    text: str

    @property
    def fields(self) -> tuple[str, int | None, str]:
        """The same as fields of a Problem, in which an unknown line is None."""
        return self.file, self.line or None, self.text


NOWHERE = SourceLine("", 0, "")


class CodeLocation(NamedTuple):
    """The place of an instruction in the source."""

    place: SourceLine
    column: int  # in the text, from 1; 0 in code inlined from another file
    function: str  # that contains the instruction, by its linker name
    written: bool  # by the reader, rather than inlined from the simulator's own files


_KNOWN: dict[Path, "DebugInfo"] = {}  # a compiled file's name contains a digest of its sources


def debug_info(file: CompiledFile) -> "DebugInfo":
    """The debug info of a file, one object for all callers, as look-ups take long."""
    return _KNOWN.get(file.path) or _KNOWN.setdefault(file.path, DebugInfo(file))


class DebugInfo:
    """The locations of a file's instructions by address, looked up once each."""

    def __init__(self, file: CompiledFile):
        self._file = file
        self._known: dict[int, CodeLocation] = {}
        self._names = {Path(name).name: name for name in file.parts}
        self._lines = {name: text.splitlines() for name, text in file.parts.items()}

    def locations(self, pcs: Iterable[int]) -> dict[int, CodeLocation]:
        """The location of each address: a line of the reader's, also where code of another file was inlined into it."""
        wanted = [int(pc) for pc in pcs]
        new = sorted(set(wanted) - self._known.keys())
        if new:
            found = map(self._location, new, inlined_calls(self._file.path, new))
            self._known |= dict(zip(new, found, strict=True))
        return {pc: self._known[pc] for pc in wanted}

    def line_of(self, pc: int) -> SourceLine:
        """The line of an address."""
        return self.locations([pc])[int(pc)].place

    def line(self, file: str, number: int) -> SourceLine:
        """The line of that number, with its text if the file is one of the reader's."""
        name = self._names.get(Path(file).name, Path(file).name)
        return SourceLine(name, number, self._raw(name, number).strip())

    def text(self, file: str) -> str:
        """The text of one of the reader's files, without comments; empty for another file."""
        return blank("\n".join(self._lines.get(file, [])))

    def barrier(self, file: str, first: int, last: int) -> int:
        """The line of a barrier between two lines; 0: none."""
        lines = self.text(file).splitlines()[first : last - 1]
        return next((number for number, line in enumerate(lines, first + 1) if "__syncthreads" in line), 0)

    def in_one_loop(self, file: str, first: int, last: int) -> bool:
        """True if a loop contains both lines, its head included."""
        code = self.text(file)

        def line(at: int) -> int:
            return code.count("\n", 0, at) + 1

        loops = ((loop.start(), _end(code, loop.end(), ";}")) for loop in _LOOP.finditer(code))
        return any(line(start) <= first and last <= line(end) for start, end in loops)

    def indexed_array(self, file: str, line: int, column: int) -> str:
        """The name of the array that has an index at the column."""
        name = self.line(file, line).file
        return indexed_array(self._raw(name, line), self._column(name, line, column))

    def _column(self, name: str, line: int, compiled: int) -> int:
        """The column in the reader's text of a column in the compiled text."""
        return original(self._file.changes.get((name, line), []), compiled)

    def _raw(self, name: str, line: int) -> str:
        lines = self._lines.get(name, [])
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _location(self, pc: int, calls: Sequence[InlinedCall]) -> CodeLocation:
        own = [call for call in calls if Path(call.path).name in self._names]
        written = len(own) == len(calls)
        place = self.line(*(own[0] if own else calls[-1])[1:])
        indent = self._raw(place.file, place.line).find(place.text)
        column = self._column(place.file, place.line, self._compiled_column(pc)) - indent if written else 0
        return CodeLocation(place, max(column, 0), calls[-1].function, written)

    @cached_property
    def _columns(self) -> list[tuple[int, int]]:
        """Address and column of each row of the line table, by address."""
        return sorted(_rows(_section(self._file.path.read_bytes(), b".debug_line")), key=_ADDRESS)  # stable

    def _compiled_column(self, pc: int) -> int:
        """The column of an address in the compiled text; 0: unknown."""
        index = bisect_right(self._columns, pc, key=_ADDRESS) - 1
        return self._columns[index][1] if index >= 0 else 0


def _section(image: bytes, name: bytes) -> bytes:
    """A section of a 64-bit ELF file; empty if missing or compressed."""
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
    """Address and column of each row, program after program."""
    at = 0
    while at < len(section):
        (length,) = struct.unpack_from("<I", section, at)
        yield from _program(section[at + 4 : at + 4 + length])
        at += 4 + length


def _program(unit: bytes) -> Iterator[tuple[int, int]]:
    """Run one line number program of DWARF 4 or 5."""
    (version,) = struct.unpack_from("<H", unit)
    at = 4 if version >= 5 else 2  # version 5 begins with the sizes of an address and a segment
    (length,) = struct.unpack_from("<I", unit, at)
    at += 4
    if version < 4:
        return
    step, line_range, base = unit[at], unit[at + 4], unit[at + 5]
    operands = unit[at + 6 : at + 5 + base]
    code, address, column = BytesIO(unit[at + length :]), 0, 0
    while byte := code.read(1):
        opcode = byte[0]
        if opcode >= base:  # a special opcode
            address += (opcode - base) // line_range * step
            yield address, column
        elif opcode == 0:  # an extended opcode
            size = _leb128(code)
            kind, operand = code.read(1)[0], code.read(size - 1)
            if kind == 2:  # DW_LNE_set_address
                address = int.from_bytes(operand, "little")
            elif kind == 1:  # DW_LNE_end_sequence
                address = column = 0
        elif opcode == 1:  # DW_LNS_copy
            yield address, column
        elif opcode == 2:  # DW_LNS_advance_pc
            address += _leb128(code) * step
        elif opcode == 5:  # DW_LNS_set_column
            column = _leb128(code)
        elif opcode == 8:  # DW_LNS_const_add_pc
            address += (255 - base) // line_range * step
        elif opcode == 9:  # DW_LNS_fixed_advance_pc
            address += int.from_bytes(code.read(2), "little")
        else:
            for _ in range(operands[opcode - 1]):
                _leb128(code)


def _leb128(code: BytesIO) -> int:
    """A number in groups of seven bits, the lowest first. Signed ones are only skipped here."""
    value = shift = 0
    while True:
        byte = code.read(1)[0]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value


def indexed_array(text: str, column: int) -> str:
    """The array with an index at the column: Clang gives the column of the name, GCC that of the closing bracket.

    Empty where there is no name, as in a macro or behind (p + 1).
    """
    before = text.encode()[: column - 1].decode(errors="ignore")
    if text[len(before) :].startswith("]"):
        return _before_bracket(before)
    match = re.match(r"[A-Za-z_]\w*\b(?!\s*\()", text[len(before) :])
    return match[0] if match else ""


def _before_bracket(text: str) -> str:
    """The name at the start of an access path such as `s[i].row[j`, the last bracket of which is open."""
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


def is_read_back(location: CodeLocation, stored: int) -> bool:
    """True if a read only fetches the value of an assignment, as that of y[i] in x[i] = y[i] = 1.

    stored: the column of the last write to the same array, earlier in the code of the line.

    An assignment writes last. A later read of the array from within it, between the element on its left and the end of
    its right side, is of its own value. The column of a write is that of the sign, or in ++x[i] of the bracket; in a
    macro all columns are that of the macro's name.
    """
    text, column = location.place.text, location.column
    if column < stored:
        return all(sign.isalnum() or sign in " _.->)]*" for sign in text[column : stored - 1])
    return column <= _end(text, stored, ",;:") and (column > stored or text[column - 1] == "]")


def _end(text: str, start: int, signs: str) -> int:
    """The end of what begins at start: one of the signs outside of brackets, or the closing bracket around it."""
    depth = 0
    for at, sign in enumerate(text[start:], start):
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0 or (depth == 0 and sign in signs):
            return at
    return len(text)
