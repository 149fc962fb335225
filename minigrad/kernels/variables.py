"""The __constant__ and __device__ variables of a text, read as the members of a struct are."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from minigrad.devices.dtypes import is_bfloat16
from minigrad.devices.unit import headers
from minigrad.errors import short
from minigrad.kernels import structs
from minigrad.kernels.types import BFLOATS, ELEMENTS, plain
from minigrad.members import defaults, fields
from minigrad.scan import ATTRIBUTE, Param, items, without_directives
from minigrad.source import Source

DEVICE = ("__constant__", "__device__", "__managed__")
_QUALIFIER = re.compile(rf"\b(?:{'|'.join(DEVICE)}|static|extern|inline|const|constexpr|volatile)\b")

_NAMED = re.compile(r"(\w+)\s*(?:\[[^][]*\]\s*)*[=;,{]")  # what a declaration names


def variables(source: Source, words: Collection[str] = DEVICE) -> tuple:
    """The variables that have one of these words, as members; a const one is among them as ("const", name, ())."""
    found: list[tuple] = []
    macros = source.standing_for(words)
    for text in (*source.chain, *headers(source)):
        for item in items(text.code):
            if macros & {*re.findall(r"\w+", text.code[item.start : item.body])}:
                found += _declared(source, without_directives(text.code[item.start : item.stop]))
    return tuple(found)


def _declared(source: Source, text: str) -> list[tuple]:
    """The variables of an item; none of a function or a template."""
    text = ATTRIBUTE.sub(" ", text)
    said = source.expanded(text, _NAMED.findall(text))
    if re.match(r"\s*template\b", said) or "(" in re.split(r"[={;\[]", said)[0]:
        return []
    made = source.struct_members(f"struct minigrad_all {{ {_QUALIFIER.sub(' ', said)} }};", "minigrad_all", ())
    fixed = [name for name, (_, own, _) in fields(made).items() if not own.startswith("*")]
    return [*made, *(("const", name, ()) for name in fixed if re.search(r"\bconst(?:expr)?\b", said))]


def unset(source: Source, kernel: str) -> list[str]:
    """The __constant__ variables to which a text gives no value, and which it uses outside of its other kernels."""
    found = variables(source, {"__constant__"})
    given = {*defaults(found), *(name for kind, name, _ in found if kind == "const")}
    names = {name: inner for name, (_, _, inner) in _fields(found).items() if name not in given and not defaults(inner)}
    if not names:
        return []  # and no other kernel of the file needs to be read
    code = source.code
    for other in (each for name, each in source.kernels.items() if name != kernel):
        code = code[: other.start] + " " * (other.stop - other.start) + code[other.stop :]
    return [name for name in names if len(re.findall(rf"\b{name}\b", code)) > 1]


def _fields(found: tuple) -> dict[str, tuple]:
    return fields(tuple(each for each in found if each[0] != "const"))


def converted(source: Source, name: str, value: Any) -> np.ndarray:
    """A value for a variable, as the bytes of its type. Raises ValueError, and TypeError for another struct."""
    found = variables(source)
    if name not in (known := _fields(found)):
        raise ValueError(f"{source.name} has no __constant__ or __device__ variable {name}.")
    kind, declarator, inner = known[name]
    param = Param(name, kind, False, False, inner)
    if ("const", name, ()) in found:
        raise ValueError(f"{name} is const: it keeps the value that the text gives it.")
    if declarator.startswith("*") or structs.holds_pointers(inner):
        raise ValueError(f"{name} holds a pointer: give the kernel what that leads to as a parameter.")
    if inner and isinstance(value, Mapping):
        return structs.filled(f"{source.name}: {name}", param, value, [])
    host = np.array(value.numpy() if hasattr(value, "numpy") else value)
    if host.dtype.hasobject:
        raise ValueError(f"{name} takes a number, an array, or for a struct a record of NumPy; got {short(value)}.")
    if inner:
        structs.check(f"{source.name}: {name}", param, host.dtype)
        return host
    dtype = ELEMENTS.get(plain(kind), (None, 1))[0]
    if dtype is None and not (plain(kind) in BFLOATS and is_bfloat16(host.dtype)):
        raise ValueError(f"{name} is {kind}, of which the layout is not read here: give it a value in the text.")
    if dtype is not None and host.dtype != dtype:
        with np.errstate(all="ignore"):
            same = host.dtype.kind in "biuf" and (dtype.kind == "f" or (host.astype(dtype) == host).all())
        if not same:
            raise ValueError(f"{name} is {kind}; {short(value)} does not fit.")
        host = host.astype(dtype)
    return host
