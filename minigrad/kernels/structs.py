"""Structs of the reader's own as parameters: their layout in C, and NumPy's structured dtypes checked against it."""

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of, is_bfloat16
from minigrad.errors import LaunchError, short, warn
from minigrad.kernels.types import ELEMENTS, plain
from minigrad.members import MARKS, defaults, fields, number
from minigrad.scan import split
from minigrad.source import Param

ADDRESS = np.dtype(np.uint64)
BYTES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
WIDEST = 8  # bytes of ctypes' most aligned type
# The types of a kernel's parameters in C++, and those to which they point, in names that no macro of a file has.
_AT = (
    "namespace minigrad_layout { template <class minigrad_T> struct minigrad_of { using minigrad_type = minigrad_T; }; "
    "template <class minigrad_T> struct minigrad_of<minigrad_T*> { using minigrad_type = minigrad_T; }; "
    "template <int minigrad_n, class minigrad_F> struct minigrad_at; "
    "template <class minigrad_A, class... minigrad_P> "
    "struct minigrad_at<0, void(minigrad_A, minigrad_P...)> : minigrad_of<minigrad_A> {}; "
    "template <int minigrad_n, class minigrad_A, class... minigrad_P> "
    "struct minigrad_at<minigrad_n, void(minigrad_A, minigrad_P...)> "
    ": minigrad_at<minigrad_n - 1, void(minigrad_P...)> {}; }"
)


