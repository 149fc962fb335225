"""conv2d: 2-D convolution of images (N, C, H, W) with kernels (K, C, R, S), as in PyTorch a correlation."""

from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.errors import require_int
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape
from minigrad.kernels.window import Pair, Sides, Window, must_fit, pair, sides
from minigrad.op import OPS, Case, Op, unbroadcast
from minigrad.ops import winograd
from minigrad.ops.elementwise import per_element
from minigrad.ops.matmul import launch_backward as products_backward
from minigrad.ops.window import BLOCKS, patches, scattered


def forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:  # fmt: skip
    """y[n,k,p,q] = bias[k] + sum over c, r, s of w[k,c,r,s] x[n, c, p stride - top + r dilation, ...], x padded"""
    at = Window.over(x.shape, w.shape[-2:], stride, padding, dilation)
    each = w.shape[0] // groups
    y = by_group(patches(x, at, padding), groups) @ w.reshape(groups, each, -1).swapaxes(1, 2)
    y = y.reshape(groups, len(x), at.out_height, at.out_width, each).transpose(1, 0, 4, 2, 3)
    y = y.reshape(len(x), w.shape[0], at.out_height, at.out_width)
    return y if bias is None else y + bias[:, None, None]


def backward(
    dy: np.ndarray, x: np.ndarray, w: np.ndarray, shapes: tuple, needs: tuple, stride: Pair, padding: Sides,
    dilation: Pair, groups: int,
) -> tuple:  # fmt: skip
    """dx = the sum of dy w over the outputs that x went to; dw = the sum of dy x, and dbias of dy, over n, p and q"""
    (image, window), each = shapes[:2], shapes[1][0] // groups
    at, pixels = Window.over(image, window[-2:], stride, padding, dilation), dy.shape[2:]
    dys = (
        dy.reshape(len(dy), groups, each, *pixels).transpose(1, 0, 3, 4, 2).reshape(groups, -1 if dy.size else 0, each)
    )
    dx = dw = None
    if needs[0]:
        columns = (dys @ w.reshape(groups, each, -1)).reshape(groups, len(dy), *pixels, *window[1:])
        columns = columns.transpose(1, 0, 4, 2, 3, 5, 6).reshape(*image[:2], *pixels, *window[2:])
        dx = scattered(columns, image, at, padding)
    if needs[1]:
        dw = (dys.swapaxes(1, 2) @ by_group(patches(x, at, padding), groups)).reshape(window)
    return (dx, dw, dy.sum(axis=(0, 2, 3)))[: len(shapes)]


