"""Try a reader's kernel in all cases, dtypes and block sizes on `sim`, and report its first fault.

Launches run under the microscope, which finds races, undefined values and the thread that wrote a wrong element.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices import device as base
from minigrad.devices.caches import Cache
from minigrad.devices.hints import hint
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError
from minigrad.kernels.extents import index_of
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.lab import show as pictures
from minigrad.lab.check.answer import Answer, SharedRace, differing, in_words
from minigrad.lab.check.compare import Pair, largest
from minigrad.microscope import Inspection, Microscope, Problem, watching
from minigrad.op import Case
from minigrad.simulator.faults import LONGER

CELL = "cell.cu"  # the name of the reader's text in messages
UNWRITTEN = b"\xff\x7f"  # fills unwritten memory, and survives a sum with it; see native/memory.cpp
ALL_BLOCKS = 2**31 - 1
TIMEOUT = 5.0  # seconds a launch: the cases are small, and an endless loop is a common mistake
SHORT_TIMEOUT = 1.0  # seconds a launch that is known to be wrong, or only compared
RIGHT = "every element is right this time.\n"  # of a race without a wrong result
NOT_RUN = ("compile", "signature", "launch", "timeout", "device", "unfinished")  # answers without accesses to show
LOST = ". A comparison with nan is false, and max and min take the other number: let nan through"
# Many threads wait, or are missed, in such a launch, so no single one is to blame.
WAITS = ("barrier-divergence", "missed-barrier", "timeout")


class Trial(Protocol):
    """The right kernel, the cases, and pairs of results with the true ones; launches in the first dtype are watched."""

    kernel: Kernel
    cases: Sequence[Case]
    dtypes: tuple[str, ...]

    @property
    def tunables(self) -> dict[str, tuple[int, ...]]:
        """The values to try; the first are the kernel's defaults."""

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """Run this kernel: (name, result, true result, tolerance) for each output and each input."""


def attempt(trial: Trial, text: str) -> Answer:
    """Try a reader's text. The answer is a pass, or the first fault with its place and cause."""
    try:
        mine = ReaderKernel(trial.kernel, text)
        runs: list[tuple[str, dict[str, int]]] = [(dtype, {}) for dtype in trial.dtypes]
        runs += [(trial.dtypes[0], {key: value}) for key, legal in trial.tunables.items() for value in legal[1:]]
        for dtype, values in runs:
            for case in trial.cases:
                CaseRun(trial, mine, values, case, dtype).check()
        if not mine.launched:
            raise Fault("unused", f"No case launches {mine.name}, so your kernel was not tried.")
    except Fault as fault:
        known = text.splitlines()
        quoted = [f"\n    line {line}: {known[line - 1].strip()}" for line in fault.lines if fault.kind != "compile"]
        line = next(iter(fault.lines), None)
        text = f"Not yet. {fault}{''.join(quoted)}"
        return Answer(False, text, fault.kind, line, effect=fault.effect.rstrip(), race=fault.race)
    except DeviceError as error:  # no compiler, or no tool that finds lines
        return Answer(False, f"Not yet: {error}", "device")
    blocks = " and ".join(f"{key} = {', '.join(map(str, values))}" for key, values in trial.tunables.items())
    tried = f"{len(trial.cases)} cases, with {blocks or 'one block size'}"
    right = "every element is right, every access is within its array, and no thread gets in another's way."
    return Answer(True, f"Correct. {tried}: {right}", result=mine)


def outcomes(trial: Trial, text: str) -> Iterator[str]:
    """The outcome of each case with the default block size: its problems, or without any its arrays.

    Ends before a launch that had to be stopped: its result depends on the time.
    """
    mine = ReaderKernel(trial.kernel, text)
    mine.printed = True
    for case in trial.cases:
        if (outcome := CaseRun(trial, mine, {}, case, trial.dtypes[0]).outcome()) is None:
            return
        yield outcome


