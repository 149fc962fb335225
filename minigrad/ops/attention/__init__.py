"""attention: for each query a mean of the values, weighted by how well their keys fit.

`flash` holds the rungs in tiles; here are the NumPy reference and the rung that takes everything, a warp for a row.
"""

from collections.abc import Mapping
from math import prod, sqrt
from typing import Any

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.devices.layouts import typed
from minigrad.devices.random import dropout_state
from minigrad.errors import require, require_bool, require_number
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.view import broadcast
from minigrad.op import OPS, Case, Op
from minigrad.ops.attention import flash
from minigrad.ops.dropout import threshold_and_scale
from minigrad.ops.elementwise import must_match
from minigrad.ops.precision import rounded
from minigrad.tensor import Tensor

FILE, WIDEST, WARPS = "attention.cu", 256, (4, 1, 2, 8, 16)
RESIDENT = 32  # warps of a multiprocessor that repair rows


def forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, causal: bool = False,
    scale: float | None = None, precision: str = "float32",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """y = softmax(scale q k^T) v for each head of q, k and v (batch, heads, length, width); scale is 1 / sqrt(width)

    mask, bool, broadcasts to (batch, heads, queries, keys): True where a query sees a key. With causal a query sees no
    later key; both lengths end together. q may have a multiple of the heads of k and v: neighbors share them. A query
    that sees no key gets 0. Tensor cores round the weights, too. With dropout=p it is attention_dropout, by the kernels
    of a warp for a row. Source: Vaswani et al., "Attention is all you need".
    """
    return attend(q, k, v, mask, causal, scale, precision)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, causal: bool, scale: float | None,
    precision: str, stays: Any = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """y, and of each query the largest score and 1 / the sum of exponentials. stays: a factor of each weight."""
    dtype, seen = q.dtype, visible(q, k, mask, causal)
    q, k, v = grouped(*(rounding.rounded(x, precision) for x in (q, k, v)))
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * q.dtype.type(scaling(q, scale)), -np.inf)
    most = scores.max(-1, initial=-np.inf)
    none = most == -np.inf
    most = np.where(none, 0, most)
    weights = np.exp(scores - most[..., None])
    inverse = np.where(none, 0, 1 / weights.sum(-1))
    return total(weights * inverse[..., None] * stays, v, seen).astype(dtype, copy=False), most, inverse


def backward(
    dy: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, y: np.ndarray,
    most: np.ndarray, inverse: np.ndarray, causal: bool, scale: float | None, precision: str, shapes: tuple,
) -> tuple:  # fmt: skip
    """dv = p^T dy, ds = p (dy v^T - dy y), dq = scale ds k, dk = scale ds^T q, with p = softmax(scale q k^T)

    Keys and values that several heads share get the sum of their gradients. With a single key, ds is 0; tiles leave the
    rounding of dy v - dy y, a few units of |dy| |v|.
    """
    return (*slopes(dy, q, k, v, mask, y, most, inverse, causal, scale, precision), None)[: len(shapes)]


