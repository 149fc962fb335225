"""add_rms_norm: what a layer adds to the residual stream, and the rms_norm through which the next layer reads it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.ops import add_layer_norm, rms_norm
from minigrad.ops.layer_norm import average


def forward(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, eps: float = 1e-5
) -> tuple[np.ndarray, np.ndarray]:
    """h = x + y + bias, n = h / sqrt(mean(h ^ 2) + eps) * weight, the mean of each row

    n has the dtype of y; all others are float32 where that is bfloat16.
    """
    h = add_layer_norm.summed(x, y, bias)
    return h, rms_norm.forward(h, weight, eps)[0].astype(y.dtype, copy=False)


def backward(dy: tuple, y: np.ndarray, weight: np.ndarray, bias: Any, y0: np.ndarray, eps: float) -> tuple:
    """dx = dh + the gradient of the norm, dy = dx, dbias = the sum of dx over all rows"""
    dh, dn = (d.astype(y0.dtype, copy=False) for d in dy)
    inverse = 1 / np.sqrt(average(np.square(y0)) + y0.dtype.type(eps))
    dx, dweight = rms_norm.backward(dn, y0, weight, np.zeros_like(inverse[..., 0]), inverse[..., 0], (0, 0))
    dx = dx + dh
    dbias = () if bias is None else (dx.sum(tuple(range(dx.ndim - 1))),)
    return dx, dx.astype(y.dtype, copy=False), dweight, *dbias


def launch(
    kernels: Mapping[str, Kernel], x: Array, y: Array, weight: Array, bias: Array | None = None, *, eps: float
) -> tuple[Array, Array]:
    """The kernel of add_layer_norm without a mean and a shift."""
    return add_layer_norm.launch(kernels, x, y, weight, None, bias, eps=eps)


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: tuple, y: Array, weight: Array, bias: Any, y0: Array, eps: float
) -> tuple:
    """The same gradients but that of the shift."""
    needs = (*needs[:3], False, *needs[3:])
    made = add_layer_norm.launch_backward(kernels, needs, dy, y, weight, bias, y0, eps)
    return (*made[:3], *made[4:])


add_rms_norm = add_layer_norm.stream("add_rms_norm", forward, backward, False, launch, launch_backward)
