"""avg_pool2d: the mean under each place of a window."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.layouts import in_layout
from minigrad.errors import require_bool
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Pair, Sides, Window
from minigrad.op import Case, Op
from minigrad.ops.channels_last import LANES, in_fours, laid_out
from minigrad.ops.window import LAST, cost, patches, pooling, prepare, scattered, tiled


def forward(
    x: np.ndarray, size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> np.ndarray:  # fmt: skip
    """y[n,c,p,q] = the mean of x under the window at (p, q), with the zeros of the padding or without them"""
    at = Window.over(x.shape, size, stride, padding)
    return patches(x, at, padding).sum(axis=(4, 5)) / terms(x, x.shape, at, padding, count_include_pad)


def backward(
    dy: np.ndarray, shapes: tuple, lasts: tuple, size: Pair, stride: Pair, padding: Sides, count_include_pad: bool
) -> tuple:
    """dx = the sum of dy / terms over the windows that hold the pixel"""
    at = Window.over(shapes[0], size, stride, padding)
    share = (dy / terms(dy, shapes[0], at, padding, count_include_pad))[..., None, None]
    return (scattered(np.broadcast_to(share, (*dy.shape, *size)), shapes[0], at, padding),)


def terms(like: np.ndarray, image: tuple, at: Window, padding: Sides, padded: bool) -> np.ndarray:
    """The number of elements under each place of the window, (P, Q), in the dtype of `like`."""
    if padded:
        return np.full((at.out_height, at.out_width), at.rows * at.columns, like.dtype)
    return patches(np.ones((1, 1, *image[2:]), like.dtype), at, padding).sum(axis=(0, 1, 4, 5))


def launch(
    kernels: dict[str, Kernel], x: Array, size: Pair, stride: Pair, padding: Sides, count_include_pad: bool
) -> Array:
    """One kernel."""
    at, last = Window.over(x.shape, size, stride, padding), in_fours(x)
    images, y = in_layout(x, last), Array.empty(x.device, (*x.shape[:2], at.out_height, at.out_width), x.dtype, last)
    if last:
        pool = tiled(kernels, "forward", x.shape[0], at.out_height, at.out_width, x.shape[1])
        pool(images, y, at, count_include_pad, x.shape[0])
    else:
        kernels["forward"].launch(y.size)(images, y, at, count_include_pad, y.size)
    return in_layout(y, x.channels_last)


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, shapes: tuple, lasts: tuple, size: Pair, stride: Pair,
    padding: Sides, count_include_pad: bool,
) -> tuple[Array]:  # fmt: skip
    """One kernel."""
    at, (images, channels), last = Window.over(shapes[0], size, stride, padding), shapes[0][:2], lasts[0]
    fours = last and channels % LANES == 0
    dy, dx = laid_out(dy, fours), Array.empty(dy.device, shapes[0], dy.dtype, fours)
    if fours:
        give = kernels["backward_nhwc"].launch(
            images * ceil_div(at.height, 2), ceil_div(at.width, 2), channels // LANES
        )
        give(dy, dx, at, count_include_pad, images)
    else:
        kernels["backward"].launch(dx.size)(dy, dx, at, count_include_pad, dx.size)
    return (in_layout(dx, last),)


def complete(
    x: Any, size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True
) -> dict[str, Any]:
    """The parameters for both axes. Raises TypeError, ValueError."""
    included = require_bool("avg_pool2d", "count_include_pad", count_include_pad)
    return {**prepare("avg_pool2d", x, size, stride, padding, ceil_mode=ceil_mode), "count_include_pad": included}


avg_pool2d = Op(
    "avg_pool2d",
    forward,
    backward,
    kernels=pooling("avg_pool2d"),
    layouts="any",
    launch=launch,
    launch_backward=launch_backward,
    prepare=complete,
    cost=cost,
    cases=[
        Case(((1, 1, 1, 1),), {"size": 1}),
        Case(((2, 3, 7, 5),), {"size": 2}),
        *(
            Case(((2, 3, 8, 9),), {"size": 3, "stride": 2, "padding": 1, "count_include_pad": included})
            for included in (True, False)
        ),
        Case(((2, 2, 8, 7),), {"size": (3, 2), "stride": (2, 3), "padding": ((0, 1), (1, 0))}),
        Case(((1, 33, 4, 5),), {"size": (4, 5)}),
        Case(((0, 3, 5, 7),), {"size": 2}),
        Case(((2, 2, 5, 6),), {"size": 3, "stride": 2, "padding": 1}, nan=True),
        *LAST,
    ],
)
