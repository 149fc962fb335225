"""max_pool2d: the largest number under each place of a window."""

from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.layouts import in_layout
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Pair, Sides, Window, pair
from minigrad.op import Case, Op
from minigrad.ops.channels_last import LANES, in_fours, laid_out
from minigrad.ops.window import LAST, cost, patches, pooling, prepare, scattered, tiled

TAPS = np.dtype(np.uint8)


def forward(
    x: np.ndarray, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """y[n,c,p,q] = the largest x under the window at (p, q), without the padding; NaN if any is NaN"""
    at = Window.over(x.shape, size, stride, padding, dilation)
    under = patches(x, at, padding, fill=-np.inf)
    inside = patches(np.ones((1, 1, *x.shape[2:]), bool), at, padding)
    flat = np.where(inside, under, -np.inf).reshape(*under.shape[:4], at.rows * at.columns)
    first = inside.reshape(*inside.shape[:4], -1).argmax(-1)  # where all are -inf
    taps, nan = np.where((flat > -np.inf).any(-1), flat.argmax(-1), first), np.isnan(flat)
    taps = np.where(nan.any(-1), flat.shape[-1] - 1 - nan[..., ::-1].argmax(-1), taps)  # of several NaN the last
    return np.take_along_axis(flat, taps[..., None], -1)[..., 0], taps.astype(TAPS)


def backward(
    dy: np.ndarray, taps: np.ndarray, shapes: tuple, lasts: tuple, size: Pair, stride: Pair, padding: Sides,
    dilation: Pair,
) -> tuple:  # fmt: skip
    """dx = each dy at the place where its window found the largest x; a pixel may have several"""
    at = Window.over(shapes[0], size, stride, padding, dilation)
    chosen = np.arange(at.rows * at.columns) == taps[..., None]
    given = np.where(chosen, dy[..., None], dy.dtype.type(0)).reshape(*dy.shape, *size)
    return (scattered(given, shapes[0], at, padding),)


def launch(
    kernels: dict[str, Kernel], x: Array, size: Pair, stride: Pair, padding: Sides, dilation: Pair
) -> tuple[Array, Array]:
    """One kernel, which writes the largest numbers and their places in the windows.

    That for channels last knows no dilation.
    """
    at, last = Window.over(x.shape, size, stride, padding, dilation), in_fours(x) and dilation == (1, 1)
    shape, images = (*x.shape[:2], at.out_height, at.out_width), in_layout(x, last)
    y, taps = Array.empty(x.device, shape, x.dtype, last), Array.empty(x.device, shape, TAPS, last)
    if last:
        pool = tiled(kernels, "forward", x.shape[0], at.out_height, at.out_width, x.shape[1])
        pool(images, y, taps, at, x.shape[0])
    else:
        kernels["forward"].launch(y.size)(images, y, taps, at, y.size)
    return in_layout(y, x.channels_last), taps


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, taps: Array, shapes: tuple, lasts: tuple, size: Pair,
    stride: Pair, padding: Sides, dilation: Pair,
) -> tuple[Array]:  # fmt: skip
    """One kernel, that for the layout of the taps; those of images with one pixel are the same in both."""
    at, pixel = Window.over(shapes[0], size, stride, padding, dilation), taps.size == prod(taps.shape[:2])
    last = dilation == (1, 1) and (taps.channels_last or (lasts[0] and pixel and taps.shape[1] % LANES == 0))
    dy, dx = laid_out(dy, last), Array.empty(dy.device, shapes[0], dy.dtype, last)
    if last:
        images, channels = shapes[0][:2]
        give = kernels["backward_nhwc"].launch(
            images * ceil_div(at.height, 2), ceil_div(at.width, 2), channels // LANES
        )
        give(dy, taps, dx, at, images)
    else:
        kernels["backward"].launch(dx.size)(dy, taps, dx, at, dx.size)
    return (in_layout(dx, lasts[0]),)


def complete(
    x: Any, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False
) -> dict[str, Any]:
    """The parameters for both axes. Raises TypeError and ValueError, also for windows of more than 255 elements."""
    dilation = pair("max_pool2d", "dilation", dilation, 1)
    params = prepare("max_pool2d", x, size, stride, padding, dilation, ceil_mode) | {"dilation": dilation}
    if params["size"][0] * params["size"][1] > 255:
        raise ValueError(f"max_pool2d: size={size!r} has more than 255 elements; pool twice with smaller windows.")
    return params


max_pool2d = Op(
    "max_pool2d",
    forward,
    backward,
    kernels=pooling("max_pool2d"),
    layouts="any",
    launch=launch,
    launch_backward=launch_backward,
    prepare=complete,
    saves=("taps",),
    cost=cost,
    cases=[
        Case(((1, 1, 1, 1),), {"size": 1}),
        Case(((2, 3, 7, 5),), {"size": 2}),
        Case(((2, 3, 8, 9),), {"size": 3, "stride": 2, "padding": 1}),
        Case(((2, 2, 8, 7),), {"size": (3, 2), "stride": (2, 3), "padding": ((0, 1), (1, 0))}),
        Case(((1, 33, 4, 5),), {"size": (1, 4), "stride": 1}),
        Case(((0, 3, 5, 7),), {"size": 2}),
        Case(((2, 3, 9, 8),), {"size": (3, 2), "stride": (2, 1), "padding": ((2, 1), (1, 0)), "dilation": (2, 3)}),
        Case(((2, 4, 5, 6),), {"size": 3, "dilation": (1, 2)}, channels_last=True),
        Case(((1, 4, 5, 5),), {"size": 3, "dilation": 2}, channels_last=True),
        Case(((2, 2, 5, 6),), {"size": 3, "stride": 2, "padding": 1}, nan=True),
        *LAST,
    ],
)
