"""Winograd's way of a convolution with windows of 3 x 3: fewer multiplications, as 36 matrix products.

F(4 x 4, 3 x 3) makes 16 outputs of a tile of 6 x 6 by 36 multiplications in place of 144. Its sums have larger terms
than the convolution's own, so in float32 it is off by some 3e-6 of the largest output (`test_winograd.py` measures it);
and an inf or NaN in x reaches every output of its tile. dw has no kernels of its own.
"""

from collections.abc import Mapping

from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_bfloat16
from minigrad.errors import UnfitKernel
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Window
from minigrad.op import OPS
from minigrad.ops.elementwise import per_element
from minigrad.ops.window import BLOCKS

SOURCE, PLACES = "conv2d/winograd.cu", 36
KERNELS = {
    "winograd": per_element(SOURCE, "conv2d_winograd", "size", BLOCKS),
    "forward_winograd_w": per_element(SOURCE, "conv2d_winograd_w", "windows", BLOCKS),
    "forward_winograd_y": per_element(SOURCE, "conv2d_winograd_y", "size", BLOCKS),
    "winograd_backward_x": per_element(SOURCE, "conv2d_winograd_backward_x", "windows", BLOCKS),
}


def convolution(
    kernels: Mapping[str, Kernel], x: Array, w: Array, bias: Array | None, at: Window, groups: int
) -> Array:
    """y = A^T ((G w G^T) * (B^T x B)) A + bias for each tile. Raises UnfitKernel for windows that it cannot do."""
    must_be_3_by_3(at, x)
    kernel_count, each = w.shape[:2]
    u = Array.empty(w.device, (PLACES, groups, kernel_count // groups, each), w.dtype)
    kernels["forward_winograd_w"].launch(u.size // PLACES)(w, u, u.size // PLACES)
    return of_tiles(kernels, x, u, bias, at)


def gradient_x(kernels: Mapping[str, Kernel], dy: Array, w: Array, at: Window, groups: int) -> Array:
    """dx: dy convolved with the windows turned by half a turn, and padded by what they reach beyond x's own padding.

    Raises UnfitKernel for windows that it cannot do.
    """
    must_be_3_by_3(at, dy)
    share, each = w.shape[0] // groups, w.shape[1]
    u = Array.empty(w.device, (PLACES, groups, each, share), w.dtype)
    kernels["backward_x"].launch(u.size // PLACES)(w, u, share, each, u.size // PLACES)
    padding = (2 - at.top, at.height + at.top - at.out_height), (2 - at.left, at.width + at.left - at.out_width)
    return of_tiles(kernels, dy, u, None, Window.over(dy.shape, (3, 3), (1, 1), padding))


def of_tiles(kernels: Mapping[str, Kernel], x: Array, u: Array, bias: Array | None, at: Window) -> Array:
    """y of the transformed windows u (36, groups, out, in): transform tiles of x, multiply, transform back."""
    _, groups, share, each = u.shape
    tiles = x.shape[0] * -(-at.out_height // 4) * -(-at.out_width // 4)
    v = Array.empty(x.device, (PLACES, groups, each, tiles), x.dtype)
    kernels["winograd"].launch(v.size // PLACES)(x, v, at, v.size // PLACES)
    m = OPS["matmul"].run([u, v], {"precision": "float32"})
    y = Array.empty(x.device, (x.shape[0], groups * share, at.out_height, at.out_width), x.dtype)
    kernels["forward_winograd_y"].launch(m.size // PLACES)(m, bias, y, at, groups * share, m.size // PLACES)
    return y


def must_be_3_by_3(at: Window, x: Array) -> None:
    """Raise UnfitKernel unless the window is 3 x 3 with stride and dilation 1, and for bfloat16."""
    if is_bfloat16(x.dtype):
        raise UnfitKernel("conv2d_winograd: sums of bfloat16 would lose their few digits; take x.astype('float32').")
    size, stride, dilation = (at.rows, at.columns), (at.stride_y, at.stride_x), (at.dilation_y, at.dilation_x)
    if (size, stride, dilation) != ((3, 3), (1, 1), (1, 1)):
        raise UnfitKernel(
            f"conv2d_winograd: the window is {size[0]} x {size[1]} with stride {stride} and dilation {dilation}; this "
            'way is for windows of 3 x 3 with stride 1 and dilation 1. Take mg.conv2d, or mg.conv2d.using("implicit").'
        )
