"""An adjoint to be queued again and again on arrays that stay: what a `vjp` does on the GPU, and none of its checks."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adjoint import Adjoint
from minigrad.adjoint import run as launches
from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.dtypes import copied
from minigrad.errors import words
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Extent
from minigrad.lab.bench.ladder import RUNGS, AdjointRecord, Cost, Growth, Inputs, Ratio, Resources
from minigrad.lab.bench.measure import Draw
from minigrad.lab.bench.record import blank, versions
from minigrad.lab.bench.timer import Timing, timer
from minigrad.lab.check import ValueMismatch


class Backward:
    """Call it to queue the adjoint and get the gradients by name; nothing waits for the GPU."""

    def __init__(self, made: Adjoint, args: Sequence[Any], dy: Sequence[Array], grid: Extent, block: Extent):
        self.made, self.dy, self.run = made, dy, made.prepared(args, grid, block)
        made.slots = 1
        made.vjp(*args, dy=dy, grid=grid, block=block)  # finds out how long the tapes must be

    def __call__(self, dy: Sequence[Array] | None = None) -> dict[str, Array]:
        made, derived = self.made, self.made.derived
        upstream = dict(zip(made.outputs, dy or self.dy, strict=True))
        gradients = launches.gradients_of(self.run, derived, upstream, made.assembled)
        launches.launch(made.kernels, self.run, made.assembled, derived, gradients, made.slots)
        return launches.summed(self.run, derived, gradients)

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Bytes of local tapes a thread, and of global tapes in all."""
        made, device = self.made, next(iter(self.run.arrays.values())).device
        local = sum(int(row.bytes) for row in made.decisions.rows if row.how == "local tape")
        tapes = (t for t in made.derived.tapes if t.size is None)
        return local, sum(launches.tape_array(self.run, t, made.slots, device).nbytes for t in tapes)


class Chain:
    """A kernel that runs on its own result, as steps of time do, and the walk back through the states it has kept.

    read and written name the kernel's state before and after a step. `forward()` queues all steps, a call the way back.
    """

    def __init__(
        self, made: Adjoint, args: Sequence[Any], dy: Array, grid: Extent, block: Extent, state: tuple[str, str],
        steps: int,
    ):  # fmt: skip
        read, written = ([p.name for p in made.file.kernel.params].index(name) for name in state)
        states = [args[read], *(copied(args[written]) for _ in range(steps))]
        self.launches = [list(args) for _ in range(steps)]
        for launch, before, after in zip(self.launches, states[:-1], states[1:], strict=True):
            launch[read], launch[written] = before, after
        self.made, self.dy, self.grid, self.block, self.state = made, dy, grid, block, state[0]
        self.forward()
        self.back = [Backward(made, launch, [dy], grid, block) for launch in reversed(self.launches)]

    def forward(self) -> None:
        """All steps."""
        for launch in self.launches:
            self.made.primal(*launch, grid=self.grid, block=self.block)

    def __call__(self) -> dict[str, Array]:
        gradients = {self.state: self.dy}
        for step in self.back:
            gradients = step([gradients[self.state]])
        return gradients

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Those of a step."""
        return self.back[0].tape_bytes


TOLERANCE = {"float32": 1e-4, "float64": 1e-9}  # of the largest element of a gradient
REPEATS = 9
RIVALS = ("warp",)


class Subject:
    """A rung on this GPU: its kernel and the kernel's adjoint."""

    def __init__(self, name: str, gpu: Any):
        self.name, self.rung, self.gpu = name, RUNGS[name], gpu
        self.adjoint = Adjoint(self.rung.kernel)
        for kernel in self.adjoint.kernels:
            kernel.waits = False  # as a kernel that is launched again and again must not

    @cached_property
    def resources(self) -> tuple[Resources, Resources]:
        """What the kernel and its adjoint take, compiled."""
        before, *after = (resources(k, self.rung.dtype, self.gpu) for k in (self.rung.kernel, *self.adjoint.kernels))
        return before, tuple(map(max, *after)) if len(after) > 1 else after[0]

    def at(self, size: int, work: int) -> tuple[Inputs, list[Array]]:
        """The inputs of this size, and gradients of its outputs."""
        draw = Draw(self.gpu, self.rung.dtype)
        inputs = self.rung.make(draw, size, work)
        named = dict(zip((p.name for p in self.adjoint.file.kernel.params), inputs[0], strict=True))
        return inputs, [draw.real(named[name].size) for name in self.adjoint.outputs]

    def verify(self) -> None:
        """Compare each gradient, small, with that on `sim` in float64. Raises ValueMismatch: that is not timed."""
        (args, grid, block), dy = self.at(self.rung.checked, self.rung.work)
        found = self.adjoint.vjp(*args, dy=dy, grid=grid, block=block)
        sim = [_on_sim(x) if isinstance(x, Array) else x for x in args]
        wanted = Adjoint(self.rung.kernel).vjp(*sim, dy=[_on_sim(d) for d in dy], grid=grid, block=block)
        for name, got, truth in zip(self.adjoint.wrt, found, wanted, strict=True):
            off = _distance(got.numpy(), truth.numpy())
            if not off <= TOLERANCE[self.rung.dtype]:
                raise ValueMismatch(
                    f"{self.name}: the gradient of {name} is off by {off:.2g} of its largest element from that of sim "
                    f"in float64; a benchmark allows {TOLERANCE[self.rung.dtype]:g}. It is not timed."
                )

    def calls(self, size: int, work: int) -> tuple[Callable[[], None], Backward | Chain]:
        """The kernel and its adjoint, to be queued; where time goes in steps, so many of them."""
        (args, grid, block), dy = self.at(size, work)
        if self.rung.state:
            chain = Chain(self.adjoint, args, dy[0], grid, block, self.rung.state, work)
            return chain.forward, chain
        backward = Backward(self.adjoint, args, dy, grid, block)
        return partial(self.rung.kernel, *args, grid=grid, block=block), backward

    def ratio(self, size: int, work: int) -> tuple[Ratio, Backward | Chain]:
        """The times of the kernel and of its adjoint, in turns."""
        forward, backward = self.calls(size, work)
        runs = timer().interleaved([forward, backward], REPEATS, 2e-4)
        primal, adjoint = (Timing.of(r.seconds, not r.queued) for r in runs)
        return Ratio(primal, adjoint), backward


