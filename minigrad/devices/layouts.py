"""Layouts: the order of images (N, C, H, W) in memory, by rows (NCHW) or with the channels last (NHWC)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.devices.array import Array, spec_of
from minigrad.devices.dtypes import is_last, laid_out
from minigrad.operators import OPS

LAYOUTS = ("NCHW", "NHWC")


def wants_last(layout: Any, shape: Sequence[int]) -> bool:
    """True for "NHWC". Raises ValueError for another word than LAYOUTS, and for an array that holds no images."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r:.60} is not one of {', '.join(LAYOUTS)}.")
    if len(shape) != 4:
        raise ValueError(f"layout={layout!r} is for images (N, C, H, W); this tensor has shape {tuple(shape)}.")
    return layout == "NHWC"


def in_layout(array: Any, last: bool) -> Any:
    """The same values in this layout: the array itself where it has it or is no image, or else a copy."""
    if not isinstance(array, Array):
        return array if is_last(array) == last or array.ndim != 4 else laid_out(array, last)
    if spec_of(array.device, array.shape, array.dtype, array.address, last) is array.spec:
        return array
    if not last:
        return OPS["transpose"].run([array.reshape(array.spec.stored)], {"axes": (0, 3, 1, 2)})
    turned = OPS["transpose"].run([array], {"axes": (0, 2, 3, 1)})
    return Array(array.device, array.shape, array.dtype, turned.buffer, turned.address, True)


def typed(grad: Any, dtype: np.dtype) -> Any:
    """A gradient in this dtype: a rule may give more digits than the number has, float32 for bfloat16."""
    return grad if grad.dtype == dtype else OPS["astype"].run([grad], {"dtype": dtype})


def agreeing(takes: str, values: Sequence[Any]) -> Sequence[Any]:
    """The arrays among the values in a layout that an op's kernels take.

    "NCHW": that one; "alike": either, if all arrays but those of one element have the same shape; "any": as they are.
    """
    arrays = [x for x in values if isinstance(x, Array)]
    if takes == "any" or not any(x.channels_last for x in arrays):
        return values
    large = [x for x in arrays if x.size != 1]
    last = takes == "alike" and large[0].channels_last and all(x.shape == large[0].shape for x in large)
    return [in_layout(x, last) if isinstance(x, Array) else x for x in values]
