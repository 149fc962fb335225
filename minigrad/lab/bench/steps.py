"""Time of a whole training step, the host's time included: minigrad eager and as a graph, PyTorch, NumPy by hand."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, get, why_not
from minigrad.devices.random import manual_seed, random_state, set_random_state
from minigrad.display import Table, Tabular, table
from minigrad.errors import require_int, require_words
from minigrad.lab.bench.measure import RIVALS
from minigrad.lab.bench.record import Times, newest_with
from minigrad.lab.bench.rivals import numpy_steps
from minigrad.lab.bench.timer import Call, Timing, Wrap, as_it_is, clocked, in_turns
from minigrad.lab.check import ValueMismatch
from minigrad.nn import Linear, Sequential
from minigrad.op import OPS
from minigrad.optim import SGD, Adam, Optimizer
from minigrad.replay.graph import graph

WIDTHS, BATCH = (784, 512, 256, 10), 128
OPTIMIZERS = ("SGD", "Adam")
CHECKED = 6  # steps that are compared with NumPy's; three of them are replays of a graph
CALLS, ENOUGH = 50, 0.1  # steps that are timed in a row, or as many as fill 0.1 seconds, at least 3


@dataclass(frozen=True, repr=False)
class TrainingStep(Tabular):
    """The time of a step by each library and mode, the host's time included."""

    title: str
    device: str
    date: str
    times: Times

    def table(self) -> Table:
        rows = [(name, f"{t.seconds * 1e6:.1f}", f"{t.fastest * 1e6:.1f}") for name, t in self.times.items()]
        return table(rows, ("step", "median us", "fastest us"), f"{self.title}, on {self.device}, {self.date}")


def training_step(optimizer: str = "SGD", against: Sequence[str] = (), repeats: int = 15) -> TrainingStep:
    """Time a step of the network 784-512-256-10 with 128 images a batch, in turns with those of `against`.

    "torch": PyTorch, eager and as a CUDA graph. "numpy": NumPy by hand and minigrad on `numpy`, which need no GPU.
    Before that the losses of some steps are compared with those of `numpy`. Raises DeviceError if a GPU is needed,
    ImportError without PyTorch.
    """
    named = title(optimizer)
    against = require_words("mg.bench.training_step", "against", against, RIVALS)
    repeats = require_int("mg.bench.training_step", "repeats", repeats, 1)
    gpu: Any = None if why_not("cuda") and set(against) == {"numpy"} else get(check("cuda"))
    images, labels = batch()
    works = {}
    if gpu:
        works["minigrad"] = ours(optimizer, "cuda", images, labels)
        works["minigrad, graph"] = ours(optimizer, "cuda", images, labels, graph)
    if "torch" in against:
        from minigrad.lab.bench.rivals.pytorch import steps

        works |= steps(optimizer, start(), images, labels)
    if "numpy" in against:
        works["minigrad on numpy"] = ours(optimizer, "numpy", images, labels)
        works["NumPy by hand"] = numpy_steps.step(optimizer, start(), images, labels)
    must_agree(works, ours(optimizer, "numpy", images, labels))
    times = timed(works, gpu.finish if gpu else lambda: None, repeats)
    place = gpu.label if gpu else f"{os.cpu_count()} processors ({platform.machine()})"
    return TrainingStep(named, place, date.today().isoformat(), times)


def recorded_step(optimizer: str = "SGD") -> TrainingStep:
    """The newest recorded times of this step. Raises ValueError if there are none."""
    named = title(optimizer)
    missing = f"no record has times of an {named}. On a GPU: minigrad bench --step --against torch."
    record, times = newest_with(lambda record: record.steps.get(named), missing)
    return TrainingStep(named, record.device, record.date, times)


def title(optimizer: str) -> str:
    """The title of the step in records. Raises ValueError for an unknown optimizer."""
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer={optimizer!r} must be one of {', '.join(OPTIMIZERS)}.")
    return f"{optimizer} step of an MLP {'-'.join(map(str, WIDTHS))}, batch {BATCH}, float32"


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images of standard normal numbers, and a label for each."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((BATCH, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], BATCH)


def start() -> list[np.ndarray]:
    """The weights and biases that every step begins with."""
    return [p.numpy() for p in network("numpy").parameters()]


def network(device: str) -> Sequential:
    """The network, with the same weights on every device."""
    layers: list[Any] = []
    saved = random_state()  # the user's, which continues afterwards as if nothing had been drawn
    manual_seed(2)  # a seed with no input of relu within 2e-6 of 0, where rounding would choose the side
    try:
        for inputs, outputs in pairwise(WIDTHS):
            layers += [Linear(inputs, outputs, device=device), OPS["relu"]]
    finally:
        set_random_state(saved)
    return Sequential(*layers[:-1])


def ours(
    optimizer: str, device: str, images: np.ndarray, labels: np.ndarray, mode: Callable = lambda step: step,
    wrap: Wrap = as_it_is,
) -> Call:  # fmt: skip
    """The step by minigrad on this batch; each call takes one and returns its loss. `mode`: eager, or mg.graph.

    wrap: of the model, e.g. DataParallel.
    """
    model = wrap(network(device))
    updates: Optimizer = SGD(model.parameters(), 0.05, 0.9) if optimizer == "SGD" else Adam(model.parameters(), 1e-3)
    x, y = tensor(images, device=device), tensor(labels, device=device)

    def step(x: Any, y: Any) -> Any:
        updates.zero_grad()
        loss = OPS["cross_entropy"](model(x), y)
        loss.backward()
        updates.step()
        return loss

    run = mode(step)
    return lambda: run(x, y)


def must_agree(works: Mapping[str, Call], truth: Call, rtol: float = 1e-4) -> None:
    """Raise ValueMismatch where a loss differs from the true one."""
    for number in range(1, CHECKED + 1):
        expected = truth().item()
        for name, step in works.items():
            loss = step().item()
            if not abs(loss - expected) <= rtol * abs(expected):
                raise ValueMismatch(f"{name}: the loss of step {number} is {loss}, on numpy {expected}; not timed.")


def timed(works: Mapping[str, Call], wait: Call, repeats: int) -> dict[str, Timing]:
    """Time some steps in a row until the device has done them; `wait` waits for every stream, PyTorch's too."""
    calls = {name: max(3, min(CALLS, int(ENOUGH / clocked(step, 1, wait, wait)))) for name, step in works.items()}
    return in_turns(works, calls, repeats, wait, wait)
