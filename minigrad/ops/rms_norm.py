"""rms_norm: each row scaled to a mean square of 1, then each column by its own weight."""

import numpy as np

from minigrad.devices.dtypes import wide
from minigrad.ops.layer_norm import affine, average, norm, sums


def forward(
    x: np.ndarray, weight: np.ndarray | None = None, eps: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = x / sqrt(mean(x ^ 2) + eps) * weight, the mean of each row: along the last axis

    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.
    """
    dtype, x = x.dtype, x.astype(wide(x.dtype), copy=False)
    inverse = 1 / np.sqrt(average(np.square(x)) + x.dtype.type(eps))
    y = affine(x * inverse, weight).astype(dtype, copy=False)
    return y, np.zeros(x.shape[:-1], x.dtype), inverse[..., 0]


def backward(
    dy: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, inverse: np.ndarray, shapes: tuple
) -> tuple:
    """dx = (g - n mean(g n)) / sqrt(mean(x ^ 2) + eps), dweight = sum of dy n

    g is dy * weight, n the normalized x; the sum is over all rows. mean is 0: the kernels are those of layer_norm.
    """
    dtype, dy, x = dy.dtype, *(a.astype(wide(a.dtype), copy=False) for a in (dy, x))
    normal, scaled = x * inverse[..., None], affine(dy, weight)
    dx = (scaled - normal * average(scaled * normal)) * inverse[..., None]
    return (dx.astype(dtype, copy=False), sums(dy, normal)[0])[: len(shapes)]


rms_norm = norm("rms_norm", forward, backward, False)
