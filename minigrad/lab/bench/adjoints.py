"""Timing the ladder's adjoints next to their kernels: relaunched on fixed buffers, without argument checks.

Before that, each gradient is compared with that of `sim` in float64, and a wrong one is not timed.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adjoint import Adjoint
from minigrad.adjoint import run as launches
from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.dtypes import copied
from minigrad.devices.unit import unit
from minigrad.errors import require_words
from minigrad.kernels.extents import Extent
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio, Resources
from minigrad.lab.bench.ladder import RUNGS, Inputs
from minigrad.lab.bench.measure import Draw, Reference
from minigrad.lab.bench.record import ADJOINT, Record, todays_record
from minigrad.lab.bench.timer import timer
from minigrad.lab.check import ValueMismatch

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}  # of the largest element of a gradient
REPEATS = 9
RIVALS = ("warp",)


class Backward:
    """The way back through launches of a kernel: through one, or through time steps, each from the state before it.

    A call queues the adjoints, that of the last launch first, and returns the gradients of the first launch by name,
    without waiting for the GPU. state: the name of the array that a time step reads.
    """

    def __init__(
        self, adjoint: Adjoint, steps: Sequence[Sequence[Any]], dy: Sequence[Array], grid: Extent, block: Extent,
        state: str = "",
    ):  # fmt: skip
        self.adjoint, self.dy, self.state = adjoint, dict(zip(adjoint.outputs, dy, strict=True)), state
        self.runs = [adjoint.prepared(args, grid, block) for args in reversed(steps)]
        adjoint.slots = 1
        for args in steps:
            adjoint.vjp(*args, dy=dy, grid=grid, block=block)  # measures how long the tapes must be

    def __call__(self) -> dict[str, Array]:
        adjoint, dy = self.adjoint, self.dy
        for run in self.runs:
            gradients, _ = launches.launch(adjoint.kernels, adjoint.assembled, run, dy, adjoint.slots)
            dy = dict.fromkeys(dy, gradients[self.state]) if self.state else dy
        return gradients

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Bytes of the local tapes of a thread, and of all global tapes of one launch."""
        adjoint, run = self.adjoint, self.runs[0]
        local = sum(int(row.bytes) for row in adjoint.decisions.rows if row.how == "local tape")
        tapes = (t for t in adjoint.derived.tapes if t.size is None)
        return local, sum(launches.tape_array(run, t, adjoint.slots).nbytes for t in tapes)


def in_time(args: Sequence[Any], read: int, written: int, steps: int) -> list[list[Any]]:
    """The arguments of each time step, which reads the state that the one before has written."""
    states = [args[read], *(copied(args[written]) for _ in range(steps))]
    arguments = [list(args) for _ in range(steps)]
    for each, before, after in zip(arguments, states[:-1], states[1:], strict=True):
        each[read], each[written] = before, after
    return arguments


class Subject:
    """A rung of the ladder on this GPU: kernel and adjoint."""

    def __init__(self, name: str, gpu: Any):
        self.name, self.rung, self.gpu = name, RUNGS[name], gpu
        self.adjoint = Adjoint(self.rung.kernel)
        for kernel in self.adjoint.kernels:
            kernel.waits = False  # a launch that waits cannot be queued

    @cached_property
    def resources(self) -> tuple[Resources, Resources]:
        """Those of the compiled kernel and of its adjoint, the largest of each if that is several kernels."""
        before, *after = (resources(k, self.rung.dtype, self.gpu) for k in (self.rung.kernel, *self.adjoint.kernels))
        return before, tuple(map(max, zip(*after, strict=True)))

    def at(self, size: int, work: int) -> tuple[Inputs, list[Array]]:
        """The inputs of this size, and the gradients of the outputs."""
        draw = Draw(self.gpu, self.rung.dtype)
        inputs = self.rung.make(draw, size, work)
        named = dict(zip((p.name for p in self.adjoint.file.kernel.own), inputs[0], strict=True))
        return inputs, [draw.real(named[name].size) for name in self.adjoint.outputs]

    def verify(self) -> None:
        """Compare each gradient at a small size with that of `sim` in float64. Raises ValueMismatch."""
        (args, grid, block), dy = self.at(self.rung.checked, self.rung.work)
        found = self.adjoint.vjp(*args, dy=dy, grid=grid, block=block)
        sim = [_on_sim(x) if isinstance(x, Array) else x for x in args]
        wanted = Adjoint(self.rung.kernel).vjp(*sim, dy=[_on_sim(d) for d in dy], grid=grid, block=block)
        for name, got, truth in zip(self.adjoint.wrt, found, wanted, strict=True):
            off = Reference(self.gpu, truth.numpy().astype(got.dtype)).error(got)
            if not off <= TOLERANCE[self.rung.dtype]:
                raise ValueMismatch(
                    f"{self.name}: the gradient of {name} is off by {off:.2g} of its largest element from that of sim "
                    f"in float64; a benchmark allows {TOLERANCE[self.rung.dtype]:g}. It is not timed."
                )

    def calls(self, size: int, work: int) -> tuple[Callable[[], None], Backward]:
        """Functions that queue the kernel and its adjoint; with a state, `work` time steps of them."""
        (args, grid, block), dy = self.at(size, work)
        steps, (read, written) = [args], self.rung.state or ("", "")
        if read:
            names = [p.name for p in self.adjoint.file.kernel.own]
            steps = in_time(args, names.index(read), names.index(written), work)

        def forward() -> None:
            for each in steps:
                self.rung.kernel(*each, grid=grid, block=block)

        if read:
            forward()  # the states, through which the adjoints go back
        return forward, Backward(self.adjoint, steps, dy, grid, block, read)

    def ratio(self, size: int, work: int) -> tuple[Ratio, Backward]:
        forward, backward = self.calls(size, work)
        return Ratio(**timer().interleaved({"primal": forward, "adjoint": backward}, REPEATS)), backward


