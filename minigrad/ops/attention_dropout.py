"""attention_dropout: attention whose weights are replaced by 0 at random, by a mask that is never stored."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.devices.layouts import typed
from minigrad.errors import require_number
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import attention as plain
from minigrad.ops.dropout import STATE, masked
from minigrad.ops.precision import rounded
from minigrad.tensor import Tensor


def forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, state: np.ndarray, mask: np.ndarray | None = None,
    causal: bool = False, scale: float | None = None, dropout: float = 0.5, precision: str = "float32",
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """y = (softmax(scale q k^T) * stays) v, stays = 0 with probability p = dropout, else 1 / (1 - p)

    As attention in all else. state is the seed of the random numbers and the number of the mask, which grows by 1 with
    each call; the weights are numbered by batch, head, query and key.
    """
    y, most, inverse = plain.attend(q, k, v, mask, causal, scale, precision, staying(q, k, state, dropout))
    return y, most, inverse, state.copy(), state + np.array([0, 1], STATE)


def backward(
    dy: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, y: np.ndarray,
    most: np.ndarray, inverse: np.ndarray, used: np.ndarray, causal: bool, scale: float | None, dropout: float,
    precision: str, shapes: tuple,
) -> tuple:  # fmt: skip
    """attention's rule with p * stays for dv and dy v^T * stays for ds: the mask is made again"""
    stays = staying(q, k, used, dropout)
    return apart(plain.slopes(dy, q, k, v, mask, y, most, inverse, causal, scale, precision, stays), shapes)


def staying(q: np.ndarray, k: np.ndarray, state: np.ndarray, dropout: float) -> np.ndarray:
    """The factor of each weight, (batch, heads, queries, keys)."""
    return masked(np.ones((*q.shape[:3], k.shape[2]), wide(q.dtype)), state, dropout)


def apart(grads: tuple, shapes: tuple) -> tuple:
    """The gradients of q, k and v, and none of the state and the mask."""
    return (*grads, None, None)[: len(shapes)]


def launch(
    kernels: Mapping[str, Kernel], q: Array, k: Array, v: Array, state: Array, mask: Array | None = None, *,
    causal: bool, scale: float | None, dropout: float, precision: str,
) -> tuple[Array, ...]:  # fmt: skip
    """A kernel that counts the masks, and that of a warp for a row."""
    q, k, v = rounded(precision, q, k, v)
    y = Array.empty(q.device, q.shape, q.dtype)
    most, inverse = (Array.empty(q.device, q.shape[:3], wide(q.dtype)) for _ in range(2))
    used, following = (Array.empty(q.device, (2,), STATE) for _ in range(2))
    kernels["forward_mask"].launch()(state, used, following)
    ends = *plain.extents(q, k, mask, causal, scale, state, dropout), None, 1
    kernels["forward"].launch(prod(q.shape[:3]))(q, k, v, mask, y, most, inverse, *ends)
    return y, most, inverse, used, following


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, q: Array, k: Array, v: Array, mask: Array | None, y: Array,
    most: Array, inverse: Array, used: Array, causal: bool, scale: float | None, dropout: float, precision: str,
    shapes: tuple,
) -> tuple:  # fmt: skip
    """As attention's, a warp for a row."""
    dy, q, k, v = rounded(precision, typed(dy, q.dtype), q, k, v)
    dots = plain.dots_of(kernels, dy, y, most)
    drops = used, dropout
    grads = plain.by_rows(kernels, needs, dy, q, k, v, mask, (most, inverse, dots), causal, scale, drops)
    return apart(grads, shapes)


def prepare(
    q: Any, k: Any, v: Any, state: Any, mask: Any = None, causal: Any = False, scale: Any = None, dropout: Any = 0.5,
    precision: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """As attention does. Raises TypeError and ValueError, also for the state and the probability."""
    if state.dtype != STATE or state.shape != (2,):
        raise TypeError(f"attention_dropout: the state is {state.dtype} {state.shape}; it must be uint64 (2,).")
    params = plain.prepare(q, k, v, mask, causal, scale, precision)
    return params | {"dropout": require_number("attention", "dropout", dropout, most=1)}


def cost(q: Any, k: Any, v: Any, state: Any, *mask: Any, **params: Any) -> tuple[int, int]:
    """As attention's, and the state."""
    flops, nbytes = plain.cost(q, k, v, *mask)
    return flops, nbytes + state.size * STATE.itemsize


def _case(batch: int, heads: int, queries: int, width: int, keys: int, shared: int, *mask: Any, **params: Any) -> Case:
    few = batch, shared, keys, width
    return Case(((batch, heads, queries, width), few, few, np.array([7, 3], STATE), *mask), params)


WAYS = "forward", "backward_dots", "backward_queries", "backward_keys"
attention_dropout = Op(
    "attention_dropout",
    forward,
    backward,
    kernels={
        **{way: plain.attention.kernels[way] for way in WAYS},
        "forward_mask": Kernel(plain.FILE, "attention_next_mask", ("1",), ("1",)),
    },
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("most", "inverse", "used", "following"),
    after=lambda inputs, extra, **params: inputs[3].assign(Tensor(extra[3])),
    rounds=True,
    integers=True,
    widens=False,
    cost=cost,
    cases=[
        _case(2, 2, 5, 8, 5, 2, dropout=0.5), _case(1, 4, 7, 33, 9, 2, dropout=0.2, causal=True),
        _case(1, 2, 3, 4, 6, 1, np.arange(6) % 3 > 0, dropout=0.9), _case(1, 1, 4, 3, 5, 1, dropout=0.0),
        _case(1, 1, 2, 3, 4, 1, dropout=1.0), _case(0, 2, 3, 4, 3, 2),
    ],
)  # fmt: skip
