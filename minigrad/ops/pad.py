"""pad: an array with a frame of one value around it, or cropped."""

from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array, elements
from minigrad.devices.dtypes import cast, has_gradient
from minigrad.errors import short
from minigrad.kernels.frame import Frame
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops.elementwise import launch_over, per_element, per_four
from minigrad.ops.window import BLOCKS

Padding = tuple[int, ...]


def forward(x: np.ndarray, pad: Padding, mode: str = "constant", value: Any = 0) -> np.ndarray:
    """y = x with pad = (left, right, top, bottom, ...) elements of `value` around it, the last axis first

    A width below 0 cuts elements off.
    """
    y = np.full(shape_of(x.shape, pad), value, x.dtype)
    y[inside(y.shape, pad)] = x[inside(x.shape, tuple(-n for n in pad))]
    return y


def backward(dy: np.ndarray, pad: Padding) -> tuple:
    """dx = dy with -pad elements around it"""
    return (forward(dy, tuple(-n for n in pad)),)


def inside(shape: tuple[int, ...], pad: Padding) -> tuple[slice, ...]:
    """The part of an array of this shape that is within a frame of these widths."""
    pairs = zip(shape, widths(len(shape), pad), strict=True)
    return tuple(slice(max(before, 0), extent - max(after, 0)) for extent, (before, after) in pairs)


def widths(ndim: int, pad: Padding) -> list[tuple[int, int]]:
    """(before, after) for each axis, the first axis first."""
    given = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return [(0, 0)] * (ndim - len(given)) + given


def shape_of(shape: tuple[int, ...], pad: Padding) -> tuple[int, ...]:
    """The shape of the padded array."""
    return tuple(n + before + after for n, (before, after) in zip(shape, widths(len(shape), pad), strict=True))


def launch(kernels: dict[str, Kernel], x: Array, pad: Padding, mode: str, value: Any) -> Array:
    """One kernel, over the axes in their order in memory."""
    y = Array.empty(x.device, shape_of(x.shape, pad), x.dtype, x.channels_last)
    order = (0, 2, 3, 1) if x.channels_last else range(x.ndim)
    around = widths(x.ndim, pad)
    frame = Frame.around(tuple(x.shape[d] for d in order), [around[d] for d in order])
    launch_over(kernels["forward"], y.size, x.dtype)(x, y, frame, value, y.size)
    return y


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, pad: Padding) -> tuple[Array]:
    """The kernel of the forward pass."""
    return (launch(kernels, dy, tuple(-n for n in pad), "constant", 0.0),)


def prepare(x: Any, pad: Any, mode: Any = "constant", value: Any = 0) -> dict[str, Any]:
    """The widths as a tuple, the value in the dtype of x. Raises TypeError or ValueError."""
    if not isinstance(pad, tuple | list) or any(
        isinstance(n, bool) or not isinstance(n, int | np.integer) for n in pad
    ):
        raise TypeError(f"pad: pad={pad!r} must be whole numbers: (left, right, top, bottom, ...).")
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise ValueError(
            f"pad: pad={pad!r} must have two widths for each axis to pad, the last axis first; x has {x.ndim}."
        )
    if mode != "constant":
        raise ValueError(f"pad: mode={mode!r} is not known here; the one mode is 'constant'.")
    if value is not None and not isinstance(value, int | float | np.number | np.bool):
        raise TypeError(f"pad: value takes a number; got {short(value)}.")
    pad = tuple(map(int, pad))
    for extent, (before, after) in zip(x.shape, widths(x.ndim, pad), strict=True):
        if extent + min(before, 0) + min(after, 0) < 0:
            raise ValueError(f"pad: widths {before} and {after} cut more off than the {extent} elements of an axis.")
    elements(shape_of(x.shape, pad))  # as many as a kernel can count
    kind = np.dtype(float) if has_gradient(x.dtype) else x.dtype
    return {"pad": pad, "mode": mode, "value": cast("pad: value", np.asarray(value or 0), kind).item()}


def cost(x: Any, pad: Padding, mode: str = "constant", value: Any = 0) -> tuple[int, int]:
    """No FLOPs; x is read, though some of it may be cut off, and y written."""
    return 0, (x.size + prod(shape_of(x.shape, pad))) * x.dtype.itemsize


pad = Op(
    "pad",
    forward,
    backward,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost,
    integers=True,
    layouts="any",
    kernels={
        "forward": per_element("pad.cu", "pad_forward", blocks=BLOCKS),
        "vectorized": per_four("pad.cu", "pad_vectorized", blocks=BLOCKS),
    },
    fast={"forward": "vectorized"},
    cases=[
        Case((shape,), {"pad": pad, "mode": "constant", "value": value})
        for shape, pad, value in (
            ((), (), 0), ((3,), (0, 30), -1.5), ((1023,), (1, 1), 0), ((0,), (2, 3), 1), ((4, 5), (-2, -3), 0),
            ((33, 31), (0, 0, 2, 1), 0.5), ((2, 3, 5, 7), (1, 2, 3, 0), 0), ((2, 3, 5, 7), (2, -3, -1, 1), 2),
            ((2, 1, 3, 1, 2), (1, 0, 0, 1, 1, 0, 0, 1, 1, 1), 3),
        )
    ] + [
        Case(((2, 3, 5, 7),), {"pad": pad, "mode": "constant", "value": 2}, channels_last=True)
        for pad in ((1, 2, 3, 0), (2, -3, -1, 1, 0, 2))
    ],
)  # fmt: skip
