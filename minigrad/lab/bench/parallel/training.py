"""Training steps on several GPUs: a model alone on each of them, and the same model with its gradients averaged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minigrad.devices import get
from minigrad.distributed import DataParallel, init
from minigrad.lab.bench import steps
from minigrad.lab.bench.parallel.messages import DEVICE, of_the_slowest, rival
from minigrad.lab.bench.resnet import network
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.lab.bench.timer import Call, Wrap, as_it_is, clocked
from minigrad.lab.bench.transformer import models
from minigrad.lab.bench.transformer.models import CHARACTERS
from minigrad.lab.check import ValueMismatch
from minigrad.replay.graph import graph

CHECKED, ENOUGH, MOST = 4, 0.1, 50  # losses compared; seconds or steps in a row
PAIRS = ("minigrad, graph, alone", "minigrad, graph"), ("PyTorch, alone", "PyTorch DDP")  # without and with messages


@dataclass(frozen=True)
class ParallelStep:
    """A training step of a model of MODELS with this batch on each GPU."""

    model: str
    batch: int

    @property
    def title(self) -> str:
        """ResNet-18 tf32, batch 128 a GPU"""
        return f"{self.model}, batch {self.batch} a GPU"

    def ours(self, wrap: Wrap, replayed: bool) -> Call:
        """The step by minigrad."""
        return MODELS[self.model][0](self.batch, wrap, replayed)

    def theirs(self, wrapped: bool) -> Call:
        """The step by PyTorch, eager: with DistributedDataParallel or alone."""
        return getattr(rival(), MODELS[self.model][1])(self.batch, wrapped)


def _resnet(batch: int, wrap: Wrap, replayed: bool) -> Call:
    return network.training(network.task(batch), MODES["tf32"], DEVICE, replayed, wrap)


def _mlp(batch: int, wrap: Wrap, replayed: bool) -> Call:
    return steps.ours("SGD", DEVICE, *steps.batch(), graph if replayed else lambda step: step, wrap)


def _gpt(batch: int, wrap: Wrap, replayed: bool) -> Call:
    return models.training(CHARACTERS, "tf32", DEVICE, replayed, wrap)


MODELS: dict[str, tuple[Callable[[int, Wrap, bool], Call], str]] = {
    "ResNet-18 tf32": (_resnet, "resnet"), "MLP 784-512-256-10 float32": (_mlp, "mlp"),
    "GPT of characters tf32": (_gpt, "gpt"),
}  # fmt: skip
STEPS = (
    ParallelStep("ResNet-18 tf32", 128), ParallelStep("ResNet-18 tf32", 64), ParallelStep("ResNet-18 tf32", 32),
    ParallelStep("MLP 784-512-256-10 float32", steps.BATCH), ParallelStep("GPT of characters tf32", CHARACTERS.texts),
)  # fmt: skip


# --- on a rank ---


def step_seconds(step: ParallelStep, against: Sequence[str]) -> dict[str, list[float]]:
    """Seconds a step in each run, those of the slowest rank, by contestant.

    All ranks have one batch, so that averaged gradients are those of each: losses must be those of the model alone.
    Raises ValueMismatch.
    """
    makers: dict[str, Callable[[], Call]] = {
        PAIRS[0][0]: partial(step.ours, as_it_is, True),
        PAIRS[0][1]: partial(step.ours, DataParallel, True),
        "minigrad, eager": partial(step.ours, DataParallel, False),
    }
    if "torch" in against:
        makers |= {PAIRS[1][0]: partial(step.theirs, False), PAIRS[1][1]: partial(step.theirs, True)}
    works, truth = dict[str, Call](), list[float]()
    for name, make in makers.items():
        works[name] = make()
        losses = [_number(works[name]()) for _ in range(CHECKED)]
        truth = truth or losses
        if not np.allclose(losses, truth, MODES["tf32"].loss):
            raise ValueMismatch(f"{step.title}: {name} has the losses {losses}, not {truth}; it is not timed.")
    comm, gpu = init().comm, get(DEVICE)
    finish: Call = gpu.finish  # type: ignore[attr-defined]
    counts = {name: max(3, min(MOST, int(ENOUGH / clocked(work, 1, finish, finish)))) for name, work in works.items()}
    counts = comm.bcast(counts)
    timed: dict[str, Call] = {name: partial(_many, work, counts[name], finish) for name, work in works.items()}
    found = of_the_slowest(timed, clocked, 1)
    return {name: [taken / counts[name] for taken in runs] for name, runs in found.items()}


def _many(work: Call, count: int, finish: Call) -> None:
    for _ in range(count):
        work()
    finish()


def _number(loss: Any) -> float:
    return float(loss.item())
