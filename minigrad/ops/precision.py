"""Factors rounded as `mg.precision` permits, on a device that has no tensor cores to round them."""

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array
from minigrad.ops.elementwise import per_element

ROUND = per_element("round.cu", "round_mantissa")


def rounded(precision: str, *factors: Array) -> list[Array]:
    """The factors of a product; on a device that is no GPU they are rounded first, as NumPy does."""
    return [_rounded(x, rounding.DROPPED[precision]) for x in factors]


def _rounded(x: Array, dropped: int) -> Array:
    if not dropped or x.device.arch or x.dtype != np.float32:
        return x
    y = Array.empty(x.device, x.shape, x.dtype, x.channels_last)
    ROUND.launch(x.size)(x, y, dropped, x.size)
    return y
