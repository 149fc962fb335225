"""Whole steps of ResNet-18: contestants that agree are timed in turns, the host's time included, with their peaks."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from minigrad.devices import get
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.resnet import network
from minigrad.lab.bench.resnet.modes import MODES, Mode
from minigrad.lab.bench.resnet.network import Task
from minigrad.lab.bench.steps import timed
from minigrad.lab.bench.timer import Call
from minigrad.lab.check import ValueMismatch
from minigrad.tensor import Tensor

DEVICE = "cuda"
TRAINED, INFERRED = (32, 128), (1, 32, 128)  # images of a batch
CHECKED, WARM = 6, 3  # results that are compared, the first of a contestant; those before PyTorch's peak is taken
REPEATS = 9
TRUTH = MODES["float32"]
KINDS = {"training": "training step", "inference": "inference"}


@dataclass(frozen=True)
class WholeStep:
    """A training step or an inference of a batch in one mode; kind: that of KINDS."""

    kind: str
    batch: int
    mode: Mode

    @property
    def title(self) -> str:
        """ResNet-18 training step, batch 128, tf32"""
        return f"ResNet-18 {KINDS[self.kind]}, batch {self.batch}, {self.mode.name}"

    def makers(self, given: Task, against: Sequence[str]) -> dict[str, Callable[[], Call]]:
        """A function that sets up each contestant, by name."""
        ours = partial(getattr(network, self.kind), given, self.mode, DEVICE)
        makers: dict[str, Callable] = {"minigrad": ours, "minigrad, graph": partial(ours, replayed=True)}
        if "torch" in against:
            makers["PyTorch"] = theirs = partial(getattr(rival(), self.kind), given, self.mode)
            for layout in self.mode.layouts:
                name = "PyTorch, graph" if layout == "NHWC" else f"PyTorch, graph, {layout}"
                makers[name] = partial(theirs, layout, graph=True)
            if self.kind == "inference":
                makers["PyTorch, folded, graph"] = partial(theirs, graph=True, fold=True)
        return makers

    def measured(self, against: Sequence[str]) -> tuple[Times, dict[str, tuple[int, int]]]:
        """The times, and the peaks of training, by contestant.

        Raises ValueMismatch where a result is not that of PyTorch in float32 or, without it, of minigrad in float32.
        """
        given, calls, peaks = network.task(self.batch), {}, {}
        if self.kind == "training":
            evaluated = WholeStep("inference", self.batch, self.mode)
            logits = first_results(network.inference(given, self.mode, DEVICE), 1)
            must_agree(evaluated, "minigrad", logits, evaluated.truth(given, against, 1))
        truth = self.truth(given, against)
        for name, make in self.makers(given, against).items():
            peak = PeakOfPool(get(DEVICE)) if name.startswith("minigrad") else rival().PeakOfTorch()
            calls[name] = make()
            must_agree(self, name, first_results(calls[name], warm=peak.warm), truth)
            peaks[name] = peak.bytes()
        times = timed(calls, get(DEVICE).finish, REPEATS)  # type: ignore[attr-defined]
        return times, peaks if self.kind == "training" else {}

    def truth(self, given: Task, against: Sequence[str], count: int = CHECKED) -> list[np.ndarray]:
        """The first results in float32."""
        theirs = "torch" in against
        call = getattr(rival() if theirs else network, self.kind)(given, TRUTH, "NCHW" if theirs else DEVICE)
        return first_results(call, count)


def rival() -> Any:
    """PyTorch's network, which is imported only where it is asked for."""
    return import_module("minigrad.lab.bench.rivals.pytorch_resnet")


def first_results(call: Call, count: int = CHECKED, warm: Call = lambda: None) -> list[np.ndarray]:
    """The results of the first calls on the host; `warm` is called after a few of them."""
    found = []
    for number in range(count):
        if number == WARM:
            warm()
        y = call()
        found.append(y.numpy() if isinstance(y, Tensor) else y.detach().float().cpu().numpy())
    return found


def must_agree(step: WholeStep, name: str, found: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> None:
    """Raise ValueMismatch where a result is further from the true one than the mode allows."""
    what, allowed = ("loss", step.mode.loss) if step.kind == "training" else ("largest logit", step.mode.logits)
    for number, (got, wanted) in enumerate(zip(found, truth, strict=True), 1):
        error = float(np.abs(got - wanted).max() / np.abs(wanted).max())
        if not error <= allowed:
            raise ValueMismatch(
                f"{step.title}: call {number} of {name} is off by {error:.2g} of the {what} in float32; a benchmark "
                f"allows {allowed:g}. It is not timed."
            )


class PeakOfPool:
    """The memory of a contestant on a GPU: the most bytes that its arrays occupy, and those taken from the driver.

    Both without those from before. A graph has a pool of its own, whose arrays are not counted.
    """

    def __init__(self, gpu: Any):
        gc.collect()
        self._memory, _ = gpu.memory, gpu.memory.usage  # which closes the graphs that were dropped
        self._pool = self._memory.pool
        with gpu.context.guarded():
            self._pool.release()
        self._before, self._occupied = (self._pool.held, self._memory.usage[0]), 0
        self._memory.pool = self  # until the end of a capture, or of the contestant

    def allocate(self, nbytes: int) -> Any:
        """Memory from the pool."""
        buffer = self._pool.allocate(nbytes)
        self._occupied = max(self._occupied, self._pool.held - self._pool.free)
        return buffer

    def warm(self) -> None:
        """The first calls count: minigrad tries nothing in them."""

    def bytes(self) -> tuple[int, int]:
        """Bytes of arrays, and bytes taken from the driver, since then."""
        self._memory.pool = self._pool
        return self._occupied - self._before[0], self._memory.usage[0] - self._before[1]
