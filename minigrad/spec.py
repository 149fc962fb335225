"""Spec: what an array is, apart from its memory."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

if TYPE_CHECKING:
    from minigrad.devices.base import Device

# A kernel counts elements in an int. A thread that steps on by a whole block, of up to 1024 threads, does so once more
# at the end, before it finds itself outside: that must not overflow either.
MAX_ELEMENTS = 2**31 - 1024
ALIGNED = 16  # bytes, the longest load of a thread


class Spec:
    """Device, shape and dtype of arrays, and how far they start from a multiple of 16 bytes.

    There is one object for each, so that two arrays are alike where `x.spec is y.spec`.
    """

    __slots__ = ("__weakref__", "device", "dtype", "nbytes", "offset", "shape", "size")

    def __init__(self, device: "Device", shape: tuple[int, ...], dtype: np.dtype, offset: int):
        self.device, self.shape, self.dtype, self.offset = device, shape, dtype, offset
        self.size = elements(shape)
        self.nbytes = self.size * dtype.itemsize


_SPECS: WeakValueDictionary[tuple, Spec] = WeakValueDictionary()


def spec_of(device: "Device", shape: tuple[int, ...], dtype: np.dtype, address: int = 0) -> Spec:
    """The one Spec of such arrays."""
    key = (device, shape, dtype, address % ALIGNED)
    return _SPECS.get(key) or _SPECS.setdefault(key, Spec(*key))


def elements(shape: Sequence[int]) -> int:
    """The number of elements in an array of this shape. Raises ValueError beyond what a kernel can count."""
    size = math.prod(shape)
    if size > MAX_ELEMENTS:
        raise ValueError(f"an array of shape {tuple(shape)} has {size} elements; make it at most {MAX_ELEMENTS}.")
    return size
