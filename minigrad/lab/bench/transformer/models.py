"""The GPTs of the benchmark, their training steps, and texts that they continue."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.lab.bench.resnet.network import own_random_numbers
from minigrad.lab.bench.timer import Call, Wrap, as_it_is
from minigrad.nn.transformer import GPT
from minigrad.operators import OPS
from minigrad.optim import AdamW
from minigrad.replay.graph import graph

RATE = 1e-3
TRAINED = ("tf32", "bf16")  # modes of training steps
WORDS = 128  # that are generated


@dataclass(frozen=True)
class Model:
    """The extents of a GPT, and the texts of a batch."""

    name: str
    words: int
    length: int
    width: int
    heads: int
    layers: int
    texts: int

    def build(self, device: str) -> GPT:
        """The GPT, with the same weights on every device."""
        with own_random_numbers():
            return GPT(self.words, self.length, self.width, self.heads, self.layers, device=device)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of words, and of those that come next."""
        text = np.random.default_rng(0).integers(0, self.words, (self.texts, self.length + 1))
        return text[:, :-1].copy(), text[:, 1:].copy()

    def step_title(self, mode: str) -> str:
        """GPT-2 124M training step, 4 x 1024, tf32"""
        return f"{self.name} training step, {self.texts} x {self.length}, {mode}"

    @property
    def generation_title(self) -> str:
        return f"{self.name}, a word of {WORDS}, batch 1, with a cache"


CHARACTERS = Model("GPT of characters", 65, 256, 384, 6, 6, 64)
GPT2 = Model("GPT-2 124M", 50304, 1024, 768, 12, 12, 4)


def training(of: Model, mode: str, device: str, replayed: bool = False, wrap: Wrap = as_it_is) -> Call:
    """Steps on one batch, eager or as a graph; each call takes one and returns its loss. wrap: of the model."""
    model = wrap(of.build(device))
    updates, (x, y) = AdamW(model.parameters(), RATE), (tensor(part, device=device) for part in of.batch())

    def step(x: Any, y: Any) -> Any:
        updates.zero_grad()
        loss = OPS["cross_entropy"](model(x).reshape(-1, of.words), y.reshape(-1))
        loss.backward()
        updates.step()
        return loss

    run = graph(step) if replayed else step

    def call() -> Any:
        with within(mode):
            return run(x, y)

    return call


def generation(of: Model, device: str) -> Call:
    """The likeliest text after one word, in the precision of the user."""
    model = of.build(device)
    return lambda: model.generate(np.zeros((1, 1), np.int64), WORDS, temperature=0)


def within(mode: str) -> AbstractContextManager:
    """minigrad computes in this mode."""
    return MODES[mode].within()
