"""Windows over images in NumPy: the patch under each place of a window, and the way back."""

import numpy as np

from minigrad.kernels.view import Shape
from minigrad.kernels.window import Sides, Window


def patches(x: np.ndarray, at: Window, padding: Sides, fill: float = 0) -> np.ndarray:
    """(N, C, P, Q, R, S): for each output pixel the part of the padded image under the window, as a view."""
    padded = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=fill)
    spread = at.dilation_y * (at.rows - 1) + 1, at.dilation_x * (at.columns - 1) + 1
    every = np.lib.stride_tricks.sliding_window_view(padded, spread, axis=(2, 3))
    return every[:, :, :: at.stride_y, :: at.stride_x, :: at.dilation_y, :: at.dilation_x]


def scattered(patches: np.ndarray, image: Shape, at: Window, padding: Sides) -> np.ndarray:
    """The sum of patches (N, C, P, Q, R, S) at their places in the image: the gradient of `patches`."""
    height, width = (n + sum(pad) for n, pad in zip(image[-2:], padding, strict=True))
    padded = np.zeros((*image[:2], height, width), patches.dtype)
    for r in range(at.rows):
        for s in range(at.columns):
            rows = slice(r * at.dilation_y, r * at.dilation_y + at.stride_y * at.out_height, at.stride_y)
            columns = slice(s * at.dilation_x, s * at.dilation_x + at.stride_x * at.out_width, at.stride_x)
            padded[:, :, rows, columns] += patches[..., r, s]
    return padded[:, :, at.top : at.top + image[2], at.left : at.left + image[3]]
