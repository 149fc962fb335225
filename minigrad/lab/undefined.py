"""Arrays that nobody has written yet, for results; the microscope sees a kernel that adds to one.

Their content is that of fresh memory on `sim`, NaN in every floating type.
"""

from typing import Any

import numpy as np

from minigrad.create import extents, tensor
from minigrad.devices.dtypes import check_dtype
from minigrad.tensor import Tensor

CANARY = 0x7FFF  # half of the word in simulator/native/memory.cpp


def empty(*shape: Any, device: str | None = None, dtype: Any = "float32") -> Tensor:
    """A tensor of undefined values, `empty(2, 3)` or `empty((2, 3))`: for a result that a kernel writes whole."""
    return tensor(undefined(extents(shape), check_dtype(dtype)), device=device)


def undefined(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A NumPy array of undefined values, in words of 4 bytes as far as they go."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = np.resize(np.array([CANARY], "<u2").view(np.uint8), array.nbytes)
    return array
