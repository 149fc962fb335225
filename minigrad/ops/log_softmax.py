"""log_softmax: the logarithm of softmax, without the logarithm of an underflow to 0."""

import numpy as np

from minigrad.ops.rowwise import rowwise


def forward(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """y = x - max x - log(sum(exp(x - max x))), along the axis"""
    x = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def backward(dy: np.ndarray, y: np.ndarray, axis: int) -> tuple:
    """dx = dy - exp(y) * sum(dy)"""
    return (dy - np.exp(y) * dy.sum(axis=axis, keepdims=True),)


log_softmax = rowwise("log_softmax", forward, backward, flops=5)
