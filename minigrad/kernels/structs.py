"""Structs of the reader's own as parameters: their layout in C, and NumPy's structured dtypes checked against it."""

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of, is_bfloat16
from minigrad.errors import LaunchError, short
from minigrad.kernels.types import ELEMENTS, plain
from minigrad.source import Param

ADDRESS = np.dtype(np.uint64)
BYTES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
WIDEST = 8  # bytes of ctypes' most aligned type


@cache
def layout(struct: str, members: tuple) -> tuple[np.dtype, int]:
    """The dtype of a struct, padded as C does, and its alignment. Raises LaunchError for a member that is not read."""
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    end, most = 0, 1
    union = any(kind == "union" for kind, _, _ in members)
    for kind, declarator, inner in members:
        if kind == "union":
            continue
        if kind == "alignas":
            most = max(most, int(declarator))
            continue
        pointer = declarator.startswith("*")
        name, *extents = re.findall(r"\w+", declarator) or ["?"]
        if not name.isidentifier() or not all(extent.isdigit() for extent in extents):
            raise _unread(struct, declarator)
        dtype, align = (ADDRESS, 8) if pointer else layout(kind, inner) if inner else _element(struct, kind)
        shape = tuple(map(int, extents))
        offset = 0 if union else -(-end // align) * align
        end, most = max(end, offset + dtype.itemsize * prod(shape)), max(most, align)
        names.append(name)
        formats.append((dtype, shape) if shape else dtype)
        offsets.append(offset)
    size = -(-max(end, 1) // most) * most
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
    if member in ("real", "wide"):
        return LaunchError(
            f"struct {struct} has a member of type {member}, which only a launch defines; give it a type or a macro of "
            "your own."
        )
    return LaunchError(
        f"struct {struct}: the layout of {'a member' if member == '?' else member!r} is not read here; members are "
        "numbers, vectors, structs of these, and arrays with extents in digits. Take a void* and cast it in the kernel."
    )


def check(place: str, param: Param, dtype: np.dtype) -> None:
    """Raise TypeError where an array's dtype is not that of the struct, with the dtype that is."""
    if name := next((name for _, name, _ in param.members if name.startswith("*")), ""):
        raise LaunchError(
            f"{place}: {param.type} holds the pointer {name[1:]}; give a list with the members of each element, "
            f"[{{{name[1:]!r}: tensor, ...}}, ...]."
        )
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


@cache
def memory(param: Param) -> Any:
    """The ctypes type of a struct or a vector that is passed by value: its bytes, aligned as in C."""
    dtype, align = value_layout(param)
    return BYTES[align] * (dtype.itemsize // align)


def by_value(place: str, param: Param, value: Any, arrays: list[tuple[str, Any]]) -> Any:
    """The bytes of a structured scalar, `points[0]` or `np.array((1, 2), dtype)`, or of a vector's numbers.

    A struct that holds pointers is given as its members by name, {"n": 3, "x": tensor}; their arrays join `arrays`.
    Where the parameter begins at a multiple of 16 or more, they are plain bytes. Raises TypeError.
    """
    dtype, align = value_layout(param)
    value = value.numpy() if hasattr(value, "numpy") else value  # an array of numbers may have been uploaded
    if param.members:
        given = isinstance(value, Mapping)
        host = filled(place, param, value, arrays) if given else np.asarray(value)
        if host.ndim or host.dtype.names is None:
            way = f"np.array((...), {_words(dtype)})"
            if holds_pointers(param.members):
                way = f"its members, {{'{next(iter(fields(param.members)))}': ...}}, with a tensor for a pointer"
            raise TypeError(f"{place} takes one {param.type}; give {way}.")
        if not given:
            check(place, param, host.dtype)
    else:
        host = np.asarray(value)
        if host.shape != dtype.shape or host.dtype.kind not in "iuf":
            raise TypeError(f"{place} takes {dtype.shape[0]} numbers, e.g. {(0,) * dtype.shape[0]}.")
        host = host.astype(dtype.base)
    return host.tobytes() if align > WIDEST else memory(param).from_buffer_copy(host.tobytes())


def filled(place: str, param: Param, values: Mapping[str, Any], arrays: list[tuple[str, Any]]) -> np.ndarray:
    """A struct of these members; missing ones are 0. Raises TypeError."""
    made = np.zeros((), layout(param.type, param.members)[0])
    known = fields(param.members)
    for own, value in values.items():
        if own not in known:
            raise TypeError(f"{place} has no member {own!r}; it has {', '.join(known)}.")
        kind, name, inner = known[own]
        within = f"{place}: its member {own}"
        member = Param(f"{param.name}.{own}", kind, name.startswith("*"), False, inner)
        array = getattr(value, "array", value)
        if member.pointer and value is not None:
            if not isinstance(array, Array):
                raise TypeError(f"{within} is a pointer and takes a tensor; got {type(value).__name__}.")
            wanted = layout(kind, inner)[0] if inner else ELEMENTS.get(plain(kind), (array.dtype, 1))[0]
            if array.dtype != wanted and not _alike(array.dtype, wanted):
                raise TypeError(f"{within} is {_words(wanted)}; got {_words(array.dtype)}.")
            made[own] = array.address
            arrays.append((member.name, array))
        elif isinstance(value, Mapping):
            made[own] = filled(within, member, value, arrays)
        elif inner and isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value):
            if made[own].shape != (len(value),):
                raise TypeError(
                    f"{within} is an array of {' x '.join(map(str, made[own].shape))} structs; got {len(value)}."
                )
            for n, each in enumerate(value):
                made[own][n] = filled(within, member._replace(name=f"{member.name}[{n}]"), each, arrays)
        elif not member.pointer:
            put(within, made, own, array.numpy() if isinstance(array, Array) else value)
    return made


def fields(members: tuple) -> dict[str, tuple]:
    """The members that have names, by these: type, declarator, and the members of that type."""
    named = [each for each in members if each[0] not in ("union", "alignas")]
    return {next(iter(re.findall(r"[A-Za-z_]\w*", each[1])), "?"): each for each in named}


def tensors(value: Any) -> Iterator[Any]:
    """The tensors to which a struct, or an array of structs, points."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(each)
    elif hasattr(value, "written_by"):
        yield value


def put(place: str, host: np.ndarray, member: str, value: Any) -> None:
    """Set a member of a struct, or of all structs of an array. Raises TypeError where the value does not fit."""
    kind, given = host.dtype[member], np.asarray(value)
    try:
        with np.errstate(invalid="ignore"):
            same = kind.base.kind not in "biu" or (given.astype(kind.base) == given).all()
        if same and given.dtype != object:
            host[member] = given
            return
    except (TypeError, ValueError):
        pass
    several = f"{' x '.join(map(str, kind.shape))} numbers of {kind.base}" if kind.shape else _words(kind)
    raise TypeError(f"{place}: {short(value)} does not fit into {several}.")


def array_of(place: str, param: Param, elements: Sequence[Mapping[str, Any]], arrays: list[tuple[str, Any]]) -> Array:
    """An array of structs that hold pointers, on the device of the arrays to which they point; these join `arrays`.

    Numbers that a kernel writes into it are not read back. Raises TypeError.
    """
    if not elements or not all(isinstance(each, Mapping) for each in elements):
        raise TypeError(f"{place} takes a list with the members of each struct, [{{'x': tensor, 'n': 3}}, ...].")
    known = len(arrays)
    host = np.zeros(len(elements), layout(param.type, param.members)[0])
    for n, each in enumerate(elements):
        own = param._replace(name=f"{param.name}[{n}]")
        host[n] = filled(f"{place}: {own.name}", own, each, arrays)
    if len(arrays) == known:
        raise TypeError(f"{place}: none of these structs points to a tensor; give an array of {_words(host.dtype)}.")
    return Array.upload(arrays[known][1].device, host)


def holds_pointers(members: tuple) -> bool:
    return any(declarator.startswith("*") or holds_pointers(inner) for _, declarator, inner in members)


def addresses(members: tuple, host: np.ndarray) -> Iterator[np.ndarray]:
    """The pointers in an array of structs, as arrays of their addresses."""
    for name, (_, declarator, inner) in fields(members).items():
        yield from (host[name],) if declarator.startswith("*") else addresses(inner, host[name])


def is_value(param: Param) -> bool:
    """True for a struct and for a vector such as float3."""
    return bool(param.members) or _vector(param.type) is not None


def value_layout(param: Param) -> tuple[np.dtype, int]:
    """The dtype and the alignment of a struct or of a vector."""
    return layout(param.type, param.members) if param.members else _element(param.type, param.type)


@cache
def _vector(kind: str) -> int | None:
    """The number of a vector's elements; None for another type."""
    _, lanes = ELEMENTS.get(plain(kind), (None, 1))
    return lanes if lanes > 1 else None
