"""Items of a reader's file that a compiler rejects, left out where the kernel that is wanted needs none of them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from minigrad.scan import item_name, items
from minigrad.source import Source

MOST = 200  # items that are left out
Built = TypeVar("Built")


class Rejection(NamedTuple):
    """An error of the compiler: its message, and the lines of the reader's files that led to it, its own line first."""

    message: str
    places: list[tuple[str, int]]


class RejectedText(Exception):
    """The compiler has rejected a text. texts: the reader's files by their names; explain: the error that tells of
    some of the rejections.
    """

    def __init__(
        self, found: list[Rejection], texts: Mapping[str, str], explain: Callable[[list[Rejection]], Exception]
    ):
        super().__init__(str(explain(found)))
        self.found, self.texts, self.explain = found, texts, explain


Reasons = dict[str, list[Rejection]]  # by the names of the items that are left out


def build_without(source: Source, build: Callable[[Source], Built]) -> tuple[Built, Source, Reasons]:
    """The result of `build` for the source, less items that the compiler rejects and the wanted kernel does not need.

    Returns the source that was built, and why items were left out. Raises the error of a RejectedText: where the kernel
    does not compile without them it tells of its own rejections, and of those of the items that it names.
    """
    reasons: Reasons = {}
    while True:
        try:
            return build(source), source, reasons
        except RejectedText as error:
            at = [_item(source, error.texts, each) for each in error.found]
            for item, each in zip(at, error.found, strict=True):
                if item:
                    reasons.setdefault(item[2], []).append(each)
            if not source.kernel or not any(at) or len(source.left_out) > MOST:
                raise error.explain(_needed(source, error, reasons)) from None
            source = _without(source, source.left_out | {(file, start) for file, start, _ in filter(None, at)})


def _without(source: Source, left_out: frozenset[tuple[str, int]]) -> Source:
    before = source.before and _without(source.before, left_out)
    return replace(source, left_out=left_out, before=before)


def _needed(source: Source, error: RejectedText, reasons: Reasons) -> list[Rejection]:
    """The rejections to be shown: those of the kernel, after those of the items that they name."""
    if not source.kernel:
        return error.found
    own = [each for each in error.found if not _item(source, error.texts, each)]
    return _causes(own, dict(reasons)) + own or error.found


def _causes(found: list[Rejection], reasons: Reasons) -> list[Rejection]:
    """The rejections of the items that these name, each behind its own causes. reasons: those not yet told."""
    causes = list[Rejection]()
    for word in (word for each in found for word in re.findall(r"\w+", each.message.partition("\n")[0])):
        more = reasons.pop(word, [])
        causes += [*_causes(more, reasons), *more]
    return causes


def _header(source: Source, text: str, file: str) -> Source:
    return replace(source, text=text, name=file, template="", before=None, words=source.device_words)


def _item(source: Source, texts: Mapping[str, str], fault: Rejection) -> tuple[str, int, str] | None:
    """The item in which an error is: its file, its offset and its name; None where there is none, or it is wanted."""
    for file, line in (place for place in fault.places if place[0] in texts):
        text = source if file == source.name else _header(source, texts[file], file)
        for item in items(text.code):
            first, last = (text.code.count("\n", 0, at) + 1 for at in (item.start, item.stop))
            if first <= line <= last and (file, item.start) not in source.left_out:
                head = text.code[item.start : item.body]
                name, on_device = item_name(head), source.device_words & set(re.findall(r"\w+", head))
                return None if name == source.kernel and on_device else (file, item.start, name)
    return None
