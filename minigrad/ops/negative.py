"""negative: one change of sign per element."""

import numpy as np

from minigrad.ops.elementwise import elementwise


def forward(x: np.ndarray) -> np.ndarray:
    """y = -x"""
    return -x


def backward(dy: np.ndarray) -> tuple:
    """dx = -dy"""
    return (-dy,)


negative = elementwise("negative", forward, backward, ("-x", "-dy"))
