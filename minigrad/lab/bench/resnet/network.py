"""ResNet-18 by minigrad as the benchmark runs it: weights, a batch, a training step and an inference."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from minigrad import nn
from minigrad.create import tensor
from minigrad.devices.random import manual_seed, random_state, set_random_state
from minigrad.lab.bench.resnet.modes import Mode
from minigrad.lab.bench.timer import Call, Wrap, as_it_is
from minigrad.operators import OPS
from minigrad.optim import SGD
from minigrad.replay.graph import graph
from minigrad.tape import no_grad

SIZE, CLASSES = 224, 1000  # pixels along each side of an image
STEM, WIDTHS, BLOCKS = "imagenet", (64, 128, 256, 512), 2
RATE, MOMENTUM = 5e-4, 0.9  # of few images; with a larger rate the losses of correct float32 steps soon part by 1e-3
LAYOUT = "NHWC"


@dataclass(frozen=True)
class Task:
    """The weights, images and labels that all contestants begin with."""

    state: Mapping[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray


def task(batch: int) -> Task:
    """Images of standard normal numbers with a label for each, and a state of the network."""
    rng = np.random.default_rng(batch)
    images = rng.standard_normal((batch, 3, SIZE, SIZE), np.float32)
    return Task(start(), images, rng.integers(0, CLASSES, batch))


def start() -> dict[str, np.ndarray]:
    """A state with the normal numbers of He, sqrt(2 / (K R S)), in convolutions, and running statistics of no data.

    With means of 0 and variances of 1 an evaluation that ignored them would pass.
    """
    rng = np.random.default_rng(0)
    state = network("numpy").state_dict()
    for name, x in state.items():
        if x.ndim == 4:
            x[:] = rng.standard_normal(x.shape) * sqrt(2 / (x.size / x.shape[1]))
        elif name.endswith("running_mean"):
            x[:] = 0.1 * rng.standard_normal(x.shape)
        elif name.endswith("running_var"):
            x[:] = rng.uniform(0.5, 1.5, x.shape)
    return state


def network(device: str, state: Mapping[str, np.ndarray] | None = None) -> nn.Module:
    """The network on a device, with this state, in the layout that suits its convolutions."""
    with own_random_numbers():
        model = nn.ResNet(CLASSES, STEM, 3, WIDTHS, BLOCKS, device=device)
    if state:
        model.load_state_dict(dict(state))
        model.to(layout=LAYOUT)
    return model


@contextmanager
def own_random_numbers() -> Iterator[None]:
    """Random numbers from the same seed each time; the user's continue afterwards as if none had been drawn."""
    saved = random_state()
    manual_seed(0)
    try:
        yield
    finally:
        set_random_state(saved)


def training(task: Task, mode: Mode, device: str, replayed: bool = False, wrap: Wrap = as_it_is) -> Call:
    """Steps on this batch, eager or as a graph; each call takes one and returns its loss. wrap: e.g. DataParallel."""
    model, (x, y) = wrap(network(device, task.state)), batch_on(device, task)
    updates = SGD(model.parameters(), RATE, MOMENTUM)

    def step(y: Any) -> Any:
        updates.zero_grad()
        loss = OPS["cross_entropy"](model(x), y)
        loss.backward()
        updates.step()
        return loss

    return _call(step, y, mode, replayed)


def inference(task: Task, mode: Mode, device: str, replayed: bool = False) -> Call:
    """The logits of these images, eager or as a graph, with batch norms folded into convolutions."""
    model, (x, y) = nn.folded(network(device, task.state)), batch_on(device, task)

    def logits(_: Any) -> Any:
        with no_grad():
            return model(x)

    return _call(logits, y, mode, replayed)


def batch_on(device: str, task: Task) -> tuple[Any, Any]:
    """Images and labels, which stay on the device: no contestant copies them again."""
    return tensor(task.images, device=device).to(layout=LAYOUT), tensor(task.labels, device=device)


def _call(step: Callable, labels: Any, mode: Mode, replayed: bool) -> Call:
    run = graph(step) if replayed else step

    def call() -> Any:
        with mode.within():
            return run(labels)

    return call
