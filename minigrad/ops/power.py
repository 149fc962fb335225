"""power: differentiable in its base and in its exponent."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y = a ** b"""
    return np.power(a, b)


def backward(dy: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple:
    """da = dy * b * a ** (b - 1), db = dy * a ** b * log(a)

    Two limits are explicit, as in PyTorch: da = 0 where b = 0, and db = 0 where a = 0 and b >= 0. A negative base
    has no logarithm, so its db is NaN; its da is a number where b is whole.
    """
    da = np.where(b == 0, 0, dy * b * a ** (b - 1))
    db = np.where((a == 0) & (b >= 0), 0, dy * a**b * np.log(a))
    return da, db


cuda = "pow(a, b)", "b == 0 ? 0 : dy * b * pow(a, b - 1)", "a == 0 && b >= 0 ? 0 : dy * y * log(a)"
power = elementwise("power", forward, backward, cuda, positive=True)
