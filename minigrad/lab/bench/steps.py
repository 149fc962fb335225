"""A training step in NumPy alone: forward, backward and update by hand, to see what the tape costs."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.create import seeded, tensor
from minigrad.devices import check, get, why_not
from minigrad.errors import whole, words
from minigrad.lab.bench.measure import RIVALS
from minigrad.lab.bench.record import records
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch
from minigrad.nn import Linear, Sequential
from minigrad.op import OPS
from minigrad.optim import SGD, Adam, Optimizer
from minigrad.replay.graph import graph

Layers = Sequence[tuple[np.ndarray, np.ndarray]]  # weights (inputs, outputs) and biases; relu between the layers


def forward(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """The input of each layer, and the logits: h = max(h @ w + b, 0)."""
    kept = [x]
    for w, b in layers:
        kept.append(kept[-1] @ w)
        kept[-1] += b
        if len(kept) <= len(layers):
            np.maximum(kept[-1], 0, out=kept[-1])
    return kept


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean of -log(probability of the label), and its gradient, (probability - onehot(label)) / rows."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exps = np.exp(shifted)
    sums = exps.sum(axis=1, keepdims=True)
    loss = float((np.log(sums[:, 0]) - shifted[rows, labels]).mean())
    exps /= sums
    exps[rows, labels] -= 1
    exps /= len(labels)
    return loss, exps


def backward(layers: Layers, kept: list[np.ndarray], dy: np.ndarray) -> list[np.ndarray]:
    """The gradients of w and b of every layer, from the last to the first: dw = h^T @ dy, db = sum of dy's rows."""
    grads: list[np.ndarray] = []
    for at in reversed(range(len(layers))):
        grads = [kept[at].T @ dy, dy.sum(axis=0), *grads]
        if at:
            dy = dy @ layers[at][0].T
            dy *= kept[at] > 0
    return grads


def training_step_by_hand(optimizer: str, layers: Layers, x: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """Each call takes one step on this batch, in place, and returns its loss; numbers as in `minigrad.bench.steps`."""
    parameters = [p for layer in layers for p in layer]
    update = {"SGD": sgd, "Adam": adam}[optimizer](parameters)

    def step() -> float:
        kept = forward(layers, x)
        loss, dy = cross_entropy(kept[-1], labels)
        update(backward(layers, kept, dy))
        return loss

    return step


def sgd(parameters: list[np.ndarray], lr: float = 0.05, momentum: float = 0.9) -> Callable[[list[np.ndarray]], None]:
    """v = momentum * v + g, p = p - lr * v."""
    velocities = [np.zeros_like(p) for p in parameters]

    def update(grads: list[np.ndarray]) -> None:
        for p, g, v in zip(parameters, grads, velocities, strict=True):
            v *= momentum
            v += g
            p -= lr * v

    return update


def adam(parameters: list[np.ndarray], lr: float = 1e-3) -> Callable[[list[np.ndarray]], None]:
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr * m' / (sqrt(v') + eps)."""
    states = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    b1, b2, eps, t = 0.9, 0.999, 1e-8, 0

    def update(grads: list[np.ndarray]) -> None:
        nonlocal t
        t += 1
        for p, g, (m, v) in zip(parameters, grads, states, strict=True):
            m += (1 - b1) * (g - m)
            v += (1 - b2) * (g * g - v)
            p -= lr / (1 - b1**t) * m / (np.sqrt(v / (1 - b2**t)) + eps)

    return update


by_hand_step = training_step_by_hand

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
        from minigrad.display import table

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
    from minigrad.lab.bench.rivals import pytorch as pytorch_steps

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