def by_group(patches: np.ndarray, groups: int) -> np.ndarray:
    """Patches (N, C, P, Q, R, S) as a matrix for each group: a row for each output pixel, a column for each term."""
    n, channels, p, q, r, s = patches.shape
    grouped = patches.reshape(n, groups, channels // groups, p, q, r, s).transpose(1, 0, 3, 4, 2, 5, 6)
    return grouped.reshape(groups, n * p * q, channels // groups * r * s)


kernels = {
    "naive": per_element("conv2d.cu", "conv2d_naive", "size", BLOCKS),
    "backward_x": per_element("conv2d.cu", "conv2d_backward_x", "size", BLOCKS),
    "backward_w": Kernel("conv2d.cu", "conv2d_backward_w", ("elements",), ("BLOCK",), "elements", BLOCK=(128, 32, 512)),
}
TILES = (16, 8, 32)
for end in ("", "_backward_x", "_backward_w"):
    grid, block = ("columns/TILE", "rows/TILE", "groups"), ("TILE", "TILE")
    kernels[f"implicit{end}"] = Kernel(
        "conv2d/implicit.cu", f"conv2d_implicit{end}", grid, block, "rows columns groups", TILE=TILES
    )
kernels["forward"] = kernels["naive"]
kernels["im2col"] = per_element("conv2d.cu", "conv2d_im2col", "size", BLOCKS)
kernels["im2col_backward_x"] = per_element("conv2d.cu", "conv2d_col2im", "size", BLOCKS)
kernels |= winograd.KERNELS


def launch(
    kernels: dict[str, Kernel], x: Array, w: Array, bias: Array | None = None, *, stride: Pair, padding: Sides,
    dilation: Pair, groups: int,
) -> Array:  # fmt: skip
    """One launch, or patches and a matrix product, or Winograd's transforms and 36 products."""
    at = Window.over(x.shape, w.shape[-2:], stride, padding, dilation)
    if kernels["forward"].name == "conv2d_im2col":
        return by_product(kernels, x, w, bias, at, groups)
    if kernels["forward"].name == "conv2d_winograd":
        return winograd.convolution(kernels, x, w, bias, at, groups)
    y = Array.empty(x.device, (x.shape[0], w.shape[0], at.out_height, at.out_width), x.dtype)
    if kernels["forward"].name == "conv2d_implicit":
        tiles = kernels["forward"].launch(w.shape[0] // groups, x.shape[0] * at.out_height * at.out_width, groups)
        tiles(x, w, bias, y, at, w.shape[0], groups, x.shape[0])
    else:
        kernels["forward"].launch(y.size)(x, w, bias, y, at, w.shape[0], groups, y.size)
    return y


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, x: Array, w: Array, shapes: tuple, stride: Pair,
    padding: Sides, dilation: Pair, groups: int,
) -> tuple:  # fmt: skip
    """The wanted gradients, in the way of the forward pass unless another kernel has the role; dbias is a sum."""
    at = Window.over(shapes[0], shapes[1][-2:], stride, padding, dilation)
    rung = kernels["forward"].name.removeprefix("conv2d_")
    chosen = {role: kernels[role] for role in ("backward_x", "backward_w")}
    for role, kernel in chosen.items():
        if kernel.name == f"conv2d_{role}":
            chosen[role] = kernels.get(f"{rung}_{role}", kernel)
    dx = dw = None
    if needs[0] and chosen["backward_x"].name == "conv2d_winograd_backward_x":
        dx = winograd.gradient_x({**kernels, **chosen}, dy, w, at, groups)
    elif needs[0]:
        dx = gradient_x(chosen["backward_x"], dy, w, shapes, at, groups)
    if needs[1] and rung == "im2col":
        dw = gradient_w_by_product(kernels, dy, x, shapes, at, groups)
    elif needs[1]:
        dw = gradient_w(chosen["backward_w"], dy, x, shapes, at, groups)
    if len(shapes) == 2:
        return dx, dw
    return dx, dw, OPS["sum"].run([dy], {"axis": (0, 2, 3), "keepdims": False}) if needs[2] else None


def gradient_x(kernel: Kernel, dy: Array, w: Array, shapes: tuple, at: Window, groups: int) -> Array:
    """dx, by a thread for each element, in tiles, or of the patches' gradient w^T @ dy."""
    image, window = shapes[:2]
    dx = Array.empty(dy.device, image, dy.dtype)
    if kernel.name == "conv2d_col2im":
        rows, dys = w.reshape(rows_of(window, groups)), per_group(dy, groups)
        columns = (image[0], groups, prod(window[1:]), prod(dy.shape[2:]))
        _, dpatches = products_backward(
            OPS["matmul"].running, (False, True), dys, rows, None, (rows.shape, columns), **FLOAT32
        )
        kernel.launch(dx.size)(dpatches, dx, at, dx.size)
    elif "rows" in kernel.sizes:
        tiles = kernel.launch(window[1], image[0] * prod(image[2:]), groups)
        tiles(dy, w, dx, at, window[0], groups, image[0])
    else:
        kernel.launch(dx.size)(dy, w, dx, at, window[0], groups, dx.size)
    return dx


def gradient_w(kernel: Kernel, dy: Array, x: Array, shapes: tuple, at: Window, groups: int) -> Array:
    """dw, by a block for each element, or in tiles."""
    image, window = shapes[:2]
    dw = Array.empty(dy.device, window, dy.dtype)
    tiled = "rows" in kernel.sizes
    launch = kernel.launch(*((window[0] // groups, prod(window[1:]), groups) if tiled else (dw.size,)))
    launch(dy, x, dw, at, window[0], groups, image[0])
    return dw


FLOAT32 = {"precision": "float32"}


# --- im2col: the patches in memory, and a matrix product for each image and group ---


def by_product(kernels: dict[str, Kernel], x: Array, w: Array, bias: Array | None, at: Window, groups: int) -> Array:
    """y = w @ patches + bias."""
    n, k, pixels = x.shape[0], w.shape[0], at.out_height * at.out_width
    rows = w.reshape(rows_of(w.shape, groups))
    y = OPS["matmul"].run([rows, columns_of(kernels, x, w.shape, at, groups)], FLOAT32).reshape((n, k, pixels))
    y = y if bias is None else OPS["add"].run([y, bias.reshape((k, 1))], {})
    return y.reshape((n, k, at.out_height, at.out_width))


def gradient_w_by_product(
    kernels: dict[str, Kernel], dy: Array, x: Array, shapes: tuple, at: Window, groups: int
) -> Any:
    """dw = the sum over the images of dy @ patches^T."""
    window = shapes[1]
    patches, rows = columns_of(kernels, x, window, at, groups), rows_of(window, groups)
    dw, _ = products_backward(
        OPS["matmul"].running, (True, False), per_group(dy, groups), None, patches, (rows, patches.shape), **FLOAT32
    )
    total: Any = unbroadcast(dw, rows)
    return total.reshape(window)


def rows_of(window: Shape, groups: int) -> Shape:
    """The shape of the kernels as rows of a matrix for each group."""
    return groups, window[0] // groups, prod(window[1:])


def per_group(dy: Array, groups: int) -> Array:
    """dy as a matrix for each image and group, with a row for each kernel."""
    n, k, p, q = dy.shape
    return dy.reshape((n, groups, k // groups, p * q))


def columns_of(kernels: dict[str, Kernel], x: Array, window: Shape, at: Window, groups: int) -> Array:
    """The patches as columns of a matrix for each image and group."""
    shape = (x.shape[0], groups, prod(window[1:]), at.out_height * at.out_width)
    patches = Array.empty(x.device, shape, x.dtype)
    kernels["im2col"].launch(patches.size)(x, patches, at, patches.size)
    return patches


def prepare(
    x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> dict[str, Any]:
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
    return {"stride": stride, "padding": around, "dilation": dilation, "groups": groups}


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
