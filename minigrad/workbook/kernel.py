"""An exercise whose answer is a kernel."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minigrad.answer import Answer
from minigrad.array import Array
from minigrad.attempts import attempt
from minigrad.devices import check, get
from minigrad.kernel import Kernel
from minigrad.op import Case
from minigrad.outcome import TOLERANCE, Pair
from minigrad.require import a
from minigrad.source import CUDA, Source
from minigrad.workbook.exercise import Exercise, Wrong, bare


class KernelExercise(Exercise):
    """A kernel to write, over `float`. The reader's text is tried under the microscope, at every size and block size.

    reference(*arrays) is the truth in NumPy; launch(kernel, *arrays) runs the kernel on arrays of a device and returns
    its output. grid, block, sizes and tunables are as in Kernel; those tunables that the solution names are constants.
    """

    dtypes: tuple[str, ...] = ("float32",)
    thorough = True

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
        **tunables: tuple[int, ...],
    ):
        super().__init__(notebook, task, solution, hints, wrong)
        self.reference, self.launch = reference, launch
        self.cases: Sequence[Case] = [Case(arrays) for arrays in inputs]
        constants = {key: legal[0] for key, legal in tunables.items() if key in self._solution}
        macros = "".join(f"#ifndef {key}\n#define {key} {value}\n#endif\n" for key, value in constants.items())
        source = Source(self._solution, f"{self.name}.cu", CUDA, Source(macros, "constants"))
        self.kernel = Kernel(source, self.name, grid, block, sizes, None, None, 0, **tunables)

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
            return found
        known = (wrong for wrong in self.wrong if wrong.kind == found.kind and wrong.resembles(given))
        return self._explained(found, next(known, None))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Whole numbers from 1 to 9 of either sign, as floats: sums are exact, and an answer reads well."""
    rng = np.random.default_rng([*shape, seed])
    return (rng.integers(1, 10, shape) * rng.choice([-1, 1], shape)).astype(np.float32)
