"""silu: x times its own sigmoid."""

import numpy as np

from minigrad.ops import sigmoid
from minigrad.ops.elementwise import elementwise


def forward(x: np.ndarray) -> np.ndarray:
    """y = x * sigmoid(x) (Elfwing, Uchibe and Doya, 2017; also called swish)"""
    return x * sigmoid.forward(x)


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy * s * (1 + x * (1 - s)), s = sigmoid(x)"""
    s = sigmoid.forward(x)
    return (dy * s * (1 + x * (1 - s)),)


S = f"({sigmoid.cuda[0]})"
cuda = f"x * {S}", f"dy * {S} * (1 + x * (1 - {S}))"
silu = elementwise("silu", forward, backward, cuda, flops=5, extremes=(-100, 0, 100))