class Placed(NamedTuple):
    """The types and the offsets of a struct's members by their names, where the last one ends, and the alignment."""

    members: dict[str, tuple[Any, int]]
    end: int
    align: int

    @property
    def size(self) -> int:
        return -(-max(self.end, 1) // self.align) * self.align


# What to do about a member that is not read, by a pattern in its declaration; the first counts.
_WAYS = (
    (r"^two structs", "Give one of them another name."),
    (r"^packed", "Without #pragma pack and attributes it is; or give an array of each member."),
    (r"\bvirtual\b", "The host's tables of virtual functions and bases are not on the GPU: write the struct without."),
    (r"(?<!:):(?!:)", "No dtype of NumPy has bit-fields: make it a whole number, and take its bits by shifts."),
    (r"[*&(]", "Pointers in a struct lead to numbers or structs: give what it leads to as a parameter of its own."),
    ("", "Members are numbers, vectors, structs, pointers to these, and arrays whose extents are numbers, with alignas "
     "ahead of them: give what it holds as a parameter of its own."),
)  # fmt: skip


@cache
def layout(struct: str, members: tuple) -> tuple[np.dtype, int]:
    """The dtype of a struct, padded as C does, and its alignment. Raises LaunchError for a member that is not read."""
    placed = _placed(struct, members)
    formats, offsets = [kind for kind, _ in placed.members.values()], [at for _, at in placed.members.values()]
    own = {"names": list(placed.members), "formats": formats, "offsets": offsets, "itemsize": placed.size}
    return np.dtype(own), placed.align  # type: ignore[call-overload]


@cache
def _placed(struct: str, members: tuple) -> Placed:
    """The members of a base, and of a union without a name, are the struct's own."""
    found: dict[str, tuple[Any, int]] = {}
    end, align, at_least = 0, 1, 1
    union = any(kind == "union" for kind, _, _ in members)
    for kind, declarator, inner in members:
        if kind in MARKS:
            at_least = int(declarator) if kind == "alignas" else at_least
            align = max(align, at_least)
            continue
        name, *extents = re.findall(r"\w+", declarator) or [""]
        if kind == "?" or not all(extent.isdigit() for extent in extents) or not (name or inner):
            raise _unread(struct, declarator if kind == "?" else f"{kind} {declarator}".strip())
        pointer = declarator.startswith("*")
        own = _placed(kind, inner) if inner and not pointer else Placed({}, 0, 8)
        if pointer:
            dtype, size = ADDRESS, 8
        elif name:
            dtype, its = layout(kind, inner) if inner else _element(struct, kind, declarator)
            size, own = dtype.itemsize, own._replace(align=its)
        else:
            base = "{" not in kind
            open_end = base and ("open", "", ()) in inner
            size = 0 if base and not own.members else own.end if open_end else own.size
        offset = 0 if union else -(-end // max(own.align, at_least)) * max(own.align, at_least)
        align, at_least = max(align, own.align), 1
        end = max(end, offset + size * prod(map(int, extents)))
        if name:
            shape = tuple(map(int, extents))
            found[name] = ((dtype, shape) if shape else dtype, offset)
        else:
            found |= {each: (its, offset + at) for each, (its, at) in own.members.items()}
    return Placed(found, end, align)


def _element(struct: str, kind: str, declarator: str = "") -> tuple[np.dtype, int]:
    """The dtype and the alignment of a number or a vector."""
    if plain(kind) == "bfloat16":
        return dtype_of("bfloat16"), 2
    if (found := ELEMENTS.get(plain(kind))) is None:
        raise _unread(struct, f"{kind} {declarator}".strip())
    dtype, lanes = found
    align = min(dtype.itemsize * (lanes & -lanes), 16)
    return (np.dtype((dtype, (lanes,))), align) if lanes > 1 else (dtype, align)


def _unread(struct: str, member: str) -> LaunchError:
    """member: its declaration."""
    kind = member.partition(" ")[0]
    said = re.sub(r"\s*\bminigrad_align_\w+|\s+", " ", member).strip()
    if kind in ("real", "wide"):
        return LaunchError(
            f"struct {struct} has a member of type {kind}, {said!r}, which only a launch defines; give it a type or a "
            "macro of your own."
        )
    way = next(words for pattern, words in _WAYS if re.search(pattern, said))
    return LaunchError(f"struct {struct}: the layout of {said!r} is not read here. {way}")


def assertions(kernel: str, params: Iterable[Param]) -> str:
    """C++ that compiles only where the compiler places a parameter's members as they are read here.

    It stands behind the kernel, whose type gives those of its parameters, whatever their namespaces are.
    """
    said = []
    for n, param in enumerate(params):
        try:
            places = [*_places(param.type, param.members)]
            size = layout(param.type, param.members)[0].itemsize
        except LaunchError:
            continue  # the launch says so
        kind = f"minigrad_layout::minigrad_at<{n}, decltype({kernel})>::minigrad_type"
        checks = [f"sizeof({kind}) == {size}"] if param.members else []
        for name, offset, size in places:
            checks += [f"__builtin_offsetof({kind}, {name}) == {offset}", f"sizeof((({kind}*)0)->{name}) == {size}"]
        words = f"struct {param.type}: the compiler places its members otherwise than minigrad reads them"
        said += [f'static_assert({" && ".join(checks)}, "{words}");'] * bool(checks)
    return f' extern "C++" {{ {_AT} }} {" ".join(said)}' if said else ""


def _places(struct: str, members: tuple, path: str = "", start: int = 0) -> Iterator[tuple[str, int, int]]:
    """The members that a kernel may name, those within others too, each with its offset and its bytes."""
    placed, own = _placed(struct, members), fields(members)
    for name, (dtype, offset) in placed.members.items() if not is_private(members, within=False) else ():
        kind, declarator, inner = own[name]
        yield path + name, start + offset, np.dtype(dtype).itemsize
        if inner and not declarator.startswith("*"):
            first = "[0]" * declarator.count("[")
            yield from _places(kind, inner, f"{path}{name}{first}.", start + offset)


def is_private(members: tuple, within: bool = True) -> bool:
    """True where a struct has members that are private or protected; within: or a struct among its members has."""
    inner = (each for _, name, each in members if within or not name)  # those of a base are its own
    return any(kind == "private" for kind, _, _ in members) or any(is_private(each, within) for each in inner)


def check(place: str, param: Param, dtype: np.dtype) -> None:
    """Raise TypeError where an array's dtype is not that of the struct, with the dtype that is."""
    pointers = (name for name, (_, said, _) in fields(param.members).items() if said.startswith("*"))
    if name := next(pointers, ""):
        raise LaunchError(
            f"{place}: {param.type} holds the pointer {name}; give a list with the members of each element, "
            f"[{{{name!r}: tensor, ...}}, ...]."
        )
    wanted, _ = layout(param.type, param.members)
    if wanted == dtype or _alike(wanted, dtype):
        return
    raise TypeError(f"{place}: got {in_words(dtype)}, which is not {param.type}; that is {in_words(wanted)}.")


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


def in_words(dtype: np.dtype) -> str:
    """The dtype as one writes it: with align=True, where that gives the padding."""
    if not dtype.names:
        return str(dtype)
    if _alike(dtype, _aligned(dtype)):
        return f"np.dtype({_text(dtype, True)}, align=True)"
    formats = ", ".join(_text(dtype[name]) for name in dtype.names)
    offsets = [dtype.fields[name][1] for name in dtype.names]  # type: ignore[index]
    return (
        f"np.dtype({{'names': {[*dtype.names]}, 'formats': [{formats}], 'offsets': {offsets}, "
        f"'itemsize': {dtype.itemsize}}})"
    )


def _text(dtype: np.dtype, aligned: bool = False) -> str:
    """A member's dtype; aligned: within one with align=True."""
    if dtype.subdtype:
        return f"({_text(dtype.base, aligned)}, {dtype.shape})"
    if not dtype.names:
        return repr(dtype.str.lstrip("<"))
    if not aligned:
        return in_words(dtype)
    return f"[{', '.join(f'({name!r}, {_text(dtype[name], True)})' for name in dtype.names)}]"


def _aligned(dtype: np.dtype) -> np.dtype:
    """The same members as align=True places them."""
    if dtype.subdtype:
        return np.dtype((_aligned(dtype.base), dtype.shape))
    return np.dtype([(name, _aligned(dtype[name])) for name in dtype.names], align=True) if dtype.names else dtype


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
        host = filled(place, param, value, arrays) if isinstance(value, Mapping) else value
        if not isinstance(host, np.ndarray | np.void) or host.ndim or host.dtype.names is None:
            record = f", or a record of {in_words(dtype)}"
            way = ", with a tensor for a pointer" if holds_pointers(param.members) else record
            first = next(iter(fields(param.members)))
            raise TypeError(f"{place} takes one {param.type}; give its members, {{'{first}': ...}}{way}.")
        if host is value:
            check(place, param, host.dtype)
    else:
        host = np.asarray(value)
        if host.shape != dtype.shape or host.dtype.kind not in "iuf":
            raise TypeError(f"{place} takes {dtype.shape[0]} numbers, e.g. {(0,) * dtype.shape[0]}.")
        host = host.astype(dtype.base)
    return host.tobytes() if align > WIDEST else memory(param).from_buffer_copy(host.tobytes())


def filled(place: str, param: Param, values: Mapping[str, Any], arrays: list[tuple[str, Any]]) -> np.ndarray:
    """A struct of these members; missing ones have the values that the text gives them, or 0. Raises TypeError."""
    made = np.zeros((), layout(param.type, param.members)[0])
    known = fields(param.members)
    _set_defaults(place, param, made, values)
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
                raise TypeError(f"{within} is {in_words(wanted)}; got {in_words(array.dtype)}.")
            made[own] = array.address
            arrays.append((member.name, array))
        elif isinstance(value, Mapping) and inner:
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
    if left := list(_unset(param, made.dtype, values)):
        names = ", ".join(f"{param.name}.{own}" for own in left)
        warn(f"nobody sets {names}, so {'they are' if len(left) > 1 else 'it is'} 0.")
    return made


def _unset(param: Param, dtype: np.dtype, given: Iterable[str]) -> Iterator[str]:
    """The numbers of a struct to which neither these members nor the text gives a value; a union has one for all."""
    said = defaults(param.members)
    places = {name: (at, at + kind.itemsize) for name, (kind, at, *_) in (dtype.fields or {}).items()}
    taken = [places[name] for name in given]
    for name, (_, declarator, inner) in fields(param.members).items():
        own = not declarator.startswith("*") and name not in said and not defaults(inner)
        if own and all(places[name][1] <= a or b <= places[name][0] for a, b in taken):
            yield name


def _set_defaults(place: str, param: Param, made: np.ndarray, given: Iterable[str] = ()) -> None:
    """Members of which none is given get the text's values. Raises TypeError for a value that is no number there."""
    said = defaults(param.members)
    for name, (kind, declarator, inner) in fields(param.members).items():
        text = said.get(name)
        if name in given:
            continue
        if inner and not declarator.startswith("*") and text in (None, "{}", f"{kind}()", f"{kind}{{}}"):
            flat = made[name].reshape(-1)
            for n in range(flat.size):
                member = Param(name, kind, False, False, inner)
                _set_defaults(f"{place}: its member {name}", member, flat[n : n + 1].reshape(()))
            continue
        if text is None:
            continue
        numbers: Any = [number(each) for each in split(text.strip("{} ")) if each]
        if not text or None in numbers or (inner and numbers) or made[name].size < len(numbers):
            by = "" if re.search(r"'|::\d", text) else f", {name} = {text}" if text else ", in a constructor"
            raise TypeError(f"{place}: {param.type} gives {name} a value of its own{by}; give one here.")
        base = made.dtype[name].base
        if base.kind in "iu":  # as C++ converts: -1 is the largest unsigned number
            numbers = np.array([int(each) % 256**base.itemsize for each in numbers], f"u{base.itemsize}").view(base)
        made[name].reshape(-1)[: len(numbers)] = numbers  # an array's other elements are 0


def tensors(value: Any) -> Iterator[Any]:
    """The tensors to which a struct, or an array of structs, points."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(each)
    elif hasattr(value, "written_by"):
        yield value


def put(place: str, host: np.ndarray, member: str, value: Any) -> None:
    """Set a member of a struct, or of all structs of an array. Raises TypeError where the value does not fit."""
    kind, given, shape = host[member].dtype, np.asarray(value), host[member].shape[host.ndim :]  # of all axes
    try:
        with np.errstate(invalid="ignore"):
            same = kind.kind not in "biu" or (given.astype(kind) == given).all()
        if same and given.dtype != object and given.shape[given.ndim - len(shape) :] == shape:
            host[member] = given
            return
    except (TypeError, ValueError):
        pass
    several = f"{' x '.join(map(str, shape))} numbers of {kind}" if shape else in_words(kind)
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
        raise TypeError(f"{place}: none of these structs points to a tensor; give an array of {in_words(host.dtype)}.")
    return Array.upload(arrays[known][1].device, host)


def holds_pointers(members: tuple) -> bool:
    """True also where a member is not read: it may be one."""
    return any(kind == "?" or said.startswith("*") or holds_pointers(inner) for kind, said, inner in members)


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
