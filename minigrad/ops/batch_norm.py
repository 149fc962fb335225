"""batch_norm: each channel shifted and scaled to mean 0 and variance 1, then by its own weight and bias."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.errors import require_bool, require_number
from minigrad.kernels.kernel import Kernel
from minigrad.op import OPS, Case, Op
from minigrad.ops.elementwise import per_element
from minigrad.ops.window import BLOCKS
from minigrad.tape import no_grad
from minigrad.tensor import Tensor


def forward(
    x: np.ndarray, running_mean: np.ndarray, running_var: np.ndarray, weight: np.ndarray | None = None,
    bias: np.ndarray | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> tuple:  # fmt: skip
    """y = (x - mean) / sqrt(var + eps) * weight + bias; in evaluation with the running mean and variance"""
    axes = around(x.ndim)
    mean, var = (x.mean(axes), x.var(axes)) if training and x.size else (running_mean, running_var)
    y = (x - per_channel(mean, x)) / np.sqrt(per_channel(var, x) + x.dtype.type(eps))
    y = y if weight is None else y * per_channel(weight, x)
    return y if bias is None else y + per_channel(bias, x), mean, var


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, var: np.ndarray, shapes: tuple,
    training: bool, eps: float,
) -> tuple:  # fmt: skip
    """dbias = sum of dy, dweight = sum of dy n, dx = weight / sqrt(var + eps) * (dy - (dbias + dweight n) / count)

    n is the normalized x; in evaluation, where the statistics do not depend on x, the two sums are left out of dx.
    """
    axes, inverse = around(x.ndim), 1 / np.sqrt(var + x.dtype.type(eps))
    normal = (x - per_channel(mean, x)) * per_channel(inverse, x)
    dbias, dweight = dy.sum(axes), (dy * normal).sum(axes)
    scale = inverse if weight is None else weight * inverse
    dx, dmean, dvar = dy, -scale * dbias, -scale * dweight * inverse / 2
    if training and x.size:
        count = x.dtype.type(x.size // x.shape[1])
        dx = dy - (per_channel(dbias, x) + per_channel(dweight, x) * normal) / count
        dmean, dvar = np.zeros_like(dbias), np.zeros_like(dbias)
    return (per_channel(scale, x) * dx, dmean, dvar, dweight, dbias)[: len(shapes)]


def around(ndim: int) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, ndim))


def per_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A number for each channel, in a shape that broadcasts with x."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def _per_block(name: str) -> Kernel:
    return Kernel("batch_norm.cu", f"batch_norm_{name}", ("channels",), ("BLOCK",), "channels", BLOCK=BLOCKS)


kernels = {
    "forward_statistics": _per_block("statistics"),
    "forward": per_element("batch_norm.cu", "batch_norm_forward", "size", BLOCKS),
    "backward_sums": _per_block("sums"),
    "backward": per_element("batch_norm.cu", "batch_norm_backward", "size", BLOCKS),
    "backward_running": per_element("batch_norm.cu", "batch_norm_backward_running", "channels", BLOCKS),
}


def launch(
    kernels: dict[str, Kernel], x: Array, running_mean: Array, running_var: Array, weight: Array | None = None,
    bias: Array | None = None, *, training: bool, momentum: float, eps: float,
) -> tuple:  # fmt: skip
    """The statistics of the batch, in training, then the normalization."""
    (channels, inner), mean, var = (x.shape[1], prod(x.shape[2:])), running_mean, running_var
    if training and x.size:
        mean, var = (Array.empty(x.device, (channels,), x.dtype) for _ in range(2))
        kernels["forward_statistics"].launch(channels)(x, mean, var, x.shape[0], channels, inner)
    y = Array.empty(x.device, x.shape, x.dtype)
    kernels["forward"].launch(x.size)(x, mean, var, weight, bias, y, eps, channels, inner, x.size)
    return y, mean, var


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, x: Array, weight: Array | None, mean: Array, var: Array,
    shapes: tuple, training: bool, eps: float,
) -> tuple:  # fmt: skip
    """Two sums for each channel, then dx by element."""
    channels, inner = x.shape[1], prod(x.shape[2:])
    dweight, dbias = (Array.zeros(dy.device, (channels,), dy.dtype) for _ in range(2))
    grads: list[Array | None] = [None, None, None, dweight, dbias]
    training = training and x.size > 0
    if x.size:
        sums = kernels["backward_sums"].launch(channels)
        sums(dy, x, mean, var, dweight, dbias, eps, x.shape[0], channels, inner)
    if needs[0]:
        dx, count = Array.empty(dy.device, x.shape, dy.dtype), x.size // channels if training else 0
        kernels["backward"].launch(x.size)(
            dy, x, mean, var, weight, dweight, dbias, dx, eps, count, channels, inner, x.size
        )
        grads[0] = dx
    if needs[1] or needs[2]:
        dmean, dvar = (Array.zeros(dy.device, (channels,), dy.dtype) for _ in range(2))
        if not training:
            running = kernels["backward_running"].launch(channels)
            running(var, weight, dweight, dbias, dmean, dvar, eps, channels)
        grads[1:3] = dmean, dvar
    return tuple(grad if need else None for grad, need in zip(grads, needs, strict=False))


def keep_running(
    inputs: Sequence[Tensor], statistics: Sequence[Any], training: bool, momentum: float, eps: float
) -> None:
    """running = (1 - momentum) running + momentum (statistic of the batch), in place; the variance with n - 1.

    y is made with the variance over n. With n - 1 its mean over many batches is that of the whole data.
    """
    x, *running = inputs[:3]
    if training and x.size:
        count = x.size // x.shape[1]
        with no_grad():
            for old, new, factor in zip(running, statistics, (1, count / (count - 1)), strict=True):
                old.assign(
                    OPS["add"](OPS["multiply"](old, 1 - momentum), OPS["multiply"](Tensor(new), momentum * factor))
                )


def prepare(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: Any = False,
    momentum: Any = 0.1, eps: Any = 1e-5,
) -> dict[str, Any]:  # fmt: skip
    """Raises ValueError for shapes, and in training for a batch with one value a channel, which has no variance."""
    if x.ndim < 2:
        raise ValueError(f"batch_norm: x is {x.shape}; it must be (N, C) or (N, C, ...).")
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    given = {name: array for name, array in named.items() if array is not None}
    must_be_floats("batch_norm", x, *given.values())
    for name, array in given.items():
        if array.shape != x.shape[1:2]:
            raise ValueError(f"batch_norm: {name} is {array.shape}; x has {x.shape[1]} channels: {x.shape[1:2]}.")
    training = require_bool("batch_norm", "training", training)
    if training and x.size and x.size == x.shape[1]:
        raise ValueError(
            f"batch_norm: in training x {x.shape} needs more than one value a channel, over N and the axes after C; "
            "one value is its own mean. Give a larger batch, or call the module's eval()."
        )
    momentum = require_number("batch_norm", "momentum", momentum, 0, 1 + 1e-9)
    return {"training": training, "momentum": momentum, "eps": require_number("batch_norm", "eps", eps)}


def cost(x: Any, running_mean: Any, running_var: Any, *more: Any, training: bool = False, **params: Any) -> tuple:
    """About 4 FLOPs for each x, and in training 4 for the statistics; x and the numbers of the channels read once."""
    channels = sum(array.size for array in more) + (0 if training and x.size else 2 * x.shape[1])
    return (8 if training else 4) * x.size, (2 * x.size + channels * bool(x.size)) * x.dtype.itemsize


def _case(*shape: int, affine: int = 2, nan: bool = False, **params: Any) -> Case:
    """affine: 2 with weight and bias, 0 without."""
    channels = shape[1]
    numbers = np.linspace(0.5, 2.0, channels), np.linspace(1.5, 0.75, channels)
    return Case((shape, *numbers, *(numbers[::-1][:affine])), params, nan=nan)


batch_norm = Op(
    "batch_norm",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("mean", "var"),
    after=keep_running,
    cost=cost,
    cases=[
        *(
            _case(*shape, training=training)
            for shape in ((2, 1), (3, 4, 5), (4, 3, 5, 7))
            for training in (True, False)
        ),
        _case(2, 33, 2, 3, affine=0, training=True),
        _case(2, 5, 33, 31, affine=1, training=True, eps=1e-3),
        _case(0, 3, 4, 5, training=True),
        _case(3, 2, 4, 5, nan=True, training=True),
        _case(3, 2, 4, 5, nan=True),
    ],
)
