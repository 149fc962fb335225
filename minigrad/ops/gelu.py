"""gelu: x times the share of a normal distribution that lies below it, between 0 for x << 0 and x for x >> 0."""

from math import erfc, pi, sqrt

import numpy as np

from minigrad.ops.elementwise import elementwise

SHARE = np.frompyfunc(lambda x: erfc(-x / sqrt(2)) / 2, 1, 1)  # NumPy has no error function


def forward(x: np.ndarray) -> np.ndarray:
    """y = x * P(x), P(x) = (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, 2016)"""
    return x * share(x)


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy * (P(x) + x * p(x)), p(x) = exp(-x * x / 2) / sqrt(2 pi)"""
    return (dy * (share(x) + x * np.exp(-x * x / 2) / x.dtype.type(sqrt(2 * pi))),)


def share(x: np.ndarray) -> np.ndarray:
    """P(x), by erfc: 1 + erf would lose its digits for x << 0."""
    return np.asarray(SHARE(x)).astype(x.dtype)


P = "(wide(0.5) * erfc(-x * wide(0.70710678118654752)))"
cuda = f"x * {P}", f"dy * ({P} + x * (wide(0.39894228040143268) * exp(wide(-0.5) * x * x)))"
gelu = elementwise("gelu", forward, backward, cuda, flops=4, extremes=(-100, -8, 0, 100))
