"""Lines of the reader's files for the places in a compiled kernel."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from minigrad.devices.simulator.changes import column as original
from minigrad.devices.simulator.lines import Frame, frames
from minigrad.devices.simulator.module import Module
from minigrad.microscope.columns import Columns
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
    def _columns(self) -> Columns:
        return Columns(self._module.path)
