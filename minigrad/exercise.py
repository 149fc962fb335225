"""Instant answers to exercises: your function against the truth, case by case."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.require import a

TOLERANCE = 1e-5


@dataclass(frozen=True)
class Answer:
    """Whether an exercise is solved, and if not, the first thing that is wrong."""

    correct: bool
    text: str

    def __repr__(self) -> str:
        return self.text


def answer(mine: Callable, truth: Callable, *cases: Sequence) -> Answer:
    """Call `mine` and `truth` with the arguments of each case and compare; lists become arrays.

    The answer is "Correct", or names the first case that differs, the element, what came and what was wanted.
    """
    if not cases:
        raise ValueError("answer needs at least one case: a tuple of arguments.")
    for given in (mine, truth):
        a("answer", given, Callable, "your function, the true one, and cases")
    for case in cases:
        a("answer", case, tuple | list, "cases as tuples of arguments, e.g. (2.0,)")
    for number, case in enumerate(cases, 1):
        arguments = [np.asarray(value) if isinstance(value, list) else value for value in case]
        wanted = np.asarray(truth(*arguments))
        try:
            got = np.asarray(mine(*arguments))
        except Exception as error:  # a learner's function may raise anything, and that is the answer
            return _not_yet(number, case, f"it raised {type(error).__name__}: {error}")
        if wrong := _difference(got, wanted):
            return _not_yet(number, case, wrong)
    return Answer(True, f"Correct, in {len(cases)} of {len(cases)} cases.")


def _difference(got: np.ndarray, wanted: np.ndarray) -> str:
    """What is wrong first; empty where the arrays agree. NaN agrees only with NaN."""
    if got.shape != wanted.shape:
        return f"the shape is {got.shape}, wanted {wanted.shape}"
    if got.dtype.kind not in "fiub":
        return f"the result is of type {got.dtype}, wanted numbers"
    close = np.isclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if close.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~close)[0])
    where = f"element {', '.join(map(str, at))}" if at else "the result"
    return f"{where} is {got[at]:.6g}, wanted {wanted[at]:.6g} ({np.count_nonzero(~close)} of {close.size} differ)"


def _not_yet(number: int, case: Sequence, what: str) -> Answer:
    shown = ", ".join(_short(value) for value in case)
    return Answer(False, f"Not yet. Case {number}, ({shown}): {what}.")


def _short(value: Any) -> str:
    """A value for a sentence: an array longer than a few elements by its shape."""
    if isinstance(value, np.ndarray | list) and np.size(value) > 4:
        return f"array of shape {np.shape(value)}"
    return str(value)
