"""An exercise whose answer is a Python function."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from minigrad.lab.check.answer import Answer, answer, arguments_of, raised
from minigrad.lab.exercises.exercise import Exercise


class PythonExercise(Exercise):
    """A function to write. truth(*case) is the right result, found in another way than the solution's.

    call(function, *case) adapts a function that is not called with a case as it is. content is that of Exercise.
    """

    def __init__(
        self,
        notebook: str,
        *,
        truth: Callable,
        cases: Sequence[tuple],
        call: Callable = lambda function, *case: function(*case),
        **content: Any,
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


def same_code(one: Any, other: Any) -> bool:
    """True for equal bytecode: the names of variables and the comments may differ."""
    codes = [function.__code__ for function in (one, other) if hasattr(function, "__code__")]
    return len(codes) == 2 and len({(code.co_code, code.co_names, str(code.co_consts)) for code in codes}) == 1
