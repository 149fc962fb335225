"""self_attention: attention of a sequence to itself, of queries, keys and values as one product makes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minigrad import rounding
from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.devices.layouts import typed
from minigrad.errors import require_bool, require_int
from minigrad.kernels.extents import ceil_div, next_power
from minigrad.kernels.kernel import Kernel
from minigrad.op import OPS, Case, Op
from minigrad.ops import attention
from minigrad.ops.attention import flash
from minigrad.ops.column_sums import launch_rows, row_maker, total
from minigrad.ops.elementwise import per_element
from minigrad.ops.precision import rounded

FILE, PARTS = "self_attention.cu", 3  # queries, keys and values
ONE = (1,), np.dtype(np.int32)  # shape and dtype of a whole number


def forward(
    x: np.ndarray, bias: np.ndarray | None = None, heads: int = 1, causal: bool = False, precision: str = "float32"
) -> tuple[np.ndarray, ...]:
    """y = attention(q, k, v), heads side by side: x (batch, length, 3 width) has q, k and v of all heads, y a width

    With causal a place sees none after it. The scale is 1 / sqrt(width of a head). bias is added to each row of x.
    """
    if bias is not None:
        x = (x.astype(bias.dtype, copy=False) + bias).astype(x.dtype, copy=False)
    q, k, v = split(x, heads, PARTS)
    o, most, inverse = attention.forward(q, k, v, causal=causal, precision=precision)
    return merge([o]), q, k, v, most, inverse


def backward(
    dy: np.ndarray, bias: np.ndarray | None, y: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray,
    most: np.ndarray, inverse: np.ndarray, heads: int, causal: bool, precision: str,
) -> tuple:  # fmt: skip
    """dx = the gradients of q, k and v by attention's rule, side by side as they are in x; dbias = its sum over rows"""
    (do,), (o,), shapes = split(dy, heads, 1), split(y, heads, 1), (q.shape,) * PARTS
    grads = attention.backward(do, q, k, v, None, o, most, inverse, causal, None, precision, shapes)
    dx = merge(grads)
    return (dx,) if bias is None else (dx, dx.astype(bias.dtype, copy=False).sum((0, 1)))


