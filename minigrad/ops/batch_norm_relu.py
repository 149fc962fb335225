"""batch_norm_relu: relu(batch_norm(x) + residual), the end of a residual block, without the arrays between."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.devices.layouts import in_layout
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import batch_norm as plain
from minigrad.ops import relu
from minigrad.ops.batch_norm.kernels import RESIDENT, per_part, per_strip
from minigrad.ops.batch_norm.kernels import kernels as unfused
from minigrad.ops.batch_norm.walk import Kernels, Walk
from minigrad.ops.elementwise import per_element
from minigrad.ops.window import BLOCKS

BITS = np.dtype(np.uint8)


def forward(
    x: np.ndarray, running_mean: np.ndarray, running_var: np.ndarray, weight: np.ndarray | None = None,
    bias: np.ndarray | None = None, residual: np.ndarray | None = None, training: bool = False, momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple:  # fmt: skip
    """y = relu(batch_norm(x) + residual)"""
    exact = x.astype(wide(x.dtype), copy=False)
    z, mean, var = plain.forward(exact, running_mean, running_var, weight, bias, training, momentum, eps)
    z = z if residual is None else z + residual.astype(z.dtype, copy=False)
    return relu.forward(z).astype(x.dtype, copy=False), mean, var, z > 0


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, mean: np.ndarray,
    var: np.ndarray, positive: np.ndarray, shapes: tuple, training: bool, eps: float,
) -> tuple:  # fmt: skip
    """dresidual = dy where y > 0, else 0; the others are the gradients of batch_norm for that"""
    (dz,) = relu.backward(dy, positive)
    return (*plain.backward(dz, x, weight, mean, var, shapes[:5], training, eps), dz)[: len(shapes)]


FILE = "batch_norm_relu.cu"
kernels: dict[str, Kernel] = {
    **{name: unfused[name] for name in ("forward_statistics", "forward_statistics_nhwc", "forward_finish")},
    "forward": per_element(FILE, "batch_norm_relu_forward", "size", BLOCKS),
    "forward_nhwc": per_strip(FILE, "batch_norm_relu_forward_nhwc"),
    "backward_sums": per_part(FILE, "batch_norm_relu_sums"),
    "backward_sums_nhwc": per_strip(FILE, "batch_norm_relu_sums_nhwc", sums=RESIDENT // 2),
    "backward_finish": unfused["backward_finish"],
    "backward": per_element(FILE, "batch_norm_relu_backward", "size", BLOCKS),
    "backward_nhwc": per_strip(FILE, "batch_norm_relu_backward_nhwc"),
    "residual_backward": unfused["backward"],
    "residual_backward_nhwc": unfused["backward_nhwc"],
    "backward_running": unfused["backward_running"],
}


def launch(
    kernels: Kernels, x: Array, running_mean: Array, running_var: Array, weight: Array | None = None,
    bias: Array | None = None, residual: Array | None = None, *, training: bool, momentum: float, eps: float,
) -> tuple:  # fmt: skip
    """The statistics of the batch, in training, then y, and with a residual the places where it is positive."""
    walk, mean, var = Walk.over(x), running_mean, running_var
    images, added = walk.laid_out(x), None if residual is None else walk.laid_out(residual)
    if training and x.size:
        mean, var = plain.statistics(kernels, walk, images, running_mean, running_var, momentum)
    y, positive = walk.empty(x), Array.empty(x.device, (0 if added is None else walk.flags,), BITS)
    normalize, place = walk.elements(kernels, "forward")
    normalize(images, mean, var, weight, bias, added, y, positive if added else None, eps, *place)
    return in_layout(y, x.channels_last), mean, var, positive


def launch_backward(
    kernels: Kernels, needs: tuple, dy: Array, x: Array, weight: Array | None, bias: Array | None, mean: Array,
    var: Array, positive: Array, shapes: tuple, training: bool, eps: float,
) -> tuple:  # fmt: skip
    """Two sums for each channel and, with a residual, its gradient; then dx by element, from that gradient."""
    walk, added = Walk.over(x), len(shapes) > 5
    dy, images, dz = walk.laid_out(dy), walk.laid_out(x), walk.empty(x) if added else None
    given = (dy, images, mean, var, weight, bias, positive if added else None, dz)
    sums = plain.finished_sums(kernels, walk, images, given, var, eps)
    dx = None
    if needs[0] and dz is not None:
        dx = plain.gradient(kernels, walk, (dz, images, mean, var, weight, *sums), training, eps, "residual_backward")
    elif needs[0]:
        dx = plain.gradient(kernels, walk, (dy, images, mean, var, weight, bias, *sums), training, eps)
    dmean, dvar = plain.running(kernels, needs, var, weight, sums, training and x.size > 0, eps)
    dx, dz = (grad and in_layout(grad, x.channels_last) for grad in (dx, dz))
    return tuple(grad if need else None for grad, need in zip((dx, dmean, dvar, *sums, dz), needs, strict=False))


def prepare(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, residual: Any = None,
    training: Any = False, momentum: Any = 0.1, eps: Any = 1e-5,
) -> dict[str, Any]:  # fmt: skip
    """As batch_norm does. Raises TypeError and ValueError, also for a residual that is not like x."""
    params = plain.prepare(x, running_mean, running_var, weight, bias, training, momentum, eps)
    if residual is not None and (residual.shape, residual.dtype) != (x.shape, x.dtype):
        raise ValueError(
            f"batch_norm_relu: the residual is {residual.dtype} {residual.shape}; it must be {x.dtype} {x.shape}, as x."
        )
    return params


def cost(x: Any, *others: Any, **params: Any) -> tuple[int, int]:
    """As batch_norm, with a comparison for each element and an addition with a residual; the residual read once."""
    flops, nbytes = plain.cost(x, *others, **params)
    return flops + (1 + (len(others) > 4)) * x.size, nbytes


def _case(
    *shape: int, affine: int = 2, nan: bool = False, last: bool = False, added: bool = True, **params: Any
) -> Case:
    inputs = (shape, *plain.shapes_of(shape[1], affine), *[shape] * added)
    return Case(inputs, params, nan=nan, channels_last=last)


batch_norm_relu = Op(
    "batch_norm_relu",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("mean", "var", "positive"),
    updates=plain.updated,
    layouts="any",
    integers=True,
    cost=cost,
    cases=[
        *(_case(4, 3, 5, 7, training=training, added=added) for training in (True, False) for added in (True, False)),
        _case(2, 33, 2, 3, affine=0, added=False, training=True),
        *(_case(3, 12, 3, 5, last=True, training=True, added=added) for added in (True, False)),
        *(_case(2, 4, 3, 5, last=True, training=False, added=added) for added in (True, False)),
        _case(2, 132, 2, 3, affine=1, last=True, added=False, training=True),
        _case(5, 8, training=True),
        _case(2, 6, 4, 3, last=True, training=True),
        *(_case(0, 4, 3, 5, last=last, training=True) for last in (True, False)),
        *(
            _case(3, 4, 3, 5, last=last, nan=True, added=added, training=training)
            for last in (True, False)
            for added in (True, False)
            for training in (True, False)
        ),
    ],
)