def _on_sim(x: Array) -> Array:
    host = x.numpy()
    return Array.upload(get("sim"), host.astype(np.float64) if host.dtype.kind == "f" else host)


def cost(subject: Subject, rival: Any = None) -> AdjointCost:
    """Measure one rung as threads and work grow, next to the rival."""
    rung, sizes, works = subject.rung, Growth(), Growth()
    for work in rung.works:
        works[work], _ = subject.ratio(rung.size, work)
    for size in rung.sizes:
        sizes[size], backward = subject.ratio(size, rung.work)
    beside = rival.ratio(subject, rung.sizes[-1], rung.work) if rival else None
    return AdjointCost(rung.kernel.name, rung.dtype, sizes, works, subject.resources, backward.tape_bytes, beside)


def resources(kernel: Kernel, dtype: str, gpu: Any) -> Resources:
    """Those of one compiled kernel, from the driver."""
    macros = kernel.macros(kernel.values, np.dtype(dtype))
    return (
        *gpu.resources(gpu.build(kernel.source, macros, kernel.name), kernel.name),
        spills(kernel, macros, gpu.arch),
    )


def spills(kernel: Kernel, macros: Mapping[str, str], arch: str) -> int:
    """The bytes of register spills per thread, as ptxas reports them; 0 without nvcc."""
    if not (nvcc := find_nvcc()):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(unit(kernel.source))
        options = [f"-arch={arch}", "-std=c++17", f"-I{kernel.source.folder}", "-Xptxas", "-v"]
        options += [f"-D{name}={value}" for name, value in macros.items()]
        command = [str(nvcc), "-cubin", *options, f"{folder}/kernel.cu", "-o", f"{folder}/kernel.cubin"]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    own = log[log.index(f"'{kernel.name}'") :]
    return int(re.search(r"(\d+) bytes spill stores", own)[1])  # type: ignore[index]


def run(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[Subject]], Iterable[Subject]] = iter,
    command: str = "mg.bench.adjoints.run()",
) -> Record:
    """Measure every rung, or one, and return the record. Ctrl-C ends the run early and keeps the measurements.

    against=["warp"] times NVIDIA Warp's gradient of the kernels that Warp can express. Raises DeviceError without a
    GPU, ImportError without Warp, ValueError for an unknown rung.
    """
    names, against = rungs(only), require_words("mg.bench.adjoints.run", "against", against, RIVALS)
    gpu: Any = get(check("cuda"))
    record = todays_record(command, folder=ADJOINT)
    rival = None
    if "warp" in against:
        from minigrad.lab.bench.rivals.warp import Warp

        rival = Warp(gpu)
    subjects = [Subject(name, gpu) for name in names]
    with ThreadPoolExecutor() as pool:  # compiles in parallel: one after the other the kernels take minutes
        list(pool.map(lambda subject: subject.resources, subjects))
    with suppress(KeyboardInterrupt):
        for subject in track(subjects):
            try:
                subject.verify()
                record.costs[subject.name] = cost(subject, rival)
            except ValueMismatch as wrong:
                record.refused[subject.name] = str(wrong)
    if rival:
        record.versions["warp"] = rival.version
    return record


def rungs(only: str | None) -> list[str]:
    """All rungs, or the one of that name. Raises ValueError for an unknown name."""
    if only not in (None, *RUNGS):
        raise ValueError(f"only={only!r} is not a rung; the rungs are {', '.join(RUNGS)}.")
    return [only] if only else list(RUNGS)
