"""Exercises: a task, a skeleton derived from the solution, hints in steps, known mistakes; answers in Python."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import CodeType
from typing import Any

import numpy as np

from minigrad.display import Text, folded
from minigrad.lab.check.answer import RAISED, Answer, answer, arguments_of, raised
from minigrad.scan import blank

# `//> text` (in Python `#> text`) begins the reader's part, and `//<` ends it; the skeleton has the text instead, which
# may be several such lines. A single `//>` without text leaves no line.
_REGION = re.compile(r"((?:^[ \t]*(?://|#)>[^\n]*\n)+)(.*?)^[ \t]*(?://|#)<[ \t]*\n", re.M | re.S)
_MARK = re.compile(r"^([ \t]*)(?://|#)>[ \t]?(.*)$", re.M)
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

    def resembles(self, text: str, python: bool = False) -> bool:
        """True if the text has this mistake, with any spacing and comments."""
        text, old, new = (bare(each, python) for each in (text, self.old, self.new))
        return new in text and (old not in text or old in new)


def _given(region: re.Match) -> str:
    """The lines of a region in the skeleton, as far to the right as the marks and their texts."""
    lines = [f"{indent}{text}".rstrip() for indent, text in _MARK.findall(region[1])]
    return "\n".join(lines) + "\n" if any(lines) else ""


def bare(text: str, python: bool = False) -> str:
    """The text without spaces and comments, and in C++ without the insides of strings."""
    return re.sub(r"\s", "", re.sub(r"#[^\n]*", "", text) if python else blank(text))


class Exercise:
    """A task with its solution, the text in which markers enclose the reader's part.

    bug: the skeleton is complete and wrong, and the reader mends it. Checked unchanged it is answered as any attempt,
    but without the sentence of a known mistake; the hunt of a KernelExercise keeps the cause back as well. slow: an
    attempt takes seconds, so a known mistake is recognized by its text, and wrong versions are not run to compare.
    """

    python = True  # the language of the texts; else CUDA C++
    becomes = "yours"  # in a notebook, the variable of this name after a pass

    def __init__(
        self, notebook: str, name: str = "", *, task: str, solution: str, hints: Sequence[str], wrong: Sequence[Wrong],
        bug: bool = False, slow: bool = False,
    ):  # fmt: skip
        self.notebook, self.task, self.hints, self.wrong = notebook, task.strip(), tuple(hints), tuple(wrong)
        self.skeleton = Text(_REGION.sub(_given, solution.lstrip("\n")))
        self._solution = Text(_REGION.sub(r"\2", solution.lstrip("\n")))
        self.bug, self.slow = bug, slow
        found = _NAME.search(self._solution)
        self.name = name or (found[1] if found else "")
        self.title = self.task.split("**")[1].rstrip(".")  # the first words of the task, in bold
        self.call = f'mg.exercise("{self.name}")'  # as a reader writes it
        self._hinted = 0
        self._shown = False
        self._outcomes: dict[str, Any] = {}  # of wrong versions

    def hint(self) -> Text:
        """The next hint; after the last one, the way to the solution."""
        if self._hinted == len(self.hints):
            return Text(f"That was the last hint. {self.call}.solution() shows one way to write it.")
        self._hinted += 1
        return Text(folded(f"Hint {self._hinted} of {len(self.hints)}: {self.hints[self._hinted - 1]}"))

    def solution(self) -> Text:
        """One way to write it."""
        self._shown = True
        return self._solution

    @property
    def help(self) -> tuple[int, bool]:
        """The hints given since this module was loaded, and whether the solution was shown."""
        return self._hinted, self._shown

    def check(self, attempt: Any, names: Mapping[str, Any] | None = None) -> Answer:
        """The answer to an attempt: the text, or for an exercise in Python the function.

        names: the variables that a text in Python may use, beyond `np` and `mg`.
        """
        raise NotImplementedError

    def _unfinished(self, missing: str = "the marked lines are still to be written.") -> Answer:
        return Answer(False, f"Not yet: {missing} A first hint: {self.call}.hint()", "unfinished")

    def _known_mistake(self, text: str, kind: str, function: Callable | None = None) -> Wrong | None:
        """The known mistake that this text is; else one with the same outcome, alone or resembled by the text.

        function: what the text has defined, in Python; the text may be empty.
        """
        versions = {wrong.edit(self._solution): wrong for wrong in self.wrong if wrong.kind == kind}
        if text in versions:
            return versions[text]
        alike = {version: wrong for version, wrong in versions.items() if text and wrong.resembles(text, self.python)}
        if self.slow:
            return next(iter(alike.values()), None)
        if not versions or not (mine := self._outcome(function or text, kind)):
            return None
        found = (wrong for version, wrong in alike.items() if self._known_outcome(version, kind) == mine)
        if first := next(found, None):
            return first
        same = [wrong for version, wrong in versions.items() if self._known_outcome(version, kind) == mine]
        return next(iter(same[: len(same) == 1]), None)

    def _known_outcome(self, version: str, kind: str) -> Any:
        """The outcome of a wrong version, which is kept."""
        if version not in self._outcomes:
            self._outcomes[version] = self._outcome(version, kind)
        return self._outcomes[version]

    def _outcome(self, attempt: Any, kind: str) -> Any:
        """The result of an attempt in all cases, to compare; empty where it depends on the time."""
        raise NotImplementedError

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

    call(function, *case) adapts a function that is not called with a case as it is, and may raise Refused. given names
    the numbers of a case, and parts those of the result, in an answer. score is the sentence that ends the answer to a
    right one. content is that of Exercise.
    """

    def __init__(
        self, notebook: str, *, truth: Callable, cases: Sequence[tuple], call: Callable = operator.call,
        score: str = "", given: Sequence[str] = (), parts: Sequence[str] = (), **content: Any,
    ):  # fmt: skip
        super().__init__(notebook, **content)
        self.truth, self.cases, self._call, self._score = truth, tuple(cases), call, score
        self._given, self._parts = given, parts

    def check(self, attempt: str | Callable, names: Mapping[str, Any] | None = None) -> Answer:
        """Call the function. The answer has the reason where a known mistake gives the same result in every case."""
        try:
            function = self._function(attempt, names) if isinstance(attempt, str) else attempt
        except RAISED as error:  # a reader's text may raise anything, and that is the answer
            return Answer(False, f"Not yet. Python says {raised(error)}.", "raised")
        found = answer(partial(self._call, function), self.truth, *self.cases, given=self._given, parts=self._parts)
        if found.correct:
            return replace(found, text=f"{found.text} {self._score}".rstrip(), result=function)
        if same_code(function, self._function(self.skeleton)):
            return self._explained(found, None) if self.bug else self._unfinished()
        mistake = self._known_mistake(attempt if isinstance(attempt, str) else "", found.kind, function)
        return self._explained(found, mistake)

    def _outcome(self, attempt: Any, kind: str) -> list[str]:
        """The result of every case, or its error."""
        function, outcomes = self._function(attempt) if isinstance(attempt, str) else attempt, []
        for case in self.cases:
            try:
                outcomes.append(repr(np.asarray(self._call(function, *arguments_of(case))).tolist()))
            except RAISED as error:  # as above
                outcomes.append(raised(error))
        return outcomes

    def _function(self, text: str, names: Mapping[str, Any] | None = None) -> Callable:
        defined = executed(text, {key: value for key, value in (names or {}).items() if key != self.name})
        if self.name not in defined:
            raise NameError(f"it defines no function {self.name}")
        return defined[self.name]


def executed(text: str, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The variables after the text has been run with these, and with the names that notebooks import."""
    defined = {**(names or {}), "np": np, "mg": import_module("minigrad")}
    exec(text, defined)
    return defined


def slopes(f: Callable, a: float, b: float, step: float = 1e-5) -> np.ndarray:
    """Both derivatives of f(a, b) by central differences, a truth that no rule went into."""
    da, db = f(a + step, b) - f(a - step, b), f(a, b + step) - f(a, b - step)
    return np.array([da, db]) / (2 * step)


def same_code(one: Any, other: Any) -> bool:
    """True for equal bytecode: the names of variables and the comments may differ."""
    codes = [function.__code__ for function in (one, other) if hasattr(function, "__code__")]
    return len(codes) == 2 and len(set(map(_content, codes))) == 1


def _content(code: CodeType) -> tuple:
    """The bytecode of a function, its names and constants, and the content of the functions within it."""
    inner = (_content(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return code.co_code, code.co_names, *inner
