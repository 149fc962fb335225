"""The rungs of conv2d for images (N, C, H, W) in C order: naive, im2col with a matrix product, implicit, Winograd."""

from collections.abc import Mapping
from math import prod
from typing import Any

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape
from minigrad.kernels.window import Window
from minigrad.op import OPS, unbroadcast
from minigrad.ops.conv2d import winograd
from minigrad.ops.matmul import launch_backward as products_backward

FLOAT32 = {"precision": "float32"}
Kernels = Mapping[str, Kernel]


def forward(kernels: Kernels, x: Array, w: Array, bias: Array | None, at: Window, groups: int) -> Array:
    """y, by one launch, or by patches and a matrix product."""
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


def kernel_of(kernels: Kernels, role: str) -> Kernel:
    """The kernel of a gradient: that of the forward pass's rung, unless another one has the role."""
    rung = kernels["forward"].name.removeprefix("conv2d_")
    return kernels.get(f"{rung}_{role}", kernels[role]) if kernels[role].name == f"conv2d_{role}" else kernels[role]


def gradient_x(kernels: Kernels, dy: Array, w: Array, shapes: tuple, at: Window, groups: int) -> Array:
    """dx, by a thread for each element, in tiles, or of the patches' gradient w^T @ dy."""
    image, window = shapes[:2]
    kernel = kernel_of(kernels, "backward_x")
    if kernel.name == "conv2d_winograd_backward_x":
        return winograd.gradient_x({**kernels, "backward_x": kernel}, dy, w, at, groups)
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


def gradient_w(kernels: Kernels, dy: Array, x: Array, shapes: tuple, at: Window, groups: int) -> Array:
    """dw, by a block for each element, in tiles, or by a matrix product."""
    if kernels["forward"].name == "conv2d_im2col":
        return gradient_w_by_product(kernels, dy, x, shapes, at, groups)
    image, window = shapes[:2]
    kernel, dw = kernel_of(kernels, "backward_w"), Array.empty(dy.device, window, dy.dtype)
    tiled = "rows" in kernel.sizes
    launch = kernel.launch(*((window[0] // groups, prod(window[1:]), groups) if tiled else (dw.size,)))
    launch(dy, x, dw, at, window[0], groups, image[0])
    return dw


# --- im2col: the patches in memory, and a matrix product for each image and group ---


def by_product(kernels: Kernels, x: Array, w: Array, bias: Array | None, at: Window, groups: int) -> Array:
    """y = w @ patches + bias."""
    n, k, pixels = x.shape[0], w.shape[0], at.out_height * at.out_width
    rows = w.reshape(rows_of(w.shape, groups))
    y = OPS["matmul"].run([rows, columns_of(kernels, x, w.shape, at, groups)], FLOAT32).reshape((n, k, pixels))
    y = y if bias is None else OPS["add"].run([y, bias.reshape((k, 1))], {})
    return y.reshape((n, k, at.out_height, at.out_width))


def gradient_w_by_product(kernels: Kernels, dy: Array, x: Array, shapes: tuple, at: Window, groups: int) -> Any:
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


def columns_of(kernels: Kernels, x: Array, window: Shape, at: Window, groups: int) -> Array:
    """The patches as columns of a matrix for each image and group."""
    shape = (x.shape[0], groups, prod(window[1:]), at.out_height * at.out_width)
    patches = Array.empty(x.device, shape, x.dtype)
    kernels["im2col"].launch(patches.size)(x, patches, at, patches.size)
    return patches
