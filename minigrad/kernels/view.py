"""View: a strided view as in `common.cuh`, by which kernels broadcast, permute and slice without a copy."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from math import prod

MAX_DIMS = 8
Shape = tuple[int, ...]


class View(ctypes.Structure):
    """Element `index` of the view is located at offset + sum(index[d] * stride[d])."""

    _fields_ = (
        ("ndim", ctypes.c_int),
        ("offset", ctypes.c_int),
        ("shape", ctypes.c_int * MAX_DIMS),
        ("stride", ctypes.c_int * MAX_DIMS),
    )

    @staticmethod
    def of(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> "View":
        """A view with as few axes as possible. Raises ValueError beyond 8 axes or 2^31 - 1 elements."""
        axes = merge(shape, strides)
        if len(axes) > MAX_DIMS:
            raise ValueError(
                f"a kernel walks at most {MAX_DIMS} axes; this view of shape {tuple(shape)} needs {len(axes)}."
            )
        last = offset + sum((extent - 1) * stride for extent, stride in axes if stride > 0)
        if max(prod(shape), last) > 2**31 - 1:
            raise ValueError(
                f"a kernel indexes at most 2147483647 elements; a view of shape {tuple(shape)} passes that. Cut it up."
            )
        view = View(len(axes), offset)
        for d, (extent, stride) in enumerate(reversed(axes)):  # the innermost first
            view.shape[d], view.stride[d] = extent, stride
        return view

    def element(self, index: int) -> int:
        """The place of an element, by its number in C order."""
        place = self.offset
        for d in range(self.ndim):
            index, digit = divmod(index, self.shape[d])
            place += digit * self.stride[d]
        return place


def merge(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The axes as (extent, stride), without those of extent 1; adjacent axes that are contiguous are merged."""
    axes: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == extent * stride:
            axes[-1] = (axes[-1][0] * extent, stride)
        else:
            axes.append((extent, stride))
    return axes


def strides_of(shape: Sequence[int]) -> Shape:
    """The strides of a contiguous array, in elements."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


@lru_cache(maxsize=4096)
def broadcast(shape: Shape, to: Shape) -> View:
    """An array of `shape` viewed as `to`: stride 0 along broadcast axes."""
    strides = (0,) * (len(to) - len(shape)) + strides_of(shape)
    own = (1,) * (len(to) - len(shape)) + shape
    return View.of(to, [0 if extent == 1 else stride for extent, stride in zip(own, strides, strict=True)])
