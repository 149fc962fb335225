"""Instant answers to exercises: the learner's function against the true one, case by case, and the first error."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from minigrad.display import Folded, Text, folded
from minigrad.errors import require
from minigrad.op import Case

TOLERANCE = 1e-5
RAISED = (Exception, SystemExit)  # by a reader's text: each of them is an answer
ACCESSES = "Your accesses to memory"


class Refused(Exception):
    """Raised by the call of an attempt whose result may be right, got in a way that the task rules out: a sentence."""

    def __init__(self, text: str, kind: str):
        super().__init__(text)
        self.kind = kind


class SharedRace(NamedTuple):
    """A race on a shared array, and the run that has it: the tunables that are no defaults, the case and its dtype."""

    array: str
    blocks: int  # up to the one with the race
    values: Mapping[str, int]
    case: Case
    dtype: str


@dataclass(frozen=True)
class Answer:
    """The verdict on an attempt: correct, or its first error.

    kind: the error in a word: "value", "shape", "none", "raised", "compile", "signature", "unfinished", "unused",
    "wasteful", or the kind of a KernelError or of a problem that `inspect` found; empty after a pass. line: the line
    of the text, if known. result: after a pass, the op, kernel or function to use. view: what a notebook shows below
    the text, made when it is shown: a picture of the attempt's own accesses, and their counts. closed: they are not
    what the exercise is about, so the page shows one line, which opens. effect: of a kernel at fault, the case and its
    wrong result without the cause. race: the race that the text names, if it is on a shared array.
    """

    correct: bool
    text: str
    kind: str = ""
    line: int | None = None
    result: Any = None
    view: Callable[[], Sequence[Any]] | None = field(default=None, compare=False)
    closed: bool = field(default=False, compare=False)
    effect: str = field(default="", compare=False)
    race: SharedRace | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return folded(self.text)

    def _ipython_display_(self) -> None:
        if self.view is None:
            raise NotImplementedError  # so IPython shows the text alone, as it shows any object
        from IPython.display import display

        display(Text(self))
        parts = self.view()
        for part in [Folded(ACCESSES, parts)] if self.closed and parts else parts:
            display(part)


def answer(
    mine: Callable, truth: Callable, *cases: Sequence, given: Sequence[str] = (), parts: Sequence[str] = ()
) -> Answer:
    """Call `mine` and `truth` with the arguments of each case and compare; lists become arrays.

    The answer is "Correct", or names the first case that differs, with the element, its value and the true one.
    given: names for the arguments of a case. parts: names for the elements of the longest result.
    """
    if not cases:
        raise ValueError("answer needs at least one case: a tuple of arguments.")
    for function in (mine, truth):
        require("answer", function, Callable, "your function, the true one, and cases")
    for case in cases:
        require("answer", case, tuple | list, "cases as tuples of arguments, e.g. (2.0,)")
    for number, case in enumerate(cases, 1):
        arguments = arguments_of(case)
        place = f"Not yet. Case {number}, ({', '.join(map(_short, case))}): " if case else "Not yet: "
        if given:
            place = f"Not yet. {', '.join(f'{name} {value}' for name, value in zip(given, case, strict=True))}: "
        wanted = np.asarray(truth(*arguments))
        try:
            got = np.asarray(mine(*arguments))
        except Refused as refused:
            return Answer(False, f"{place}{refused}.", refused.kind)
        except RAISED as exception:  # a learner's function may raise anything
            return Answer(False, f"{place}it raised {raised(exception)}.", "raised")
        if error := _error(got, wanted, parts):
            return Answer(False, f"{place}{error[1]}.", error[0])
    return Answer(True, f"Correct, in {len(cases)} of {len(cases)} cases.", result=mine)


def arguments_of(case: Sequence) -> list:
    """The arguments of a case: lists become arrays."""
    return [np.asarray(value) if isinstance(value, list) else value for value in case]


def raised(error: BaseException) -> str:
    """An exception in words, without a full stop; of text that is no Python with the line."""
    if isinstance(error, SyntaxError):
        line = f", `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return f"{type(error).__name__}: {(error.msg or '').rstrip('.')}, in line {error.lineno}{line}"
    try:
        said = f"{error}"
    except Exception:  # of a class that the reader wrote
        said = "its __str__ raises an exception too"
    return f"{type(error).__name__}: {said}".rstrip(".: ")


def _error(got: np.ndarray, wanted: np.ndarray, parts: Sequence[str]) -> tuple[str, str] | None:
    """The first error: its kind, and in words; of named parts all that are wrong."""
    if got.dtype == object and got.shape == () and got.item() is None:
        return "none", "it returns None: a `return` is missing"
    if got.ndim == 0 and wanted.ndim == 1:
        return "shape", f"it gives one number, wanted {wanted.size}"
    if got.shape != wanted.shape:
        return "shape", f"the shape is {got.shape}, wanted {wanted.shape}"
    if got.dtype.kind not in "fiub":
        return "value", f"the result is of type {got.dtype}, wanted numbers"
    wrong = differing(got, wanted, TOLERANCE)
    if parts and wanted.ndim == 1 and len(wrong):
        return "value", ", ".join(f"{parts[i]} is {got[i]}, wanted {wanted[i]}" for (i,) in wrong)
    return ("value", in_words(got, wanted, wrong)) if len(wrong) else None


def differing(got: np.ndarray, wanted: np.ndarray, rtol: float, atol: float | None = None) -> np.ndarray:
    """The indices where two arrays of one shape differ, in order. NaN agrees only with NaN."""
    close = np.isclose(got, wanted, rtol=rtol, atol=rtol if atol is None else atol, equal_nan=True)
    return np.argwhere(~close)


def in_words(got: np.ndarray, wanted: np.ndarray, wrong: np.ndarray, name: str = "") -> str:
    """The first wrong element of the array `name`: "y[3] is nan, wanted 8; 1 of 5 differs"."""
    at = tuple(int(i) for i in wrong[0])
    index = ", ".join(map(str, at))
    where = f"{name}[{index}]" if name and at else name or (f"element {index}" if at else "the result")
    count = f"; {len(wrong)} of {wanted.size} differ{'s' if len(wrong) == 1 else ''}" if wanted.size > 1 else ""
    came, right = next(pair for pair in zip(_numbers(got[at]), _numbers(wanted[at]), strict=True) if len({*pair}) > 1)
    return f"{where} is {came}, wanted {right}{count}"


def _numbers(value: Any) -> tuple[str, ...]:
    """A number with 6 and with 17 digits: two close numbers differ in the second."""
    return (f"{value:.6g}", f"{value:.17g}") if value.dtype.kind == "f" else (str(value),) * 2


def _short(value: Any) -> str:
    """A value in a sentence; an array of more than four elements by its shape."""
    if isinstance(value, np.ndarray | list) and np.size(value) > 4:
        return f"array of shape {np.shape(value)}"
    return str(value)