def _on_sim(x: Array) -> Array:
    host = x.numpy()
    return Array.upload(get("sim"), host.astype(np.float64) if host.dtype.kind == "f" else host)


def _distance(got: np.ndarray, truth: np.ndarray) -> float:
    off = float(np.abs(got.astype(np.float64) - truth).max(initial=0)) / max(1e-30, float(np.abs(truth).max(initial=0)))
    return off if np.isfinite(off) else np.inf


def cost(subject: Subject, rival: Any = None) -> Cost:
    """Everything about one rung: its growth in threads and in work, and what it takes; beside the rival's."""
    rung, sizes, works = subject.rung, Growth(), Growth()
    for work in rung.works:
        works[work], _ = subject.ratio(rung.size, work)
    for size in rung.sizes:
        sizes[size], backward = subject.ratio(size, rung.work)
    beside = rival.ratio(subject, rung.sizes[-1], rung.work) if rival else None
    return Cost(rung.kernel.name, rung.dtype, sizes, works, subject.resources, backward.tape_bytes, beside)


def resources(kernel: Kernel, dtype: str, gpu: Any) -> Resources:
    """Registers a thread, bytes of static shared and of local memory, and how many of the local bytes are spills."""
    macros = kernel.macros(kernel.values, np.dtype(dtype))
    return (*gpu.resources(gpu.build(kernel.source, macros), kernel.name), spills(kernel, macros, gpu.arch))


def spills(kernel: Kernel, macros: Mapping[str, str], arch: str) -> int:
    """The bytes that a thread stores because registers ran out, as ptxas says; 0 where there is no nvcc to ask."""
    if not (nvcc := find_nvcc()):
        return 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(kernel.source.unit)
        options = [f"-arch={arch}", "-std=c++17", f"-I{kernel.source.folder}", "-Xptxas", "-v"]
        options += [f"-D{name}={value}" for name, value in macros.items()]
        command = [str(nvcc), "-cubin", *options, f"{folder}/kernel.cu", "-o", f"{folder}/kernel.cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    mine = said[said.index(f"'{kernel.name}'") :]
    return int(re.search(r"(\d+) bytes spill stores", mine)[1])  # type: ignore[index]


def compile_all(subjects: Sequence[Subject]) -> None:
    """Compile every kernel, several at a time: one after the other they take minutes."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda subject: subject.resources, subjects))


def run(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[Subject]], Iterable[Subject]] = iter,
    command: str = "mg.bench.adjoints.run()",
) -> AdjointRecord:
    """Measure every rung, or one, and return the record. Ctrl-C ends early and keeps what has been measured.

    against=["warp"] times NVIDIA Warp's gradient of the kernels that Warp can express. Raises DeviceError without a
    GPU, ImportError without Warp, ValueError for a rung that there is not.
    """
    names, against = rungs(only), words("mg.bench.adjoints.run", "against", against, RIVALS)
    gpu: Any = get(check("cuda"))
    empty = blank(command)
    record = AdjointRecord(empty.device, empty.date, command, versions())
    rival = _rival(gpu) if "warp" in against else None
    subjects = [Subject(name, gpu) for name in names]
    compile_all(subjects)
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
    """All rungs, or the one of that name. Raises ValueError where there is none."""
    if only not in (None, *RUNGS):
        raise ValueError(f"only={only!r} is no rung; there are {', '.join(RUNGS)}.")
    return [only] if only else list(RUNGS)


def _rival(gpu: Any) -> Any:
    from minigrad.lab.bench.rivals.warp import Warp

    return Warp(gpu)
