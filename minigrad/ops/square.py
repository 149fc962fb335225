"""square: x times itself, cheaper than a power."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(x: np.ndarray) -> np.ndarray:
    """y = x * x"""
    return x * x


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = 2 * dy * x"""
    return (2 * dy * x,)


square = elementwise("square", forward, backward, ("x * x", "2 * dy * x"))
