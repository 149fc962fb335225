"""log, the natural logarithm: -inf at 0, NaN below."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(x: np.ndarray) -> np.ndarray:
    """y = log(x)"""
    return np.log(x)


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy / x"""
    return (dy / x,)


log = elementwise("log", forward, backward, ("log(x)", "dy / x"), positive=True)
