"""What is wrong with a reader's kernel: the first fault, or the first wrong element and who wrote it."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices import device as base
from minigrad.devices.caches import Cache
from minigrad.devices.device import index_of
from minigrad.devices.hints import hint
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.lab.check.answer import Answer, differing, in_words
from minigrad.lab.check.compare import Pair, largest
from minigrad.microscope import Inspection, Microscope, Problem, watching
from minigrad.op import Case
from minigrad.source import Param

__all__ = ["Fault", "Trial", "attempt", "outcomes"]

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

    def __init__(self, trial: Trial, mine: "Written", values: Mapping[str, int], case: Case, dtype: str):
        self.trial, self.mine, self.values, self.case, self.dtype = trial, mine, values, case, dtype
        self.printed: list[str] = []
        sim: Any = get(check("sim"))
        self.device = sim.using(timeout=PATIENCE, write=self.printed.append)

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
        return said if ("redefinition" in error or "redeclared" in error) and not hint(error) else ""

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


CELL = "cell.cu"  # what messages call the reader's text


class Endless(Exception):
    """A launch took too long: those that come after it would, too."""


class Written(Kernel):
    """A reader's text in place of a kernel. Raises ValueError where it defines no such kernel."""

    def __init__(self, right: Kernel, text: str):
        vars(self).update(vars(right))
        vars(self).pop("parts", None)
        self.source = right.source.with_kernel(text, CELL)
        self.signature = self.source.signature(right.name)
        self._modules, self._plans = Cache(), Cache()
        self.waits = True
        self.numbers: dict[str, int] = {}  # of the last launch; shared by all that `using` makes of this one
        self.launched: set[base.Dim3] = set()  # the blocks that it was launched with; shared, too
        self.printed = False  # whether the reader has seen what it prints
        self.report: Microscope | None = None  # what watches the launches
        if _types(self.signature.params) != _types(right.signature.params):
            ours, yours = (", ".join(map(str, k.signature.params)) for k in (right, self))
            raise ValueError(f"{self.name} must take ({ours}); yours takes ({yours}).")

    def launch(self, *sizes: int, **named: int) -> Launch:
        """Remember the sizes that are not as they are by default, then plan."""
        planned = super().launch(*sizes, **named)
        self.numbers |= {name: size for name, size in planned.sizes.items() if size != self.sizes[name]}
        return planned

    def run(
        self, args: Sequence[Any], grid: base.Dim3, block: base.Dim3, shared: int, values: Mapping[str, int]
    ) -> None:
        """Remember the launch's numbers, then run. Raises Endless where a watched launch had to be stopped."""
        pairs = zip(self.signature.params, args, strict=False)
        self.numbers |= {param.name: arg for param, arg in pairs if param.type == "int" and not param.pointer}
        self.numbers |= values
        self.launched.add(block)
        super().run(args, grid, block, shared, values)
        if self.report and any(problem.kind == "timeout" for problem in self.report.launches[-1].problems):
            raise Endless


def _types(params: Sequence[Param]) -> list[Param]:
    return [param._replace(name="", const=param.const and param.pointer) for param in params]


def attempt(trial: Trial, text: str) -> Answer:
    """Try a reader's text. The answer says that it is right, or what is wrong first, where, and why."""
    try:
        mine = _written(trial.kernel, text)
        for dtype, values in settings(trial):
            for case in trial.cases:
                Run(trial, mine, values, case, dtype).check()
        if not mine.launched:
            raise Fault("unused", f"No case came to {mine.name}, so nothing is known of yours.")
    except Fault as fault:
        known = text.splitlines()
        quoted = [f"\n    line {line}: {known[line - 1].strip()}" for line in fault.lines if fault.kind != "compile"]
        return Answer(False, f"Not yet. {fault}{''.join(quoted)}", fault.kind, next(iter(fault.lines), None))
    except DeviceError as error:  # this machine has no compiler, or no tool that finds lines
        return Answer(False, f"Not yet: {error}", "device")
    return Answer(True, f"Correct. {_tried(trial)}", result=mine)


def settings(trial: Trial) -> list[tuple[str, dict[str, int]]]:
    """Every dtype with the kernel's own values, then every other legal value of each tunable."""
    other = [{key: value} for key, legal in trial.tunables.items() for value in legal[1:]]
    return [*((dtype, {}) for dtype in trial.dtypes), *((trial.dtypes[0], each) for each in other)]


def outcomes(trial: Trial, text: str) -> Iterator[str]:
    """What comes of each case, with the kernel's own block size: the problems, or where there are none the arrays.

    It ends ahead of a launch that had to be stopped: what such a one has done by then, no other need have done.
    """
    mine = _written(trial.kernel, text)
    mine.printed = True
    for case in trial.cases:
        if (outcome := Run(trial, mine, {}, case, trial.dtypes[0]).outcome()) is None:
            return
        yield outcome


def _written(right: Kernel, text: str) -> Written:
    try:
        return Written(right, text)
    except ValueError as error:
        raise Fault("signature", str(error)) from None


def _tried(trial: Trial) -> str:
    """What is known now."""
    blocks = " and ".join(f"{key} = {', '.join(map(str, values))}" for key, values in trial.tunables.items())
    return (
        f"{len(trial.cases)} cases, with {blocks or 'one block size'}: every element is right, every access is "
        "within its array, and no thread gets in another's way."
    )
