"""Debug info of a compiled file: the source line and column of an instruction, from its DWARF line table.

addr2line finds the lines; it prints no columns, so pyelftools reads these from the table. The text around a line or
column then tells which loop or barrier is there, which array has an index, and which read is of an assignment's value.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.scan import blank, end_of
from minigrad.simulator.compiled_file import CompiledFile
from minigrad.simulator.diagnostics import InlinedCall, inlined_calls
from minigrad.simulator.translate import column as original
from minigrad.simulator.updates import function_at, shuffles, without_value

_LOOP = re.compile(r"\b(?:for|while|do)\b")
_ELEMENT = re.compile(r"\b(?=((\w+)(?:\s*\[(?:[^][]|\[[^][]*\])*\])+(?:\.\w+)*))")  # also within the index of another
_PATH = r"(?:\s*\[(?:[^][]|\[[^][]*\])*\]|\s*(?:\.|->)\s*\w+)*"
_TYPE = r"(?:[\w:]+(?:<[^<>;]*>)?[\s*]+)*"
_COPY = re.compile(rf"(?:^|[;{{}}),:])\s*{_TYPE}(?=\w)((\w+){_PATH}\s*=\s*(\*?\w+{_PATH}))\s*(?=[;,])")
_CAPTURES = re.compile(r"\[[\w\s,=&*]*\]\s*(?:[({]|mutable\b)")  # of a lambda
_OPEN_END = re.compile(r"\b(\w+)\s*\[\s*1\s*\]\s*;\s*\}")
_ADDRESS = itemgetter(0)
_COPIES = re.compile(r"(?:C[12]E|aSE)(?:RK|O)S\w*_$")  # linker names of copy constructors and assignments


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
    function: str  # that contains the instruction, by its linker name
    written: bool  # by the reader, rather than inlined from the simulator's own files


@cache
def debug_info(file: CompiledFile) -> "DebugInfo":
    """The debug info of a file, one object for all callers, as look-ups take long."""
    return DebugInfo(file)


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

    def column(self, pc: int) -> int:
        """The column of an address in the text of its line, from 1; 0: unknown, or inlined from another file."""
        place, _, written = self.locations([pc])[pc]
        index = bisect_right(self._columns, pc, key=_ADDRESS) - 1
        if not written or index < 0:
            return 0
        indent = self._raw(place.file, place.line).find(place.text)
        return max(self._column(place.file, place.line, self._columns[index][1]) - indent, 0)

    def line(self, file: str, number: int) -> SourceLine:
        """The line of that number, with its text if the file is one of the reader's."""
        name = self._names.get(Path(file).name, Path(file).name)
        return SourceLine(name, number, self._raw(name, number).strip())

    def text(self, file: str) -> str:
        """The text of one of the reader's files, without comments; empty for another file."""
        return self._code.get(file, "")

    @cached_property
    def _code(self) -> dict[str, str]:
        return {name: blank("\n".join(lines)) for name, lines in self._lines.items()}

    def barrier(self, file: str, first: int, last: int) -> int:
        """The line of a barrier between two lines; 0: none."""
        lines = self.text(file).splitlines()[first : last - 1]
        return next((number for number, line in enumerate(lines, first + 1) if "__syncthreads" in line), 0)

    def in_one_loop(self, file: str, first: int, last: int) -> bool:
        """True if a loop contains both lines, its head included."""
        return any(start <= first and last <= stop for start, stop in _loops(self.text(file)))

    def indexed_array(self, file: str, line: int, column: int) -> str:
        """The name of the array that has an index at the column."""
        name = self.line(file, line).file
        return indexed_array(self._raw(name, line), self._column(name, line, column))

    def function(self, file: str, line: int) -> int:
        """A number of the function that contains a line of one of the reader's files."""
        *before, last = self.text(file).splitlines(keepends=True)[:line] or [""]
        first = sum(map(len, before))
        return function_at(self.text(file), first, first + len(last))

    def has_open_end(self, file: str, text: str) -> bool:
        """True if a line of the file uses a member of length 1 at the end of a struct, which in C stands for one of
        open length where the struct is reached by a pointer; of a variable, `s.a`, it has the length that it says.
        """
        ends = _OPEN_END.findall(self.text(file))
        return any(re.search(rf"(?<!\w\.)(?<!\]\.)\b{end}\s*\[", text) for end in ends)

    def element(self, pc: int, others: Collection[str]) -> str:
        """The element that an address reads, as `a[i][2].x`, of an array that is none of the others; empty: unknown."""
        text, column = self.line_of(pc).text, self.column(pc)
        found = [each for each in _ELEMENT.finditer(text) if each[2] not in others]
        there = [each[1] for each in found if each.start() < column <= each.end(1)]
        return min(there or {each[1] for each in found if len({one[1] for one in found}) == 1}, key=len, default="")

    def number(self, pc: int) -> str:
        """The variable declared without a value that the line of an address has; empty: none, or several."""
        place = self.line_of(pc)
        unset = {one[1] for _, one in without_value(self.text(place.file))}
        found = unset & set(re.findall(r"\w+", place.text))
        return min(found) if len(found) == 1 else ""

    def hands_on(self, text: str) -> bool:
        """True if a line has a shuffle, or a call or a macro that leads to one, or a lambda that may take a copy."""
        exchanges = shuffles(tuple(self._code.values()))
        return bool(exchanges & set(re.findall(r"\w+", text)) or _CAPTURES.search(text))

    def copied_to(self, pc: int, whole: bool) -> str:
        """The variable that gets what an address reads, where a whole statement is `T t = element;`, `t = element;` or
        `t[i].x = element;`; empty: there is more to it. The read of an index in it is another. whole: of a number.
        """
        text, column = self.line_of(pc).text, self.column(pc)
        there = [each[1] for each in _ELEMENT.finditer(text) if each.start() < column <= each.end(1)]
        read = min(there, key=len, default="")
        found = (each for each in _COPY.finditer(text) if not column or each.start(1) < column <= each.end())
        return next((each[2] for each in found if (each[3].isidentifier() if whole else each[3].endswith(read))), "")

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
        return CodeLocation(place, calls[-1].function, written)

    @cached_property
    def foreign(self) -> np.ndarray:
        """A bit for each address of the file: 1 in functions of headers that are not the reader's, and in those that
        copy structs. Their accesses have the line of the reader's code that calls them.
        """
        functions = {start: (start + size, name) for start, size, name in self._functions()}
        bits = np.zeros(max((end for end, _ in functions.values()), default=0), bool)
        for start, calls in zip(functions, inlined_calls(self._file.path, functions), strict=True):
            end, name = functions[start]
            bits[start:end] = Path(calls[-1].path).name not in self._names or _COPIES.search(name) is not None
        return np.packbits(bits, bitorder="little")

    def _functions(self) -> Iterator[tuple[int, int, str]]:
        """Address, size and linker name of each function."""
        symbols = self._elf and self._elf.get_section_by_name(".symtab")
        for symbol in symbols.iter_symbols() if symbols else ():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]:
                yield symbol["st_value"], symbol["st_size"], symbol.name

    @cached_property
    def _columns(self) -> list[tuple[int, int]]:
        """Address and column of each row of the line table, by address."""
        if not self._elf:
            return []
        dwarf = self._elf.get_dwarf_info(relocate_dwarf_sections=False)
        programs = map(dwarf.line_program_for_CU, dwarf.iter_CUs())
        rows = (entry.state for program in programs if program for entry in program.get_entries())
        columns = [(row.address, row.column) for row in rows if row and not row.end_sequence]
        return sorted(columns, key=_ADDRESS)  # stable

    @cached_property
    def _elf(self) -> Any:
        """The file's sections; None for a Mach-O file."""
        from elftools.common.exceptions import ELFError  # here, as `import minigrad` does not need it
        from elftools.elf.elffile import ELFFile

        try:
            return ELFFile(BytesIO(self._file.path.read_bytes()))
        except ELFError:
            return None


@lru_cache
def _loops(code: str) -> list[tuple[int, int]]:
    """The first and the last line of each loop."""
    spans = ((loop.start(), end_of(code, loop.end(), ";}")) for loop in _LOOP.finditer(code))
    return [(code.count("\n", 0, start) + 1, code.count("\n", 0, stop) + 1) for start, stop in spans]


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


def is_read_back(text: str, column: int, stored: int) -> bool:
    """True if a read only fetches the value of an assignment, as that of y[i] in x[i] = y[i] = 1.

    column: of the read in the text of its line. stored: of the last write to the same array, earlier in the code.

    An assignment writes last. A later read of the array from within it, between the element on its left and the end of
    its right side, is of its own value. The column of a write is that of the sign, or in ++x[i] of the bracket; in a
    macro all columns are that of the macro's name.
    """
    if column < stored:
        return all(sign.isalnum() or sign in " _.->)]*" for sign in text[column : stored - 1])
    return column <= end_of(text, stored, ",;:") and (column > stored or text[column - 1] == "]")
