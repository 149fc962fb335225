"""Windows over images: in NumPy the patch under each place of a window and the way back; arguments of a pooling."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.case import Case
from minigrad.devices.dtypes import must_be_floats
from minigrad.errors import require_bool
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.view import Shape
from minigrad.kernels.window import Pair, Sides, Window, must_fit, pair, sides
from minigrad.ops.channels_last import LANES, per_tile
from minigrad.ops.elementwise import per_element

BLOCKS = (256, 64, 1024)
LAST = (  # poolings of images with their channels last
    Case(((2, 8, 8, 9),), {"size": 3, "stride": 2, "padding": 1}, channels_last=True),
    Case(((2, 4, 7, 5),), {"size": (2, 4), "stride": (3, 1), "padding": ((1, 0), (0, 2))}, channels_last=True),
    Case(((1, 12, 6, 7),), {"size": 5, "stride": 1, "padding": 2}, channels_last=True),
    Case(((2, 4, 4, 5),), {"size": (4, 5)}, channels_last=True),
    Case(((2, 6, 5, 4),), {"size": 2}, channels_last=True),
    Case(((1, 4, 7, 6),), {"size": (3, 2), "stride": 2}, channels_last=True),
    Case(((0, 4, 5, 7),), {"size": 2}, channels_last=True),
    Case(((2, 4, 5, 6),), {"size": 3, "stride": 2, "padding": 1}, nan=True, channels_last=True),
)


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


def pooling(name: str) -> dict[str, Kernel]:
    """The kernels of a pooling, in `cuda/<name>.cu`: for images in C order, and with the channels last."""
    plain = {way: per_element(f"{name}.cu", f"{name}_{way}", "size", BLOCKS) for way in ("forward", "backward")}
    return plain | {f"{way}_nhwc": per_tile(f"{name}.cu", f"{name}_{way}_nhwc") for way in plain}


def tiled(kernels: Mapping[str, Kernel], way: str, images: int, rows: int, columns: int, channels: int) -> Launch:
    """The launch of a kernel with the channels last, over this many pixels."""
    return kernels[f"{way}_nhwc"].launch(images * rows, columns, channels // LANES)


def prepare(
    op: str, x: Any, size: Any, stride: Any = None, padding: Any = 0, dilation: Pair = (1, 1), ceil_mode: Any = False
) -> dict[str, Any]:
    """The parameters of a pooling for both axes: the stride is the size unless given. Raises TypeError, ValueError."""
    if require_bool(op, "ceil_mode", ceil_mode):
        raise ValueError(
            f"{op}: ceil_mode=True is not known here. Pad below and at the right, as far as the last window reaches, "
            f"such as padding=((0, 1), (0, 1)){', with count_include_pad=False' * (op == 'avg_pool2d')}."
        )
    must_be_floats(op, x)
    if x.ndim != 4:
        raise ValueError(f"{op}: x is {x.shape}; it must be (N, C, H, W).")
    size = pair(op, "size", size, 1)
    stride, padding = size if stride is None else pair(op, "stride", stride, 1), sides(op, padding)
    spread = tuple(step * (k - 1) + 1 for k, step in zip(size, dilation, strict=True))
    if any(2 * max(pad) > k for pad, k in zip(padding, spread, strict=True)):
        raise ValueError(f"{op}: padding={padding} is more than half of the window {spread}; pad less, or pool more.")
    must_fit(op, x.shape, size, padding, dilation)
    return {"size": size, "stride": stride, "padding": padding}


def cost(x: Any, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, **params: Any) -> tuple[int, int]:
    """An operation for each element under each place of the window; x read once, y written once."""
    dilation = pair("cost", "dilation", dilation, 1)
    at = Window.over(x.shape, **prepare("cost", x, size, stride, padding, dilation), dilation=dilation)
    outputs = prod(x.shape[:2]) * at.out_height * at.out_width
    return outputs * at.rows * at.columns, (x.size + outputs) * x.dtype.itemsize
