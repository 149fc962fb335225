"""getitem: NumPy's basic slicing. A slice is a view: one kernel gathers it, another scatters its gradient."""

from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape, View, strides_of
from minigrad.op import Case, Op
from minigrad.ops.elementwise import kernels_of, launch_over

Key = tuple[int | slice | None, ...]


def prepare(x: Any, key: Any) -> dict[str, Key]:
    """Expand the key: one entry for each axis, and None for each new one. Raises IndexError or TypeError."""
    entries = key if isinstance(key, tuple) else (key,)
    taken = sum(step is not None and step is not Ellipsis for step in entries)
    dots = [at for at, step in enumerate(entries) if step is Ellipsis] or [len(entries)]
    if len(dots) > 1:
        raise IndexError(f"getitem: the key has {len(dots)} Ellipses; one stands for all omitted axes.")
    if taken > x.ndim:
        raise IndexError(
            f"getitem: {taken} indices for shape {x.shape}, which has {x.ndim} axes; give at most {x.ndim}."
        )
    rest = (slice(None),) * (x.ndim - taken)
    axis, full = 0, []
    for step in entries[: dots[0]] + rest + entries[dots[0] + 1 :]:
        full.append(None if step is None else entry(step, axis, x.shape))
        axis += step is not None
    return {"key": tuple(full)}


def entry(step: Any, axis: int, shape: Shape) -> int | slice:
    """A slice unchanged; a whole number counted from the front."""
    if isinstance(step, slice):
        try:
            step.indices(shape[axis])
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"getitem: {step} on axis {axis}: start and stop are whole numbers or None, and so is the step, not 0."
            ) from None
        return step
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise TypeError(
            f"getitem: {type(step).__name__} is no index here; use whole numbers, slices, ... and None. "
            "To choose elements, use where, or index x.numpy()."
        )
    extent = shape[axis]
    if not -extent <= step < extent:
        raise IndexError(
            f"getitem: index {step} is outside axis {axis} of shape {shape}; choose {-extent} <= i < {extent}."
        )
    return int(step) % extent


def forward(x: np.ndarray, *, key: Key) -> np.ndarray:
    """y = x[key]"""
    return x[key].copy()


def backward(dy: np.ndarray, key: Key, shapes: tuple) -> tuple:
    """dx[key] = dy, and 0 elsewhere"""
    dx = np.zeros(shapes[0], dy.dtype)
    dx[key] = dy
    return (dx,)


def strided(shape: Shape, key: Key) -> tuple[Shape, Shape, int]:
    """The shape, strides and offset of x[key] in the memory of a contiguous x."""
    axes = iter(zip(shape, strides_of(shape), strict=True))
    out: list[tuple[int, int]] = []
    offset = 0
    for step in key:
        if step is None:
            out.append((1, 0))
            continue
        extent, stride = next(axes)
        if isinstance(step, slice):
            chosen = range(*step.indices(extent))
            out.append((len(chosen), chosen.step * stride))
            offset += chosen.start * stride
        else:
            offset += step * stride
    return tuple(extent for extent, _ in out), tuple(stride for _, stride in out), offset


def launch(kernels: dict[str, Kernel], x: Array, key: Key) -> Array:
    """Gather: one thread per element of the slice."""
    shape, strides, offset = strided(x.shape, key)
    y = Array.empty(x.device, shape, x.dtype)
    launch_over(kernels["forward"], y.size, x.dtype)(x, y, View.of(shape, strides, offset), y.size)
    return y


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, key: Key, shapes: tuple) -> tuple[Array]:
    """Zeros, then scatter through the same view: no element occurs twice, so no atomics are needed."""
    dx = Array.zeros(dy.device, shapes[0], dy.dtype)
    launch_over(kernels["backward"], dy.size, dy.dtype)(dy, dx, View.of(*strided(shapes[0], key)), dy.size)
    return (dx,)


def cost(x: Any, key: Any) -> tuple[int, int]:
    """FLOPs and bytes: none, and every element of the slice read once and written once."""
    return 0, 2 * prod(strided(x.shape, prepare(x, key)["key"])[0]) * x.dtype.itemsize


getitem = Op(
    "getitem",
    forward,
    backward,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost,
    integers=True,
    **kernels_of("getitem"),
    cases=[
        Case((shape,), {"key": key})
        for shape, key in (
            ((5,), 2), ((5,), -1), ((5,), slice(None)), ((), ()), ((), None), ((1025,), slice(None, None, -1)),
            ((1023,), slice(1, None, 33)), ((4, 5), 1), ((4, 5), (slice(None), 2)), ((4, 5), (..., None, 3)),
            ((4, 5), (slice(3, 0, -2), slice(1, 4))), ((33, 31, 2), (slice(None, None, 3), None, slice(30, None, -7))),
            ((2, 3, 4), (1, ..., 0)), ((2, 3), (1, 2)), ((5,), slice(3, 3)), ((0, 3), (slice(None), 1)),
        )
    ],
)  # fmt: skip
