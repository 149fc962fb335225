"""conv2d: 2-D convolution of images (N, C, H, W) with kernels (K, C, R, S), as in PyTorch a correlation."""

from math import prod
from typing import Any

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array, spec_of
from minigrad.devices.dtypes import is_bfloat16, must_be_floats, wide
from minigrad.devices.layouts import in_layout, typed
from minigrad.errors import require_int
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape
from minigrad.kernels.window import Pair, Sides, Window, must_fit, pair, sides
from minigrad.op import OPS, Case, Op
from minigrad.ops.conv2d import by_rows, channels_last
from minigrad.ops.conv2d.kernels import FAST, kernels
from minigrad.ops.conv2d.rungs import choose
from minigrad.ops.precision import rounded
from minigrad.ops.window import patches, scattered


def forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, precision: str = "float32",
) -> np.ndarray:  # fmt: skip
    """y[n,k,p,q] = bias[k] + sum over c, r, s of w[k,c,r,s] x[n, c, p stride - top + r dilation, ...], x padded

    With groups > 1 images with their channels last are first copied to channels first. For inference
    `nn.folded` takes the scale of a batch norm into w.
    """
    x, w = rounding.rounded(x, precision), rounding.rounded(w, precision)
    at = Window.over(x.shape, w.shape[-2:], stride, padding, dilation)
    each = w.shape[0] // groups
    y = products(by_group(patches(x, at, padding), groups), w.reshape(groups, each, -1).swapaxes(1, 2))
    y = y.reshape(groups, len(x), at.out_height, at.out_width, each).transpose(1, 0, 4, 2, 3)
    y = y.reshape(len(x), w.shape[0], at.out_height, at.out_width)
    return y if bias is None else y + bias[:, None, None]


def backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, shapes: tuple, needs: tuple, stride: Pair, padding: Sides,
    dilation: Pair, groups: int, precision: str,
) -> tuple:  # fmt: skip
    """dx = the sum of dy w over the outputs that x went to; dw = the sum of dy x, and dbias of dy, over n, p and q"""
    dbias, (dy, x, w) = dy.sum(axis=(0, 2, 3)), (rounding.rounded(a, precision) for a in (dy, x, w))
    (image, window), each = shapes[:2], shapes[1][0] // groups
    at, pixels = Window.over(image, window[-2:], stride, padding, dilation), dy.shape[2:]
    dys = (
        dy.reshape(len(dy), groups, each, *pixels).transpose(1, 0, 3, 4, 2).reshape(groups, -1 if dy.size else 0, each)
    )
    dx = dw = None
    if needs[0]:
        columns = products(dys, w.reshape(groups, each, -1)).reshape(groups, len(dy), *pixels, *window[1:])
        columns = columns.transpose(1, 0, 4, 2, 3, 5, 6).reshape(*image[:2], *pixels, *window[2:])
        dx = scattered(columns, image, at, padding)
    if needs[1]:
        dw = products(dys.swapaxes(1, 2), by_group(patches(x, at, padding), groups)).reshape(window)
    return (dx, dw, dbias)[: len(shapes)]


