"""sqrt: infinitely steep at 0, NaN below."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(x: np.ndarray) -> np.ndarray:
    """y = sqrt(x)"""
    return np.sqrt(x)


def backward(dy: np.ndarray, y: np.ndarray) -> tuple:
    """dx = dy / (2 * y)"""
    return (dy / (2 * y),)


sqrt = elementwise("sqrt", forward, backward, ("sqrt(x)", "dy / (2 * y)"), positive=True)
