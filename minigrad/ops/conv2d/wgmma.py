"""Convolution by wgmma: the copy engine (TMA) finds the patches, and brings whole stages of 128 bytes of channels."""

from collections.abc import Mapping
from typing import Any

from minigrad.devices.array import Array
from minigrad.devices.tensor_map import ImageMap, TensorMap, corners
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Window

WIDE = 128  # bytes of a stage


def fits(role: str, x: Any, w: Any, at: Window) -> bool:
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


def product(
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