def by_group(patches: np.ndarray, groups: int) -> np.ndarray:
    """Patches (N, C, P, Q, R, S) as a matrix for each group: a row for each output pixel, a column for each term."""
    n, channels, p, q, r, s = patches.shape
    grouped = patches.reshape(n, groups, channels // groups, p, q, r, s).transpose(1, 0, 3, 4, 2, 5, 6)
    return grouped.reshape(groups, n * p * q, channels // groups * r * s)


def products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left @ right for each group, one after the other: NumPy's product of stacks can be many times as slow."""
    return np.stack([a @ b for a, b in zip(left, right, strict=True)])


def launch(
    kernels: dict[str, Kernel], x: Array, w: Array, bias: Array | None = None, residual: Array | None = None, *,
    stride: Pair, padding: Sides, dilation: Pair, groups: int, precision: str, relu: bool = False,
) -> Array:  # fmt: skip
    """y, by the rung that fits, in the layout of x, or with the channels last if those of w are.

    relu(y + residual) is for `conv2d_relu`: tensor cores do it before they store y, other rungs by further launches.
    """
    at = Window.over(x.shape, w.shape[-2:], stride, padding, dilation)
    last, rung = x.channels_last or w.channels_last, choose(kernels, "forward", x.spec, w.spec, at, groups, precision)
    if rung and rung.filled:  # tensor cores round x and w themselves
        ends = (bias, residual and in_layout(residual, True), relu)
        return in_layout(channels_last.forward(kernels, rung, x, w, ends, at), last)
    if relu and is_bfloat16(x.dtype):  # y has one rounding
        arrays: Any = [array and typed(array, wide(x.dtype)) for array in (x, w, bias, residual)]
        params: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return typed(launch(kernels, *arrays, **params, precision="float32", relu=True), x.dtype)
    x, w = rounded(precision, x, w)
    if rung:
        y = channels_last.forward(kernels, rung, x, w, (bias, None, False), at)
    else:
        y = by_rows.forward(kernels, in_layout(x, False), in_layout(w, False), bias, at, groups)
    y = in_layout(y, last)
    if residual:
        y = OPS["add"].run([y, in_layout(residual, last)], {})
    return OPS["relu"].run([y], {}) if relu else y


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, x: Array, w: Array, shapes: tuple, stride: Pair,
    padding: Sides, dilation: Pair, groups: int, precision: str,
) -> tuple:  # fmt: skip
    """The wanted gradients, by the rung of the forward pass; dbias is a sum."""
    at = Window.over(shapes[0], shapes[1][-2:], stride, padding, dilation)
    grads: list[Array | None] = [None, None, None]
    image, window = (spec_of(dy.device, shape, dy.dtype) for shape in shapes[:2])
    if needs[2:] and needs[2]:
        grads[2] = OPS["sum"].run([dy], {"axis": (0, 2, 3), "keepdims": False})
    for i, (role, other) in enumerate((("backward_x", w), ("backward_w", x))):
        if needs[i]:
            rung = choose(kernels, role, image, window, at, groups, precision)
            last, rows = GRADIENTS[role]
            exact = rung is None or not rung.filled
            factors = rounded(precision, dy, other) if exact else (dy, other)
            if rung:
                grads[i] = last(kernels, rung, *factors, shapes, at)
            else:
                grads[i] = rows(kernels, *(in_layout(factor, False) for factor in factors), shapes, at, groups)
    return tuple(grads[: len(shapes)])


GRADIENTS: dict[str, Any] = {
    "backward_x": (channels_last.gradient_x, by_rows.gradient_x),
    "backward_w": (channels_last.gradient_w, by_rows.gradient_w),
}


def prepare(
    x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1,
    precision: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The parameters for both axes: a whole number, or (down, across).

    padding may be ((top, bottom), (left, right)), "valid" for none, or "same": with stride 1 the output is as large as
    the image, and an even window has one more row below and one more column at the right. Raises TypeError, ValueError.
    """
    must_be_floats("conv2d", x, w, *([] if bias is None else [bias]))
    if x.ndim != 4 or w.ndim != 4:
        raise ValueError(f"conv2d: x is {x.shape} and w is {w.shape}; they must be (N, C, H, W) and (K, C, R, S).")
    stride, dilation = pair("conv2d", "stride", stride, 1), pair("conv2d", "dilation", dilation, 1)
    groups = require_int("conv2d", "groups", groups, 1)
    if x.shape[1] % groups or w.shape[0] % groups or x.shape[1] != w.shape[1] * groups:
        raise ValueError(
            f"conv2d: x has {x.shape[1]} channels, and w is {w.shape} with groups={groups}: of each group's channels w "
            f"has {w.shape[1]}. {x.shape[1]} and {w.shape[0]} must be divisible by groups, and w.shape[1] times groups "
            "must be the channels of x."
        )
    if not w.size:
        raise ValueError(f"conv2d: w is {w.shape}; a window has at least one row, column and channel.")
    if bias is not None and bias.shape != w.shape[:1]:
        raise ValueError(f"conv2d: bias is {bias.shape}; it must be {w.shape[:1]}, a number for each kernel of w.")
    around = same(w.shape, stride, dilation) if isinstance(padding, str) and padding == "same" else padding
    around = sides("conv2d", 0 if isinstance(around, str) and around == "valid" else around)
    must_fit("conv2d", x.shape, w.shape[-2:], around, dilation)
    permitted = rounding.current() if precision is None else rounding.known(precision)
    return {"stride": stride, "padding": around, "dilation": dilation, "groups": groups, "precision": permitted}


def same(window: Shape, stride: Pair, dilation: Pair) -> Sides:
    """The padding with which y is as large as x. Raises ValueError for another stride than 1."""
    if stride != (1, 1):
        raise ValueError(f"conv2d: padding='same' is for stride 1; got stride {stride}. Give the padding as numbers.")
    totals = [step * (k - 1) for step, k in zip(dilation, window[-2:], strict=True)]
    (top, bottom), (left, right) = ((total // 2, total - total // 2) for total in totals)
    return (top, bottom), (left, right)


def cost(x: Any, w: Any, bias: Any = None, **params: Any) -> tuple[int, int]:
    """2 FLOPs for each term of each output, padding included; x, w and bias read once, y written once."""
    params = prepare(x, w, bias, **params)
    at = Window.over(x.shape, w.shape[-2:], params["stride"], params["padding"], params["dilation"])
    outputs = x.shape[0] * w.shape[0] * at.out_height * at.out_width
    read = x.size + w.size + (0 if bias is None else bias.size)
    return 2 * outputs * prod(w.shape[1:]), (read + outputs) * x.dtype.itemsize


ODD = {"stride": (2, 3), "padding": ((0, 2), (1, 0)), "dilation": (2, 1)}
conv2d = Op(
    "conv2d",
    forward,
    backward,
    kernels=kernels,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    uses=("w", "x", ""),
    cost=cost,
    backward_flops=2,
    fast=FAST,
    rounds=True,
    integers=True,
    layouts="any",
    cases=[
        Case(((1, 1, 1, 1), (1, 1, 1, 1))),
        Case(((2, 3, 5, 7), (4, 3, 3, 2))),
        Case(((2, 3, 5, 7), (4, 3, 3, 2), (4,)), {"padding": 1}),
        Case(((3, 2, 8, 7), (5, 2, 3, 2), (5,)), ODD),
        Case(((2, 4, 7, 9), (6, 2, 3, 2), (6,)), {"groups": 2, "padding": "same"}),
        Case(((2, 6, 7, 9), (6, 1, 3, 3)), {"groups": 6, "stride": 2, "padding": (1, 0)}),
        Case(((1, 33, 4, 5), (31, 33, 1, 1), (31,)), {"stride": 2}),
        Case(((1, 2, 3, 4), (3, 2, 3, 4))),
        Case(((1, 1, 2, 2), (1, 1, 3, 3)), {"padding": 2, "dilation": 2}),
        Case(((2, 4, 6, 9), (6, 2, 3, 3), (6,)), {"groups": 2, "padding": ((0, 3), (1, 2))}),
        Case(((0, 3, 5, 7), (4, 3, 3, 2), (4,))),
        Case(((2, 2, 5, 6), (3, 2, 3, 2), (3,)), {"padding": 1}, nan=True),
    ],
)
