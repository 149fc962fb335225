"""softmax: a row of numbers made positive, with sum 1."""

import numpy as np

from minigrad.ops.rowwise import rowwise


def forward(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """y = exp(x - max x) / sum(exp(x - max x)), along the axis"""
    y = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return y / y.sum(axis=axis, keepdims=True)


def backward(dy: np.ndarray, y: np.ndarray, axis: int) -> tuple:
    """dx = y * (dy - sum(dy * y))"""
    return (y * (dy - (dy * y).sum(axis=axis, keepdims=True)),)


softmax = rowwise("softmax", forward, backward, flops=5)
