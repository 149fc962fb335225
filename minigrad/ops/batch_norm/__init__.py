"""batch_norm: each channel shifted and scaled to mean 0 and variance 1, then by its own weight and bias."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.devices.layouts import in_layout
from minigrad.errors import require_bool, require_number
from minigrad.op import Case, Op
from minigrad.ops.batch_norm.kernels import kernels
from minigrad.ops.batch_norm.walk import Kernels, Walk


def forward(
    x: np.ndarray, running_mean: np.ndarray, running_var: np.ndarray, weight: np.ndarray | None = None,
    bias: np.ndarray | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> tuple:  # fmt: skip
    """y = (x - mean) / sqrt(var + eps) * weight + bias; in evaluation with the running mean and variance

    In training these move, in place, by `momentum` towards those of the batch. y is made with the variance over n. The
    running one is over n - 1: its mean over many batches is the variance of the whole data. Where nobody needs the
    running ones, give mg.zeros(C) and mg.ones(C).
    """
    dtype, x, mean, var = x.dtype, x.astype(wide(x.dtype), copy=False), running_mean, running_var
    if training and x.size:
        axes, terms = around(x.ndim), x.size // x.shape[1]
        # In float64, since NumPy adds up images with their channels last one number after the other.
        mean, var = (f(axes, dtype=np.float64).astype(x.dtype) for f in (x.mean, x.var))
        for old, new in ((running_mean, mean), (running_var, var * (terms / (terms - 1)))):
            old[...] = (1 - momentum) * old + momentum * new
    y = (x - per_channel(mean, x)) / np.sqrt(per_channel(var, x) + x.dtype.type(eps))
    y = y if weight is None else y * per_channel(weight, x)
    y = y if bias is None else y + per_channel(bias, x)
    return y.astype(dtype, copy=False), mean, var


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, var: np.ndarray, shapes: tuple,
    training: bool, eps: float,
) -> tuple:  # fmt: skip
    """dbias = sum of dy, dweight = sum of dy n, dx = weight / sqrt(var + eps) * (dy - (dbias + dweight n) / count)

    n is the normalized x; in evaluation, where the statistics do not depend on x, the two sums are left out of dx.
    """
    dtype, dy, x = dy.dtype, *(a.astype(wide(a.dtype), copy=False) for a in (dy, x))
    axes, inverse = around(x.ndim), 1 / np.sqrt(var + x.dtype.type(eps))
    normal = (x - per_channel(mean, x)) * per_channel(inverse, x)
    dbias, dweight = (terms.sum(axes, dtype=np.float64).astype(x.dtype) for terms in (dy, dy * normal))  # as forward
    scale = inverse if weight is None else weight * inverse
    dx, dmean, dvar = dy, -scale * dbias, -scale * dweight * inverse / 2
    if training and x.size:
        count = x.dtype.type(x.size // x.shape[1])
        dx = dy - (per_channel(dbias, x) + per_channel(dweight, x) * normal) / count
        dmean, dvar = np.zeros_like(dbias), np.zeros_like(dbias)
    dx = per_channel(scale, x) * dx
    return (dx.astype(dtype, copy=False), dmean, dvar, dweight, dbias)[: len(shapes)]


def around(ndim: int) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return (0, *range(2, ndim))


def per_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A number for each channel, in a shape that broadcasts with x."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def updated(x: Any, *others: Any, training: bool, **params: Any) -> tuple[int, ...]:
    """The inputs that a call updates in place: in training the running statistics."""
    return (1, 2) if training and x.size else ()


def launch(
    kernels: Kernels, x: Array, running_mean: Array, running_var: Array, weight: Array | None = None,
    bias: Array | None = None, *, training: bool, momentum: float, eps: float,
) -> tuple:  # fmt: skip
    """The statistics of the batch, in training, then the normalization."""
    walk, mean, var = Walk.over(x), running_mean, running_var
    images = walk.laid_out(x)
    if training and x.size:
        mean, var = statistics(kernels, walk, images, running_mean, running_var, momentum)
    y = walk.empty(x)
    normalize, place = walk.elements(kernels, "forward")
    normalize(images, mean, var, weight, bias, y, eps, *place)
    return in_layout(y, x.channels_last), mean, var


def statistics(
    kernels: Kernels, walk: Walk, x: Array, running_mean: Array, running_var: Array, momentum: float
) -> tuple[Array, Array]:
    """Mean and variance of each channel; the running ones are updated in place."""
    mean, var = (Array.empty(x.device, (walk.channels,), running_mean.dtype) for _ in range(2))
    launch, parts, place = walk.sums(kernels, "forward_statistics", x)
    launch(x, parts, *place)
    inner = 1 if walk.last else walk.inner
    finish = kernels["forward_finish"].launch(walk.channels, parts.shape[0])
    shape = parts.shape[0], walk.channels, inner, walk.terms
    finish(parts, x, mean, var, running_mean, running_var, momentum, *shape)
    return mean, var


def launch_backward(
    kernels: Kernels, needs: tuple, dy: Array, x: Array, weight: Array | None, mean: Array, var: Array, shapes: tuple,
    training: bool, eps: float,
) -> tuple:  # fmt: skip
    """Two sums for each channel, then dx by element."""
    walk = Walk.over(x)
    dy, images = walk.laid_out(dy), walk.laid_out(x)
    sums = finished_sums(kernels, walk, images, (dy, images, mean, var), var, eps)
    dx = None
    if needs[0]:
        dx = gradient(kernels, walk, (dy, images, mean, var, weight, *sums), training, eps)
        dx = in_layout(dx, x.channels_last)
    dmean, dvar = running(kernels, needs, var, weight, sums, training and x.size > 0, eps)
    return tuple(grad if need else None for grad, need in zip((dx, dmean, dvar, *sums), needs, strict=False))


def finished_sums(
    kernels: Kernels, walk: Walk, x: Array, given: Sequence[Any], var: Array, eps: float
) -> tuple[Array, Array]:
    """dweight and dbias, of the arrays that the kernel of the sums takes."""
    dweight, dbias = (Array.zeros(x.device, (walk.channels,), var.dtype) for _ in range(2))
    if x.size:
        launch, parts, place = walk.sums(kernels, "backward_sums", x)
        launch(*given, parts, eps, *place)
        finish = kernels["backward_finish"].launch(walk.channels, parts.shape[0])
        finish(parts, var, dweight, dbias, eps, parts.shape[0], walk.channels)
    return dweight, dbias


def gradient(
    kernels: Kernels, walk: Walk, given: Sequence[Any], training: bool, eps: float, role: str = "backward"
) -> Array:
    """dx, of the arrays that the kernel of the gradient takes, that of y first."""
    dx = walk.empty(given[0])
    differentiate, place = walk.elements(kernels, role)
    differentiate(*given, dx, eps, 1 / walk.terms if training and walk.terms else 0.0, *place)
    return dx


def running(
    kernels: Kernels, needs: tuple, var: Array, weight: Array | None, sums: tuple, batch: bool, eps: float
) -> tuple[Array | None, Array | None]:
    """The gradients of the running statistics: 0 where those of the batch were taken."""
    if not (needs[1] or needs[2]):
        return None, None
    dmean, dvar = (Array.zeros(var.device, var.shape, var.dtype) for _ in range(2))
    if not batch:
        kernels["backward_running"].launch(var.size)(var, weight, *sums, dmean, dvar, eps, var.size)
    return dmean, dvar


def prepare(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: Any = False,
    momentum: Any = 0.1, eps: Any = 1e-5,
) -> dict[str, Any]:  # fmt: skip
    """Raises ValueError for shapes, and in training for a batch with one value a channel, which has no variance.

    With x in bfloat16 the numbers of the channels are float32.
    """
    if x.ndim < 2:
        raise ValueError(f"batch_norm: x is {x.shape}; it must be (N, C) or (N, C, ...).")
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    given = {name: array for name, array in named.items() if array is not None}
    must_be_floats("batch_norm", x)
    must_be_floats("batch_norm", *given.values())
    if running_mean.dtype != (dtype := wide(x.dtype)):
        raise TypeError(
            f"batch_norm: x is {x.dtype} and running_mean {running_mean.dtype}; the numbers of the channels must be "
            f"{dtype}: .astype({dtype.name!r})."
        )
    for name, array in given.items():
        if array.shape != x.shape[1:2]:
            raise ValueError(f"batch_norm: {name} is {array.shape}; x has {x.shape[1]} channels: {x.shape[1:2]}.")
    training = require_bool("batch_norm", "training", training)
    if training and x.size and x.size == x.shape[1]:
        raise ValueError(
            f"batch_norm: in training x {x.shape} needs more than one value a channel, over N and the axes after C; "
            "one value is its own mean. Give a larger batch, or call the module's eval()."
        )
    momentum = require_number("batch_norm", "momentum", momentum, most=1)
    return {"training": training, "momentum": momentum, "eps": require_number("batch_norm", "eps", eps)}


def cost(x: Any, running_mean: Any, running_var: Any, *more: Any, training: bool = False, **params: Any) -> tuple:
    """About 4 FLOPs for each x, and in training 4 for the statistics; x and the numbers of the channels read once."""
    channels = sum(array.size for array in more) + (0 if training and x.size else 2 * x.shape[1])
    return (8 if training else 4) * x.size, (2 * x.size + channels * bool(x.size)) * x.dtype.itemsize


def shapes_of(channels: int, affine: int = 2) -> tuple:
    """Running statistics, then weight and bias, or none of them with affine=0."""
    numbers = np.linspace(0.5, 2.0, channels), np.linspace(1.5, 0.75, channels)
    return (*numbers, *numbers[::-1][:affine])


def _case(*shape: int, affine: int = 2, nan: bool = False, last: bool = False, **params: Any) -> Case:
    return Case((shape, *shapes_of(shape[1], affine)), params, nan=nan, channels_last=last)


batch_norm = Op(
    "batch_norm",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("mean", "var"),
    updates=updated,
    layouts="any",
    integers=True,
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
        *(_case(3, 2, 4, 5, nan=True, training=training) for training in (True, False)),
        *(_case(3, 12, 3, 5, last=True, training=training) for training in (True, False)),
        _case(5, 8, training=True),
        _case(2, 132, 2, 3, affine=0, last=True, training=True),
        _case(2, 6, 4, 3, last=True, training=True),
        _case(0, 4, 4, 5, last=True, training=True),
        *(_case(3, 4, 3, 5, last=True, nan=True, training=training) for training in (True, False)),
    ],
)
