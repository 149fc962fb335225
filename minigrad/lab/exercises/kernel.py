"""An exercise whose answer is a kernel. A correct kernel that wastes threads or memory is no pass yet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.errors import require
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.answer import Answer
from minigrad.lab.check.attempt import attempt, outcomes
from minigrad.lab.check.compare import TOLERANCE, Pair
from minigrad.lab.exercises.as_op import AsOp
from minigrad.lab.exercises.exercise import Exercise, Wrong, bare
from minigrad.microscope import Inspection, watching
from minigrad.op import Case
from minigrad.source import CUDA, Source


class Waste(NamedTuple):
    """A count over launches, the multiple of the solution's count that is too much, and the answer to it."""

    count: Callable[[Sequence[Inspection]], int]
    multiple: int
    text: str  # with places for the count and for that of the solution


ALONE = Waste(
    lambda launches: max((sum(record.per_thread.values()) for record in launches), default=0), 4,
    "one of its threads makes {} accesses to memory, where {} are enough: let every thread do a share of its own.",
)  # fmt: skip
ATOMICS = Waste(
    lambda launches: sum(int((record.traffic["kind"] == "atomic").sum()) for record in launches), 1,
    "it makes {} atomic operations, which wait for each other, where {} are needed.",
)  # fmt: skip
SECTORS = Waste(
    lambda launches: sum(line.sectors for record in launches for line in record.lines if line.space == "global"), 2,
    "it moves {} sectors of global memory, where {} are enough: let neighbouring threads read and write neighbours, "
    "and leave the rest to shared memory.",
)  # fmt: skip


class KernelExercise(Exercise):
    """A kernel to write, over `float`. The reader's text runs under the microscope, at every size and block size.

    reference(*arrays) is the truth in NumPy, a tuple for several outputs. arguments(*arrays) gives the shape of each
    output and the value of each scalar, by name; with zeros, outputs are 0 before the launch. An output whose value is
    one of the arrays starts as a copy of it: an update in place. op: the op as which the kernel can run. through names
    shared arrays which the kernel must fill and read, or as many with other names: without them, a correct kernel is no
    pass. grid, block, sizes and tunables are as in Kernel, by default a thread for each of n in blocks of BLOCK; those
    tunables that the solution names are constants. content is that of Exercise.
    """

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
        **content: Any,
    ):
        super().__init__(notebook, **content)
        self.reference, self.arguments, self.zeros, self.through = reference, arguments, zeros, through
        self.op = op
        self.cases: Sequence[Case] = [Case(arrays) for arrays in inputs]
        constants = {key: legal[0] for key, legal in tunables.items() if key in self._solution}
        macros = "".join(f"#ifndef {key}\n#define {key} {value}\n#endif\n" for key, value in constants.items())
        source = Source(self._solution, f"{self.name}.cu", CUDA, Source(macros, "constants"))
        self.kernel = Kernel(source, self.name, grid or (f"{sizes}/BLOCK",), block, sizes, None, None, 0, **tunables)
        self.tunables = self.kernel.tunables

    def launch(self, kernel: Kernel, *arrays: Array) -> list[Array]:
        """The outputs of a kernel. Arguments go by their position in the solution: a reader may rename them."""
        device, dtype, values = arrays[0].device, arrays[0].dtype, self.arguments(*arrays)
        fill, inputs, outputs = Array.zeros if self.zeros else Array.empty, iter(arrays), dict[str, Array]()
        for name, start in values.items():
            if isinstance(start, tuple):
                outputs[name] = fill(device, start, dtype)
            elif isinstance(start, Array):
                outputs[name] = fill(device, start.shape, dtype)
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

    def check(self, text: str) -> Answer:
        """Run the text. The answer names the first fault, and the reason where the mistake is known."""
        if bare(require(self.call, text, str, "the text of the kernel")) == bare(self.skeleton):
            return self._unfinished()
        answer = attempt(self, text)
        if answer.correct:
            return self._wasteful(answer.result) or answer
        return self._explained(answer, self._known_mistake(text, answer.kind))

    def _known_mistake(self, text: str, kind: str) -> Wrong | None:
        """The known mistake with the same outcomes as this text; of several, the one that the text resembles."""
        candidates = [wrong for wrong in self.wrong if wrong.kind == kind]
        if not candidates or not (mine := list(outcomes(self, text))):
            return None
        same = [wrong for wrong in candidates if all(map(eq, mine, outcomes(self, wrong.edit(self._solution))))]
        alike = [wrong for wrong in same if wrong.resembles(text)]
        return next(iter(alike or same[: len(same) == 1]), None)

    def _wasteful(self, kernel: Kernel) -> Answer | None:
        """The answer to a correct kernel that leaves a shared array unused, or wastes what the solution saves."""
        mine, best = self._inspected(kernel), self._inspected(self.kernel)
        lines = [line for record in mine for line in record.lines if line.space == "shared"]
        filled, read = ({line.variable for line in lines if line.kind == kind} for kind in ("write", "read"))
        limits = [ALONE, ATOMICS, *[SECTORS] * bool(self.through)]
        counts = [(waste, waste.count(mine), waste.count(best)) for waste in limits]
        texts = (waste.text.format(n, enough or "none") for waste, n, enough in counts if n > waste.multiple * enough)
        if len(filled & read) < len(self.through):
            name = next((name for name in self.through if name not in filled & read), self.through[0])
            kind, text = "unused", f"{name} is not used: fill it, wait, and read from it."
        else:
            kind, text = "wasteful", next(texts, "")
        right = f"{' and '.join(kernel.outputs)} {'are' if len(kernel.outputs) > 1 else 'is'} right"
        return self._explained(Answer(False, f"Not yet. {right}, but {text}", kind), None) if text else None

    def _inspected(self, kernel: Kernel) -> list[Inspection]:
        """The first block of a kernel, with the largest block size, in the case with the largest input."""
        largest = max(self.cases, key=lambda case: min(case.inputs[0].shape))
        blocks = {key: max(legal) for key, legal in kernel.tunables.items()}
        sim: Any = get(check("sim"))
        with through(sim.using(write=str)), watching(blocks=1) as report:  # what it prints has been shown
            list(self.pairs(kernel.using(**blocks), largest, "float32"))
        return report.launches


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Halves from 0.5 to 4.5 of either sign: sums and products are exact, and an answer reads well."""
    rng = np.random.default_rng([*shape, seed])
    return (rng.integers(1, 10, shape) * rng.choice([-0.5, 0.5], shape)).astype(np.float32)
