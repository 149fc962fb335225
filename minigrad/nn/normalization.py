"""Layers that normalize: BatchNorm2d each channel of a batch, LayerNorm and RMSNorm each row."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad import create
from minigrad.devices.dtypes import check_dtype, wide
from minigrad.errors import require_bool, require_int, require_number
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tape import mode
from minigrad.tensor import Tensor


class BatchNorm2d(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias for each channel of x (N, channels, H, W).

    In training mean and variance are those of the batch, and the running ones move towards them by `momentum`, as in
    PyTorch: the running variance is the one with n - 1. momentum=None makes them the mean over all batches so far. In
    evaluation y is made with the running ones. weight starts as 1 and bias as 0; affine=False leaves them out. For x in
    bfloat16 the numbers of the channels are float32.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self, channels: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        device: str | None = None, dtype: Any = "float32",
    ):  # fmt: skip
        require_int("BatchNorm2d", "channels", channels, 1)
        self.eps, self.momentum = require_number("BatchNorm2d", "eps", eps), momentum
        affine = require_bool("BatchNorm2d", "affine", affine)
        like: dict[str, Any] = {"device": device, "dtype": wide(check_dtype(dtype))}
        self.weight = create.ones(channels, requires_grad=True, **like) if affine else None
        self.bias = create.zeros(channels, requires_grad=True, **like) if affine else None
        self.register_buffer("running_mean", create.zeros(channels, **like))
        self.register_buffer("running_var", create.ones(channels, **like))
        self.register_buffer("num_batches_tracked", create.tensor(np.array(0), device="numpy"))

    def forward(self, x: Tensor) -> Tensor:
        """batch_norm(x, running_mean, running_var, weight, bias)."""
        return self._run("batch_norm", x)

    def relu(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(forward(x) + residual), by one op."""
        if residual is not None and self.weight is None:
            return OPS["relu"](self.forward(x) + residual)
        return self._run("batch_norm_relu", x, *(() if residual is None else (residual,)))

    def _run(self, op: str, x: Tensor, *residual: Tensor) -> Tensor:
        """The op; a batch that it has taken in training is counted."""
        if x.ndim != 4:
            raise ValueError(f"{type(self).__name__}: x is {x.shape}; it must be (N, C, H, W).")
        affine = (self.weight, self.bias) if self.weight is not None else ()
        terms, momentum = self._terms(x) if self.training else 0, self.momentum
        if momentum is None:
            if terms and mode.recorder:
                raise RuntimeError(
                    "mg.graph: BatchNorm2d(momentum=None) weights each batch less than the one before it, and a replay "
                    "has one weight. Give the layer a momentum."
                )
            momentum = 1 / (int(self.num_batches_tracked.numpy()) + 1) if terms else 0.0
        y = self._normalized(op, x, (*affine, *residual), terms, momentum)
        if terms:
            mode.recorder.repeats(self._count) if mode.recorder else self._count()
        return y

    def _count(self) -> None:
        self.num_batches_tracked.assign(self.num_batches_tracked.numpy() + 1)

    def _terms(self, x: Tensor) -> int:
        """The number of elements of a channel, of which a batch in training has its statistics."""
        return x.size // x.shape[1] if x.size else 0

    def _normalized(self, op: str, x: Tensor, given: Sequence[Tensor], terms: int, momentum: float) -> Tensor:
        """The op, in training with the statistics of that many elements, which move the running ones."""
        params = {"training": self.training, "momentum": momentum, "eps": self.eps}
        return OPS[op](x, self.running_mean, self.running_var, *given, **params)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.running_mean.shape[0]})"


class LayerNorm(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias for each row of x (..., size), as in PyTorch.

    weight starts as 1 and bias as 0; affine=False leaves both out, bias=False the second. For x in bfloat16 they are
    float32.
    """

    def __init__(
        self, size: int, eps: float = 1e-5, affine: bool = True, bias: bool = True, device: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        require_int("LayerNorm", "size", size, 1)
        self.size, self.eps = size, require_number("LayerNorm", "eps", eps)
        like: dict[str, Any] = {"device": device, "dtype": wide(check_dtype(dtype)), "requires_grad": True}
        affine = require_bool("LayerNorm", "affine", affine)
        self.weight = create.ones(size, **like) if affine else None
        self.bias = create.zeros(size, **like) if require_bool("LayerNorm", "bias", bias) and affine else None

    def forward(self, x: Tensor) -> Tensor:
        """layer_norm(x, weight, bias)."""
        given = [part for part in (self.weight, self.bias) if part is not None]
        return OPS["layer_norm"](x, *given, eps=self.eps)

    def __repr__(self) -> str:
        return f"LayerNorm({self.size})"


class RMSNorm(Module):
    """y = x / sqrt(mean(x ^ 2) + eps) * weight for each row of x (..., size). weight starts as 1."""

    def __init__(
        self, size: int, eps: float = 1e-5, affine: bool = True, device: str | None = None, dtype: Any = "float32"
    ):
        require_int("RMSNorm", "size", size, 1)
        self.size, self.eps = size, require_number("RMSNorm", "eps", eps)
        like: dict[str, Any] = {"device": device, "dtype": wide(check_dtype(dtype)), "requires_grad": True}
        self.weight = create.ones(size, **like) if require_bool("RMSNorm", "affine", affine) else None

    def forward(self, x: Tensor) -> Tensor:
        """rms_norm(x, weight)."""
        return OPS["rms_norm"](x, *(() if self.weight is None else (self.weight,)), eps=self.eps)

    def __repr__(self) -> str:
        return f"RMSNorm({self.size})"
