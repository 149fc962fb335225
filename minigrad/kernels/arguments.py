"""Check a kernel's arguments against its signature and pack them in the layout of CUDA's parameter buffer."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Device
from minigrad.devices.dtypes import is_bfloat16, wide
from minigrad.devices.tensor_map import TensorMap
from minigrad.errors import LaunchError, short
from minigrad.kernels import structs
from minigrad.kernels.frame import Frame
from minigrad.kernels.types import BFLOATS, C_NAMES, ELEMENTS, SCALARS, plain
from minigrad.kernels.view import View
from minigrad.kernels.window import Window
from minigrad.scan import OWN_STRUCTS
from minigrad.source import Param

FLOAT32 = np.dtype(np.float32)
# Structs that the package's kernels take by value, by their name in CUDA C++.
STRUCTS: dict[str, type[ctypes.Structure]] = {"TensorMap": TensorMap, "View": View, "Window": Window, "Frame": Frame}
# What to do instead of passing a type by value, by how its name begins.
WAYS_OUT = {"bfloat16": " Its array type is for memory alone: write `wide` for a number."}
WAYS_OUT |= dict.fromkeys(
    ("cudaTexture", "cudaSurface", "CUtex", "CUsurf"),
    " Textures and surfaces run only on a GPU; read the array itself.",
)
WAYS_OUT["std::"] = " C++'s library is for the host: pass the address of the numbers, and how many they are."
WAYS_OUT[""] = " If it is a struct, put its text beside the kernel's; a reference is a pointer here."


class BoundArguments(NamedTuple):
    """Arguments ready for a launch, the device of the arrays, the dtype of `real`, and the output tensors."""

    arguments: Arguments
    device: Device | None
    real: np.dtype
    written: list[Any]


def bind(kernel: str, params: tuple[Param, ...], args: Sequence[Any]) -> BoundArguments:
    """Check count, kind, dtype and device of the arguments, and pack them. Raises TypeError or LaunchError."""
    if len(args) != len(params):
        names = ", ".join(param.name for param in params)
        view = next((f" {p.name} is a view: mg.view.broadcast(shape, to)." for p in params if p.type == "View"), "")
        raise LaunchError(f"{kernel} takes {len(params)} arguments ({names}); got {len(args)}.{view}")
    values = list(args)  # None stays: a null pointer, for an output that nobody needs
    arrays: list[tuple[str, Array]] = []
    behind: list[tuple[str, Array]] = []  # those to which structs point
    written: list[Any] = []
    real = _real(params, args)
    for i, (param, arg) in enumerate(zip(params, args, strict=True)):
        if param.pointer and arg is not None:
            several = isinstance(arg, list | tuple) and structs.holds_pointers(param.members)
            if several:
                array = structs.array_of(_place(kernel, i, param), param, arg, behind)
                written += structs.tensors(arg)
            else:
                array = _array(kernel, i, param, arg)
                _check_array(kernel, i, param, array, real)
            values[i] = array.address
            arrays.append((param.name, array))
            if not param.const and array is not arg and not several:
                written.append(arg)
    maps = []
    for i, (param, arg) in enumerate(zip(params, args, strict=True)):
        if not param.pointer:
            if _is_struct(param):
                values[i] = structs.by_value(_place(kernel, i, param), param, arg, behind)
                written += structs.tensors(arg) if isinstance(arg, Mapping) else []
            else:
                values[i] = _scalar(kernel, i, param, c_type(param.type, real), arg)
        if param.type == "TensorMap":
            arrays.append((param.name, arg.array))
            maps.append((i, arg))
    arrays += behind
    layout = _layout(params, real)
    for name, padding in layout.paddings.items():
        memory = bytes(padding) + values[int(name[1:])]
        values[int(name[1:])] = (ctypes.c_ubyte * len(memory)).from_buffer_copy(memory)
    packed = layout(*values)
    return BoundArguments(Arguments(packed, arrays, maps), _one_device(kernel, arrays), real, written)


def _is_struct(param: Param) -> bool:
    """True for a struct of the reader's, also where the package has one of its name, and for a vector by value."""
    ours = param.type in STRUCTS and not (param.members and param.type in OWN_STRUCTS)
    return structs.is_value(param) and not ours


def _real(params: tuple[Param, ...], args: Sequence[Any]) -> np.dtype:
    """The dtype of `real`: that of the first array of this type, else of `wide`, or float32 without one."""
    pairs = [(param.type, getattr(x, "array", x)) for param, x in zip(params, args, strict=True) if param.pointer]
    typed = (x for name in ("real", "wide") for kind, x in pairs if kind == name and isinstance(x, Array))
    return next((x.dtype for x in typed), FLOAT32)


def c_type(name: str, real: np.dtype) -> str:
    """A type of a parameter in C++: `real` is that of the arrays, `wide` that of arithmetic with their elements."""
    if name not in ("real", "wide"):
        return plain(name)
    return C_NAMES[wide(real)] if name == "wide" or not is_bfloat16(real) else "bfloat16"


def _array(kernel: str, i: int, param: Param, arg: Any) -> Array:
    """The array of an argument. Raises TypeError."""
    array = getattr(arg, "array", arg)
    if isinstance(array, Array):
        return array
    where = _place(kernel, i, param)
    if array is not arg:
        raise TypeError(f"{where} is on device 'numpy'; kernels run on sim and cuda: {param.name}.to('sim').")
    if isinstance(array, np.ndarray):
        raise TypeError(f"{where} is a NumPy array; put it on a device: mg.tensor({param.name}, device='sim').")
    way = f"mg.tensor({param.name}, device='sim')"
    if param.members:
        way = f"np.zeros(n, {structs.in_words(structs.layout(param.type, param.members)[0])})"
    elif not isinstance(arg, list | tuple):
        value, dtype = arg if isinstance(arg, Real) else 0, str(ELEMENTS.get(plain(param.type), (FLOAT32, 1))[0])
        way = f"np.full(n, {value!r}, {dtype!r})"
    raise TypeError(
        f"{where} is a pointer and takes an array, a tensor or NumPy's; got {short(arg)}. Make it one: {way}."
    )


