"""relu, the smallest room: one comparison per element."""

import numpy as np

from minigrad.ops.elementwise import unary


def forward(x: np.ndarray) -> np.ndarray:
    """y = max(x, 0)"""
    return np.maximum(x, 0)


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy where x > 0, else 0"""
    if np.isfinite(dy).all():  # nine times faster than a choice that comes out now so, now so; + 0 makes 0 of -0
        return (dy * (x > 0) + 0,)
    return (np.where(x > 0, dy, 0),)  # 0 * inf would be NaN


relu = unary("relu", forward, backward, ("x < 0 ? 0 : x", "x > 0 ? dy : 0"))
