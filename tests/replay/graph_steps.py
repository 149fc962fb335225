"""A small network and its training step, on the fake GPU and on NumPy."""

import numpy as np

import minigrad as mg
from minigrad.devices.array import Array


def on(gpu, host, requires_grad=False):
    return mg.Tensor(Array.upload(gpu, np.asarray(host)), requires_grad)


class Network:
    """A network, an optimizer and a step, all on one device; the numbers are the same on each."""

    def __init__(self, gpu, make=lambda p: mg.optim.SGD(p, 0.1, 0.9)):
        self.gpu, rng = gpu, np.random.default_rng(0)
        hosts = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7,), (7, 3), (3,))]
        self.w1, self.b1, self.w2, self.b2 = self.parameters = [
            on(gpu, x, True) if gpu else mg.Tensor(x.copy(), True) for x in hosts
        ]
        self.optimizer = make(self.parameters)

    def loss(self, x, y):
        return mg.cross_entropy((x @ self.w1 + self.b1).relu() @ self.w2 + self.b2, y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss


def batch(seed, rows=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 5)).astype(np.float32), rng.integers(0, 3, rows)
