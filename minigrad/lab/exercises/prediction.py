"""An exercise that asks for numbers before they are measured."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from minigrad.errors import require
from minigrad.lab.check.answer import RAISED, Answer, raised
from minigrad.lab.check.attempt import drawn
from minigrad.lab.exercises.counts import counted, counts
from minigrad.lab.exercises.exercise import Exercise, executed
from minigrad.microscope import Inspection

WORDS = str | bool | np.bool  # what may be predicted besides numbers


class Prediction(Exercise):
    """Numbers to predict, as variables of a cell in which `...` stands for each of them.

    run() gives the record that is measured, at the first check with numbers; truth(record) the right numbers by
    name. They may be whole numbers, which are exact, fractions, right within 1/1000, texts or truth values; rtol is
    another relative error for all numbers. source says how the numbers were found.
    show(record) makes the picture of the answer, by default that of the costliest accesses of a record of
    `mg.inspect`. content is that of Exercise.
    """

    def __init__(
        self, notebook: str, name: str, *, run: Callable[[], Any], truth: Callable[[Any], Mapping[str, Any]],
        rtol: float | None = None, show: Callable[[Any], Any] | None = None, source: str = "Measured", **content: Any,
    ):  # fmt: skip
        super().__init__(notebook, name, **content)
        self._run, self._truth, self.rtol, self._show, self._source = run, truth, rtol, show, source
        self.becomes = f"what was {source.lower()}"

    @cached_property
    def record(self) -> Any:
        """The result of the run."""
        return self._run()

    @cached_property
    def truth(self) -> Mapping[str, Any]:
        """The right numbers by name."""
        return self._truth(self.record)

    def check(self, text: str, names: Mapping[str, Any] | None = None) -> Answer:
        """Compare the numbers that the text sets with the measured ones. The answer shows the run."""
        asked = [name for name, value in executed(self.skeleton).items() if value is ...]
        given = {name: value for name, value in (names or {}).items() if name not in asked}
        try:
            mine = executed(require(self.call, text, str, "the text of the cell"), given)
        except RAISED as error:  # a reader's text may raise anything, and that is the answer
            return self._explained(Answer(False, f"Not yet. Python says {raised(error)}.", "raised"), None)
        missing = [name for name in asked if mine.get(name, ...) is ...]
        if missing:
            return self._unfinished(f"put a number in place of the dots of {' and '.join(missing)}.")
        wrong = [name for name, right in self.truth.items() if not self._agree(mine[name], right)]
        if not wrong:
            found = ", ".join(f"{name} = {in_digits(right)}" for name, right in self.truth.items())
            return Answer(True, f"Correct. {self._source}: {found}.", result=self.record, view=self._view)
        said = [f"`{name}` is {in_digits(self.truth[name])}; you predicted {in_digits(mine[name])}." for name in wrong]
        said += [f"`{name}` is right." for name in self.truth if name not in wrong]
        text = "\n".join([f"Not yet. {' '.join(said)}", *self._reasons(mine, wrong)])
        return self._explained(Answer(False, text, "value", view=self._view), None)

    def _agree(self, mine: Any, right: Any) -> bool:
        if not is_number(right):
            return same(mine, right)
        rtol = self.rtol or (1e-9 if float(right).is_integer() else 1e-3)
        return is_number(mine) and bool(np.isclose(mine, right, rtol=rtol, atol=0))

    def _reasons(self, mine: Mapping[str, Any], wrong: Sequence[str]) -> list[str]:
        """The explanation of each known mistake whose wrong numbers are among the reader's."""
        right, found = executed(self._solution), []
        for version in self.wrong:
            theirs = executed(version.edit(self._solution))
            changed = [name for name in self.truth if theirs[name] != right[name]]
            if changed and set(changed) <= set(wrong) and all(same(mine[name], theirs[name]) for name in changed):
                found.append(version.why)
        return found

    def _view(self) -> list[Any]:
        record = self.record
        if not isinstance(record, Inspection):
            return [self._show(record)] if self._show else []
        return [*drawn([record], self._show), counted({"count": counts([record])}, record, {})]


def is_number(value: Any) -> bool:
    """True for a number that can be compared with a measured one; a whole number of over 64 bits cannot."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() <= 64
    return isinstance(value, float | np.number)


def same(one: Any, other: Any) -> bool:
    """True for equal numbers, of any type, and for equal texts and truth values."""
    if is_number(one) and is_number(other):
        return bool(np.isclose(one, other))
    return isinstance(one, WORDS) and isinstance(other, WORDS) and one == other


def in_digits(value: Any) -> str:
    """A value in a sentence: a number with six digits, a text in quotes."""
    if isinstance(value, WORDS):
        return repr(value)
    if is_number(value):
        return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    return f"a whole number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
