"""An exercise whose answer is a kernel."""

from collections.abc import Callable, Iterator, Sequence
from operator import eq
from typing import Any

import numpy as np

from minigrad.answer import Answer
from minigrad.array import Array
from minigrad.attempts import attempt, outcomes
from minigrad.devices import check, get, through
from minigrad.kernel import Kernel
from minigrad.microscope import watching
from minigrad.microscope.lines import Line
from minigrad.op import Case
from minigrad.outcome import TOLERANCE, Pair
from minigrad.require import a
from minigrad.source import CUDA, Source
from minigrad.workbook.exercise import Exercise, Wrong, bare


class KernelExercise(Exercise):
    """A kernel to write, over `float`. The reader's text is tried under the microscope, at every size and block size.

    reference(*arrays) is the truth in NumPy; launch(kernel, *arrays) runs the kernel on arrays of a device and returns
    its output. through names shared arrays which the kernel must fill and read, or as many with other names, for what
    it writes is right without.
    grid, block, sizes and tunables are as in Kernel; those tunables that the solution names are constants.
    """

    dtypes: tuple[str, ...] = ("float32",)

    def __init__(
        self,
        notebook: str,
        *,
        task: str,
        solution: str,
        hints: Sequence[str],
        wrong: Sequence[Wrong],
        reference: Callable,
        launch: Callable,
        inputs: Sequence[tuple],
        grid: tuple[str, ...],
        block: tuple[str, ...],
        sizes: str,
        through: Sequence[str] = (),
        **tunables: tuple[int, ...],
    ):
        super().__init__(notebook, task, solution, hints, wrong)
        self.reference, self.launch, self.through = reference, launch, through
        self.cases: Sequence[Case] = [Case(arrays) for arrays in inputs]
        constants = {key: legal[0] for key, legal in tunables.items() if key in self._solution}
        macros = "".join(f"#ifndef {key}\n#define {key} {value}\n#endif\n" for key, value in constants.items())
        source = Source(self._solution, f"{self.name}.cu", CUDA, Source(macros, "constants"))
        self.kernel = Kernel(source, self.name, grid, block, sizes, None, None, 0, **tunables)
        self.tunables = self.kernel.tunables

    def pairs(self, kernel: Kernel, case: Case, dtype: str) -> Iterator[Pair]:
        """The kernel's output beside the reference's, and the inputs beside what they were."""
        device, hosts = get(check("sim")), case.arrays(dtype)
        arrays = [Array.upload(device, host) for host in hosts]
        inputs = [param.name for param in kernel.signature.params if param.const]
        yield kernel.outputs[0], self.launch(kernel, *arrays), self.reference(*hosts), TOLERANCE[dtype]
        for name, array, host in zip(inputs, arrays, hosts, strict=False):
            yield f"the input {name}", array, host, 0

    def check(self, given: str) -> Answer:
        """Try the text. The answer says what is wrong first; a mistake that is well known, with the reason."""
        if bare(a(self.call, given, str, "the text of the kernel")) == bare(self.skeleton):
            return self._unfinished()
        found = attempt(self, given)
        if found.correct:
            return self._unused(found.result) or found
        return self._explained(found, self._known(given, found.kind))

    def _known(self, given: str, kind: str) -> Wrong | None:
        """The known mistake that does what this text does; where several do, the one that it is written like."""
        alike = [wrong for wrong in self.wrong if wrong.kind == kind]
        if not alike:
            return None
        mine = list(outcomes(self, given))
        same = [wrong for wrong in alike if all(map(eq, mine, outcomes(self, wrong.edit(self._solution))))]
        written = [wrong for wrong in same if wrong.resembles(given)]
        return next(iter(written or same[: len(same) == 1]), None)

    def _unused(self, kernel: Kernel) -> Answer | None:
        """The answer to a kernel that leaves out a shared array which the exercise is about, or its use."""
        lines = self._lines(kernel)
        filled, used = (
            {line.variable for line in lines if line.space == "shared" and line.kind == kind}
            for kind in ("write", "read")
        )
        right = f"Not yet. {kernel.outputs[0]} is right, but"
        if len(filled & used) < len(self.through):
            name = next((name for name in self.through if name not in filled & used), self.through[0])
            text = f"{right} {name} is not used: fill it, wait, and read from it."
            return self._explained(Answer(False, text, "unused"), None)
        taken, enough = _sectors(lines), _sectors(self._lines(self.kernel))
        if self.through and taken > 2 * enough:
            text = (
                f"{right} it moves {taken} sectors of global memory, where {enough} are enough: let neighbouring "
                "threads read and write neighbours, and leave the rest to shared memory."
            )
            return self._explained(Answer(False, text, "unused"), None)
        return None

    def _lines(self, kernel: Kernel) -> list[Line]:
        """The accesses of a kernel in its largest block, in the case with the largest input."""
        largest = max(self.cases, key=lambda case: min(case.inputs[0].shape))
        sim: Any = get(check("sim"))
        with through(sim.using(tell=str)), watching(blocks=1) as report:  # what it prints has been shown
            list(
                self.pairs(
                    kernel.using(**{key: max(legal) for key, legal in kernel.tunables.items()}), largest, "float32"
                )
            )
        return [line for record in report.launches for line in record.lines]


def _sectors(lines: Sequence[Line]) -> int:
    return sum(line.sectors for line in lines if line.space == "global")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Halves from 0.5 to 4.5 of either sign: sums and products are exact, and an answer reads well."""
    rng = np.random.default_rng([*shape, seed])
    return (rng.integers(1, 10, shape) * rng.choice([-0.5, 0.5], shape)).astype(np.float32)
