"""SyncBatchNorm2d: batch norm with the statistics of the batches of all ranks."""

from collections.abc import Sequence
from itertools import count

from minigrad.devices.dtypes import wide
from minigrad.distributed.collectives import sum_of_counts
from minigrad.distributed.differentiable import sum_over_ranks
from minigrad.errors import require
from minigrad.nn.module import Module
from minigrad.nn.normalization import BatchNorm2d
from minigrad.operators import OPS
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

_numbers = count(1)


class SyncBatchNorm2d(BatchNorm2d):
    """BatchNorm2d whose mean and variance, in training, are those of the batches of all ranks.

    mean = sum of x / n, var = sum of (x - mean)^2 / n, the sums over all ranks, the axes N, H and W, and n the number
    of their terms; ranks may have batches of different sizes, or empty ones. Value, running statistics and gradients
    are those of one process with the whole batch. Forward and backward send two sums of (channels,) each, so every rank
    calls both; in evaluation nothing is sent. Raises ValueError on every rank where the modules differ.
    """

    _number = 0  # by the order of first calls, the same on all ranks: two layers of the same shape are not mixed up

    @classmethod
    def convert(cls, module: Module) -> Module:
        """Make every BatchNorm2d of the module one of this class, in place, with the same parameters and buffers."""
        for _, part in require("SyncBatchNorm2d.convert", module, Module, "a module").named_modules():
            if type(part) is BatchNorm2d:
                part.__class__ = cls  # every reference to it, as in a tuple of parts or a bound method, stays right
        return module

    def _terms(self, x: Tensor) -> int:
        self._number = self._number or next(_numbers)
        settings = f"{self.running_mean.shape[0]} channels, eps={self.eps:g}, momentum={self.momentum}"
        who = f"SyncBatchNorm2d number {self._number} with {settings}: the count"
        return sum_of_counts(super()._terms(x), who)

    def _normalized(self, op: str, x: Tensor, given: Sequence[Tensor], terms: int, momentum: float) -> Tensor:
        if not terms:
            return super()._normalized(op, x, given, terms, momentum)
        if terms == 1:
            raise ValueError("SyncBatchNorm2d: the batches of all ranks have one value a channel, its own mean.")
        exact, axes = x.astype(wide(x.dtype)), (0, 2, 3)
        mean = sum_over_ranks(exact.sum(axes), "the mean of SyncBatchNorm2d") / terms
        away = exact - mean.reshape(-1, 1, 1)
        var = sum_over_ranks((away * away).sum(axes), "the variance of SyncBatchNorm2d") / terms
        with no_grad():
            for old, new in ((self.running_mean, mean), (self.running_var, var * (terms / (terms - 1)))):
                old.assign((1 - momentum) * old + momentum * new)
        return OPS[op](x, mean, var, *given, training=False, eps=self.eps)
