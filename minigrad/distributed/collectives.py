"""Collectives: all ranks call one of these functions together, each with a tensor or array of its own.

Before anything is sent, the ranks compare the call, shape, dtype and op. Where they differ, or one has a wrong argument
or is at the end of its program, all of them raise ValueError or RankError, with the ranks and their calls. Tensors and
NumPy arrays are taken; results are new, on the same device, and off the tape. MPI moves what is in host memory, NCCL
what is on the GPU that each rank has for itself, `device()`. A rank makes all calls in one thread: those of several
threads could meet in any order. bfloat16 is summed by NCCL as it is, in host memory in float32, and rounded at the end.
"""

from typing import Any, TypeVar

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.caches import Cache
from minigrad.devices.dtypes import DTYPES, FLOATS, is_bfloat16, is_last
from minigrad.distributed.host import Backend, HostMemory, backend_of
from minigrad.distributed.world import init
from minigrad.errors import require, require_int, require_words
from minigrad.tensor import Tensor

OPS = ("sum", "mean", "max", "min")
_KNOWN = Cache()  # by call, spec and op: the back end, and the call in words
T = TypeVar("T", Tensor, np.ndarray)


def all_reduce(x: T, op: str = "sum", who: str = "all_reduce") -> T:
    """The sum of x over the ranks, element by element, on every rank; op may be "mean", "max" or "min", too.

    who: the name of the call in the sentence for ranks that differ.
    """
    array, backend = _agreed(who, x, op=op)
    return _like(x, backend.all_reduce([array], op)[0])


def broadcast(x: T, root: int = 0) -> T:
    """The x of the rank root, on every rank. All give an x of that shape and dtype."""
    array, backend = _agreed("broadcast", x, root=root)
    return _like(x, backend.broadcast([array], root)[0])


def all_gather(x: T) -> T:
    """The x of all ranks along a new first axis, (size, *x.shape), on every rank."""
    array, backend = _agreed("all_gather", x)
    return _like(x, backend.all_gather(array))


def reduce_scatter(x: T, op: str = "sum") -> T:
    """A part of `all_reduce(x, op)` for each rank, in their order: its first axis is cut into `size()` parts."""
    array, backend = _agreed("reduce_scatter", x, op=op)
    return _like(x, backend.reduce_scatter(array, op))


def barrier() -> None:
    """Wait until every rank has come here."""
    init().agree("barrier")


def sum_of_counts(own: int, who: str) -> int:
    """The sum of a count of elements, which depends on shapes alone, over the ranks. who: as in `all_reduce`.

    It travels by MPI, in a step that `mg.graph` captures as well: its replays are for the same shapes on all ranks.
    """
    init().agree(who)
    return int(HostMemory(init()).reduced(np.array([own]), "sum")[0])


def _agreed(call: str, x: Any, **settings: Any) -> tuple[Any, Backend]:
    """The array of x and its back end, once all ranks have made this call. Raises on every rank."""
    world, array = init(), x.array if isinstance(x, Tensor) else x
    op = settings.get("op", "")
    fixed = isinstance(array, Array) and isinstance(op, str) and "root" not in settings
    key = (call, array.spec, op) if fixed else None
    try:
        known = _KNOWN.get(key)
        if known is None:
            known = _checked(call, x, world.size, **settings), _described(call, x, **settings)
            if key:
                _KNOWN.keep(key, known)
    except (TypeError, ValueError) as fault:
        world.agree(f"an error: {fault}".rstrip("."))
        raise
    backend, text = known
    world.agree(text)
    return array, backend


def _described(call: str, x: Any, **settings: Any) -> str:
    """A call in words, which are the same on ranks that may make it together."""
    words = [f"{name}={it.item() if isinstance(it, np.generic) else it!r}" for name, it in settings.items()]
    where = backend_of(x.device if isinstance(x, Tensor) else "numpy").where
    where += ", NHWC" * bool(where and is_last(x.array))
    return ", ".join([f"{call} of {x.dtype} {x.shape}{where}", *words])


def _checked(call: str, x: Any, ranks: int, op: str = "max", root: int = 0) -> Backend:
    """The back end for x. Raises TypeError or ValueError. Without an op any dtype will do, as for "max"."""
    require(call, x, Tensor | np.ndarray, "a tensor or a NumPy array")
    if np.ma.isMaskedArray(x):
        raise TypeError(f"{call} would send what is under the mask, too; give x.filled(0) or another number.")
    require_words(call, "op", require(f"{call}: op", op, str, "a word"), OPS)
    if require_int(call, "root", root) >= ranks:
        raise ValueError(f"{call}: root={root} is no rank; they are 0 to {ranks - 1}.")
    numbers = {"mean": FLOATS, "sum": tuple(dtype for dtype in DTYPES if dtype != np.bool)}.get(op, DTYPES)
    if not (x.dtype in numbers or is_bfloat16(x.dtype)):
        what = f"the {op} of {x.dtype}" if x.dtype in DTYPES else str(x.dtype)
        raise TypeError(f"{call} cannot take {what}; convert x with .astype('float32').")
    if call == "reduce_scatter" and (not x.ndim or x.shape[0] % ranks):
        raise ValueError(f"{call}: x is {x.shape}; its first axis must be a multiple of the {ranks} ranks.")
    return backend_of(x.device if isinstance(x, Tensor) else "numpy")


def _like(x: T, array: Any) -> T:
    return Tensor(array) if isinstance(x, Tensor) else array
