"""Columns of the reader's lines, for those of the lines that the compiler is given."""

from collections.abc import Iterable
from typing import NamedTuple


class Change(NamedTuple):
    """From which column of the reader's line, from 0, how many bytes became how many others."""

    column: int
    old: int
    new: int


def change(text: str, start: int, stop: int, made: str) -> Change:
    """What it does to the line on which text[start:stop], which becomes another, ends."""
    begin = text.rfind("\n", 0, stop) + 1
    first = max(begin, start)
    return Change(
        len(text[begin:first].encode()), len(text[first:stop].encode()), len(made.rpartition("\n")[2].encode())
    )


def column(changes: Iterable[Change], compiled: int) -> int:
    """The column in the reader's line of a column in the compiled one, both from 1; changes are in order."""
    for one in changes:
        beyond = compiled - 1 - one.column
        compiled += one.old - one.new if beyond >= one.new else -max(beyond, 0)
    return compiled