def slopes(
    dy: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, y: np.ndarray,
    most: np.ndarray, inverse: np.ndarray, causal: bool, scale: float | None, precision: str, stays: Any = 1,
) -> tuple:  # fmt: skip
    """dq, dk and dv. stays: a factor of each weight."""
    dtype, seen, shared = dy.dtype, visible(q, k, mask, causal), (k.shape[1], q.shape[1] // max(k.shape[1], 1))
    q, k, v, dy = (rounding.rounded(x, precision) for x in (q, k, v, dy))
    (q, k, v), (dy, y) = grouped(q, k, v), (x.astype(wide(x.dtype), copy=False) for x in (dy, y))
    factor = q.dtype.type(scaling(q, scale))
    p = np.where(seen, np.exp(q @ k.swapaxes(-1, -2) * factor - most[..., None]) * inverse[..., None], 0)
    ds = np.where(seen, p * (stays * (dy @ v.swapaxes(-1, -2)) - (dy * y).sum(-1, keepdims=True)), 0) * factor
    turned, p = seen.swapaxes(-1, -2), p * stays
    dq, dk, dv = total(ds, k, seen), total(ds.swapaxes(-1, -2), q, turned), total(p.swapaxes(-1, -2), dy, turned)
    each = [dq, *(x.reshape(x.shape[0], *shared, *x.shape[2:]).sum(2) for x in (dk, dv))]
    return tuple(x.astype(dtype, copy=False) for x in each)


def grouped(q: np.ndarray, *shared: np.ndarray) -> list[np.ndarray]:
    """All three in the type of arithmetic, keys and values with as many heads as the queries."""
    group = q.shape[1] // max(shared[0].shape[1], 1)
    return [x.astype(wide(x.dtype), copy=False) for x in (q, *(np.repeat(x, group, 1) for x in shared))]


def visible(q: np.ndarray, k: np.ndarray, mask: np.ndarray | None, causal: bool) -> np.ndarray:
    """True where a query sees a key: (batch, heads, queries, keys)."""
    shape = (*q.shape[:3], k.shape[2])
    seen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    return np.tril(seen, shape[3] - shape[2]) if causal else seen


def total(weights: np.ndarray, rows: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """weights @ rows, without the rows that are not seen: 0 times NaN would be NaN."""
    y = weights @ np.where(np.isfinite(rows), rows, 0)
    for *head, row, column in np.argwhere(~np.isfinite(rows)):
        users = seen[(*head, slice(None), row)]
        y[(*head, users, column)] += weights[(*head, users, row)] * rows[(*head, row, column)]
    return y


def scaling(q: Any, scale: float | None) -> float:
    return 1 / sqrt(max(q.shape[-1], 1)) if scale is None else scale


def kernel(name: str, rows: str) -> Kernel:
    """A kernel in which a warp owns a row of up to 256 numbers."""
    return Kernel(FILE, name, (f"{rows}/WARPS",), ("32", "WARPS"), rows, WARPS=WARPS)


def extents(
    q: Array, k: Array, mask: Array | None, causal: bool, scale: float | None, state: Array | None = None,
    dropout: float = 0.0,
) -> tuple:  # fmt: skip
    """The last arguments of all kernels."""
    (batch, heads, queries, width), keys = q.shape, k.shape[2]
    at = broadcast((), ()) if mask is None else broadcast(mask.shape, (batch, heads, queries, keys))
    group = heads // max(k.shape[1], 1)
    drops = state, *threshold_and_scale(dropout)
    return at, scaling(q, scale), group, batch * heads, queries, keys, width, int(causal), *drops


def launch(
    kernels: Mapping[str, Kernel], q: Array, k: Array, v: Array, mask: Array | None = None, *, causal: bool,
    scale: float | None, precision: str, cleared: Array | None = None, merged: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """One kernel, of the rung that is chosen. cleared: as `flag` makes it.

    merged: where a rung does that, y is (batch, length, heads * width).
    """
    q, k, v = rounded(precision, q, k, v)
    most, inverse = (Array.empty(q.device, q.shape[:3], wide(q.dtype)) for _ in range(2))
    rung = flash.choose(kernels, q, k, v, mask, scaling(q, scale), precision)
    repair = cleared or flag(q) if rung and causal else None
    batch, heads, length, width = q.shape
    beside = merged and rung and rung.merges  # heads side by side
    together, shape = (heads, (batch, length, heads * width)) if beside else (1, q.shape)
    y = Array.empty(q.device, shape, q.dtype)
    if rung:
        flash.forward(kernels, rung, q, k, v, y, most, inverse, repair, causal, scaling(q, scale), together)
    if not rung or causal:
        run = launch_of(kernels, "forward", repair, q)
        run(q, k, v, mask, y, most, inverse, *extents(q, k, mask, causal, scale), repair, together)
    return y, most, inverse


def flag(like: Array) -> Array:
    """A whole number on the device of an array: 0, and 1 as soon as tiles have written rows that are not finite."""
    return Array.zeros(like.device, (1,), np.dtype(np.int32))


def launch_of(kernels: Mapping[str, Kernel], way: str, repair: Array | None, rows: Array) -> Launch:
    """The launch for these rows. To repair some of them there are few blocks, which soon find that there are none."""
    count = prod(rows.shape[:3])
    if not repair:
        return kernels[way].launch(count)
    return kernels[f"rows_{way}"].launch(min(count, RESIDENT * rows.device.processors), WARPS=max(WARPS))


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, q: Array, k: Array, v: Array, mask: Array | None, y: Array,
    most: Array, inverse: Array, causal: bool, scale: float | None, precision: str, shapes: tuple,
) -> tuple:  # fmt: skip
    """A kernel for dy y, one for dq, and one for dk and dv, of the rung of the forward pass."""
    dy, q, k, v = rounded(precision, typed(dy, q.dtype), q, k, v)
    rung = flash.choose(kernels, q, k, v, mask, scaling(q, scale), precision)
    sums = Array.zeros(q.device, q.shape, np.dtype(np.float32)) if flash.adds(kernels, rung, needs) else None
    saved, repair = (most, inverse, dots_of(kernels, dy, y, most)), flag(q) if rung and causal else None
    grads = gradients(kernels, rung, needs, dy, q, k, v, mask, saved, sums, repair, causal, scale)
    return (*(x if need else None for x, need in zip(grads, needs, strict=False)), None)[: len(shapes)]


def gradients(
    kernels: Mapping[str, Kernel], rung: Any, needs: tuple, dy: Array, q: Array, k: Array, v: Array, mask: Array | None,
    saved: tuple[Array, ...], sums: Array | None, repair: Array | None, causal: bool, scale: float | None,
    late: bool = False,
) -> tuple:  # fmt: skip
    """dq, dk and dv by a rung, or None for the one that takes everything. sums, of dq, and repair begin as 0.

    late: dq stays in sums, unless some rows are repaired: then repair is not 0, and all rows are in dq, rounded.
    """
    grads: tuple = ()
    if rung:
        grads = flash.gradients(kernels, rung, needs, dy, q, k, v, saved, sums, repair, causal, scaling(q, scale))
    if sums:
        dq = Array.empty(q.device, q.shape, q.dtype) if late else typed(sums, q.dtype)
        grads = dq, *grads[1:]
    if not rung or causal:
        more = (sums if late else None,)
        repair = repair if rung else None
        grads = by_rows(kernels, needs, dy, q, k, v, mask, saved, causal, scale, (), repair, grads, more)
    return grads


def dots_of(kernels: Mapping[str, Kernel], dy: Array, y: Array, most: Array) -> Array:
    """dy y of each query."""
    dots = Array.empty(y.device, most.shape, most.dtype)
    kernels["backward_dots"].launch(dots.size)(dy, y, dots, dots.size, y.shape[3])
    return dots


def by_rows(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, q: Array, k: Array, v: Array, mask: Array | None,
    saved: tuple[Array, ...], causal: bool, scale: float | None, drops: tuple = (), repair: Array | None = None,
    written: tuple = (), sums: tuple = (None,),
) -> tuple:  # fmt: skip
    """dq, dk and dv, of which the wanted ones are written, or repaired. drops: the state and probability of dropout."""
    new = Array.empty if q.shape[1] else Array.zeros  # keys and values that no head of q has get 0
    dq, dk, dv = written or (new(x.device, x.shape, x.dtype) for x in (q, k, v))
    ends = *extents(q, k, mask, causal, scale, *drops), repair
    if needs[0]:
        launch_of(kernels, "backward_queries", repair, q)(dy, q, k, v, mask, *saved, dq, *ends, *sums)
    if needs[1] or needs[2]:
        launch_of(kernels, "backward_keys", repair, k)(dy, q, k, v, mask, *saved, dk, dv, *ends)
    return dq, dk, dv


def prepare(
    q: Any, k: Any, v: Any, mask: Any = None, causal: Any = False, scale: Any = None, precision: str | None = None
) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes. The precision is that of `mg.precision` unless given."""
    must_be_floats("attention", q, k, v)
    must_match("attention", q, k, v)
    if any(x.ndim != 4 for x in (q, k, v)):
        raise ValueError(
            f"attention: q is {q.shape}, k {k.shape}, v {v.shape}; each must be (batch, heads, length, width)."
        )
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"attention: q is {q.shape}, k {k.shape}, v {v.shape}; k and v must have one shape, and the batch and the "
            "width of q."
        )
    if q.shape[1] % k.shape[1] if k.shape[1] else q.shape[1]:
        raise ValueError(f"attention: q has {q.shape[1]} heads, k {k.shape[1]}; the first must be a multiple of these.")
    if isinstance(q, Array) and q.shape[3] > WIDEST:
        raise ValueError(f"attention: width {q.shape[3]} is more than the {WIDEST} that a kernel takes.")
    if mask is not None:
        shape = (*q.shape[:3], k.shape[2])
        if mask.dtype != np.bool_:
            by_name = "" if mask.ndim else " causal is given by name: causal=True."
            raise TypeError(
                f"attention: mask is {mask.dtype}; it must be bool, True where a query sees a key.{by_name}"
            )
        if mask.ndim > 4 or any(m not in (1, n) for m, n in zip(mask.shape[::-1], shape[::-1], strict=False)):
            raise ValueError(
                f"attention: mask {mask.shape} does not broadcast to (batch, heads, queries, keys) {shape}."
            )
    if scale is not None:
        scale = require_number("attention", "scale", scale)
    permitted = rounding.current() if precision is None else rounding.known(precision)
    return {"causal": require_bool("attention", "causal", causal), "scale": scale, "precision": permitted}


def cost(q: Any, k: Any, v: Any, *mask: Any, **params: Any) -> tuple[int, int]:
    """4 FLOPs for each query, key that it sees and number of their width, and 5 for each score; q, k, v and y once."""
    scores = prod(q.shape[:2]) * seen_pairs(q.shape[2], k.shape[2], params.get("causal", False))
    read = sum(x.size * x.dtype.itemsize for x in (q, k, v, *mask))
    return (4 * q.shape[3] + 5) * scores, read + q.size * q.dtype.itemsize


def seen_pairs(queries: int, keys: int, causal: bool) -> int:
    """The pairs of a query and a key that it sees."""
    rows = min(queries, keys) if causal else queries
    return rows * keys - causal * rows * (rows - 1) // 2


def _case(batch: int, heads: int, queries: int, width: int, keys: int = 0, shared: int = 0, **how: Any) -> Case:
    size = batch, shared or heads, keys or queries, width
    return Case(((batch, heads, queries, width), size, size), **how)


def _masked(*shape: int) -> Case:
    """Some queries see no key."""
    case, mask = _case(2, 2, 5, 8, 7), np.arange(prod(shape)).reshape(shape) % 3 > 0
    mask[..., :1, :] = False
    return Case((*case.inputs, mask))


def kernels_of() -> dict[str, Kernel]:
    """Those of a warp for a row, and those in tiles."""
    ways = {"forward": "queries", "backward_dots": "queries", "backward_queries": "queries", "backward_keys": "keys"}
    found = {way: kernel(f"attention_{way}", rows) for way, rows in ways.items()}
    # By these names they are there, whichever kernels have the roles: they repair what tiles have spoiled.
    return found | {f"rows_{way}": found[way] for way in ways if way != "backward_dots"} | flash.kernels


class AttentionOp(Op):
    """The op, and with dropout the one that draws the weights which stay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inputs.takes += ", dropout"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """`attention(q, k, v, mask=None, causal=False, scale=None, dropout=0.0)`."""
        if not (p := named.pop("dropout", 0)):
            return super().__call__(*args, **named)
        (q, k, v, *mask), params = self.inputs.split(args, named)
        state = Tensor(dropout_state(require("attention", q, Tensor, "a tensor").array))
        return OPS["attention_dropout"](q, k, v, state, *mask, dropout=p, **params)


attention = AttentionOp(
    "attention",
    forward,
    backward,
    kernels=kernels_of(),
    fast=flash.FAST,
    rounds=True,
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("most", "inverse"),
    integers=True,
    widens=False,
    cost=cost,
    cases=[
        _case(1, 1, 1, 1), _case(2, 3, 5, 8), _case(1, 2, 33, 33), _case(1, 1, 3, 130, 31), _case(1, 1, 2, 256, 3),
        *(_case(2, 2, 4, 5, keys, params={"causal": True}) for keys in (4, 7, 3)),
        _case(1, 6, 5, 16, 9, 2, params={"scale": 0.3}), _case(2, 4, 6, 9, 6, 1, params={"causal": True}),
        _masked(5, 7), _masked(2, 1, 5, 7), _masked(1, 2, 1, 7), _case(0, 2, 3, 4), _case(1, 2, 0, 4, 3),
    ],
)  # fmt: skip
