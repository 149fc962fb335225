"""Optimizers: each parameter is updated in place by one kernel that reads its gradient once."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from minigrad.convert import move
from minigrad.kernel import Kernel
from minigrad.ops.elementwise import per_element
from minigrad.require import a, number
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

SGD_STEP = per_element("optim.cu", "sgd_step")
ADAM_STEP = per_element("optim.cu", "adam_step")


class Optimizer:
    """A list of parameters and how to step them down their gradients."""

    def __init__(self, parameters: Iterable[Tensor], lr: float):
        if isinstance(parameters, Tensor):
            raise TypeError(f"{type(self).__name__} takes a list of tensors: [w], or model.parameters().")
        self.parameters = list(a(type(self).__name__, parameters, Iterable, "a list of tensors: model.parameters()"))
        self.lr = number(type(self).__name__, "lr", lr)
        if not self.parameters:
            raise ValueError(f"{type(self).__name__} got no parameters; pass model.parameters().")
        for p in self.parameters:
            if not (isinstance(p, Tensor) and p.is_leaf and p.requires_grad):
                raise TypeError(
                    f"{type(self).__name__}: a parameter is a leaf tensor with requires_grad=True; got {p!r:.60}. "
                    "Pass model.parameters()."
                )
        if len({id(p) for p in self.parameters}) < len(self.parameters):
            raise ValueError(f"{type(self).__name__}: a parameter is in the list twice; it would be stepped twice.")
        self._state: dict[tuple[int, str], Any] = {}

    def zero_grad(self) -> None:
        """Forget the gradients; the next backward starts from none."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        with no_grad():
            for i, parameter in enumerate(self.parameters):
                if parameter.grad is not None:
                    self._update(i, parameter, parameter.grad)

    def _update(self, i: int, p: Tensor, grad: Tensor) -> None:
        raise NotImplementedError

    def _kept(self, i: int, name: str, like: Tensor) -> Tensor:
        """A tensor that lives as long as the optimizer, zero at first, on the device of its parameter."""
        known = self._state.get((i, name))
        if known is None:
            known = Tensor(move(np.zeros(like.shape, like.dtype), like.device))
        elif known.device != like.device:
            known = known.to(like.device)
        self._state[i, name] = known
        return known


def _run(kernel: Kernel, *arguments: Any) -> None:
    size = arguments[0].size
    kernel.launch(size)(*arguments, size)


class SGD(Optimizer):
    """v = momentum * v + g, then p = p - lr * v."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.0):
        super().__init__(parameters, lr)
        self.momentum = number("SGD", "momentum", momentum)

    def _update(self, i: int, p: Tensor, grad: Tensor) -> None:
        v = self._kept(i, "velocity", p)
        if p.device != "numpy":
            return _run(SGD_STEP, p, grad, v, self.lr, self.momentum)
        p.written_by("SGD")
        v.array *= self.momentum
        v.array += grad.array
        p.array -= self.lr * v.array


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr * m' / (sqrt(v') + eps), where m' = m / (1 - b1^t).

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(parameters, lr)
        if len(a("Adam: betas", betas, list | tuple, "two numbers, e.g. (0.9, 0.999)")) != 2:
            raise ValueError(f"Adam: betas={betas!r:.60} must be two numbers, e.g. (0.9, 0.999).")
        b1, b2 = betas
        self.betas = number("Adam", "betas[0]", b1, below=1), number("Adam", "betas[1]", b2, below=1)
        self.eps = number("Adam", "eps", eps)
        self.steps = [0] * len(self.parameters)  # of each parameter: one without a gradient takes none

    def _update(self, i: int, p: Tensor, grad: Tensor) -> None:
        (b1, b2), m, v = self.betas, self._kept(i, "mean", p), self._kept(i, "square", p)
        self.steps[i] += 1
        lr, scale = self.lr / (1 - b1 ** self.steps[i]), 1 / (1 - b2 ** self.steps[i])
        if p.device != "numpy":
            return _run(ADAM_STEP, p, grad, m, v, lr, 1 - b1, 1 - b2, scale, self.eps)
        p.written_by("Adam")
        m.array += (1 - b1) * (grad.array - m.array)
        v.array += (1 - b2) * (grad.array**2 - v.array)
        p.array -= lr * m.array / (np.sqrt(scale * v.array) + self.eps)
