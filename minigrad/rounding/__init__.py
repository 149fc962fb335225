"""Precision: the rounding of float32 that is permitted in products, and the rounding itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from minigrad.rounding import autocast, bfloat16

__all__ = ["autocast", "bfloat16", "current", "known", "precision", "rounded"]
# Name -> the bits at the end of a float32 that a factor may lose. bfloat16 is the upper half of a float32; of TF32's 32
# bits the last 13 do not count.
DROPPED = {"float32": 0, "3xtf32": 0, "tf32": 13, "bf16": 16}
_permitted = ContextVar("precision", default="float32")
current = _permitted.get  # of this thread or task


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Within it products of float32 tensors may round their factors: `with mg.precision("tf32"): y = x @ w`.

    "float32", the default, is exact. "3xtf32" lets tensor cores multiply factors in two parts, with the error of
    float32, but NaN where a factor is infinite. "tf32" lets factors keep 10 bits after the point, "bf16" 7; sums stay
    in float32.
    A gradient rounds as its forward pass did. This is a permission: a GPU that has no kernel for it, or a faster one,
    rounds less. `numpy` and `sim` always round, so that they show the error to expect. Also a function decorator.
    """
    token = _permitted.set(known(name))
    try:
        yield
    finally:
        _permitted.reset(token)


def known(name: Any) -> str:
    """The name itself. Raises ValueError where it is none of DROPPED."""
    if not isinstance(name, str) or name not in DROPPED:
        raise ValueError(f"precision {name!r} is not one of {', '.join(DROPPED)}.")
    return name


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    """The nearest float32 numbers with the last bits 0, ties to even; other dtypes, inf and NaN stay as they are."""
    dropped = DROPPED[precision]
    if not dropped or x.dtype != np.float32:
        return x
    bits = x.view(np.uint32)
    up = (bits + np.uint32((1 << dropped - 1) - 1) + (bits >> dropped & 1)) & np.uint32(-1 << dropped & 0xFFFFFFFF)
    return np.where(np.isfinite(x), up.view(np.float32), x)
