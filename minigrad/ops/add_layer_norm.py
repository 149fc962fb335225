"""add_layer_norm: what a layer adds to the residual stream, and the norm through which the next layer reads it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.devices.layouts import typed
from minigrad.errors import require_number
from minigrad.kernels.kernel import Kernel
from minigrad.op import OPS, Op
from minigrad.ops import layer_norm
from minigrad.ops.reduction import reduce
from minigrad.ops.rowwise import around

FILE, WIDEST = "add_layer_norm.cu", 128 * layer_norm.WARPS


def forward(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, shift: np.ndarray, bias: np.ndarray | None = None,
    eps: float = 1e-5,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """h = x + y + bias, n = (h - mean) / sqrt(var + eps) * weight + shift, mean and var of each row of h

    n has the dtype of y; all others are float32 where that is bfloat16.
    """
    h = summed(x, y, bias)
    return h, layer_norm.forward(h, weight, shift, eps)[0].astype(y.dtype, copy=False)


def summed(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """x + y + bias, in the dtype of x"""
    return x + y.astype(x.dtype, copy=False) + (0 if bias is None else bias)


def backward(dy: tuple, y: np.ndarray, weight: np.ndarray, bias: Any, y0: np.ndarray, eps: float) -> tuple:
    """dx = dh + the gradient of the norm, dy = dx, dbias = the sum of dx over all rows"""
    dh, dn = (d.astype(y0.dtype, copy=False) for d in dy)
    mean = layer_norm.average(y0)
    inverse = 1 / np.sqrt(layer_norm.average(np.square(y0 - mean)) + y0.dtype.type(eps))
    dx, *both = layer_norm.backward(dn, y0, weight, mean[..., 0], inverse[..., 0], (0, 0, 0))
    dx = dx + dh
    dbias = () if bias is None else (dx.sum(tuple(range(dx.ndim - 1))),)
    return dx, dx.astype(y.dtype, copy=False), *both, *dbias


def kernels_of(center: bool) -> dict[str, Kernel]:
    """The kernels, or with a mean of 0 those of add_rms_norm."""
    return {
        "forward": layer_norm.per_warps(FILE, "add_layer_norm_forward", center),
        "backward": layer_norm.per_warps(FILE, "add_layer_norm_backward", center),
    }


def launch(
    kernels: Mapping[str, Kernel], x: Array, y: Array, weight: Array, shift: Array | None, bias: Array | None = None,
    *, eps: float,
) -> tuple[Array, Array]:  # fmt: skip
    """One kernel."""
    rows, n, _ = around(x.shape, x.ndim - 1)
    h, normed = (Array.empty(x.device, x.shape, a.dtype) for a in (x, y))
    layer_norm.launched(kernels["forward"], x, layer_norm.RESIDENT)(x, y, weight, shift, bias, h, normed, eps, rows, n)
    return h, normed


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: tuple, y: Array, weight: Array, bias: Any, y0: Array, eps: float
) -> tuple:
    """One kernel, and the sums over what its blocks leave."""
    (dh, dn), (rows, n, _) = dy, around(y0.shape, y0.ndim - 1)
    dh, dn = typed(dh, y0.dtype), typed(dn, y.dtype)
    dx = Array.empty(y0.device, y0.shape, y0.dtype)
    low = dx if y.dtype == dx.dtype else Array.empty(y0.device, y0.shape, y.dtype)
    run = layer_norm.launched(kernels["backward"], y0, layer_norm.RESIDENT)
    parts = Array.empty(y0.device, (3, run.grid[0], n), dx.dtype)
    run(dh, dn, y0, weight, dx, None if low is dx else low, parts, eps, rows, n)
    sums = reduce(OPS["sum"].running, parts, (1,), False, 1).reshape((3, n))
    each = [sums.rows(i, 1).reshape((n,)) for i in range(2 if bias is None else 3)]
    return tuple(grad if need else None for grad, need in zip((dx, low, *each), needs, strict=True))


def prepare(name: str, x: Any, y: Any, *columns: Any, eps: Any = 1e-5) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes."""
    must_be_floats(name, x)
    must_be_floats(name, y)
    given = [a for a in columns if a is not None]
    if not x.ndim or x.shape != y.shape or any(a.shape != x.shape[-1:] for a in given):
        raise ValueError(f"{name}: x is {x.shape}, y {y.shape}; they must be alike, and weight, shift and bias a row.")
    if any(a.dtype != wide(y.dtype) for a in (x, *given)):
        raise TypeError(f"{name}: y is {y.dtype}; x, weight, shift and bias must be {wide(y.dtype)}.")
    if isinstance(x, Array) and not takes(x.shape[-1]):
        raise ValueError(f"{name}: rows of {x.shape[-1]}; kernels take multiples of 4 up to {WIDEST}.")
    return {"eps": require_number(name, "eps", eps)}


def takes(n: int) -> bool:
    """True for rows that the warps of a block hold."""
    return n % 4 == 0 and 0 < n <= WIDEST


def cost(x: Any, y: Any, *columns: Any, **params: Any) -> tuple[int, int]:
    """About 10 FLOPs for each x; all arrays read once, both results written once."""
    moved = sum(a.size * a.dtype.itemsize for a in (x, y, *columns))
    return 10 * x.size, moved + x.size * x.dtype.itemsize + y.size * y.dtype.itemsize


def stream(name: str, forward: Callable, backward: Callable, center: bool, launch: Callable, back: Callable) -> Op:
    """An Op with two results: the stream and its norm."""
    return Op(
        name,
        forward,
        backward,
        kernels=kernels_of(center),
        launch=launch,
        launch_backward=back,
        prepare=partial(prepare, name),
        outputs=2,
        integers=True,
        widens=False,
        cost=cost,
        listed=False,  # the registry's tests are for one result; tests/ops/test_add_layer_norm.py has its own
    )


add_layer_norm = stream("add_layer_norm", forward, backward, True, launch, launch_backward)
