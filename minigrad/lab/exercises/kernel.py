"""An exercise whose answer is a kernel. A correct kernel that wastes threads or memory is no pass yet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.errors import require
from minigrad.kernels.kernel import Kernel
from minigrad.lab import show as pictures
from minigrad.lab.check.answer import Answer, SharedRace
from minigrad.lab.check.attempt import (
    ALL_BLOCKS,
    NOT_RUN,
    ReaderKernel,
    attempt,
    drawn,
    observe,
    outcomes,
    race_drawn,
)
from minigrad.lab.check.compare import TOLERANCE, Pair
from minigrad.lab.exercises.as_op import AsOp
from minigrad.lab.exercises.counts import COUNTS, amount, counted, counts, wasted
from minigrad.lab.exercises.exercise import Exercise, bare
from minigrad.microscope import Inspection
from minigrad.op import Case
from minigrad.source import CUDA, Source

ENOUGH = {"accesses": 4, "atomics": 1}  # times the solution's count, in every exercise
THROUGH = {"sectors": 2}  # in one that goes through shared memory
SHARED = ("wavefronts", "shared_reads")  # scores that a picture of banks explains
NOTED = {"accesses": 1.5, "wavefronts": 1.5}  # more is right, but worth a remark
SCORED = 1.1  # times the solution's count, of the one that is the score


class KernelExercise(Exercise):
    """A kernel to write, over `float`. The reader's text runs under the microscope, at every size and block size.

    reference(*arrays) is the truth in NumPy, a tuple for several outputs. arguments(*arrays) gives the shape of each
    output and the value of each scalar, by name; with zeros, outputs are 0 before the launch. An output whose value is
    one of the arrays starts as a copy of it: an update in place. op: the op as which the kernel can run. through names
    shared arrays which the kernel must fill and read, or as many with other names: without them, a correct kernel is no
    pass. grid, block, sizes and tunables are as in Kernel, by default a thread for each of n in blocks of BLOCK; those
    tunables that the solution names are constants. content is that of Exercise.

    A correct kernel is wasteful if one of its counts in the whole grid is more than a multiple of the solution's:
    limits gives the multiple by the name of the count, as in COUNTS, on top of those that hold in every exercise. score
    names the count that the answer compares with the solution's, and with that of the cell as given where that is a
    correct kernel, to be made better; its limit is 1.1 times the solution's. room is the advice where the shared arrays
    are larger than the solution's, which is then no pass. The answer shows the reader's own
    accesses: show(record) makes the picture, by default that of the costliest ones. They stay folded unless they are
    what the exercise is about: with show or through, or with a score beyond a single thread's accesses. hunt: the
    answer to an unchanged bug gives the case that fails and its result, and leaves the cause to the hints. cooperative:
    the blocks may wait for each other.
    """

    python = False
    dtypes: tuple[str, ...] = ("float32",)

    def __init__(
        self,
        notebook: str,
        *,
        reference: Callable,
        arguments: Callable[..., dict[str, Any]],
        inputs: Sequence[tuple],
        sizes: str = "n",
        grid: tuple[str, ...] = (),
        block: tuple[str, ...] = ("BLOCK",),
        zeros: bool = False,
        through: Sequence[str] = (),
        op: AsOp | None = None,
        tunables: Mapping[str, tuple[int, ...]] = MappingProxyType({"BLOCK": (32, 1, 33, 256)}),
        limits: Mapping[str, float] = MappingProxyType({}),
        score: str = "",
        show: Callable[[Inspection], Any] | None = None,
        room: str = "",
        hunt: bool = False,
        cooperative: bool = False,
        **content: Any,
    ):
        super().__init__(notebook, **content)
        self.reference, self.arguments, self.zeros, self.through = reference, arguments, zeros, through
        self.op = op
        self.score, self._show, self._room, self._hunt = score, show, room, hunt
        self._closed = score in ("", "accesses") and not (show or through)
        self.limits = ENOUGH | (THROUGH if through else {}) | ({score: SCORED} if score else {}) | dict(limits)
        if unknown := self.limits.keys() - COUNTS.keys():
            raise ValueError(f"{self.name}: there is no count {min(unknown)!r}; there are {', '.join(COUNTS)}.")
        self.cases: Sequence[Case] = [Case(arrays) for arrays in inputs]
        constants = {key: legal[0] for key, legal in tunables.items() if key in self._solution}
        macros = "".join(f"#ifndef {key}\n#define {key} {value}\n#endif\n" for key, value in constants.items())
        source = Source(self._solution, f"{self.name}.cu", CUDA, Source(macros, "constants"))
        grid = grid or (f"{sizes}/BLOCK",)
        self.kernel = Kernel(source, self.name, grid, block, sizes, None, None, 0, cooperative, **tunables)
        self.tunables = self.kernel.tunables

    def launch(self, kernel: Kernel, *arrays: Array) -> list[Array]:
        """The outputs of a kernel. Arguments go by their position in the solution: a reader may rename them."""
        device, dtype, values = arrays[0].device, arrays[0].dtype, self.arguments(*arrays)
        fill, inputs, outputs = Array.zeros if self.zeros else Array.empty, iter(arrays), dict[str, Array]()
        for name, start in values.items():
            if isinstance(start, tuple):
                outputs[name] = fill(device, start, dtype)
            elif isinstance(start, Array):
                outputs[name] = fill(device, start.shape, start.dtype)
                outputs[name].copy_from(start)
        values |= outputs
        names = [param.name for param in self.kernel.signature.params]
        launch = kernel.launch(*(values[name] for name in self.kernel.sizes))
        launch(*(values[name] if name in values else next(inputs) for name in names))
        return list(outputs.values())

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """Each output with its reference, and each input with its value before the launch."""
        device, hosts = get(check("sim")), case.arrays(dtype)
        arrays = [Array.upload(device, host) for host in hosts]
        inputs = [param.name for param in kernel.signature.params if param.const]
        outputs, truth = self.launch(kernel, *arrays), self.reference(*hosts)
        truth = truth if isinstance(truth, tuple) else (truth,)
        for name, array, wanted in zip(kernel.outputs, outputs, truth, strict=True):
            yield name, array, wanted, TOLERANCE[dtype]
        for name, array, host in zip(inputs, arrays, hosts, strict=False):
            yield f"the input {name}", array, host, 0

    def check(self, text: str, names: Mapping[str, Any] | None = None) -> Answer:
        """Run the text. The answer names the first fault, and the reason where the mistake is known."""
        given = bare(require(self.call, text, str, "the text of the kernel")) == bare(self.skeleton)
        if given and not self.bug and not (self.score and self._given):
            return self._unfinished()
        answer = attempt(self, text)
        if answer.correct:
            answer = self._judged(answer)
        if given and self._hunt and answer.effect:
            return self._explained(Answer(False, f"Not yet. {answer.effect}", answer.kind), None)
        if not answer.correct:
            answer = self._explained(answer, None if given else self._known_mistake(text, answer.kind))
        if answer.kind in NOT_RUN:
            return answer
        view = partial(self._view, text, answer.race)
        return replace(answer, view=view, closed=self._closed and not answer.race)

    def _judged(self, answer: Answer) -> Answer:
        """The answer to a correct kernel: a pass, or no pass where it leaves a shared array unused, or is wasteful."""
        kernel = answer.result
        mine = self._inspected(kernel)
        lines = [line for record in mine for line in record.lines if line.space == "shared"]
        filled, read = ({line.variable for line in lines if line.kind == kind} for kind in ("write", "read"))
        waste = next(iter(wasted(found := counts(mine), self._best, self.limits)), "")
        if len(filled & read) < len(self.through):
            name = next((name for name in self.through if name not in filled & read), self.through[0])
            kind, text = "unused", f"{name} is not used: fill it, wait, and read from it."
        elif self._room and shared_bytes(mine) > shared_bytes(self._inspected(self.kernel)):
            kind, text = "room", f"its shared arrays are larger than they were: {self._room}."
        else:
            kind, text = "wasteful", waste
        score = f"\n{self._scored(found)}" if self.score else ""
        if not text:
            remark = next((f"\nA remark: {waste}" for waste in wasted(found, self._best, NOTED) if not self.score), "")
            return replace(answer, text=f"{answer.text}{score}{remark}")
        right = f"{' and '.join(kernel.outputs)} {'are' if len(kernel.outputs) > 1 else 'is'} right"
        return Answer(False, f"Not yet. {right}, but {text}{score}", kind)

    def _scored(self, mine: Mapping[str, int]) -> str:
        """The score in a sentence."""
        given = f", the cell as given {self._given[self.score]}" if self._given else ""
        score = amount(mine[self.score], COUNTS[self.score].unit)
        return f"Your score: {score}. The solution has {self._best[self.score]}{given}."

    @cached_property
    def _best(self) -> dict[str, int]:
        """The solution's counts."""
        return counts(self._inspected(self.kernel))

    @cached_property
    def _given(self) -> dict[str, int]:
        """The counts of the cell as given; empty where it is no correct kernel."""
        found = attempt(self, self.skeleton)
        return counts(self._inspected(found.result)) if found.correct else {}

    def _outcome(self, text: Any, kind: str) -> Any:
        """The counts of a correct kernel; the results or problems of a wrong one, case by case."""
        if kind in ("wasteful", "unused", "room"):
            return counts(self._inspected(ReaderKernel(self.kernel, text)))
        return list(outcomes(self, text))

    def _inspected(self, kernel: Kernel, blocks: int = ALL_BLOCKS) -> list[Inspection]:
        """The launches of a kernel with the largest block size, in the case with the largest input."""
        return observe(self, kernel, {key: max(legal) for key, legal in kernel.tunables.items()}, blocks)

    def _view(self, text: str, race: SharedRace | None) -> list[Any]:
        """The picture of the race, else of the first block's accesses, and the counts of the whole grid next to those
        of the solution.
        """
        kernel = ReaderKernel(self.kernel, text)
        drawing, launches = race_drawn(self, kernel, race), self._inspected(kernel)
        rows = {"yours": counts(launches), "solution": self._best} | ({"as given": self._given} if self.score else {})
        shown = {name: row for name, row in rows.items() if row}
        picture = self._show or (pictures.banks if self.score in SHARED else None)
        if not drawing:  # the first block may idle
            drawing = drawn(self._inspected(kernel, blocks=1), picture) or drawn(launches, picture)
        return [*drawing, *(counted(shown, record, kernel.numbers) for record in launches[-1:])]


def shared_bytes(launches: Sequence[Inspection]) -> int:
    """The bytes of all shared arrays."""
    found = [variable for record in launches for variable in record.variables.values() if variable.space == "shared"]
    return sum(variable.size * variable.itemsize for variable in found)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Halves from 0.5 to 4.5 of either sign: sums and products are exact, and an answer reads well."""
    rng = np.random.default_rng([*shape, seed])
    return (rng.integers(1, 10, shape) * rng.choice([-0.5, 0.5], shape)).astype(np.float32)
