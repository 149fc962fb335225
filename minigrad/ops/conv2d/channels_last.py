"""The rungs of conv2d for images and kernels with their channels last in memory: on tensor cores.

They take rows of 16 bytes: other numbers of channels are filled up with zeros, and the gradients cut off again.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import is_bfloat16
from minigrad.devices.tensor_map import ImageMap, TensorMap, corners
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Window
from minigrad.layouts import in_layout
from minigrad.ops.conv2d.kernels import HOPPER, OTHERS, SHAPES, TENSOR_CORES, fitting
from minigrad.ops.matmul.kernels import PRECISIONS, has_tensor_cores
from minigrad.ops.matmul.strategies import add_up

# Bytes that a thread copies at once, and the copy engine; the rows or columns of the largest window.
RUN, WIDE, WIDEST = 16, 128, 16
FLOAT = np.dtype(np.float32)


def rung(kernels: Mapping[str, Kernel], role: str, x: Any, w: Any, at: Window, groups: int, precision: str) -> str:
    """The rung on tensor cores for the forward pass or a gradient, or "" where another is faster or the only one.

    Raises LaunchError where `using` selects one that cannot do it.
    """
    requested = ""
    for name in TENSOR_CORES:
        if kernels["forward"] is kernels[name] or kernels[role] is kernels.get(f"{name}_{role}"):
            requested = name
    wanted = "mma_bf16" if is_bfloat16(x.dtype) else PRECISIONS.get(precision, "") if x.dtype == FLOAT else ""
    unit = RUN // x.dtype.itemsize
    fits = groups == 1 and w.shape[0] % unit == 0 and max(at.rows, at.columns) <= WIDEST
    columns = at.rows * at.columns * max(w.shape[:2])  # of the widest result, dw
    fits = fits and x.size > 0 and columns <= MAX_GRID[1] * min(min(shape) for shape in SHAPES)
    fits = fits and not (x.offset or w.offset)
    if requested:
        if not fits or x.dtype.itemsize != (2 if "bf16" in requested else 4):
            raise LaunchError(
                f"conv2d: {requested} takes groups=1, kernels in multiples of {unit}, windows of at most {WIDEST} x "
                f"{WIDEST} and {'bfloat16' if 'bf16' in requested else 'float32'}; x is {x.dtype} {x.shape} and w "
                f"{w.shape}, groups={groups}. Without `using` conv2d finds a kernel itself."
            )
        wanted = requested
    elif not (wanted and fits and f"fast_{wanted}" in kernels and has_tensor_cores(x.device.arch)):
        return ""
    if fits_wgmma(role, x, w, at):
        return HOPPER.get(wanted, wanted) if f"fast_{wanted}" in kernels and x.device.arch == "sm_90a" else wanted
    return OTHERS.get(wanted, wanted)


def fits_wgmma(role: str, x: Any, w: Any, at: Window) -> bool:
    """True where the copy engine (TMA) fetches whole stages: 128 bytes of the channels that are summed up."""
    (rows, terms), depth, strides = w.shape[:2], WIDE // x.dtype.itemsize, (at.stride_y, at.stride_x)
    if role == "backward_x":
        at, rows, terms = turned(at, w.shape[0]), terms, rows
    near = all(-128 <= end < 128 for corner in corners(at) for end in corner)
    short = max((at.rows - 1) * at.dilation_y, (at.columns - 1) * at.dilation_x) < 256
    possible = role == "forward" or (role == "backward_x" and strides == (1, 1))
    return possible and near and short and rows % 64 == 0 and terms % depth == 0


def turned(at: Window, kernels: int) -> Window:
    """The window over dy of the convolution that gives dx, where the stride is 1."""
    top, left = (at.rows - 1) * at.dilation_y - at.top, (at.columns - 1) * at.dilation_x - at.left
    size, out = (at.rows, at.columns), (at.height, at.width)
    return Window(kernels, at.out_height, at.out_width, *size, *out, 1, 1, top, left, at.dilation_y, at.dilation_x)


def by_wgmma(
    kernels: Mapping[str, Kernel], name: str, x: Array, w: Array, bias: Array | None, y: Array, at: Window
) -> Array:
    """y, or dx of a turned window: kernels w (K, C, R, S) over images x, all with their channels last."""
    count, depth = w.shape[0], WIDE // x.dtype.itemsize
    launch = kernels[name].launch(count, y.size // count, x.device.processors)
    factors = [w, rest(kernels, w), x, rest(kernels, x)] if "3x" in name else [w, x]
    maps: list[TensorMap] = []
    for i, factor in enumerate(factors):
        if i < len(factors) // 2:
            maps.append(TensorMap(factor, (1, count, w.size // count), (1, 64 * launch.values["DOWN"], depth)))
        else:
            maps.append(ImageMap(factor, at, depth, launch.values["PIXELS"]))
    launch(*maps, bias, y, at, count, x.shape[0])
    return y


def rest(kernels: Mapping[str, Kernel], x: Array) -> Array:
    """The part of each number that TF32 leaves out."""
    y = Array.empty(x.device, x.shape, x.dtype, x.channels_last)
    kernels["rest"].launch(x.size)(x, y, x.size)
    return y


def forward(kernels: Mapping[str, Kernel], rung: str, x: Array, w: Array, bias: Array | None, at: Window) -> Array:
    """y, with its channels last."""
    x, w, at = with_channels(kernels, x), with_channels(kernels, w), filled(at, x.dtype)
    shape = (x.shape[0], w.shape[0], at.out_height, at.out_width)
    y = Array.empty(x.device, shape, x.dtype, True)
    if rung in OTHERS:
        return by_wgmma(kernels, rung, x, w, bias, y, at)
    launch = kernels[rung].launch(y.size // shape[1], shape[1], 1, x.device.processors)
    launch(x, w, bias, y, at, shape[1], shape[0])
    return y


def gradient_x(kernels: Mapping[str, Kernel], rung: str, dy: Array, w: Array, shapes: tuple, at: Window) -> Array:
    """dx, with its channels last."""
    (n, channels, *extents), k = shapes[0], shapes[1][0]
    dy, w, at = in_layout(dy, True), with_channels(kernels, w), filled(at, dy.dtype)
    dx = Array.empty(dy.device, (n, at.channels, *extents), dy.dtype, True)
    if rung in OTHERS:
        flipped = Array.empty(w.device, (channels, k, *w.shape[2:]), w.dtype, True)
        kernels["turn"].launch(w.size)(w, flipped, k, channels, at.rows * at.columns, w.size)
        return by_wgmma(kernels, f"{rung}_backward_x", dy, flipped, None, dx, turned(at, k))
    pixels = n * ceil_div(at.height, at.stride_y) * ceil_div(at.width, at.stride_x)
    launch = kernels[f"{rung}_backward_x"].launch(pixels, at.channels, at.stride_y * at.stride_x, dy.device.processors)
    launch(dy, w, dx, at, k, n)
    return with_channels(kernels, dx, channels)


def gradient_w(kernels: Mapping[str, Kernel], rung: str, dy: Array, x: Array, shapes: tuple, at: Window) -> Array:
    """dw, with its channels last: in parts, which are then added up."""
    k, channels, *window = shapes[1]
    dy, x, at = in_layout(dy, True), with_channels(kernels, x), filled(at, dy.dtype)
    shape, pixels = (k, at.channels, *window), dy.size // k
    kernel = kernels[f"{rung}_backward_w"]
    chunk = chunk_of(k, prod(shape[1:]), pixels, kernel.values["WIDE"], dy.device.processors)
    count = ceil_div(pixels, chunk)
    dw = Array.empty(dy.device, shape, FLOAT, True)
    parts = dw if count == 1 else Array.empty(dy.device, (count, dw.size), FLOAT)
    launch = kernel.launch(k, prod(shape[1:]), count, dy.device.processors)
    launch(dy, x, parts, at, k, dy.shape[0], chunk)
    if count > 1:
        add_up(parts, dw, count, dw.size)
    return with_channels(kernels, dw, channels)


PIXELS, LAUNCH, MOST = 64, 100, 264  # a chunk is a multiple; a launch takes as long as so many pixels; chunks at most


def chunk_of(kernels: int, places: int, pixels: int, wide: int, processors: int) -> int:
    """The pixels that one block adds up: as few as keep all multiprocessors busy, since all parts are added up, too."""

    def time(count: int) -> float:
        rows, columns = fitting("_backward_w", wide, kernels, places, count, processors)
        blocks, at_once = ceil_div(kernels, rows) * ceil_div(places, columns) * count, 512 * wide // (rows * columns)
        waves = ceil_div(blocks, processors * at_once) * at_once
        return waves * (pixels / count + LAUNCH) * rows * columns + kernels * places * count

    count = min(range(1, min(MOST, max(pixels // LAUNCH, 1)) + 1), key=time)
    return ceil_div(pixels, count * PIXELS) * PIXELS


def filled(at: Window, dtype: np.dtype) -> Window:
    """The window over images whose channels are filled up to a multiple of 16 bytes."""
    unit = RUN // dtype.itemsize
    other = Window.from_buffer_copy(at)
    other.channels = ceil_div(at.channels, unit) * unit
    return other


def with_channels(kernels: Mapping[str, Kernel], x: Array, wanted: int = 0) -> Array:
    """The images with their channels last, and this number of them: by default the next multiple of 16 bytes."""
    unit = RUN // x.dtype.itemsize
    wanted = wanted or ceil_div(x.shape[1], unit) * unit
    if wanted == x.shape[1]:
        return in_layout(x, True)
    n, channels, height, width = x.shape
    y = Array.empty(x.device, (n, wanted, height, width), x.dtype, True)
    kernels["recount"].launch(y.size)(x, y, channels, wanted, height * width, x.channels_last, y.size)
    return y