def observe(trial: Trial, kernel: Kernel, values: Mapping[str, int], blocks: int = ALL_BLOCKS) -> list[Inspection]:
    """The kernel's launches in the largest case that has any, with the first `blocks` blocks counted. Prints nothing.

    Empty where a launch had to be stopped: its counts depend on the time.
    """
    for case in sorted(trial.cases, key=lambda case: -min(case.arrays(trial.dtypes[0])[0].shape, default=0)):
        if launches := _launches(trial, kernel.using(**values), case, trial.dtypes[0], blocks):
            stopped = any(problem.kind == "timeout" for record in launches for problem in record.problems)
            return [] if stopped else launches
    return []


def _launches(trial: Trial, kernel: Kernel, case: Case, dtype: str, blocks: int) -> list[Inspection]:
    """The kernel's launches in a case, with the first `blocks` blocks counted. Prints nothing."""
    sim: Any = get(check("sim"))
    with through(sim.using(write=str, timeout=TIMEOUT)), watching(blocks) as report:
        list(trial.pairs(kernel, case, dtype))
    return [record for record in report.launches if record.kernel == kernel.name]


def race_drawn(trial: Trial, kernel: Kernel, race: SharedRace | None) -> list[Any]:
    """The picture of the shared array of a race from barrier to barrier, in the launch that has it; else empty."""
    if not race:
        return []
    for record in _launches(trial, kernel.using(**race.values), race.case, race.dtype, race.blocks):
        if any(problem.kind == "race" and problem.variable == race.array for problem in record.problems):
            return [pictures.phases(record, race.array)]
    return []


def drawn(launches: Sequence[Inspection], show: Callable[[Inspection], Any] | None = None) -> list[Any]:
    """The picture of the last launch: what `show` makes of its record, or its costliest accesses, if it has any.

    An attempt may lack the access that `show` is about; then it raises ValueError, and the costliest ones are drawn.
    """
    for record in launches[-1:]:
        try:
            picture = show(record) if show else pictures.costliest(record)
        except ValueError:
            picture = pictures.costliest(record)
        return [picture] if picture is not None else []
    return []


class Fault(Exception):
    """The first error of a reader's kernel, and the lines of the text that cause it.

    effect: the case and its wrong result, which the message begins with. race: of a race on a shared array.
    """

    def __init__(self, kind: str, cause: str, *lines: int | None, effect: str = "", race: SharedRace | None = None):
        super().__init__(f"{effect}{cause}")
        self.kind, self.effect, self.race = kind, effect, race
        self.lines = list(dict.fromkeys(filter(None, lines)))


class Difference(NamedTuple):
    """The first wrong element of an array: its flat index, and the error in words."""

    name: str
    size: int
    element: int
    nan: bool
    undefined: bool  # it holds the pattern of unwritten memory
    text: str


def first_wrong(pairs: Iterable[Pair]) -> Difference | None:
    """The first wrong element of the first wrong array."""
    return next(filter(None, (_difference(*pair) for pair in pairs)), None)


