"""transpose: any permutation of the axes. To swap the last two, tiles go through padded shared memory."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape, View, merge, strides_of
from minigrad.op import Case, Op
from minigrad.ops.elementwise import cost, launch_over, per_element, per_four
from minigrad.ops.reshape import whole_numbers

TILES, EDGES = (16, 8, 32), (64, 32)


def prepare(x: Any, axes: Any = None) -> dict[str, Shape]:
    """Complete the axes: by default reversed. Raises ValueError if they are no permutation."""
    if axes is None:
        return {"axes": tuple(reversed(range(x.ndim)))}
    listed = whole_numbers("transpose", "axes", axes)
    full = tuple(axis + x.ndim if axis < 0 else axis for axis in listed)
    if sorted(full) != list(range(x.ndim)):
        raise ValueError(
            f"transpose: axes {listed} must name each of the {x.ndim} axes of shape {x.shape} once; "
            f"{tuple(reversed(range(x.ndim)))} reverses them."
        )
    return {"axes": full}


def forward(x: np.ndarray, axes: Any = None) -> np.ndarray:
    """y[j, i] = x[i, j]; in general axis d of y is axis axes[d] of x"""
    return np.transpose(x, axes).copy()


def backward(dy: np.ndarray, axes: Shape) -> tuple:
    """dx[i, j] = dy[j, i], by the inverse permutation"""
    return (np.transpose(dy, inverse(axes)).copy(),)


def inverse(axes: Shape) -> Shape:
    """The permutation that undoes this one."""
    return tuple(axes.index(d) for d in range(len(axes)))


def launch(kernels: dict[str, Kernel], x: Array, axes: Shape) -> Array:
    """A tile kernel if rows and columns are swapped, else one thread per element through a view."""
    strides = strides_of(x.shape)
    shape, steps = tuple(x.shape[axis] for axis in axes), tuple(strides[axis] for axis in axes)
    y = Array.empty(x.device, shape, x.dtype)
    forward = kernels["forward"]
    strided = forward if "planes" in forward.sizes else kernels.get("planes")
    if "batch" in forward.sizes and (stack := matrices(shape, steps)):
        rows, cols, batch = stack
        forward.launch(rows, cols, batch)(x, y, rows, cols)
    elif strided and (found := planes(shape, steps)):
        strided.launch(found.rows, found.cols, found.planes)(x, y, *found[1:])
    else:
        walk = kernels["permute"] if "cols" in forward.sizes else forward
        launch_over(walk, x.size, x.dtype)(x, y, View.of(shape, steps), x.size)
    return y


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, axes: Shape) -> tuple[Array]:
    """The inverse permutation, by the same launch."""
    return (launch(kernels, dy, inverse(axes)),)


def matrices(shape: Shape, strides: Shape) -> tuple[int, int, int] | None:
    """(rows, cols, batch) of x if this permuted view is a batch of swapped matrices that a grid can hold."""
    match merge(shape, strides):
        case [(cols, 1), (rows, _)]:
            batch = 1
        case [(batch, _), (cols, 1), (rows, _)]:
            pass
        case _:
            return None
    fits = rows <= min(TILES) * MAX_GRID[1] and batch <= MAX_GRID[2] and rows * cols * batch < 2**31
    return (rows, cols, batch) if fits else None


class Planes(NamedTuple):
    """A batch of matrices with strided rows, in the order of the kernel's arguments."""

    planes: int
    rows: int
    cols: int
    x_pitch: int
    y_pitch: int
    x_at: View
    y_at: View


def planes(shape: Shape, strides: Shape) -> Planes | None:
    """The matrices of a permuted view: the last axis of x by the last axis of y, if those differ."""
    axes = merge(shape, strides)
    if len(axes) < 2 or axes[-1][1] == 1 or prod(shape) == 0:
        return None
    extents = [extent for extent, _ in axes]
    steps = strides_of(tuple(extents))
    at = next(i for i, (_, stride) in enumerate(axes) if stride == 1)
    others = [i for i in range(len(axes) - 1) if i != at]
    batch, (rows, pitch) = prod(extents[i] for i in others), axes[-1]
    if rows > EDGES[-1] * MAX_GRID[1] or batch > MAX_GRID[2]:
        return None
    outer = [extents[i] for i in others]
    x_at, y_at = View.of(outer, [axes[i][1] for i in others]), View.of(outer, [steps[i] for i in others])
    return Planes(batch, rows, extents[at], pitch, steps[at], x_at, y_at)


def swap(strategy: str, height: str = "TILE", tiles: tuple[int, ...] = TILES) -> Kernel:
    """A kernel for a batch of matrices: block -> a tile of x, thread -> one element, or several."""
    return Kernel(
        "transpose.cu",
        f"transpose_{strategy}",
        grid=("cols/TILE", "rows/TILE", "batch"),
        block=("TILE", height),
        sizes="rows cols batch=1",
        TILE=tiles,
    )


def cases() -> list[Case]:
    """Plain transposes of ragged shapes, then permutations: batched, merged, with extents of 1, general."""
    shapes = ((), (5,), (1, 1), (2, 3), (31, 33), (1, 1023), (1025, 3), (64, 48), (0, 3), (3, 0), (4, 3, 2))
    permuted = (
        ((2, 33, 17), (0, 2, 1)), ((3, 4, 5, 6), (2, 3, 0, 1)), ((3, 1, 4), (1, 0, 2)), ((2, 3, 4), (0, 1, 2)),
        ((2, 3, 4, 5), (0, 2, 1, 3)), ((2, 3, 4), (1, 0, 2)), ((2, 3, 4), (-1, 0, 1)), ((2, 0, 3), (2, 0, 1)),
    )  # fmt: skip
    return [Case((shape,)) for shape in shapes] + [Case((shape,), {"axes": axes}) for shape, axes in permuted]


transpose = Op(
    "transpose",
    forward,
    backward,
    kernels={
        "forward": swap("padded"),
        "naive": swap("naive"),
        "tiled": swap("tiled"),
        "padded": swap("padded"),
        "strips": swap("strips", "4", (64, 32)),
        "strips_apart": Kernel(
            "transpose.cu",
            "transpose_planes",
            grid=("cols/EDGE", "rows/EDGE", "planes"),
            block=("EDGE", "4"),
            sizes="rows cols planes",
            EDGE=EDGES,
        ),
        "permute": per_element("transpose.cu", "transpose_permute"),
        "permute_vectorized": per_four("transpose.cu", "transpose_permute_vectorized"),
    },
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost(0),
    integers=True,
    fast={"forward": "strips", "planes": "strips_apart", "permute": "permute_vectorized"},
    cases=cases(),
)
