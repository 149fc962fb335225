"""An exercise whose answer is a Python function."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.lab.check.answer import Answer, answer, arguments_of, raised
from minigrad.lab.exercises.exercise import Exercise, Wrong


class PythonExercise(Exercise):
    """A function to write. truth says what it should return, found in another way than the solution's.

    A function that is not called with a case as it is comes with call(function, *case), which says how.
    """

    def __init__(
        self,
        notebook: str,
        *,
        task: str,
        solution: str,
        hints: Sequence[str],
        wrong: Sequence[Wrong],
        truth: Callable,
        cases: Sequence[tuple],
        call: Callable = lambda function, *case: function(*case),
    ):
        super().__init__(notebook, task, solution, hints, wrong)
        self.truth, self.cases, self._call = truth, tuple(cases), call

    def check(self, given: str | Callable) -> Answer:
        """Call the function. A mistake that gives what a known one gives in every case is answered with its reason."""
        try:
            function = self._function(given) if isinstance(given, str) else given
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
        """What comes of every case, the errors too."""
        outcomes = []
        for case in self.cases:
            try:
                outcomes.append(repr(np.asarray(self._call(function, *arguments_of(case))).tolist()))
            except Exception as error:  # as above
                outcomes.append(raised(error))
        return outcomes

    def _function(self, text: str) -> Callable:
        names: dict[str, Any] = {"np": np, "mg": mg}
        exec(text, names)
        if self.name not in names:
            raise NameError(f"it defines no function {self.name}")
        return names[self.name]


def same_code(one: Any, other: Any) -> bool:
    """Whether two functions do the same, step by step; their names for things and their comments may differ."""
    codes = [function.__code__ for function in (one, other) if hasattr(function, "__code__")]
    return len(codes) == 2 and len({(code.co_code, code.co_names, str(code.co_consts)) for code in codes}) == 1
