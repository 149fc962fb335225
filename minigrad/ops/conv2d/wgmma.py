"""Convolution by wgmma: the copy engine (TMA) finds the patches, and brings whole stages of 128 bytes of channels."""

from collections.abc import Mapping
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.tensor_map import ImageMap, TensorMap, corners
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.window import Window

WIDE, RUN = 128, 16  # bytes of a stage, and of the least channels of a pixel
# By rung, the pixels of a tile -> microseconds that a block takes for a stage, as measured on an H200.
STAGE: dict[str, dict[int, float]] = {
    "wgmma_tf32": {256: 0.69, 128: 0.46},
    "wgmma_bf16": {256: 0.74, 128: 0.5},
    "wgmma_3xtf32": {128: 1.16},
}
# Microseconds of a tile besides its stages, of the launch that adds up parts of sums, and of one element of a part.
TILE, FINISH, ADDITION = 2.0, 3.0, 1.6e-6
LARGEST = 8  # the stride that the copy engine can take
MOST = 64  # parts of a sum; there are several only where tiles are few, so all of them fit into one array


class Plan(NamedTuple):
    """The pixels of a tile, and the parts into which each sum is split."""

    pixels: int
    parts: int


def plan(name: str, kernels: int, pixels: int, stages: int, processors: int, longest: int = 0) -> Plan:
    """The fastest: without parts, few tiles would leave multiprocessors idle.

    longest: where sums differ, the stages of the longest; `stages` is then their average, and no sum is split.
    """
    down = 2 if kernels % 128 == 0 else 1

    def time(chosen: Plan) -> float:
        tiles = kernels // (64 * down) * ceil_div(pixels, chosen.pixels * 2 // down)
        waves = ceil_div(tiles * chosen.parts, processors)
        more = FINISH + chosen.parts * pixels * kernels * ADDITION if chosen.parts > 1 else 0
        each, slowest = (n * STAGE[name][chosen.pixels] + TILE for n in (ceil_div(stages, chosen.parts), longest))
        return max(waves * each, slowest) + more

    most = 1 if longest else min(MOST, stages)
    counts = sorted({ceil_div(stages, ceil_div(stages, parts)) for parts in range(1, most + 1)})
    return min((Plan(width, parts) for width in STAGE[name] for parts in counts), key=time)


def fits(role: str, x: Any, w: Any, at: Window) -> bool:
    """True where there are images, and the copy engine (TMA) fetches whole stages: 128 bytes of the summed terms."""
    (rows, terms), depth, possible = w.shape[:2], WIDE // x.dtype.itemsize, role == "forward"
    by_rows = possible and takes_rows(x.dtype, at)
    if role == "backward_x":
        at, rows, terms, possible = turned(at, w.shape[0]), terms, rows, has_equal_parities(at)
    near = all(-128 <= end < 128 for corner in corners(at) for end in corner)
    short = max((at.rows - 1) * at.dilation_y, (at.columns - 1) * at.dilation_x) < 256
    possible = possible and x.shape[0] > 0 and max(at.stride_y, at.stride_x) <= LARGEST
    return possible and near and short and rows % 64 == 0 and (by_rows or terms % depth == 0)


def takes_rows(dtype: np.dtype, at: Window) -> bool:
    """True where the channels of a pixel fit into 16 bytes, and a row of the window's taps into a stage."""
    return at.channels * dtype.itemsize <= RUN and at.columns * RUN <= WIDE and at.dilation_x == 1


def has_equal_parities(at: Window) -> bool:
    """True where the pixels of each parity are as many, and those of no two meet the same taps."""
    axes = (at.height, at.stride_y, at.dilation_y), (at.width, at.stride_x, at.dilation_x)
    return all(extent % stride == 0 and gcd(stride, dilation) == 1 for extent, stride, dilation in axes)


def turned(at: Window, kernels: int) -> Window:
    """The window over dy of the convolution that gives dx, or with a stride its pixels of any parity."""
    top, left = (at.rows - 1) * at.dilation_y - at.top, (at.columns - 1) * at.dilation_x - at.left
    top, left, out = top // at.stride_y, left // at.stride_x, (at.height // at.stride_y, at.width // at.stride_x)
    size, steps = (at.rows, at.columns), (at.dilation_y, at.dilation_x)
    return Window(kernels, at.out_height, at.out_width, *size, *out, 1, 1, top, left, *steps)


def gradient_x(kernels: Mapping[str, Kernel], name: str, dy: Array, w: Array, dx: Array, at: Window) -> Array:
    """dx, by the convolution of dy with turned kernels: with a stride of one for each parity, all in one launch."""
    k, channels, *size = w.shape
    flipped = Array.empty(w.device, (channels, k, *size), w.dtype, True)
    kernels["turn"].launch(w.size)(w, flipped, at, k, w.size)
    over_dy, parities = turned(at, k), at.stride_y * at.stride_x
    if parities == 1:
        return product(kernels, name, dy, flipped, (None, None, False), dx, over_dy)
    tap, taps = k * w.dtype.itemsize // WIDE, ceil_div(at.rows, at.stride_y) * ceil_div(at.columns, at.stride_x)
    sizes = channels, dx.size // channels, ceil_div(prod(size) * tap, parities), taps * tap, dx.device.processors
    launch = kernels[f"{name}_backward_x"].launch(*sizes)
    launch(*maps(kernels, launch, flipped, dy, over_dy), dx, at, over_dy, dy.shape[0])
    return dx


def product(kernels: Mapping[str, Kernel], name: str, x: Array, w: Array, ends: tuple, y: Array, at: Window) -> Array:
    """y, or dx of a turned window: kernels w (K, C, R, S) over images x, all with their channels last.

    ends: what becomes of the sums, as bias, residual (each an array or None) and relu.
    """
    count, depth, (bias, residual, relu) = w.shape[0], WIDE // x.dtype.itemsize, ends
    stages = w.size // (count * depth)
    launch = kernels[name].launch(count, y.size // count, stages, x.device.processors)
    chunk = ceil_div(stages, launch.values["SPLIT"])
    parts = ceil_div(stages, chunk)
    sums = Array.empty(y.device, (parts, y.size), np.dtype(np.float32)) if parts > 1 else None
    launch(*maps(kernels, launch, w, x, at), bias, residual, y, sums, at, count, x.shape[0], chunk, relu)
    if sums:
        kernels["finish"].launch(y.size)(sums, bias, residual, y, count, parts, relu, y.size)
    return y


def maps(kernels: Mapping[str, Kernel], launch: Launch, w: Array, x: Array, at: Window) -> list[TensorMap]:
    """The maps of the kernels, each a row, and of the images under a window; for 3xTF32 also of their rests."""
    count, depth, name = w.shape[0], WIDE // x.dtype.itemsize, launch.kernel.name
    if count % (tall := 64 * launch.values["DOWN"]):
        raise LaunchError(f"{name}: tiles of {tall} kernels do not fit into {count}. Choose DOWN=1.")
    both = [[factor, rest(kernels, factor)] if "3x" in name else [factor] for factor in (w, x)]
    boxes = [TensorMap(factor, (1, count, w.size // count), (1, tall, depth)) for factor in both[0]]
    return [*boxes, *[ImageMap(factor, at, depth, launch.values["PIXELS"]) for factor in both[1]]]


def rest(kernels: Mapping[str, Kernel], x: Array) -> Array:
    """The part of each number that TF32 leaves out."""
    y = Array.empty(x.device, x.shape, x.dtype, x.channels_last)
    kernels["rest"].launch(x.size)(x, y, x.size)
    return y
