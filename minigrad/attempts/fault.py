"""What is wrong with a reader's kernel: the first fault, or the first wrong element and who wrote it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from minigrad.answer import differing, in_words
from minigrad.attempts.written import CELL
from minigrad.devices.base import index_of
from minigrad.microscope import Inspection
from minigrad.outcome import Pair, largest

FRESH = b"\xff\x7f"  # fresh memory is full of it, and so is a sum with what lay there: see native/memory.cpp


class Fault(Exception):
    """The first thing that is wrong with a reader's kernel, and the lines that it is about."""

    def __init__(self, kind: str, text: str, *lines: int | None):
        super().__init__(text)
        self.kind, self.lines = kind, list(dict.fromkeys(filter(None, lines)))


class Difference(NamedTuple):
    """The first element of an array that is wrong: its place counted flat, and all in words."""

    name: str
    size: int
    element: int
    nan: bool
    undefined: bool  # it holds what memory holds before it is written
    text: str


def first_wrong(pairs: Iterable[Pair]) -> Difference | None:
    """The first element of the first array that is not as it should be."""
    return next(filter(None, (_difference(*pair) for pair in pairs)), None)


def _difference(name: str, got: Any, wanted: Any, tolerance: float) -> Difference | None:
    if wanted is None:  # the gradient of whole numbers
        return None
    got, wanted = got.numpy(), np.asarray(wanted)
    wrong = differing(got, wanted, tolerance, tolerance * largest(wanted))
    if not len(wrong):
        return None
    at = tuple(wrong[0])
    element = int(np.ravel_multi_index(at, got.shape)) if at else 0
    nan, undefined = bool(got[at] != got[at]), got[at].tobytes() == FRESH * (got.itemsize // len(FRESH))
    return Difference(name, got.size, element, nan, undefined, in_words(got, wanted, wrong, name))


def written_by(record: Inspection, wrong: Difference, what: str) -> Fault:
    seen = record.traffic
    mine = (seen["variable"] == wrong.name) & (seen["kind"] != "read")
    if mine.any():
        start = wrong.element * record.variables[wrong.name].itemsize
        mine &= (seen["offset"] <= start) & (start < seen["offset"] + seen["bytes"])
    if not mine.any():
        return Fault("never-written", f"{what} No thread writes it.")
    last = seen[mine][-1]
    line = record.lines[last["site"]]
    thread, block = index_of(int(last["thread"]), record.block), index_of(int(last["block"]), record.grid)
    words = f"{what} Thread {thread} of block {block} writes it."
    if wrong.undefined:
        words += f" Before that it is read, and {wrong.name} begins undefined: write with =, or set it to 0 first."
    return Fault("nan" if wrong.nan else "value", words, line.line if line.file == CELL else None)
