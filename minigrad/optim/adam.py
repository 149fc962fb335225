"""Adam and AdamW: steps of a length that the gradients' own size does not change."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from minigrad.devices.array import Array
from minigrad.errors import require, require_number
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.multi_tensor import MANY, arguments, blocks, multi_tensor
from minigrad.optim.optimizer import Optimizer
from minigrad.tensor import Tensor

ADAM_STEPS = multi_tensor("optim.cu", "adam_steps")
ADAM_COUNTS = Kernel("optim.cu", "adam_counts", ("1",), (str(MANY),))


def two_below_one(who: str, name: str, value: Any) -> tuple[float, ...]:
    """The two numbers as a tuple. Raises TypeError or ValueError."""
    if len(require(f"{who}: {name}", value, list | tuple, "two numbers, e.g. (0.9, 0.999)")) != 2:
        raise ValueError(f"{who}: {name}={value!r:.60} must be two numbers, e.g. (0.9, 0.999).")
    return tuple(require_number(who, f"{name}[{i}]", x, below=1) for i, x in enumerate(value))


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr * m' / (sqrt(v') + eps), where m' = m / (1 - b1^t).

    g is the gradient + weight_decay * p. Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015.
    """

    states = ("m", "v", "t")
    reads_lr = True
    decoupled = False  # weight_decay is a part of the gradient
    checks: ClassVar = Optimizer.checks | {
        "betas": two_below_one, "eps": require_number, "weight_decay": require_number
    }  # fmt: skip

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(parameters, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def _start(self, p: Any) -> list[np.ndarray]:
        return [np.zeros(p.shape, p.dtype), np.zeros(p.shape, p.dtype), np.zeros(1, np.int32)]

    def _update(self, p: Any, g: Any, m: Any, v: Any, t: Any) -> None:
        if isinstance(p, Array):
            return Adam._launch(self, [(p, g, m, v, t)])
        (b1, b2), (decay, shrink) = self.betas, self._decays()
        g = g + decay * p if decay else g
        t += 1
        m += (1 - b1) * (g - m)
        v += (1 - b2) * (g * g - v)
        p *= 1 - self.lr * shrink
        p -= self.lr / (1 - b1 ** int(t[0])) * m / (np.sqrt(v / (1 - b2 ** int(t[0]))) + self.eps)

    def _decays(self) -> tuple[float, float]:
        """weight_decay as a part of the gradient, and apart from it."""
        return (0.0, self.weight_decay) if self.decoupled else (self.weight_decay, 0.0)

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        """t counts the steps of a parameter, on the device: a graph replays only the work of the device."""
        ADAM_COUNTS.launch()(*arguments([row[-1:] for row in rows]))
        arrays, (c1, c2) = arguments([(*row, row[0].size) for row in rows]), (1 - beta for beta in self.betas)
        ADAM_STEPS.launch(blocks(rows))(*arrays, self._lr, c1, c2, self.eps, *self._decays())


class AdamW(Adam):
    """Adam, and before each step p = p - lr * weight_decay * p, which is not divided by the size of the gradients.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.
    """

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(parameters, lr, betas, eps, weight_decay)
