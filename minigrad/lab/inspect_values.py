"""Values of a kernel's parameters from the words of a command line: n=1000, x=float32:1000:randn, p.dt=0.1."""

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.dtypes import dtype_of
from minigrad.kernels import structs
from minigrad.kernels.extents import most_threads
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.types import BFLOATS, ELEMENTS, plain
from minigrad.lab.undefined import undefined
from minigrad.members import extents, fields
from minigrad.scan import blank
from minigrad.source import Param

FILLS = ("zeros", "ones", "range", "randn", "rand", "empty")
WORDS = {"null": None, "true": True, "false": False}


class Values:
    """The values of parameters by their names; the members of a struct have dotted names. launch: its grid and block.

    Raises ValueError for a name that no parameter has, for a parameter or an extent of the launch without a value, and
    for words that do not fit.
    """

    def __init__(self, kernel: Kernel, launch: Mapping[str, tuple[int, ...]], given: Mapping[str, str], seed: int):
        self.given, self.rng = given, np.random.default_rng(seed)
        heads = {name.partition(".")[0]: name for name in given}
        numbers = {own: value for own, _, value in kernel.source.template_values}
        params = [param._replace(type=extents(param.type, numbers)) for param in kernel.signature.params]
        self.params = params  # with the arguments of the kernel's template in their types
        names = [param.name for param in params]
        if unknown := [name for name in heads if name not in names]:
            raise ValueError(f"{kernel.name} has no parameter {unknown[0]}; it has {', '.join(names) or 'none'}.")
        planar = re.search(r"\bthreadIdx\s*\.\s*y\b", blank(kernel.text))
        most = min(256, most_threads(kernel.source, kernel.name, tuple(kernel.defines.items())) or 256)
        plane = {"grid": (2, 2), "block": (min(most, 16), max(most // 16, 1))}
        usual = plane if planar else {"grid": (4,), "block": (most,)}
        missing = [f"--{name} {','.join(map(str, extent))}" for name, extent in usual.items() if name not in launch]
        sizes = guessed(kernel, prod(n for extent in {**usual, **launch}.values() for n in extent))
        missing += [example(param, sizes=sizes) for param in params if param.name not in heads]
        if missing:
            lines, guess = ", ".join(map(str, params)), " The sizes are guesses: set those that your kernel is for."
            raise ValueError(f"{kernel.name} takes ({lines}); give {' '.join(missing)}.{guess}")

    def of(self, param: Param) -> Any:
        """The value of a parameter, or of a struct's member, whose name has the struct's name and a dot ahead."""
        text, inner = self.given.get(param.name), [name for name in self.given if name.startswith(f"{param.name}.")]
        if inner and not param.members:
            raise ValueError(f"--arg {inner[0]}: {param} has no members; give {example(param)}.")
        if param.pointer:
            return self._array(param, text)
        if param.members and text is None:
            own = (each for each in members(param).values() if self._is_given(each))
            self._check_members(param, inner)
            return {each.name.rpartition(".")[2]: self.of(each) for each in own}
        if param.members and not (text or "").endswith(".npy"):
            raise ValueError(f"--arg {param.name}={text}: {param} is a struct; give {example(param)}.")
        wanted = structs.value_layout(param)[0] if structs.is_value(param) else _dtype(param)
        if wanted is not None and "[" in param.type:
            wanted = np.dtype((wanted, tuple(map(int, shape_of(param)))))
        return self._by_value(param, text or "", wanted)

    def of_constant(self, name: str, text: str) -> Any:
        """The value of a __constant__ or __device__ variable: a number, several, or an array."""
        if (found := _numbers(text)) != []:
            return found
        if text.endswith(".npy"):
            return _load(f"--constant {name}", text)
        return self._filled(Param(name, "float", True, True), f"--constant {name}={text}", text, None)

    def _is_given(self, param: Param) -> bool:
        return any(name == param.name or name.startswith(f"{param.name}.") for name in self.given)

    def _array(self, param: Param, text: str | None) -> np.ndarray | None:
        """The array for a pointer, with the members of its structs that have values of their own."""
        where = f"--arg {param.name}={text}"
        if text is None:
            raise ValueError(f"{param} is an array of structs; give {example(param)} as well.")
        if text == "null":
            return None
        wanted = _dtype(param)  # or why its layout is not read
        if structs.holds_pointers(param.members):
            raise ValueError(
                f"{where}: {param.type} holds pointers; only mg.inspect in Python takes an array of these."
            )
        made = _load(f"--arg {param.name}", text) if text.endswith(".npy") else self._filled(param, where, text, wanted)
        if wanted is not None and made.dtype != wanted and not made.dtype.names:
            what = f"an array of {param.type}" if param.members else wanted
            way, (_, colon, rest) = example(param), text.partition(":")
            if colon and not param.members:
                rest = rest if wanted.kind in "iu" else re.sub(r":\d+$", "", rest)  # rand:64 is of whole numbers
                way = f"{way.partition(':')[0]}:{rest}"
            raise ValueError(f"{where}: {param} is {what}; got {made.dtype}; give {way}.")
        for name in (name for name in self.given if name.startswith(f"{param.name}.")):
            self._set_member(made, param, name)
        return made

    def _set_member(self, made: np.ndarray, param: Param, name: str) -> None:
        """Set a member of all structs of an array."""
        self._check_members(param, [name])
        own, place = next(each for each in members(param).values() if f"{name}.".startswith(f"{each.name}.")), made
        last = own.name.rpartition(".")[2]
        if own.members and own.name == name:
            raise ValueError(f"--arg {name}: {own} is a struct; give {example(own)}.")
        if own.members:
            return self._set_member(place[last], own, name)
        value = self._by_value(own, self.given[name], np.dtype((place[last].dtype, place[last].shape)))
        structs.put(f"--arg {name}={self.given[name]}", place, last, value)

    def _by_value(self, param: Param, text: str, wanted: np.dtype | None) -> Any:
        """A number, several for a vector or an array in a struct, or such an array as DTYPE:SHAPE:FILL or FILL."""
        if (found := _numbers(text)) != []:
            shape, several = tuple(map(int, shape_of(param))), found if isinstance(found, list) else [found]
            return np.array(several, object).reshape(shape).tolist() if shape and len(several) == prod(shape) else found
        where, array = f"--arg {param.name}={text}", wanted if wanted is not None and wanted.shape else None
        if array is not None and text in FILLS:
            return self._fill(text, array.shape, array.base)
        if text.endswith(".npy"):
            return _load(f"--arg {param.name}", text)
        if array is not None and ":" in text:
            return self._filled(param, where, text, None)
        raise ValueError(f"{where}: {param} is a number; give {example(param)}.")

    def _check_members(self, param: Param, names: list[str]) -> None:
        known = members(param)
        for name in names:
            head = ".".join(name.split(".")[: param.name.count(".") + 2])
            if head not in known:
                listed = ", ".join(each.rpartition(".")[2] for each in known)
                raise ValueError(
                    f"--arg {name}: {param.type} has no member {head.rpartition('.')[2]}; it has {listed}."
                )

    def _filled(self, param: Param, where: str, text: str, wanted: np.dtype | None) -> np.ndarray:
        """An array from DTYPE:SHAPE:FILL."""
        word, _, rest = text.partition(":")
        shape, _, fill = rest.partition(":")
        try:
            dtype = wanted if word == "struct" and param.members and wanted is not None else dtype_of(word)
            extents = tuple(int(each) for each in re.split("[x,]", shape))
            if min(extents) < 0 or dtype.kind not in "biufV":
                raise ValueError
        except (TypeError, ValueError):
            raise ValueError(
                f"{where} is no array and no .npy file; write {example(param, where.split()[0])}, with the dtype, the "
                f"shape as 16x16, and {', '.join(FILLS)}."
            ) from None
        if fill not in ("", *FILLS) and not (dtype.kind in "iu" and re.fullmatch("rand:[1-9][0-9]*", fill)):
            raise ValueError(f"{where}: {fill} is none of {', '.join(FILLS)}, and rand:64 for whole numbers below 64.")
        return self._fill(fill or "zeros", extents, dtype)

    def _fill(self, fill: str, extents: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array of structs is filled member by member."""
        if fill == "empty":
            return undefined(extents, dtype)
        if dtype.names:
            made = np.zeros(extents, dtype)
            for name in dtype.names:
                made[name] = self._fill(fill, (*extents, *dtype[name].shape), dtype[name].base)
            return made
        if fill == "range":
            return np.arange(np.prod(extents)).astype(dtype).reshape(extents)
        if fill.startswith("rand"):
            if fill != "randn" and dtype.kind in "iu":  # numbers of elements, for arrays of indices
                below = int(fill.partition(":")[2] or np.prod(extents))
                return self.rng.integers(0, min(below, np.iinfo(dtype).max + 1), extents, dtype=dtype)
            draw = self.rng.standard_normal if fill == "randn" else self.rng.random
            return np.asarray(draw(extents)).astype(dtype)
        return (np.ones if fill == "ones" else np.zeros)(extents, dtype)


def members(param: Param) -> dict[str, Param]:
    """The members of a struct as parameters, by their dotted names."""
    found = {}
    for own, (kind, declarator, inner) in fields(param.members).items():
        extents, pointer = "".join(re.findall(r"\[.*", declarator)), declarator.startswith("*")
        found[f"{param.name}.{own}"] = Param(f"{param.name}.{own}", kind.rstrip(" *") + extents, pointer, False, inner)
    return found


def guessed(kernel: Kernel, threads: int) -> tuple[int, int]:
    """Sizes to begin with: the number of elements along an axis, and the length of arrays that such axes index.

    The arrays have the product of all whole numbers, as of rows and columns. A number that no condition of the kernel
    has is one of a kernel without a guard, for which it is that of its threads; others are not a multiple of a block.
    """
    axes = [each.name for param in kernel.signature.params for each in sizes_in(param)]
    names = "|".join(re.escape(name.rpartition(".")[2]) for name in axes)
    opened = r"\b(?:if\s*\(|while\s*\(|for\s*\([^;{]*\b(?:thread|block)Idx\b[^;{]*;)"
    guarded = axes and re.search(rf"{opened}[^;{{]*\b(?:{names})\b", blank(kernel.text))
    count = 1000 if guarded else threads
    side = max(int(count ** (1 / max(len(axes), 1)) + 1e-9), 1)
    return side, max(side ** len(axes), count * (not guarded))


def sizes_in(param: Param) -> list[Param]:
    """The whole numbers that a parameter passes by value."""
    if param.members and not param.pointer:
        return [each for own in members(param).values() for each in sizes_in(own)]
    dtype, lanes = ELEMENTS.get(plain(param.type), (np.dtype("float32"), 1))
    return [param] * (not param.pointer and lanes == 1 and dtype.kind in "iu" and dtype.itemsize > 2)


def shape_of(param: Param) -> list[str]:
    """The extents of an array in a struct, or of the rows to which a pointer points, and the numbers of a vector."""
    kind, *extents = param.type.replace("]", "").split("[")
    lanes = ELEMENTS.get(plain(kind), (None, 1))[1]
    return [*extents, *([str(lanes)] if lanes > 1 else [])]


def example(param: Param, option: str = "--arg", sizes: tuple[int, int] = (1000, 1000)) -> str:
    """The option that gives a parameter a value; for a struct one for each member."""
    kind, shape = param.type.partition("[")[0], shape_of(param)
    dtype, _ = ELEMENTS.get(plain(kind), (np.dtype("float32" if kind in ("real", "wide") else "uint8"), 1))
    if param.members:
        several = " ".join(example(each, sizes=sizes) for each in members(param).values())
        return f"--arg {param.name}=struct:{sizes[1]}:zeros" if param.pointer else several
    if param.pointer:
        name = "bfloat16" if plain(kind) in BFLOATS else dtype
        extents = "x".join([str(sizes[1]), *shape])
        return f"{option} {param.name}={name}:{extents}:{'randn' if dtype.kind == 'f' else 'zeros'}"
    number = "1.0" if dtype.kind == "f" else str(sizes[0]) if sizes_in(param) else "1"
    return f"--arg {param.name}={','.join([number] * prod(map(int, shape)))}"


def _dtype(param: Param) -> np.dtype | None:
    """The dtype of the arrays that a pointer takes; None where it takes several, or none is known here."""
    if param.members:
        return structs.layout(param.type, param.members)[0]
    kind = plain(param.type.partition("[")[0])
    return dtype_of("bfloat16") if kind in BFLOATS else ELEMENTS.get(kind, (None, 1))[0]


def _load(option: str, path: str) -> np.ndarray:
    try:
        return np.load(path)
    except (OSError, ValueError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no file of np.save"
        why = f"there is no file {path}" if isinstance(error, FileNotFoundError) else why
        raise ValueError(f"{option}={path}: {why}.") from None


def _numbers(text: str) -> Any:
    """A number, a word such as true, or several numbers; [] where the text is none of these."""
    if text in WORDS:
        return WORDS[text]
    try:
        found = [_number(word) for word in text.split(",")]
    except ValueError:
        return []
    return found if len(found) > 1 else found[0]


def _number(word: str) -> int | float:
    digits = word.strip().lstrip("+-")
    return int(word, 16) if digits.startswith("0x") else int(word) if digits.isdigit() else float(word)
