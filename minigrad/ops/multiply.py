"""multiply: each factor's gradient is scaled by the other factor."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y = a * b"""
    return a * b


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple:
    """da = dy * b, db = dy * a"""
    return dy * b, dy * a


multiply = elementwise("multiply", forward, backward, ("a * b", "dy * b", "dy * a"), uses=("b", "a"))
