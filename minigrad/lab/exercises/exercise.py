"""The base of all exercises: a task, a skeleton derived from the solution, hints in steps, and known mistakes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minigrad.display import Text, folded
from minigrad.lab.check.answer import Answer
from minigrad.source import blank

# `//> text` (in Python `#> text`) begins the reader's part, and `//<` ends it; the skeleton has the text instead.
_REGION = re.compile(r"^([ \t]*)(?://|#)>[ \t]?([^\n]*)\n(.*?)^[ \t]*(?://|#)<[ \t]*\n", re.M | re.S)
_NAME = re.compile(r"__global__ void (\w+)|^def (\w+)", re.M)


@dataclass(frozen=True)
class Wrong:
    """A wrong version: the solution with `old` replaced by `new`, the kind of the answer to it, and its explanation."""

    old: str
    new: str
    kind: str
    why: str

    def edit(self, solution: str) -> str:
        """The wrong version. Raises ValueError unless `old` occurs once in the solution."""
        if solution.count(self.old) != 1:
            raise ValueError(f"{self.old!r} occurs {solution.count(self.old)} times in the solution; it must be once.")
        return solution.replace(self.old, self.new)

    def resembles(self, text: str) -> bool:
        """True if the text has this mistake, with any spacing and comments."""
        text, old, new = map(bare, (text, self.old, self.new))
        return new in text and (old not in text or old in new)


def bare(text: str) -> str:
    """The text without spaces, comments and the insides of strings."""
    return re.sub(r"\s", "", blank(text))


class Exercise:
    """A task with its solution, the text in which markers enclose the reader's part."""

    def __init__(self, notebook: str, *, task: str, solution: str, hints: Sequence[str], wrong: Sequence[Wrong]):
        self.notebook, self.task, self.hints, self.wrong = notebook, task.strip(), tuple(hints), tuple(wrong)
        self.skeleton = Text(_REGION.sub(r"\1\2\n", solution.lstrip("\n")))
        self._solution = Text(_REGION.sub(r"\3", solution.lstrip("\n")))
        found = _NAME.search(self._solution)
        self.name = (found[1] or found[2]) if found else ""
        self._hinted = 0

    @property
    def title(self) -> str:
        """The first words of the task, in bold."""
        return self.task.split("**")[1].rstrip(".")

    @property
    def call(self) -> str:
        """The reader's call for this exercise."""
        return f'mg.exercise("{self.name}")'

    def hint(self) -> Text:
        """The next hint; after the last one, the way to the solution."""
        if self._hinted == len(self.hints):
            return Text(f"That was the last hint. {self.call}.solution() shows one way to write it.")
        self._hinted += 1
        return Text(folded(f"Hint {self._hinted} of {len(self.hints)}: {self.hints[self._hinted - 1]}"))

    def solution(self) -> Text:
        """One way to write it."""
        return self._solution

    def check(self, attempt: Any) -> Answer:
        """The answer to an attempt: the text, or for an exercise in Python the function."""
        raise NotImplementedError

    def _unfinished(self) -> Answer:
        text = f"Not yet: the marked lines are still to be written. A first hint: {self.call}.hint()"
        return Answer(False, text, "unfinished")

    def _explained(self, answer: Answer, mistake: Wrong | None) -> Answer:
        """The answer with the explanation of a known mistake and the way to a hint."""
        why = f"\n{mistake.why}" if mistake else ""
        return replace(answer, text=f"{answer.text}{why}\nA hint: {self.call}.hint()")

    def __repr__(self) -> str:
        return f"{self.task}\n\n%%exercise {self.name}\n{self.skeleton}"

    def _repr_markdown_(self) -> str:
        ways = f"`{self.call}` has `.skeleton` to start from, `.hint()` for the next of {len(self.hints)} hints"
        return f"{self.task}\n\n{ways}, and `.solution()`."
