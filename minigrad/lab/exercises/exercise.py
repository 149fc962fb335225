"""Exercises: a task, a skeleton derived from the solution, hints in steps, known mistakes; answers in Python."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from minigrad.display import Text, folded
from minigrad.lab.check.answer import Answer, answer, arguments_of, raised
from minigrad.source import blank

# `//> text` (in Python `#> text`) begins the reader's part, and `//<` ends it; the skeleton has the text instead.
_REGION = re.compile(r"^([ \t]*)(?://|#)>[ \t]?([^\n]*)\n(.*?)^[ \t]*(?://|#)<[ \t]*\n", re.M | re.S)
_NAME = re.compile(r"(?:__global__ void|^def) (\w+)", re.M)


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
        self.name = found[1] if found else ""
        self.title = self.task.split("**")[1].rstrip(".")  # the first words of the task, in bold
        self.call = f'mg.exercise("{self.name}")'  # as a reader writes it
        self._hinted = 0

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


class PythonExercise(Exercise):
    """A function to write. truth(*case) is the right result, found in another way than the solution's.

    call(function, *case) adapts a function that is not called with a case as it is. content is that of Exercise.
    """

    def __init__(
        self, notebook: str, *, truth: Callable, cases: Sequence[tuple], call: Callable = operator.call, **content: Any
    ):
        super().__init__(notebook, **content)
        self.truth, self.cases, self._call = truth, tuple(cases), call

    def check(self, attempt: str | Callable) -> Answer:
        """Call the function. The answer has the reason where a known mistake gives the same result in every case."""
        try:
            function = self._function(attempt) if isinstance(attempt, str) else attempt
        except Exception as error:  # a reader's text may raise anything while it is defined, and that is the answer
            return Answer(False, f"Not yet. Python says {raised(error)}.", "raised")
        found = answer(partial(self._call, function), self.truth, *self.cases)
        if found.correct:
            return replace(found, result=function)
        if same_code(function, self._function(self.skeleton)):
            return self._unfinished()
        mine = self._outcomes(function)
        known = (wrong for wrong in self.wrong if mine == self._outcomes(self._function(wrong.edit(self._solution))))
        return self._explained(found, next(known, None))

    def _outcomes(self, function: Callable) -> list[str]:
        """The result of every case, or its error."""
        outcomes = []
        for case in self.cases:
            try:
                outcomes.append(repr(np.asarray(self._call(function, *arguments_of(case))).tolist()))
            except Exception as error:  # as above
                outcomes.append(raised(error))
        return outcomes

    def _function(self, text: str) -> Callable:
        names: dict[str, Any] = {"np": np, "mg": import_module("minigrad")}  # the names that notebooks import
        exec(text, names)
        if self.name not in names:
            raise NameError(f"it defines no function {self.name}")
        return names[self.name]


def slopes(f: Callable, a: float, b: float, step: float = 1e-5) -> np.ndarray:
    """Both derivatives of f(a, b) by central differences, a truth that no rule went into."""
    da, db = f(a + step, b) - f(a - step, b), f(a, b + step) - f(a, b - step)
    return np.array([da, db]) / (2 * step)


def same_code(one: Any, other: Any) -> bool:
    """True for equal bytecode: the names of variables and the comments may differ."""
    codes = [function.__code__ for function in (one, other) if hasattr(function, "__code__")]
    return len(codes) == 2 and len({(code.co_code, code.co_names, str(code.co_consts)) for code in codes}) == 1
