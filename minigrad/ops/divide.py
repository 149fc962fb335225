"""divide: the gradient of the divisor is computed from that of the dividend."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y = a / b"""
    return a / b


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple:
    """da = dy / b, db = -da * a / b"""
    da = dy / b
    return da, -da * a / b  # no b * b, which would overflow first


cuda = "a / b", "dy / b", "-(dy / b) * a / b"
divide = elementwise("divide", forward, backward, cuda, uses=("b", "a b"), positive=True)
