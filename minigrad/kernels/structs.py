"""Structs of the reader's own as parameters: their layout in C, and NumPy's structured dtypes checked against it."""

import ctypes
import re
from functools import cache
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.dtypes import dtype_of, is_bfloat16
from minigrad.errors import LaunchError
from minigrad.kernels.types import ELEMENTS, plain
from minigrad.source import Param

BYTES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


@cache
def layout(struct: str, members: tuple) -> tuple[np.dtype, int]:
    """The dtype of a struct, padded as C does, and its alignment. Raises LaunchError for a member that is not read."""
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    end, most = 0, 1
    for kind, declarator, inner in members:
        name, *extents = re.findall(r"\w+", declarator)
        if not name.isidentifier() or not all(extent.isdigit() for extent in extents):
            raise _unread(struct, declarator)
        dtype, align = layout(kind, inner) if inner else _element(struct, kind)
        shape = tuple(map(int, extents))
        offset = -(-end // align) * align
        end, most = offset + dtype.itemsize * prod(shape), max(most, align)
        names.append(name)
        formats.append((dtype, shape) if shape else dtype)
        offsets.append(offset)
    size = -(-end // most) * most
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}), most


def _element(struct: str, kind: str) -> tuple[np.dtype, int]:
    """The dtype and the alignment of a number or a vector."""
    if plain(kind) == "bfloat16":
        return dtype_of("bfloat16"), 2
    if (found := ELEMENTS.get(plain(kind))) is None:
        raise _unread(struct, kind)
    dtype, lanes = found
    align = min(dtype.itemsize * (lanes & -lanes), 16)
    return (np.dtype((dtype, (lanes,))), align) if lanes > 1 else (dtype, align)


def _unread(struct: str, member: str) -> LaunchError:
    return LaunchError(
        f"struct {struct}: the layout of {'a member' if member == '?' else member!r} is not read here; members are "
        "numbers, vectors, structs of these, and arrays with extents in digits. Take a void* and cast it in the kernel."
    )


def check(place: str, param: Param, dtype: np.dtype) -> None:
    """Raise TypeError where an array's dtype is not that of the struct, with the dtype that is."""
    wanted, _ = layout(param.type, param.members)
    if wanted == dtype or _alike(wanted, dtype):
        return
    raise TypeError(f"{place}: got {_words(dtype)}, which is not {param.type}; that is {_words(wanted)}.")


def _alike(one: np.dtype, other: np.dtype) -> bool:
    """True for the same names, offsets and types, whatever NumPy's flags say."""
    if one.subdtype and other.subdtype:
        return one.shape == other.shape and _alike(one.base, other.base)
    if not one.names or not other.names:
        return one == other or (is_bfloat16(one) and is_bfloat16(other))
    fields = [[(name, dtype.fields[name][1]) for name in dtype.names or ()] for dtype in (one, other)]  # type: ignore[index]
    return (
        fields[0] == fields[1]
        and one.itemsize == other.itemsize
        and all(_alike(one[name], other[name]) for name in one.names)
    )


def _words(dtype: np.dtype) -> str:
    """The dtype as one writes it: with align=True, where that gives the padding."""
    if not dtype.names:
        return str(dtype)
    listed = [(name, _listed(dtype[name])) for name in dtype.names]
    aligned = np.dtype([(name, dtype[name]) for name in dtype.names], align=True)
    if _alike(dtype, aligned):
        return f"np.dtype({listed!r}, align=True)".replace("'<", "'")
    offsets = [dtype.fields[name][1] for name in dtype.names]  # type: ignore[index]
    formats = [kind for _, kind in listed]
    words = {"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
    return f"np.dtype({words!r})".replace("'<", "'")


def _listed(dtype: np.dtype) -> Any:
    if dtype.subdtype:
        return (_listed(dtype.base), dtype.shape)
    return [(name, _listed(dtype[name])) for name in dtype.names] if dtype.names else dtype.str


def memory(dtype: np.dtype) -> Any:
    """The ctypes type of a struct that is passed by value: its bytes, aligned as its dtype."""
    return _memory(dtype.itemsize, _alignment(dtype))


@cache
def _memory(size: int, align: int) -> Any:
    return BYTES[align] * (size // align)


def _alignment(dtype: np.dtype) -> int:
    inner = dtype.base if dtype.subdtype else dtype
    return max(map(_alignment, (inner[name] for name in inner.names))) if inner.names else min(inner.itemsize, 8)


def by_value(place: str, param: Param, value: Any) -> Any:
    """The bytes of a structured scalar, `points[0]` or `np.array((1, 2), dtype)`. Raises TypeError or LaunchError."""
    dtype, align = layout(param.type, param.members)
    if align > _alignment(dtype):
        raise LaunchError(f"{place}: a struct with vectors is passed by a pointer; give the kernel a {param.type}*.")
    host = np.asarray(value)
    if host.ndim or not host.dtype.names:
        raise TypeError(f"{place} takes one {param.type}; give np.array((...), {_words(dtype)}).")
    check(place, param, host.dtype)
    return memory(dtype).from_buffer_copy(host.tobytes())
