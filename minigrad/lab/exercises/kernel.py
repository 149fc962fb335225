"""What a right kernel spends in vain: it is no answer yet to an exercise about spending less."""

from collections.abc import Callable, Iterator, Sequence
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.errors import a
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.answer import Answer
from minigrad.lab.check.attempt import attempt, outcomes
from minigrad.lab.check.compare import TOLERANCE, Pair
from minigrad.lab.exercises.exercise import Exercise, Wrong, bare
from minigrad.microscope import Inspection, watching
from minigrad.op import Case
from minigrad.source import CUDA, Source


class Cost(NamedTuple):
    """Something to count in launches, how many times what the solution takes is too much, and what to say then."""

    count: Callable[[Sequence[Inspection]], int]
    times: int
    words: str  # with places for what was taken, and for what is enough


def _by_one_thread(launches: Sequence[Inspection]) -> int:
    return max((sum(record.per_thread.values()) for record in launches), default=0)


def _atomics(launches: Sequence[Inspection]) -> int:
    return sum(int((record.traffic["kind"] == "atomic").sum()) for record in launches)


def _sectors(launches: Sequence[Inspection]) -> int:
    return sum(line.sectors for record in launches for line in record.lines if line.space == "global")


ALONE = Cost(
    _by_one_thread, 4,
    "one of its threads makes {} accesses to memory, where {} are enough: let every thread do a share of its own.",
)  # fmt: skip
ATOMICS = Cost(_atomics, 1, "it makes {} atomic operations, which wait for each other, where {} are needed.")
SECTORS = Cost(
    _sectors, 2,
    "it moves {} sectors of global memory, where {} are enough: let neighbouring threads read and write neighbours, "
    "and leave the rest to shared memory.",
)  # fmt: skip


def wasted(costs: Sequence[Cost], mine: Sequence[Inspection], best: Sequence[Inspection]) -> str | None:
    """What the launches spend far beyond the best ones, in words to go on with; the first of the costs that is."""
    for cost in costs:
        taken, enough = cost.count(mine), cost.count(best)
        if taken > cost.times * enough:
            return cost.words.format(taken, enough or "none")
    return None


class KernelExercise(Exercise):
    """A kernel to write, over `float`. The reader's text is tried under the microscope, at every size and block size.

    reference(*arrays) is the truth in NumPy; launch(kernel, *arrays) runs the kernel on arrays of a device and returns
    its output; both return a tuple where there are several. through names shared arrays which the kernel must fill and
    read, or as many with other names, for what it writes is right without.
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
        found, truth = map(_several, (self.launch(kernel, *arrays), self.reference(*hosts)))
        for output, got, wanted in zip(kernel.outputs, found, truth, strict=True):
            yield output, got, wanted, TOLERANCE[dtype]
        for name, array, host in zip(inputs, arrays, hosts, strict=False):
            yield f"the input {name}", array, host, 0

    def check(self, given: str) -> Answer:
        """Try the text. The answer says what is wrong first; a mistake that is well known, with the reason."""
        if bare(a(self.call, given, str, "the text of the kernel")) == bare(self.skeleton):
            return self._unfinished()
        found = attempt(self, given)
        if found.correct:
            return self._besides(found.result) or found
        return self._explained(found, self._known(given, found.kind))

    def _known(self, given: str, kind: str) -> Wrong | None:
        """The known mistake that does what this text does; where several do, the one that it is written like."""
        alike = [wrong for wrong in self.wrong if wrong.kind == kind]
        if not alike:
            return None
        mine = list(outcomes(self, given))
        if not mine:
            return None
        same = [wrong for wrong in alike if all(map(eq, mine, outcomes(self, wrong.edit(self._solution))))]
        written = [wrong for wrong in same if wrong.resembles(given)]
        return next(iter(written or same[: len(same) == 1]), None)

    def _besides(self, kernel: Kernel) -> Answer | None:
        """The answer to a right kernel that leaves out what the exercise is about: a shared array, or a thrifty way."""
        mine, best = self._watched(kernel), self._watched(self.kernel)
        lines = [line for record in mine for line in record.lines if line.space == "shared"]
        filled, used = ({line.variable for line in lines if line.kind == kind} for kind in ("write", "read"))
        if len(filled & used) < len(self.through):
            name = next((name for name in self.through if name not in filled & used), self.through[0])
            kind, words = "unused", f"{name} is not used: fill it, wait, and read from it."
        elif found := wasted([ALONE, ATOMICS, *[SECTORS] * bool(self.through)], mine, best):
            kind, words = "wasteful", found
        else:
            return None
        right = f"{' and '.join(kernel.outputs)} {'are' if len(kernel.outputs) > 1 else 'is'} right"
        return self._explained(Answer(False, f"Not yet. {right}, but {words}", kind), None)

    def _watched(self, kernel: Kernel) -> list[Inspection]:
        """What a kernel does in its first block, the largest that there is, in the case with the largest input."""
        largest = max(self.cases, key=lambda case: min(case.inputs[0].shape))
        blocks = {key: max(legal) for key, legal in kernel.tunables.items()}
        sim: Any = get(check("sim"))
        with through(sim.using(write=str)), watching(blocks=1) as report:  # what it prints has been shown
            list(self.pairs(kernel.using(**blocks), largest, "float32"))
        return report.launches


def _several(outputs: Any) -> tuple:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Halves from 0.5 to 4.5 of either sign: sums and products are exact, and an answer reads well."""
    rng = np.random.default_rng([*shape, seed])
    return (rng.integers(1, 10, shape) * rng.choice([-0.5, 0.5], shape)).astype(np.float32)
