"""Types of CUDA C++ by their names, with NumPy's dtypes and ctypes' types."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

# By dtype: the C type, its ctypes type, and the vector types that pointers may have, with their number of elements.
_TYPES: dict[str, tuple[str, Any, dict[str, int]]] = {
    "float32": ("float", ctypes.c_float, {"float2": 2, "float3": 3, "float4": 4}),
    "float64": ("double", ctypes.c_double, {"double2": 2, "double3": 3, "double4": 4}),
    "int32": ("int", ctypes.c_int, {"int2": 2, "int3": 3, "int4": 4}),
    "uint32": ("unsigned", ctypes.c_uint, {"uint2": 2, "uint3": 3, "uint4": 4}),
    "int64": ("long long", ctypes.c_longlong, {"longlong2": 2, "longlong3": 3, "longlong4": 4}),
    "uint64": ("unsigned long long", ctypes.c_ulonglong, {"ulonglong2": 2, "ulonglong3": 3, "ulonglong4": 4}),
    "int8": ("signed char", ctypes.c_byte, {"char2": 2, "char3": 3, "char4": 4}),
    "uint8": ("unsigned char", ctypes.c_ubyte, {"uchar2": 2, "uchar3": 3, "uchar4": 4}),
    "int16": ("short", ctypes.c_short, {"short2": 2, "short3": 3, "short4": 4}),
    "uint16": ("unsigned short", ctypes.c_ushort, {"ushort2": 2, "ushort3": 3, "ushort4": 4}),
    "bool": ("bool", ctypes.c_bool, {}),
    "float16": ("half", ctypes.c_uint16, {"half2": 2}),
}
C_NAMES = {np.dtype(name): c for name, (c, *_) in _TYPES.items()}
SCALARS: dict[str, Any] = {c: kind for c, kind, _ in _TYPES.values()}
ELEMENTS = {
    name: (np.dtype(dtype), lanes)
    for dtype, (c, _, vectors) in _TYPES.items()
    for name, lanes in {c: 1, **vectors}.items()
}
BFLOATS = {"bfloat16": 1, "bfloat162": 2}  # of ml_dtypes, which need not be installed
_ALIASES = {
    "dim3": "uint3", "cuComplex": "float2",
    "u_int8_t": "unsigned char", "u_int16_t": "unsigned short", "u_int32_t": "unsigned",
    "u_int64_t": "unsigned long long", "uint1": "unsigned", "long1": "long",
    "ulong1": "unsigned long", "longlong1": "long long", "ulonglong1": "unsigned long long",
    **{f"{kind}{n}": f"{kind[:-4]}longlong{n}" for kind in ("long", "ulong") for n in (2, 3, 4)},
    **{f"{kind}1": kind for kind in ("float", "double", "int", "short")},
    "char1": "signed char", "uchar1": "unsigned char", "ushort1": "unsigned short",
    "cuFloatComplex": "float2", "cuDoubleComplex": "double2", "cufftReal": "float", "cufftDoubleReal": "double",
    "cufftComplex": "float2", "cufftDoubleComplex": "double2",
    "__half": "half", "__half2": "half2", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16",
    "__nv_bfloat162": "bfloat162", "nv_bfloat162": "bfloat162",
    "uint": "unsigned", "uchar": "unsigned char", "ushort": "unsigned short", "ulong": "unsigned long",
    "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long long", "ptrdiff_t": "long long",
    "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned", "uint64_t": "unsigned long long",
    "clock_t": "long", "layout_t": "int", "nvcuda::wmma::layout_t": "int",
    "ssize_t": "long long", "intptr_t": "long long", "size_t": "unsigned long long", "uintptr_t": "unsigned long long",
}  # fmt: skip

# What <type_traits> tells of the arguments of a template, by the name of each; a const is none of the type here.
_TRUE, _FALSE = (f"{{ static constexpr bool value = {value}; }};" for value in ("true", "false"))
_INTEGERS = (*(c for c in SCALARS if c not in ("float", "double", "half")), "size_t")
TRAITS = {
    "is_same": f"template <class A, class B> struct is_same {_FALSE} template <class A> struct is_same<A, A> {_TRUE}"
    "template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;",
    "conditional": "template <bool B, class T, class F> struct conditional { using type = T; };"
    "template <class T, class F> struct conditional<false, T, F> { using type = F; };"
    "template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;",
} | {
    name: f"template <class T> struct {name} {_FALSE}" + "".join(f"template <> struct {name}<{c}> {_TRUE}" for c in of)
    + f"template <class T> constexpr bool {name}_v = {name}<T>::value;"
    for name, of in (("is_floating_point", ("float", "double")), ("is_integral", _INTEGERS))
} | {
    name: f"template <class T> struct {name} {{ using type = T; }}; template <class T> using {name}_t = T;"
    for name in ("remove_const", "remove_cv", "remove_reference", "decay")
} | {
    "bool_constant": "template <bool B> struct bool_constant { static constexpr bool value = B; };",
    "integral_constant": "template <class T, T v> struct integral_constant { static constexpr T value = v; };",
}  # fmt: skip


@cache
def plain(name: str) -> str:
    """The one name here for a type of C++: `unsigned int` and `uint32_t` are `unsigned`, `long` has its 64 or 32 bits.

    `char` has a sign, as in CUDA on every host.
    """
    name = _ALIASES.get(" ".join(name.removeprefix("std::").split()), name)
    words = name.removeprefix("std::").split()
    if not words or not set(words) <= {"unsigned", "signed", "char", "short", "int", "long"}:
        return name
    enough = 1 if ctypes.sizeof(ctypes.c_long) == 8 else 2  # times `long` for 64 bits
    kind = next((each for each in ("char", "short") if each in words), "int")
    kind = "long long" if words.count("long") >= enough else kind
    sign = "unsigned" if "unsigned" in words else "signed" if kind == "char" else ""
    return sign if (sign, kind) == ("unsigned", "int") else f"{sign} {kind}".strip()
