"""max_pool2d: the largest number under each place of a window."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Pair, Sides, Window
from minigrad.op import Case, Op
from minigrad.ops.elementwise import per_element
from minigrad.ops.window import BLOCKS, cost, patches, prepare, scattered

TAPS = np.dtype(np.uint8)


def forward(x: np.ndarray, size: Any, stride: Any = None, padding: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """y[n,c,p,q] = the largest x under the window at (p, q), without the padding; NaN if any is NaN"""
    at = Window.over(x.shape, size, stride, padding)
    under = patches(x, at, padding, fill=-np.inf)
    inside = patches(np.ones((1, 1, *x.shape[2:]), bool), at, padding)
    flat = np.where(inside, under, -np.inf).reshape(*under.shape[:4], at.rows * at.columns)
    first = inside.reshape(*inside.shape[:4], -1).argmax(-1)  # where all are -inf
    taps, nan = np.where((flat > -np.inf).any(-1), flat.argmax(-1), first), np.isnan(flat)
    taps = np.where(nan.any(-1), flat.shape[-1] - 1 - nan[..., ::-1].argmax(-1), taps)  # of several NaN the last
    return np.take_along_axis(flat, taps[..., None], -1)[..., 0], taps.astype(TAPS)


def backward(dy: np.ndarray, taps: np.ndarray, shapes: tuple, size: Pair, stride: Pair, padding: Sides) -> tuple:
    """dx = each dy at the place where its window found the largest x; a pixel may have several"""
    at = Window.over(shapes[0], size, stride, padding)
    chosen = np.arange(at.rows * at.columns) == taps[..., None]
    given = np.where(chosen, dy[..., None], dy.dtype.type(0)).reshape(*dy.shape, *size)
    return (scattered(given, shapes[0], at, padding),)


def launch(kernels: dict[str, Kernel], x: Array, size: Pair, stride: Pair, padding: Sides) -> tuple[Array, Array]:
    """One kernel, which writes the largest numbers and their places in the windows."""
    at = Window.over(x.shape, size, stride, padding)
    shape = (*x.shape[:2], at.out_height, at.out_width)
    y, taps = Array.empty(x.device, shape, x.dtype), Array.empty(x.device, shape, TAPS)
    kernels["forward"].launch(y.size)(x, y, taps, at, y.size)
    return y, taps


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, taps: Array, shapes: tuple, size: Pair, stride: Pair,
    padding: Sides,
) -> tuple[Array]:  # fmt: skip
    """One kernel."""
    dx = Array.empty(dy.device, shapes[0], dy.dtype)
    kernels["backward"].launch(dx.size)(dy, taps, dx, Window.over(shapes[0], size, stride, padding), dx.size)
    return (dx,)


def complete(x: Any, size: Any, stride: Any = None, padding: Any = 0) -> dict[str, Any]:
    """The parameters for both axes. Raises TypeError and ValueError, also for windows of more than 255 elements."""
    params = prepare("max_pool2d", x, size, stride, padding)
    if params["size"][0] * params["size"][1] > 255:
        raise ValueError(f"max_pool2d: size={size!r} has more than 255 elements; pool twice with smaller windows.")
    return params


max_pool2d = Op(
    "max_pool2d",
    forward,
    backward,
    kernels={way: per_element("max_pool2d.cu", f"max_pool2d_{way}", "size", BLOCKS) for way in ("forward", "backward")},
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
        Case(((2, 2, 5, 6),), {"size": 3, "stride": 2, "padding": 1}, nan=True),
    ],
)