def split(x: np.ndarray, heads: int, parts: int) -> list[np.ndarray]:
    """The parts of (batch, length, parts * heads * width), each (batch, heads, length, width)."""
    batch, length, size = x.shape
    return list(x.reshape(batch, length, parts, heads, size // parts // heads).transpose(2, 0, 3, 1, 4))


def merge(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Undoes `split`."""
    batch, heads, length, width = parts[0].shape
    return np.stack(parts).transpose(1, 3, 0, 2, 4).reshape(batch, length, len(parts) * heads * width)


def launch(
    kernels: Mapping[str, Kernel], x: Array, bias: Array | None = None, *, heads: int, causal: bool, precision: str
) -> tuple[Array, ...]:
    """A kernel that splits x, those of attention, and one that puts heads side by side."""
    (q, k, v), cleared = launch_split(kernels, x, heads, bias)
    how: dict[str, Any] = {"causal": causal, "scale": None, "precision": precision}
    y, most, inverse = attention.launch(attending(), q, k, v, cleared=cleared, merged=True, **how)
    if y.ndim == q.ndim:
        y, _ = launch_merge(kernels, [y])
    return y, q, k, v, most, inverse


def launch_backward(
    kernels: Mapping[str, Kernel], needs: tuple, dy: Array, bias: Array | None, y: Array, q: Array, k: Array, v: Array,
    most: Array, inverse: Array, heads: int, causal: bool, precision: str,
) -> tuple:  # fmt: skip
    """The same way back."""
    running, every = attending(), (True,) * PARTS
    dy, q, k, v = rounded(precision, typed(dy, q.dtype), q, k, v)
    rung = flash.choose(running, q, k, v, None, attention.scaling(q, None), precision)
    do, dots, sums, cleared = launch_upstream(kernels, dy, y, q, most, flash.adds(running, rung, every))
    saved, late = (most, inverse, dots), (sums, cleared if causal else None)
    grads = attention.gradients(running, rung, every, do, q, k, v, None, saved, sums, cleared, causal, None, True)
    dx, dbias = launch_merge(kernels, grads, late, bias.dtype if bias and needs[1] else None)
    return (dx,) if bias is None else (dx, dbias)


def attending() -> Mapping[str, Kernel]:
    """The kernels of attention, as they are tuned."""
    return OPS["attention"].running


def launch_split(
    kernels: Mapping[str, Kernel], x: Array, heads: int, bias: Array | None = None
) -> tuple[list[Array], Array]:
    """`split` of x + bias by one kernel, and a whole number, 0."""
    batch, length, size = x.shape
    shape, cleared = (batch, heads, length, size // PARTS // heads), Array.empty(x.device, *ONE)
    found = [Array.empty(x.device, shape, x.dtype) for _ in range(PARTS)]
    run, _ = launch_rows(kernels["split"], x, None)
    run(x, bias, *found, cleared, PARTS, heads, length, shape[3], batch * length)
    return found, cleared


def launch_upstream(
    kernels: Mapping[str, Kernel], dy: Array, y: Array, q: Array, like: Array, adds: bool
) -> tuple[Array, Array, Array | None, Array]:
    """By one kernel the heads of dy, dy y of each query, 0 for sums of dq if there are any, and a whole number, 0."""
    (_, heads, length, width), rows = q.shape, like.size
    do, dots, cleared = (Array.empty(y.device, *each) for each in ((q.shape, y.dtype), (like.shape, like.dtype), ONE))
    sums = Array.empty(y.device, q.shape, np.dtype(np.float32)) if adds else None
    lanes = next_power(ceil_div(width, 8 if y.dtype.itemsize == 2 else 4), 32)
    run = kernels["upstream"].launch(rows * lanes)
    run(dy, y, do, dots, sums, cleared, lanes, heads, length, width, rows)
    return do, dots, sums, cleared


def launch_merge(
    kernels: Mapping[str, Kernel], parts: Sequence[Array], late: tuple = (None, None), dtype: np.dtype | None = None
) -> tuple[Array, Array | None]:
    """`merge` by one kernel, and the sums of the columns in this dtype, if wanted. late: sums and repair of dq."""
    batch, heads, length, width = parts[0].shape
    x = Array.empty(parts[0].device, (batch, length, len(parts) * heads * width), parts[0].dtype)
    run, sums = launch_rows(kernels["merge"], x, dtype)
    run(*parts, *[None] * (PARTS - len(parts)), *late, x, sums, len(parts), heads, length, width, batch * length)
    return x, total(sums) if sums else None


def prepare(
    x: Any, bias: Any = None, heads: Any = 1, causal: Any = False, precision: str | None = None
) -> dict[str, Any]:
    """Raises ValueError for shapes and TypeError for dtypes. The precision is that of `mg.precision` unless given."""
    must_be_floats("self_attention", x)
    heads = require_int("self_attention", "heads", heads, 1)
    if x.ndim != 3 or x.shape[2] % (PARTS * heads):
        raise ValueError(
            f"self_attention: x is {x.shape}; it must be (batch, length, 3 width), width a multiple of heads={heads}."
        )
    if isinstance(x, Array) and (width := x.shape[2] // PARTS // heads) > attention.WIDEST:
        raise ValueError(f"self_attention: a head's width {width} is more than the {attention.WIDEST} of a kernel.")
    if bias is not None and (bias.shape, bias.dtype) != (x.shape[2:], wide(x.dtype)):
        raise ValueError(
            f"self_attention: bias is {bias.dtype} {bias.shape}; for x {x.shape} it must be {wide(x.dtype)} "
            f"{x.shape[2:]}."
        )
    permitted = rounding.current() if precision is None else rounding.known(precision)
    return {"heads": heads, "causal": require_bool("self_attention", "causal", causal), "precision": permitted}


def cost(x: Any, bias: Any = None, heads: int = 1, **params: Any) -> tuple[int, int]:
    """The FLOPs of attention; x and bias read once, and y, a third of x, written once."""
    batch, length, size = x.shape
    pairs = batch * heads * attention.seen_pairs(length, length, params.get("causal", False))
    flops = (4 * (size // PARTS // heads) + 5) * pairs
    columns = 0 if bias is None or not x.size else bias.size * bias.dtype.itemsize
    return flops, x.size * x.dtype.itemsize * 4 // 3 + columns


def _case(*shape: int, heads: int, bias: bool = False, **params: Any) -> Case:
    return Case((shape, *[shape[2:]] * bias), {"heads": heads, **params})


self_attention = Op(
    "self_attention",
    forward,
    backward,
    kernels={
        "split": row_maker(FILE, "self_attention_split"),
        "upstream": per_element(FILE, "self_attention_upstream", "threads"),
        "merge": row_maker(FILE, "self_attention_merge"),
    },
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("q", "k", "v", "most", "inverse"),
    rounds=True,
    integers=True,
    widens=False,
    cost=cost,
    backward_flops=3,
    cases=[
        _case(1, 1, 3, heads=1), _case(2, 5, 24, heads=2), _case(1, 33, 30, heads=2, causal=True),
        _case(3, 7, 48, heads=4, causal=True), _case(2, 5, 24, heads=2, bias=True), _case(1, 3, 9, heads=3, bias=True),
        _case(0, 4, 12, heads=2), _case(2, 0, 12, heads=1),
    ],
)  # fmt: skip
