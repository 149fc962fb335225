"""Case: one call to test an op with. A room lists its cases; tests and checks run them all."""

from __future__ import annotations  # NumPy imports np.random when it is first named, which takes a while

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One call to test an op with: shapes or arrays as inputs, and its parameters.

    A shape stands for standard normal numbers; `positive` makes them positive and bounded away from 0, `nan` puts NaN
    into every seventh of them, at other places in each input: a kernel keeps NaN where the reference does. With
    `channels_last` images (N, C, H, W), and the gradients of such outputs, have their channels last in memory.
    """

    inputs: tuple
    params: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False
    nan: bool = False
    channels_last: bool = False

    def arrays(self, dtype: Any = np.float64, seed: int = 0) -> list[np.ndarray]:
        """The inputs as NumPy arrays. Arrays given with an integer or bool dtype keep it."""
        rng = np.random.default_rng(seed)
        return [self.laid_out(self._array(given, dtype, rng, 1 + 2 * i)) for i, given in enumerate(self.inputs)]

    def laid_out(self, x: np.ndarray) -> np.ndarray:
        """An array in the layout of the case."""
        last = self.channels_last and x.ndim == 4
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x

    def _array(self, given: Any, dtype: Any, rng: np.random.Generator, first: int) -> np.ndarray:
        if isinstance(given, np.ndarray):
            return given.astype(dtype) if given.dtype.kind == "f" else given
        numbers = np.asarray(rng.standard_normal(given))
        if self.positive:
            numbers = np.abs(numbers) + 0.5
        if self.nan:
            numbers.ravel()[first::7] = np.nan
        return np.asarray(numbers, dtype)

    def __str__(self) -> str:
        shapes = [str(g) if isinstance(g, tuple) else f"{g.dtype}{g.shape}" for g in self.inputs]
        return " ".join(
            [
                *shapes,
                *(f"{key}={value}" for key, value in self.params.items()),
                *["nan"] * self.nan,
                *["NHWC"] * self.channels_last,
            ]
        )
