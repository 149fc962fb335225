"""subtract: the gradient passes through to a, and with its sign changed to b."""

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.ops.elementwise import elementwise
from minigrad.ops.negative import negative


def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y = a - b"""
    return a - b


def backward(dy: np.ndarray) -> tuple:
    """da = dy, db = -dy"""
    return dy, -dy


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array) -> tuple:
    """The upstream gradient itself, and the kernel of `negative`."""
    return dy, negative.run([dy], {}) if needs[1] else None


subtract = elementwise("subtract", forward, backward, ("a - b", "dy", "-dy"), launch_backward=launch_backward)
