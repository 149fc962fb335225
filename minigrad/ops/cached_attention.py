"""cached_attention: attention of the newest place of a text to all places up to it, whose keys and values are kept."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.errors import require_int
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import attention
from minigrad.ops.self_attention import PARTS, merge, split

WARPS = (8, 1, 2, 4)


def forward(x: np.ndarray, keys: np.ndarray, values: np.ndarray, place: np.ndarray, heads: int = 1) -> np.ndarray:
    """y = attention of x's query to the keys and values of the places 0 to `place`, of which those of x are the last

    x (batch, 1, 3 width) has q, k and v of all heads, y (batch, 1, width). keys and values (batch, heads, length, width
    of a head) get those of x at this place, which is on the device, so a captured step goes on by itself. For
    inference: it has no gradient.
    """
    q, k, v = split(x, heads, PARTS)
    at = int(place.reshape(-1)[0])
    if not 0 <= at < keys.shape[2]:
        return np.full((*x.shape[:2], x.shape[2] // PARTS), np.nan, x.dtype)
    keys[:, :, at : at + 1], values[:, :, at : at + 1] = k, v
    past_keys, past_values = keys[:, :, : at + 1], values[:, :, : at + 1]
    return merge([attention.attend(q, past_keys, past_values, None, False, None, "float32")[0]])


def launch(kernels: Mapping[str, Kernel], x: Array, keys: Array, values: Array, place: Array, *, heads: int) -> Array:
    """One kernel, which also writes into the cache."""
    batch, _, length, width = keys.shape
    y = Array.empty(x.device, (batch, 1, heads * width), x.dtype)
    run = kernels["forward"].launch(batch * heads)
    run(x, keys, values, place, y, attention.scaling(keys, None), heads, length, width)
    return y


def prepare(x: Any, keys: Any, values: Any, place: Any, heads: Any = 1) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes. A place outside makes y NaN, and writes nothing."""
    must_be_floats("cached_attention", x, keys, values)
    heads = require_int("cached_attention", "heads", heads, 1)
    if place.dtype != np.int64 or place.size != 1:
        raise TypeError(f"cached_attention: place is {place.dtype} {place.shape}; it must be one int64.")
    if len({a.dtype for a in (x, keys, values)}) > 1:
        raise TypeError(f"cached_attention: x is {x.dtype}, keys {keys.dtype}; all must have one dtype.")
    if x.ndim != 3 or x.shape[1] != 1 or x.shape[2] % (PARTS * heads):
        raise ValueError(
            f"cached_attention: x is {x.shape}; it must be (batch, 1, 3 width), width a multiple of heads={heads}."
        )
    width = x.shape[2] // PARTS // heads
    if keys.shape != values.shape or keys.ndim != 4 or keys.shape != (x.shape[0], heads, keys.shape[2], width):
        raise ValueError(
            f"cached_attention: keys are {keys.shape}, values {values.shape}; both must be (batch, heads, length, "
            f"width), here ({x.shape[0]}, {heads}, length, {width})."
        )
    if isinstance(x, Array) and width > attention.WIDEST:
        raise ValueError(
            f"cached_attention: a head's width {width} is more than the {attention.WIDEST} that a kernel takes."
        )
    return {"heads": heads}


def cost(x: Any, keys: Any, values: Any, place: Any, heads: int = 1) -> tuple[int, int]:
    """As if the cache were full: 4 FLOPs and 5 more for each place; all arrays read once, y written once."""
    flops = (4 * keys.shape[3] + 5) * keys.size // max(keys.shape[3], 1)
    moved = (x.size + keys.size + values.size + x.size // PARTS) * x.dtype.itemsize
    return flops, moved + place.size * place.dtype.itemsize


def _case(batch: int, heads: int, length: int, width: int, place: int) -> Case:
    cache = batch, heads, length, width
    return Case(((batch, 1, PARTS * heads * width), cache, cache, np.array([place])), {"heads": heads})


cached_attention = Op(
    "cached_attention",
    forward,
    kernels={
        "forward": Kernel(
            "cached_attention.cu", "cached_attention_forward", ("pairs",), ("32", "WARPS"), "pairs", WARPS=WARPS
        )
    },
    launch=launch,
    prepare=prepare,
    updates=lambda *arrays, **params: (1, 2),
    integers=True,
    widens=False,
    cost=cost,
    cases=[
        _case(1, 1, 4, 3, 0), _case(2, 3, 9, 8, 8), _case(1, 2, 40, 64, 33), _case(1, 1, 5, 130, 3),
        _case(2, 2, 3, 4, 3), _case(0, 2, 3, 4, 1),
    ],
)  # fmt: skip
