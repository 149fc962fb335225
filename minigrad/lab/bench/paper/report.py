"""Measuring the paper's applications into a record, and the table that is shown of it."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.adjoint import Adjoint
from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.display import Table, Tabular, table
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.adjoints import Backward, resources
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio, Resources
from minigrad.lab.bench.jobs import attempt
from minigrad.lab.bench.measure import Draw
from minigrad.lab.bench.paper.applications import APPLICATIONS
from minigrad.lab.bench.record import ADJOINT, Record, records, todays_record
from minigrad.lab.bench.timer import Timing, timer
from minigrad.lab.check import ValueMismatch

REPEATS = 5
PAPERS_BOUND = 10  # "within an order of magnitude of the original program's execution time"
HEADERS = ("application", "size", "kernel ms", "adjoint ms", "ratio", "registers", "spilled bytes", "arrays MB",
           "adjoint adds MB")  # fmt: skip


class TimedApplication:
    """An application on this GPU: kernel and adjoint."""

    def __init__(self, title: str, gpu: Any):
        self.title, self.application, self.gpu = title, APPLICATIONS[title], gpu
        self.kernel = self.application.at(self.application.size)
        self.adjoint = Adjoint(self.kernel, self.application.wrt)
        for kernel in (self.kernel, *self.adjoint.kernels):
            kernel.waits = False  # a launch that waits cannot be queued

    def prepare(self) -> None:
        """Compile, and run the adjoint at the small size on `sim` in float64."""
        before, *after = (resources(k, self.application.dtype, self.gpu) for k in (self.kernel, *self.adjoint.kernels))
        self.resources: tuple[Resources, Resources] = before, tuple(map(max, zip(*after, strict=True)))
        application, rng = self.application, np.random.default_rng(1)
        args, small = application.make(rng, application.small), application.at(application.small)
        adjoint = self.adjoint if small.defines == self.kernel.defines else Adjoint(small, application.wrt)
        names = [p.name for p in adjoint.file.kernel.own]
        dy = [rng.standard_normal(args[names.index(name)].shape) for name in adjoint.outputs]
        self.small = adjoint, args, dy
        self.wanted = self.gradients(get("sim"), np.float64)

    def gradients(self, device: Any, dtype: Any) -> list[Any]:
        """Those of the small size on a device, computed in this dtype."""
        adjoint, args, dy = self.small
        args, dy = ([_on(device, _as(x, dtype)) for x in several] for several in (args, dy))
        grid = self.application.grid(args, self.application.small)
        return adjoint.vjp(*args, dy=dy, grid=grid, block=self.application.block)

    def verify(self) -> None:
        """Compare each gradient at the small size with that of `sim`. Raises ValueMismatch."""
        found = self.gradients(self.gpu, np.dtype(self.application.dtype))
        for name, got, truth in zip(self.adjoint.wrt, found, self.wanted, strict=True):
            off, allowed = _error(got, truth), self.application.tolerance
            if not off <= allowed:
                raise ValueMismatch(
                    f"{self.title}: the gradient of {name} is off by {off:.2g} of its largest element from that of sim "
                    f"in float64; a benchmark allows {allowed:g}. It is not timed."
                )

    def cost(self) -> AdjointCost:
        application, size = self.application, self.application.size
        args = application.make(np.random.default_rng(2), size)
        grid, block, draw = application.grid(args, size), application.block, Draw(self.gpu, application.dtype)
        args = [_on(self.gpu, a) for a in args]
        named = dict(zip((p.name for p in self.adjoint.file.kernel.own), args, strict=True))
        dy = [draw.real(named[name].size).reshape(named[name].shape) for name in self.adjoint.outputs]
        backward = Backward(self.adjoint, [args], dy, grid, block)

        def forward() -> None:
            self.kernel(*args, grid=grid, block=block)

        times = Growth({size: Ratio(**timer().interleaved({"primal": forward, "adjoint": backward}, REPEATS))})
        arrays = [a for a in args if isinstance(a, Array)]
        given = {a.address for a in (*arrays, *dy)}
        made = [a for a in backward().values() if isinstance(a, Array) and a.address not in given]
        tapes = backward.tape_bytes
        memory = sum(a.nbytes for a in arrays), sum(a.nbytes for a in (*dy, *made)) + tapes[1]
        dtype = application.dtype
        return AdjointCost(application.kernel, dtype, times, Growth(), self.resources, tapes, None, memory)


def _as(value: Any, dtype: Any) -> Any:
    """A plain floating-point array in this dtype; all else as it is."""
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def _on(device: Any, value: Any) -> Any:
    """An array on a device; numbers and structs as they are."""
    return Array.upload(device, np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


def _error(got: Any, truth: Any) -> float:
    """The largest error over the largest element; of structs the largest of their members'."""
    if not isinstance(got, Array):
        return abs(float(got) - float(truth)) / max(abs(float(truth)), 1e-30)
    a, b = got.numpy(), truth.numpy()
    pairs = list(zip(_floats(a), _floats(b), strict=True))
    largest = max((float(np.abs(y).max(initial=0)) for _, y in pairs), default=0.0)
    return max((float(np.abs(x - y).max(initial=0)) for x, y in pairs), default=0.0) / (largest or 1.0)