def _check_array(kernel: str, i: int, param: Param, array: Array, real: np.dtype) -> None:
    """Raise TypeError or LaunchError where the array does not match the pointer's type."""
    if param.members:
        return structs.check(_place(kernel, i, param), param, array.dtype)
    kind = plain(re.sub(r"(?:\[[^][]*\])+$", "", param.type))  # a pointer to rows, `float (*x)[8]`
    if kind in BFLOATS and not is_bfloat16(array.dtype):
        raise TypeError(f"{_place(kernel, i, param)} takes bfloat16; got {array.dtype}. Use .astype('bfloat16').")
    own = {"real": (real, 1), "wide": (wide(real), 1), **{c: (array.dtype, n) for c, n in BFLOATS.items()}}
    dtype, lanes = own[kind] if kind in own else ELEMENTS.get(kind, (None, 1))
    if dtype is None and param.type != "void":
        raise TypeError(
            f"{_place(kernel, i, param)}: pointers to {param.type} are not known here; those to numbers, vectors such "
            "as float4, structs whose text is here, and void are."
        )
    if dtype is not None and array.dtype != dtype:
        raise TypeError(f"{_place(kernel, i, param)} is {dtype}; got {array.dtype}. Use .astype({str(dtype)!r}).")
    if lanes > 1 and (array.size % lanes or array.address % ((lanes & -lanes) * array.dtype.itemsize)):
        raise LaunchError(
            f"{_place(kernel, i, param)} holds {array.size} elements; {param.type} reads {lanes} at a time, "
            f"so give it a multiple of {lanes}."
        )


def _one_device(kernel: str, arrays: list[tuple[str, Array]]) -> Device | None:
    """The device of all arrays, or None without arrays. Raises LaunchError if there are several."""
    if not arrays:
        return None
    first, device = arrays[0][0], arrays[0][1].device
    for name, array in arrays:
        if array.device is not device:
            raise LaunchError(
                f"{kernel}: {first} is on {device.name}, {name} is on {array.device.name}; "
                f"move one: {name}.to({device.name!r})."
            )
    return device


def _scalar(kernel: str, i: int, param: Param, kind: str, arg: Any) -> Any:
    """The argument as a by-value parameter of the C type `kind`."""
    if type(arg) is int and kind == "int" and -(2**31) <= arg < 2**31:
        return arg  # the most common argument
    if isinstance(arg, STRUCTS.get(kind, ())):
        return arg
    if isinstance(arg, np.generic) or (isinstance(arg, np.ndarray) and arg.ndim == 0):
        arg = arg.item()
    if kind in ("float", "double", "half"):
        if isinstance(arg, int | float):
            return arg if kind != "half" else int(np.float16(arg).view(np.uint16))
        raise TypeError(f"{_place(kernel, i, param)} takes a number; got {type(arg).__name__}.")
    if kind not in SCALARS:
        way_out = next((words for start, words in WAYS_OUT.items() if kind.startswith(start)), "")
        raise TypeError(f"{_place(kernel, i, param)}: a parameter of type {kind} is not known here.{way_out}")
    if not isinstance(arg, int):
        way = " Divide by //, or give int(...)." if isinstance(arg, float) else ""
        raise TypeError(f"{_place(kernel, i, param)} takes a whole number; got {short(arg)}.{way}")
    if kind != "bool" and SCALARS[kind](arg).value != arg:
        raise LaunchError(f"{_place(kernel, i, param)}: {arg} does not fit into {kind}.")
    return arg


@cache
def _layout(params: tuple[Param, ...], real: np.dtype) -> Any:
    """A C struct with one field per parameter, in natural alignment as in CUDA.

    ctypes knows no alignment above 8: the field of such a parameter begins with bytes of padding, its `paddings`.
    """

    def field(param: Param) -> Any:
        if param.pointer:
            return ctypes.c_void_p
        if _is_struct(param):
            return structs.memory(param)
        kind = c_type(param.type, real)
        return SCALARS[kind] if kind in SCALARS else STRUCTS[kind]

    fields: list[tuple[str, Any]] = []
    paddings: dict[str, int] = {}
    for i, param in enumerate(params):
        align = structs.value_layout(param)[1] if not param.pointer and structs.is_value(param) else 0
        if align > structs.WIDEST:
            paddings[f"p{i}"] = padding = -_end(fields) % align
            fields.append((f"p{i}", ctypes.c_ubyte * (padding + structs.value_layout(param)[0].itemsize)))
        else:
            fields.append((f"p{i}", field(param)))
    return type("Packed", (ctypes.Structure,), {"_fields_": fields, "paddings": paddings})


def _end(fields: list[tuple[str, Any]]) -> int:
    """The offset behind the last of these fields."""
    made: Any = type("Packed", (ctypes.Structure,), {"_fields_": fields})
    last = getattr(made, fields[-1][0]) if fields else None
    return last.offset + last.size if last else 0


def _place(kernel: str, i: int, param: Param) -> str:
    return f"{kernel}: argument {i + 1} ({param})"
