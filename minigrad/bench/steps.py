"""A whole training step, forward, backward and update: eager and as a graph, beside PyTorch's in the same process."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.bench.by_hand import training_step as by_hand_step
from minigrad.bench.measurement import RIVALS
from minigrad.bench.record import records
from minigrad.bench.timing import Timing
from minigrad.check import ValueMismatch
from minigrad.create import seeded, tensor
from minigrad.cuda_graph import graph
from minigrad.devices import check, get, why_not
from minigrad.nn import Linear, Sequential
from minigrad.op import OPS
from minigrad.optim import SGD, Adam, Optimizer
from minigrad.require import whole, words

WIDTHS, BATCH = (784, 512, 256, 10), 128
OPTIMIZERS = ("SGD", "Adam")
CHECKED = 6  # steps that are compared with NumPy's: of a graph, three replays among them
CALLS, ENOUGH = 50, 0.1  # steps in a row that are timed, or as many as fill so many seconds
Step = Callable[[], Any]


@dataclass(frozen=True)
class TrainingStep:
    """The time of a step by each way to take it, the host's time included."""

    title: str
    device: str
    date: str
    times: Mapping[str, Timing]

    def _table(self) -> Any:
        from minigrad.show.tables import table

        rows = [(name, f"{t.seconds * 1e6:.1f}", f"{t.fastest * 1e6:.1f}") for name, t in self.times.items()]
        return table(rows, ("step", "median us", "fastest us"))

    def __repr__(self) -> str:
        return f"{self.title}, on {self.device}, {self.date}\n{self._table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>{self.title}, on {self.device}, {self.date}</p>{self._table()._repr_html_()}"


def training_step(optimizer: str = "SGD", against: Sequence[str] = (), repeats: int = 15) -> TrainingStep:
    """Time a step of the network 784-512-256-10 with 128 images a batch, in turns with those of `against`.

    "torch": PyTorch, eager and as a CUDA graph. "numpy": NumPy by hand and minigrad on `numpy`, which need no GPU.
    First the losses of some steps are compared with those of `numpy`. Raises DeviceError without a GPU to time on.
    """
    must_be_known(optimizer)
    against = words("mg.bench.training_step", "against", against, RIVALS)
    repeats = whole("mg.bench.training_step", "repeats", repeats, 1)
    gpu: Any = None if why_not("cuda") and set(against) == {"numpy"} else get(check("cuda"))
    images, labels = batch()
    works = {}
    if gpu:
        works["minigrad"] = ours(optimizer, "cuda", images, labels)
        works["minigrad, graph"] = ours(optimizer, "cuda", images, labels, graph)
    if "torch" in against:
        works |= pytorch(optimizer, images, labels)
    if "numpy" in against:
        works["minigrad on numpy"] = ours(optimizer, "numpy", images, labels)
        works["NumPy by hand"] = by_hand(optimizer, images, labels)
    must_agree(works, ours(optimizer, "numpy", images, labels))
    times = in_turns(works, gpu.finish if gpu else lambda: None, repeats)
    place = gpu.label if gpu else f"{os.cpu_count()} processors ({platform.machine()})"
    return TrainingStep(title(optimizer), place, date.today().isoformat(), times)


def must_be_known(optimizer: str) -> None:
    """Raise ValueError where nobody steps with this optimizer."""
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer={optimizer!r} must be one of {', '.join(OPTIMIZERS)}.")


def recorded_step(optimizer: str = "SGD") -> TrainingStep:
    """The newest recorded times of this step. Raises ValueError where there are none."""
    must_be_known(optimizer)
    for record in records():
        if times := record.steps.get(title(optimizer)):
            return TrainingStep(title(optimizer), record.device, record.date, times)
    raise ValueError(f"no record has times of an {title(optimizer)}. On a GPU: minigrad bench --step --against torch.")


def title(optimizer: str) -> str:
    """What is timed."""
    return f"{optimizer} step of an MLP {'-'.join(map(str, WIDTHS))}, batch {BATCH}, float32"


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images of normal numbers, and a label for each."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((BATCH, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], BATCH)


def pytorch(optimizer: str, images: np.ndarray, labels: np.ndarray) -> dict[str, Step]:
    """The same step by PyTorch. Raises ImportError where it is not installed."""
    from minigrad.bench import pytorch_steps

    return pytorch_steps.steps(optimizer, [p.numpy() for p in network("numpy").parameters()], images, labels)


def eager(step: Step) -> Step:
    """The step as it is."""
    return step


def network(device: str) -> Sequential:
    """The network, with the same numbers on every device."""
    layers: list[Any] = []
    with seeded(2):  # then nothing that relu gets is within 2e-6 of 0, where rounding would choose the side
        for inputs, outputs in pairwise(WIDTHS):
            layers += [Linear(inputs, outputs, device=device), OPS["relu"]]
    return Sequential(*layers[:-1])


def ours(optimizer: str, device: str, images: np.ndarray, labels: np.ndarray, way: Callable = eager) -> Step:
    """A step by minigrad on this batch; each call takes one and returns its loss."""
    model = network(device)
    made: Optimizer = SGD(model.parameters(), 0.05, 0.9) if optimizer == "SGD" else Adam(model.parameters(), 1e-3)
    x, y = tensor(images, device=device), tensor(labels, device=device)

    def step(x: Any, y: Any) -> Any:
        made.zero_grad()
        loss = OPS["cross_entropy"](model(x), y)
        loss.backward()
        made.step()
        return loss

    taken = way(step)
    return lambda: taken(x, y)


def by_hand(optimizer: str, images: np.ndarray, labels: np.ndarray) -> Step:
    """The same step in NumPy alone."""
    numbers = [p.numpy() for p in network("numpy").parameters()]
    step = by_hand_step(optimizer, list(zip(numbers[::2], numbers[1::2], strict=True)), images, labels)
    return lambda: np.float64(step())


def must_agree(works: Mapping[str, Step], truth: Step, rtol: float = 1e-4) -> None:
    """Raise ValueMismatch where a loss differs from that of the truth."""
    for number in range(1, CHECKED + 1):
        expected = truth().item()
        for name, step in works.items():
            loss = step().item()
            if not abs(loss - expected) <= rtol * abs(expected):
                raise ValueMismatch(f"{name}: the loss of step {number} is {loss}, on numpy {expected}; not timed.")


def in_turns(works: Mapping[str, Step], wait: Callable[[], None], repeats: int) -> dict[str, Timing]:
    """Each work in turn, some steps in a row, until the device has done them: `wait` waits for every stream of it."""

    def timed(step: Step, calls: int) -> float:
        wait()
        start = perf_counter()
        for _ in range(calls):
            step()
        wait()
        return (perf_counter() - start) / calls

    calls = {name: max(3, min(CALLS, int(ENOUGH / timed(step, 1)))) for name, step in works.items()}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, step in works.items():
            taken[name].append(timed(step, calls[name]))
    return {name: Timing.of(seconds, host=True) for name, seconds in taken.items()}
