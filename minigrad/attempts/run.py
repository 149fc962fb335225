"""One run of a reader's kernel: what is wrong first, on which line, and why."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from minigrad.attempts.fault import Difference, Fault, first_wrong, written_by
from minigrad.attempts.written import CELL, Endless, Written
from minigrad.devices import check, get, through
from minigrad.errors import CompileError, KernelError, LaunchError
from minigrad.kernel import Kernel
from minigrad.meant import meant
from minigrad.microscope import Inspection, Problem, watching
from minigrad.op import Case
from minigrad.outcome import Pair

ALL = 2**31 - 1  # blocks
PATIENCE = 5.0  # seconds for a launch: the cases are small, and a loop without end is a common mistake
SOON = 1.0  # and where it is known to be wrong, and is only compared
RIGHT = "every element is right this time.\n"  # where two threads race
WAITS = ("barrier-divergence", "timeout")  # what ends a launch in which many threads wait: no one of them is to blame


class Trial(Protocol):
    """How a kernel is tried: the right one, the cases, and what comes out beside what should.

    Launches in the first of the dtypes are watched.
    """

    kernel: Kernel
    cases: Sequence[Case]
    dtypes: tuple[str, ...]

    @property
    def tunables(self) -> dict[str, tuple[int, ...]]:
        """The values to try, first those that the kernel has by itself."""

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """Run this kernel: (name, what came, what was wanted, tolerance) for each output and each input."""


class Run:
    """One case at one block size."""

    def __init__(self, trial: Trial, mine: Written, values: Mapping[str, int], case: Case, dtype: str):
        self.trial, self.mine, self.values, self.case, self.dtype = trial, mine, values, case, dtype
        self.printed: list[str] = []
        sim: Any = get(check("sim"))
        self.device = sim.using(timeout=PATIENCE, tell=self.printed.append)

    def check(self) -> None:
        """Raise Fault with what is wrong first. A run that was not watched is watched where anything went wrong."""
        watched = self.dtype == self.trial.dtypes[0]
        with through(self.device):
            fault = self._watched() if watched else self._plain()
            if fault and not watched:
                fault = self._watched() or fault
        if fault:
            raise fault

    def _plain(self) -> Fault | None:
        try:
            wrong = first_wrong(self._run())
        except Fault as fault:
            return fault
        return Fault("value", f"{self.place}: {wrong.text}.") if wrong else None

    def _watched(self) -> Fault | None:
        """What the microscope finds, with the value that comes of it; or a wrong value, with who wrote it."""
        pairs, launches = self._watch(0)
        wrong = first_wrong(pairs)
        problem = next((problem for record in launches for problem in record.problems), None)
        if problem:
            if problem.kind == "timeout" and problem.file != CELL:
                problem = self._in_cell(problem)
            return self._problem(problem, f"{wrong.text}.\n" if wrong else RIGHT * (problem.kind == "race"))
        return self._value(wrong) if wrong else None

    def _in_cell(self, problem: Problem) -> Problem:
        """What was stopped in a header's function: without a watch that has been made part of the reader's line."""
        with through(self.device.using(timeout=SOON)):
            fault = self._plain()
        return replace(problem, file=CELL, line=fault.lines[0]) if fault and fault.lines else problem

    def outcome(self) -> str | None:
        """What comes of it, in words that are the same for the same; None where it had to be stopped."""
        try:
            with through(self.device.using(timeout=SOON)):
                pairs, launches = self._watch(0)
        except Fault as fault:
            return fault.kind
        if any(each.kind == "timeout" for record in launches for each in record.problems):
            return None
        problems = {(each.kind, each.variable, each.access) for record in launches for each in record.problems}
        return repr(sorted(map(str, problems)) or [(got.numpy() + 0).tolist() for _, got, *_ in pairs])

    def _run(self) -> list[Pair]:
        self.mine.numbers.clear()
        try:
            return list(self.trial.pairs(self.mine.using(**self.values), self.case, self.dtype))
        except CompileError as error:
            line = re.search(rf"{re.escape(CELL)}\((\d+)\)", str(error))
            text = f"The compiler does not accept it.\n{error}{self._known(str(error))}"
            raise Fault("compile", text, int(line[1]) if line else None) from None
        except LaunchError as error:
            if self._refused():
                return []
            raise Fault("launch", str(error)) from None
        except KernelError as error:
            problem = Problem(
                error.kind, error.reason, error.file or "", error.line, block=error.block, thread=error.thread
            )
            raise self._problem(problem, "") from None
        finally:
            self._show()

    def _show(self) -> None:
        """What a kernel prints is shown for the first launches in which it prints, and not for every case again."""
        if self.printed and not self.mine.printed:
            sys.stdout.write(f"{self.place}:\n{''.join(self.printed)}")
            self.mine.printed = True
        self.printed.clear()

    def _known(self, error: str) -> str:
        """What to say where the text brings along what stands ahead of it already."""
        own = self.trial.kernel.source.name
        said = f"\nAll that is no kernel in {own} stands ahead of your text already: leave it out."
        return said if ("redefinition" in error or "redeclared" in error) and not meant(error) else ""

    def _refused(self) -> bool:
        """Whether the right kernel is not launched either: this case is not for these values."""
        try:
            list(self.trial.pairs(self.trial.kernel.using(**self.values), self.case, self.dtype))
        except LaunchError:
            return True
        return False

    def _watch(self, blocks: int) -> tuple[list[Pair], list[Inspection]]:
        with watching(blocks) as report:
            self.mine.report = report
            try:
                pairs = self._run()
            except Endless:
                pairs = []
            finally:
                self.mine.report = None
        return pairs, report.launches

    @property
    def place(self) -> str:
        """The numbers of the launch, or the shapes where there was none; and another dtype than the usual one."""
        numbers = ", ".join(f"{name}={value}" for name, value in self.mine.numbers.items()) or str(self.case)
        return numbers if self.dtype == self.trial.dtypes[0] else f"{self.dtype}, {numbers}"

    def _problem(self, problem: Problem, came: str) -> Fault:
        """What the microscope has found; a problem that says nothing of its thread is told whose it is."""
        words, other = problem.message, problem.other
        if problem.thread and not other and problem.kind not in WAITS:
            words = f"thread {problem.thread} of block {problem.block}{':' * (not problem.access)} {words}"
        if problem.line and problem.file != CELL:
            words = f"in {problem.file}({problem.line}), {words}"
        words = re.sub("; set the device's timeout[^.]*", "", words)  # the cases are small
        if came:
            words = came + (words if words.startswith(f"{problem.variable} ") else words[0].upper() + words[1:])
        sides = [(problem.file, problem.line), (other.file, other.line) if other else ("", None)]
        return Fault(problem.kind, f"{self.place}: {words}", *(line for file, line in sides if file == CELL))

    def _value(self, wrong: Difference) -> Fault:
        """A wrong element, and who wrote it."""
        what = f"{self.place}: {wrong.text}."
        for record in reversed(self._watch(ALL)[1]):
            variable = record.variables.get(wrong.name)
            if record.kernel == self.mine.name and variable and variable.size == wrong.size:
                return written_by(record, wrong, what)
        return Fault("value", what)
