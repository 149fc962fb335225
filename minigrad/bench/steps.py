"""A whole training step, forward, backward and update: eager and as a graph, beside PyTorch's in the same process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.bench.timing import Timing
from minigrad.create import manual_seed, tensor
from minigrad.cuda_graph import graph
from minigrad.devices import check, get
from minigrad.nn import Linear, Sequential
from minigrad.op import OPS
from minigrad.optim import SGD, Adam, Optimizer

WIDTHS, BATCH = (784, 512, 256, 10), 128
OPTIMIZERS = ("SGD", "Adam")
CHECKED, CALLS = 5, 50  # steps that are compared with NumPy's; steps in a row that are timed
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
    """Time a step of the network 784-512-256-10 with 128 images a batch, in turns with PyTorch's if `against` names it.

    First the losses of some steps are compared with those of `numpy`. Raises DeviceError where there is no GPU.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer={optimizer!r} must be one of {', '.join(OPTIMIZERS)}.")
    gpu: Any = get(check("cuda"))
    images, labels = batch()
    works = {"minigrad": ours(optimizer, "cuda", images, labels)}
    works["minigrad, graph"] = ours(optimizer, "cuda", images, labels, graph)
    must_agree(works, ours(optimizer, "numpy", images, labels))
    if "torch" in against:
        works |= pytorch(optimizer, images, labels)
    times = in_turns(works, gpu.synchronize, repeats)
    name = "-".join(map(str, WIDTHS))
    title = f"{optimizer} step of an MLP {name}, batch {BATCH}, float32"
    return TrainingStep(title, gpu.label, date.today().isoformat(), times)


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images of normal numbers, and a label for each."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((BATCH, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], BATCH)


def eager(step: Step) -> Step:
    """The step as it is."""
    return step


def ours(optimizer: str, device: str, images: np.ndarray, labels: np.ndarray, way: Callable = eager) -> Step:
    """A step by minigrad on this batch; each call takes one and returns its loss."""
    manual_seed(0)
    layers: list[Any] = []
    for inputs, outputs in pairwise(WIDTHS):
        layers += [Linear(inputs, outputs, device=device), OPS["relu"]]
    model = Sequential(*layers[:-1])
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


def must_agree(works: Mapping[str, Step], truth: Step, rtol: float = 1e-4) -> None:
    """Raise RuntimeError where a loss differs from that of the truth."""
    for number in range(1, CHECKED + 1):
        expected = truth().item()
        for name, step in works.items():
            loss = step().item()
            if not abs(loss - expected) <= rtol * abs(expected):
                raise RuntimeError(f"{name}: the loss of step {number} is {loss}, on numpy {expected}; not timed.")


def in_turns(works: Mapping[str, Step], wait: Callable[[], None], repeats: int) -> dict[str, Timing]:
    """Each work in turn, so many steps in a row, until the device has done them."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, step in works.items():
            wait()
            start = perf_counter()
            for _ in range(CALLS):
                step()
            wait()
            taken[name].append((perf_counter() - start) / CALLS)
    return {name: Timing.of(seconds, host=True) for name, seconds in taken.items()}


def pytorch(optimizer: str, images: np.ndarray, labels: np.ndarray) -> dict[str, Step]:
    """The same step by PyTorch in strict float32, on the device's default stream: eager, and as a CUDA graph."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.tensor(images, device="cuda"), torch.tensor(labels, device="cuda")

    def made() -> Step:
        layers: list[Any] = []
        for inputs, outputs in pairwise(WIDTHS):
            layers += [torch.nn.Linear(inputs, outputs, device="cuda"), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1])
        weights = model.parameters()
        adam = optimizer == "Adam"
        optim = torch.optim.Adam(weights, 1e-3, capturable=True) if adam else torch.optim.SGD(weights, 0.05, 0.9)

        def step() -> Any:
            optim.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optim.step()
            return loss

        return step

    captured, replay, side = made(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as its documentation asks: some steps before the capture, on another stream
        for _ in range(3):
            captured()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(replay):
        captured()

    def replayed() -> Any:
        replay.replay()
        return captured  # kept, with the memory that the graph works on

    return {"PyTorch": made(), "PyTorch, graph": replayed}
