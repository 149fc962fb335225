"""The rungs of conv2d for images and kernels with their channels last in memory: in registers, on tensor cores.

Tensor cores take rows of 16 bytes: other numbers of channels are filled up with zeros, and the gradients cut off again.
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.devices.layouts import in_layout, typed
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.view import Shape
from minigrad.kernels.window import Window
from minigrad.ops.channels_last import LANES, WARP
from minigrad.ops.conv2d import wgmma
from minigrad.ops.conv2d.rungs import EDGE, HOPPER, LONGEST, ChannelsLast, chunk_of
from minigrad.ops.matmul.strategies import add_up

Kernels = Mapping[str, Kernel]
MOST_WARPS = 8  # of a block on tensor cores


def forward(kernels: Kernels, rung: ChannelsLast, x: Array, w: Array, ends: tuple, at: Window) -> Array:
    """y, with its channels last. ends: bias, residual and relu, of which only tensor cores take the last two."""
    if rung.name in HOPPER and wgmma.takes_rows(x.dtype, at):
        x, w, at = rows_as_channels(kernels, x, w, at)
    else:
        x, w, at = with_channels(kernels, rung, x), with_channels(kernels, rung, w), filled(rung, at, x.dtype)
    shape = (x.shape[0], w.shape[0], at.out_height, at.out_width)
    y = Array.empty(x.device, shape, x.dtype, True)
    if rung.name in HOPPER:
        return wgmma.product(kernels, rung.name, x, w, ends, y, at)
    sizes = sizes_of(rung, shape[0], shape[2:], shape[1], 1, x.device.processors)
    (bias, residual, relu), launch = ends, planned(kernels, rung, "", sizes)
    if rung.filled:
        launch(x, w, bias, residual, y, at, shape[1], shape[0], relu)
    else:
        launch(x, w, bias, y, at, shape[1], shape[0])
    return y


def planned(kernels: Kernels, rung: ChannelsLast, way: str, sizes: Shape) -> Launch:
    """The launch of a kernel. Raises LaunchError for a tile on tensor cores with too few or too many warps."""
    launch, least = kernels[f"{rung.name}{way}"].launch(*sizes), 2 if way == "_backward_w" else 4
    if rung.filled and not least <= (warps := launch.block[0] // WARP) <= MOST_WARPS:
        raise LaunchError(
            f"{launch.kernel.name}: a tile of {launch.values['ROWS']} x {launch.values['COLUMNS']} has {warps} warps. "
            f"{least} to {MOST_WARPS} can copy its stages, and find room for two of them. Choose other ROWS or COLUMNS."
        )
    return launch


def sizes_of(rung: ChannelsLast, images: int, extents: Shape, columns: int, layers: int, processors: int) -> Shape:
    """The sizes of a launch for images of these extents, rows and columns, with so many channels."""
    if rung.plain:
        return *extents, images * ceil_div(columns, EDGE)
    return images * prod(extents), columns, layers, processors


def gradient_x(kernels: Kernels, rung: ChannelsLast, dy: Array, w: Array, shapes: tuple, at: Window) -> Array:
    """dx, with its channels last."""
    (n, channels, *extents), k = shapes[0], shapes[1][0]
    dy, w, at = in_layout(dy, True), with_channels(kernels, rung, w), filled(rung, at, dy.dtype)
    dx = Array.empty(dy.device, (n, at.channels, *extents), dy.dtype, True)
    if rung.name in HOPPER:
        return wgmma.gradient_x(kernels, rung.name, dy, w, dx, at)
    parity = ceil_div(at.height, at.stride_y), ceil_div(at.width, at.stride_x)
    sizes = sizes_of(rung, n, parity, at.channels, at.stride_y * at.stride_x, dy.device.processors)
    planned(kernels, rung, "_backward_x", sizes)(dy, w, dx, at, k, n)
    return with_channels(kernels, rung, dx, channels)


def gradient_w(kernels: Kernels, rung: ChannelsLast, dy: Array, x: Array, shapes: tuple, at: Window) -> Array:
    """dw, with its channels last: in parts, which are then added up."""
    k, channels, *window = shapes[1]
    dy, x, at = in_layout(dy, True), with_channels(kernels, rung, x), filled(rung, at, dy.dtype)
    shape, pixels = (k, at.channels, *window), dy.size // k
    launch = planned(kernels, rung, "_backward_w", (k, prod(shape[1:]), pixels, dy.device.processors))
    count, dtype = launch.values["SPLIT"], wide(dy.dtype)
    chunk = chunk_of(pixels, count)
    if rung.filled and chunk > LONGEST:
        raise LaunchError(
            f"conv2d_{rung.name}_backward_w: with SPLIT={count} tensor cores add up {chunk} pixels and round each "
            f"sum toward zero; at most {LONGEST} keep the error small. Choose SPLIT >= {ceil_div(pixels, LONGEST)}."
        )
    dw = Array.empty(dy.device, shape, dtype, True)
    parts = dw if count == 1 else Array.empty(dy.device, (count, dw.size), dtype)
    launch(dy, x, parts, at, k, dy.shape[0], chunk)
    if count > 1:
        add_up(parts, dw, count, dw.size)
    return typed(with_channels(kernels, rung, dw, channels), dy.dtype)


def filled(rung: ChannelsLast, at: Window, dtype: np.dtype) -> Window:
    """The window over images whose channels are filled up as the rung takes them."""
    unit = rung.unit(dtype)
    other = Window.from_buffer_copy(at)
    other.channels = ceil_div(at.channels, unit) * unit
    return other


def rows_as_channels(kernels: Kernels, x: Array, w: Array, at: Window) -> tuple[Array, Array, Window]:
    """x, w and the window, of which a stage of wgmma takes a whole row of taps: 8 pixels of 16 bytes.

    Images have no channels to fill a stage with, but the pixels of a row of taps are neighbors in memory. So the window
    has the channels of 8 pixels, and one column of taps. Zeros in w meet the taps beyond its own columns.
    """
    depth, unit = wgmma.WIDE // x.dtype.itemsize, wgmma.RUN // x.dtype.itemsize
    taps, places = depth // unit, (at.out_width - 1) * at.stride_x + 1
    x = recount(kernels, x, unit, places + taps - 1, at.left)
    w = recount(kernels, w, unit, taps)
    size, out, stride = (at.rows, 1), (at.out_height, at.out_width), (at.stride_y, at.stride_x)
    return x, w, Window(depth, at.height, places, *size, *out, *stride, at.top, 0, at.dilation_y, 1)


def with_channels(kernels: Kernels, rung: ChannelsLast, x: Array, wanted: int = 0) -> Array:
    """The images with their channels last, and this number of them: by default the next that the rung takes."""
    unit = rung.unit(x.dtype)
    wanted = wanted or ceil_div(x.shape[1], unit) * unit
    return in_layout(x, True) if wanted == x.shape[1] else recount(kernels, x, wanted, x.shape[3])


def recount(kernels: Kernels, x: Array, out_channels: int, out_width: int, left: int = 0) -> Array:
    """The images with their channels last, another number of them, and zeros around x: column `left` is its first."""
    n, channels, height, width = x.shape
    y = Array.empty(x.device, (n, out_channels, height, out_width), x.dtype, True)
    threads = n * height * out_width * ceil_div(out_channels, LANES)
    sizes = channels, out_channels, height, width, out_width, left
    kernels["recount"].launch(threads)(x, y, *sizes, x.channels_last, threads)
    return y