def _floats(array: np.ndarray) -> list[np.ndarray]:
    """The floating-point arrays in an array of structs."""
    if array.dtype.names:
        return [inner for name in array.dtype.names for inner in _floats(array[name])]
    return [array] if array.dtype.kind == "f" else []


@dataclass(frozen=True, repr=False)
class PaperReport(Tabular):
    """A record's measurements of the paper's applications."""

    record: Record

    @property
    def costs(self) -> dict[str, AdjointCost]:
        return self.record.applications

    def kernel(self, title: str) -> Kernel:
        """The kernel of an application: kernel("LBM")."""
        return APPLICATIONS[title].at(APPLICATIONS[title].size)

    def table(self) -> Table:
        rows = []
        for title, cost in self.costs.items():
            (size, times), (before, after) = next(iter(cost.sizes.items())), cost.resources
            milliseconds = (f"{t.seconds * 1e3:.3f}" for t in (times.primal, times.adjoint))
            registers, spilled = (f"{before[n]} / {after[n]}" for n in (0, 3))
            arrays, added = (f"{n / 1e6:.0f}" for n in cost.memory)
            amount = f"{size:,} {APPLICATIONS[title].unit}"
            rows.append((title, amount, *milliseconds, f"{cost.ratio:.2f}", registers, spilled, arrays, added))
        return table(rows, HEADERS, f"The paper's applications on {self.record.place}; {self.record.command}")

    @property
    def summary(self) -> Table:
        """Each program with all its kernels, and the bound that the paper's abstract gives for all of its own."""
        rows = []
        for name in dict.fromkeys(map(_program, self.costs)):
            own = [cost.largest for title, cost in self.costs.items() if _program(title) == name]
            kernel, adjoint = (sum(t.seconds for t in times) * 1e3 for times in zip(*map(_times, own), strict=True))
            largest = max(ratio.ratio for ratio in own)
            numbers = (f"{kernel:.2f}", f"{adjoint:.2f}", f"{adjoint / kernel:.2f}", f"{largest:.2f}")
            rows.append((name, len(own), *numbers, PAPERS_BOUND))
        headers = ("program", "kernels", "ms", "adjoints' ms", "ratio", "largest ratio", "the paper's bound")
        return table(rows, headers, f"All kernels of a program, on {self.record.place}")


def _program(title: str) -> str:
    """The name that kernels of one run share: LULESH for its eight; each setting of XSBench's kernel has its own."""
    name, _, kernel = title.partition(", ")
    return name if kernel == APPLICATIONS[title].kernel else title


def _times(ratio: Ratio) -> tuple[Timing, Timing]:
    return ratio.primal, ratio.adjoint


def titles(only: str | None) -> list[str]:
    """All applications, or those of that name: XSBench. Raises ValueError for an unknown name."""
    found = [title for title in APPLICATIONS if only in (None, title, title.partition(",")[0])]
    if not found:
        names = ", ".join(dict.fromkeys(title.partition(",")[0] for title in APPLICATIONS))
        raise ValueError(f"only={only!r} is not an application; the applications are {names}.")
    return found


def paper_report(
    only: str | None = None,
    track: Callable[[Sequence[TimedApplication]], Iterable[TimedApplication]] = iter,
    command: str = "mg.bench.paper_report()",
) -> PaperReport:
    """Measure the applications, or one of them. Ctrl-C ends the run early and keeps the measurements.

    A gradient that differs from that of `sim` in float64 is not timed. Raises DeviceError without a GPU, ValueError for
    an unknown application.
    """
    gpu: Any = get(check("cuda"))
    record = todays_record(command, folder=ADJOINT)
    subjects = [TimedApplication(title, gpu) for title in titles(only)]
    with ThreadPoolExecutor() as pool:  # compiles in parallel: one after the other the kernels take minutes
        list(pool.map(TimedApplication.prepare, subjects))
    with suppress(KeyboardInterrupt):
        for subject in track(subjects):

            def measure(subject: TimedApplication = subject) -> None:
                subject.verify()
                record.applications[subject.title] = subject.cost()

            if not attempt(record, subject.title, measure):
                break
    return PaperReport(record)


def recorded_paper() -> PaperReport:
    """The newest record of the applications. Raises ValueError where there is none."""
    for record in records(folder=ADJOINT):
        if record.applications:
            return PaperReport(record)
    raise ValueError("there is no record of the paper's applications; `minigrad bench --paper` writes one on a GPU.")
