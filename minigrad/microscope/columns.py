"""Columns of the instructions in a compiled kernel, from its line table (DWARF, sections 6.2.4 and 6.2.5).

A line may hold several accesses, and the tool that names lines leaves the column out. What a table says of files is
not needed here. Where there is none in the form of Linux (ELF, DWARF 4 or 5), no columns are known; then accesses are
told apart by their addresses.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path


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
