"""Items of a reader's file that a compiler rejects, left out where the kernel that is wanted needs none of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from minigrad.scan import item_name, items
from minigrad.source import Source

MOST = 200  # items that are left out


class Rejection(NamedTuple):
    """An error of the compiler: its message, and the lines of the reader's files that led to it, its own line first."""

    message: str
    places: list[tuple[str, int]]


Reasons = dict[str, list[Rejection]]  # by the names of the items that are left out


def smaller(source: Source, faults: Sequence[Rejection], texts: Mapping[str, str], reasons: Reasons) -> Source | None:
    """The source without the items at fault; None where the kernel itself is, or something outside of all items."""
    at = [_item(source, texts, fault) for fault in faults]
    for item, fault in zip(at, faults, strict=True):
        if item:
            reasons.setdefault(item[2], []).append(fault)
    if not source.kernel or not at or None in at or len(source.left_out) > MOST:
        return None
    return replace(source, left_out=source.left_out | {(file, start) for file, start, _ in filter(None, at)})


def needed(source: Source, faults: Sequence[Rejection], texts: Mapping[str, str], reasons: Reasons) -> list[Rejection]:
    """The faults to be shown: those of the kernel, after those of the items that they name."""
    if not source.kernel:
        return [*faults]
    own = [fault for fault in faults if not _item(source, texts, fault)]
    named = [word for fault in own for word in re.findall(r"\w+", fault.message.partition("\n")[0])]
    return [each for word in named for each in reasons.get(word, [])] + own


def _header(source: Source, text: str, file: str) -> Source:
    return replace(source, text=text, name=file, template="", before=None, words=source.device_words)


def _item(source: Source, texts: Mapping[str, str], fault: Rejection) -> tuple[str, int, str] | None:
    """The item in which an error is: its file, its offset and its name; None where there is none, or it is wanted."""
    for file, line in (place for place in fault.places if place[0] in texts):
        text = source if file == source.name else _header(source, texts[file], file)
        for item in items(text.code):
            first, last = (text.code.count("\n", 0, at) + 1 for at in (item.start, item.stop))
            if first <= line <= last and (file, item.start) not in source.left_out:
                name = item_name(text.code[item.start : item.body])
                return None if name == source.kernel else (file, item.start, name)
    return None
