"""dropout: numbers replaced by 0 at random, by a mask that is never stored."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.devices.random import dropout_state
from minigrad.errors import require, require_bool, require_number
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops.elementwise import per_four
from minigrad.ops.window import BLOCKS
from minigrad.tape import mode
from minigrad.tensor import Tensor

STATE = np.dtype(np.uint64)
WORD = 0xFFFFFFFF


def philox(key: int, low: np.ndarray, high: int) -> np.ndarray:
    """Philox 4x32-10: four random words (..., 4) of each 128-bit counter, high and low, and a key of 64 bits.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    low = np.asarray(low, STATE)
    c0, c1, c2, c3 = low & WORD, low >> 32, np.full_like(low, high & WORD), np.full_like(low, high >> 32)
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        a, b = c0 * STATE.type(0xD2511F53), c2 * STATE.type(0xCD9E8D57)
        c0, c1, c2, c3 = b >> 32 ^ c1 ^ k0, b & WORD, a >> 32 ^ c3 ^ k1, a & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return np.stack([c0, c1, c2, c3], axis=-1)


def forward(x: np.ndarray, state: np.ndarray, p: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = x / (1 - p), or 0 with probability p

    state is the seed of the random numbers and the number of the mask, which grows by 1 with each call.
    """
    return masked(x, state, p), state.copy(), state + np.array([0, 1], STATE)


def backward(dy: np.ndarray, used: np.ndarray, p: float) -> tuple:
    """dx = dy / (1 - p), or 0 where x was dropped: the mask is made again"""
    return masked(dy, used, p), None


def masked(x: np.ndarray, state: np.ndarray, p: float) -> np.ndarray:
    """x times scale where its random word is at least the threshold, else 0; four neighbors share a counter."""
    (seed, step), (threshold, scale) = map(int, state), threshold_and_scale(p)
    words = philox(seed, np.arange(-(-x.size // 4)), step).reshape(-1)[: x.size]
    return np.where(words.reshape(x.shape) < threshold, x.dtype.type(0), x * x.dtype.type(scale))


def threshold_and_scale(p: float) -> tuple[int, float]:
    """The number of words of 2^32 that drop a number, and the factor for those that stay."""
    return round(p * 2**32), 1 / (1 - p) if p < 1 else 0.0


def launch(kernels: dict[str, Kernel], x: Array, state: Array, p: float) -> tuple[Array, Array, Array]:
    """One kernel, which also counts."""
    y = Array.empty(x.device, x.shape, x.dtype)
    used, following = (Array.empty(x.device, (2,), STATE) for _ in range(2))
    kernels["forward"].launch(max(x.size, 1))(x, state, y, used, following, *threshold_and_scale(p), x.size)
    return y, used, following


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, used: Array, p: float) -> tuple:
    """One kernel."""
    dx = Array.empty(dy.device, dy.shape, dy.dtype)
    kernels["backward"].launch(dy.size)(dy, used, dx, *threshold_and_scale(p), dy.size)
    return dx, None


def prepare(x: Any, state: Any, p: Any = 0.5) -> dict[str, float]:
    """Raises TypeError for dtypes, ValueError for p and for the state."""
    must_be_floats("dropout", x)
    if state.dtype != STATE or state.shape != (2,):
        raise TypeError(f"dropout: the state is {state.dtype} {state.shape}; it must be uint64 (2,), or left out.")
    return {"p": require_number("dropout", "p", p, most=1)}


class RandomOp(Op):
    """An op with the state that `mg.manual_seed` sets, unless one is given after x; without training the identity.

    The state lies in the memory of the device, so each replay of a captured step goes on with it.
    """

    def __call__(self, x: Any, *more: Any, **named: Any) -> Any:
        """`dropout(x, p=0.5, training=True)`, or with a state `dropout(x, state, p)`."""
        if mode.tracer:
            return super().__call__(x, x)  # mg.fuse says that it cannot be fused
        state, more = (more[:1], more[1:]) if more and isinstance(more[0], Tensor) else ((), more)
        p, training = _parameters(*more, **named)
        if not training:
            return x
        array = require("dropout", x, Tensor, "a tensor").array
        return super().__call__(x, *(state or (Tensor(dropout_state(array)),)), p=p)


def _parameters(p: Any = 0.5, training: Any = True) -> tuple[Any, bool]:
    return p, require_bool("dropout", "training", training)


dropout = RandomOp(
    "dropout",
    forward,
    backward,
    kernels={way: per_four("dropout.cu", f"dropout_{way}", "n", BLOCKS) for way in ("forward", "backward")},
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("used", "following"),
    after=lambda inputs, extra, p: inputs[1].assign(Tensor(extra[1])),
    cost=lambda x, state, p=0.5: (2 * x.size, 2 * x.size * x.dtype.itemsize + 16),
    backward_flops=1,
    integers=True,
    cases=[
        Case((shape, np.array([seed, step], STATE)), {"p": p})
        for shape, seed, step, p in (
            ((), 0, 0, 0.5), ((3,), 2**63, 1, 0.5), ((33, 31), 7, 2**40, 0.1), ((1025,), 2**64 - 1, 2, 0.9),
            ((2, 3, 4), 3, 0, 0.0), ((9,), 3, 0, 1.0), ((0, 3), 3, 0, 0.5),
        )
    ] + [Case(((9, 5), np.array([1, 2], STATE)), {"p": 0.5}, nan=True)],
)  # fmt: skip