def _difference(name: str, got: Any, wanted: Any, tolerance: float) -> Difference | None:
    if wanted is None:  # the gradient of integers
        return None
    got, wanted = got.numpy(), np.asarray(wanted)
    wrong = differing(got, wanted, tolerance, tolerance * largest(wanted))
    if not len(wrong):
        return None
    at = tuple(wrong[0])
    element = int(np.ravel_multi_index(at, got.shape)) if at else 0
    text = in_words(got, wanted, wrong, name) + LOST * bool(np.isnan(wanted[at]))
    nan, undefined = bool(got[at] != got[at]), got[at].tobytes() == UNWRITTEN * (got.itemsize // len(UNWRITTEN))
    return Difference(name, got.size, element, nan, undefined, text)


def written_by(record: Inspection, wrong: Difference, effect: str) -> Fault:
    """The fault of a wrong element, with the thread and line that wrote it last."""
    seen = record.traffic
    mine = (seen["variable"] == wrong.name) & (seen["kind"] != "read")
    if mine.any():
        start = wrong.element * record.variables[wrong.name].itemsize
        mine &= (seen["offset"] <= start) & (start < seen["offset"] + seen["bytes"])
    if not mine.any():
        return Fault("never-written", " No thread writes it.", effect=effect)
    last = seen[mine][-1]
    line = record.lines[last["site"]]
    thread, block = index_of(int(last["thread"]), record.block), index_of(int(last["block"]), record.grid)
    words = f" Thread {thread} of block {block} writes it."
    if wrong.undefined:
        words += f" It is read before that, and {wrong.name} starts undefined: write with =, or set it to 0 first."
    return Fault("nan" if wrong.nan else "value", words, line.line if line.file == CELL else None, effect=effect)


class Endless(Exception):
    """A launch was stopped, and later ones would be, too."""


class ReaderKernel(Kernel):
    """A kernel from the reader's text, planned and launched as the right one. Raises Fault for another signature.

    numbers, launched and printed are shared by all kernels that `using` makes of this one.
    """

    def __init__(self, right: Kernel, text: str):
        vars(self).update(vars(right))
        vars(self).pop("parts", None)
        self.source = right.source.with_kernel(text, CELL)
        try:
            self.signature = self.source.signature(right.name)
        except ValueError as error:
            raise Fault("signature", str(error)) from None
        self._modules, self._plans = Cache(), Cache()
        self.waits = True
        self.numbers: dict[str, int] = {}  # the integer arguments of the last launch
        self.launched: Counter[base.Dim3] = Counter()  # launches by block size
        self.printed = False  # the reader has seen its output
        self.report: Microscope | None = None  # the microscope of the running launches
        params = right.signature.params, self.signature.params
        ours, yours = ([p._replace(name="", const=p.const and p.pointer) for p in each] for each in params)
        if ours != yours:
            take, takes = (", ".join(map(str, each)) for each in params)
            raise Fault("signature", f"{self.name} must take ({take}); yours takes ({takes}).")

    def launch(self, *sizes: int, **named: int) -> Launch:
        """Record the sizes that differ from their defaults, then plan."""
        planned = super().launch(*sizes, **named)
        self.numbers |= {name: size for name, size in planned.sizes.items() if size != self.sizes[name]}
        return planned

    def run(
        self, args: Sequence[Any], grid: base.Dim3, block: base.Dim3, shared: int, values: Mapping[str, int]
    ) -> None:
        """Record the launch's numbers, then run. Raises Endless if a watched launch was stopped."""
        pairs = zip(self.signature.params, args, strict=False)
        self.numbers |= {param.name: arg for param, arg in pairs if param.type == "int" and not param.pointer}
        self.numbers |= values
        super().run(args, grid, block, shared, values)
        self.launched[block] += 1
        if self.report and any(problem.kind == "timeout" for problem in self.report.launches[-1].problems):
            raise Endless


class CaseRun:
    """One case at one block size."""

    def __init__(self, trial: Trial, mine: ReaderKernel, values: Mapping[str, int], case: Case, dtype: str):
        self.trial, self.mine, self.values, self.case, self.dtype = trial, mine, values, case, dtype
        self.printed: list[str] = []
        sim: Any = get(check("sim"))
        self.device = sim.using(timeout=TIMEOUT, write=self.printed.append)

    def check(self) -> None:
        """Raise the first Fault. A run that failed without the microscope is repeated under it."""
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
        return Fault("value", "", effect=f"{self.place}: {wrong.text}.") if wrong else None

    def _watched(self) -> Fault | None:
        """The microscope's first problem with the wrong value that it causes, or a wrong value and its writer."""
        pairs, launches = self._watch(0)
        wrong = first_wrong(pairs)
        if found := next(((record, problem) for record in launches for problem in record.problems), None):
            record, problem = found
            if problem.kind == "timeout" and problem.file != CELL:
                # a header's function, which is inlined into the reader's line without a watch
                with through(self.device.using(timeout=SHORT_TIMEOUT)):
                    plain = self._plain()
                problem = replace(problem, file=CELL, line=plain.lines[0]) if plain and plain.lines else problem
            result = f"{wrong.text}.\n" if wrong else RIGHT * (problem.kind in ("race", "missed-barrier"))
            return self._problem(problem, result, self._race(record, problem))
        return self._value(wrong) if wrong else None

    def outcome(self) -> str | None:
        """The problems, or without any the arrays, as a string to compare; None for a launch that had to be stopped.

        What nobody has set has the same pattern each time, so the arrays tell of it, whatever the variable's name.
        """
        try:
            with through(self.device.using(timeout=SHORT_TIMEOUT)):
                pairs, launches = self._watch(0)
        except Fault as fault:
            return fault.kind
        if any(each.kind == "timeout" for record in launches for each in record.problems):
            return None
        found = [each for record in launches for each in record.problems if each.kind != "uninitialised"]
        problems = {(each.kind, each.variable, each.access, (each.element or 0) < 0) for each in found}
        return repr(sorted(map(str, problems)) or [(got.numpy() + 0).tolist() for _, got, *_ in pairs])

    def _run(self) -> list[Pair]:
        self.mine.numbers.clear()
        try:
            return list(self.trial.pairs(self.mine.using(**self.values), self.case, self.dtype))
        except CompileError as error:
            line = re.search(rf"{re.escape(CELL)}\((\d+)\)", str(error))
            text = f"The compiler does not accept it.\n{error}"
            if re.search("redefinition|redeclared", text) and not hint(str(error)):
                own = self.trial.kernel.source.name
                text += f"\nEverything in {own} except its kernels stands before your text already: leave it out."
            raise Fault("compile", text, int(line[1]) if line else None) from None
        except LaunchError as error:
            if self._rejected():
                return []
            raise Fault("launch", str(error)) from None
        except KernelError as error:
            problem = Problem(error.kind, error.reason, error.file or "", error.line)
            raise self._problem(replace(problem, block=error.block, thread=error.thread), "") from None
        finally:
            if self.printed and not self.mine.printed:  # for the first case that prints, not for every case
                sys.stdout.write(f"{self.place}:\n{''.join(self.printed)}")
                self.mine.printed = True
            self.printed.clear()

    def _rejected(self) -> bool:
        """True if the right kernel cannot be launched with these values either."""
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
        """The integer arguments of the launch, or the shapes if there was none; the dtype unless it is the first."""
        numbers = ", ".join(f"{name}={value}" for name, value in self.mine.numbers.items()) or str(self.case)
        return numbers if self.dtype == self.trial.dtypes[0] else f"{self.dtype}, {numbers}"

    def _race(self, record: Inspection, problem: Problem) -> SharedRace | None:
        """The race on a shared array that the problem is."""
        variable = record.variables.get(problem.variable or "")
        if problem.kind != "race" or not problem.block or not variable or variable.space != "shared":
            return None
        (x, y, z), (columns, rows, _) = problem.block, record.grid
        blocks = x + columns * (y + rows * z) + 1
        return SharedRace(variable.name, blocks, self.values, self.case, self.dtype)

    def _problem(self, problem: Problem, result: str, race: SharedRace | None = None) -> Fault:
        """The fault of a problem that the microscope found, with thread and file where its message lacks them."""
        words, other = problem.message, problem.other
        if problem.thread and not other and problem.kind not in WAITS:
            words = f"thread {problem.thread} of block {problem.block}{':' * (not problem.access)} {words}"
        if problem.line and problem.file != CELL:
            words = f"in {problem.file}({problem.line}), {words}"
        words = words.replace(f"; {LONGER}", ".")  # the cases are small
        if result and not words.startswith(f"{problem.variable} "):
            words = words[0].upper() + words[1:]
        sides = [(problem.file, problem.line), (other.file, other.line) if other else ("", None)]
        lines = (line for file, line in sides if file == CELL)
        return Fault(problem.kind, words, *lines, effect=f"{self.place}: {result}", race=race)

    def _value(self, wrong: Difference) -> Fault:
        effect = f"{self.place}: {wrong.text}."
        for record in reversed(self._watch(ALL_BLOCKS)[1]):
            variable = record.variables.get(wrong.name)
            if record.kernel == self.mine.name and variable and variable.size == wrong.size:
                return written_by(record, wrong, effect)
        return Fault("value", "", effect=effect)
