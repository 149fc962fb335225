"""gelu_tanh: gelu with tanh in place of the error function, at most 0.0005 away from it; GPT-2 was trained with it."""

from math import pi, sqrt

import numpy as np

from minigrad.ops.elementwise import elementwise

SCALE, CUBIC = sqrt(2 / pi), 0.044715


def forward(x: np.ndarray) -> np.ndarray:
    """y = x * (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 x ^ 3) (Hendrycks and Gimpel, 2016)"""
    return x * (1 + np.tanh(inner(x))) / 2


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy * (1 + t + x * (1 - t * t) * u') / 2, t = tanh(u), u' = sqrt(2 / pi) * (1 + 3 * 0.044715 x ^ 2)"""
    t, slope = np.tanh(inner(x)), x.dtype.type(SCALE) * (1 + x.dtype.type(3 * CUBIC) * x * x)
    return (dy * (1 + t + x * (1 - t * t) * slope) / 2,)


def inner(x: np.ndarray) -> np.ndarray:
    """u"""
    return x.dtype.type(SCALE) * (x + x.dtype.type(CUBIC) * x * x * x)


S = "(1 / (1 + exp(wide(-2 * 0.79788456080286536) * (x + wide(0.044715) * x * x * x))))"  # (1 + tanh(u)) / 2
cuda = (
    f"x * {S}",
    f"dy * ({S} + x * ({S} * (1 - {S})) * (wide(2 * 0.79788456080286536) * (1 + wide(3 * 0.044715) * x * x)))",
)
gelu_tanh = elementwise("gelu_tanh", forward, backward, cuda, flops=8, extremes=(-100, -8, 0, 100))
