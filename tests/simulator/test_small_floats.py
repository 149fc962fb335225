"""The functions of cuda_fp16.h and cuda_bf16.h against NumPy, with infinities, NaNs and numbers next to the limits."""

from bisect import bisect_left
from fractions import Fraction
from math import isfinite

import numpy as np
import pytest

import minigrad as mg

COUNT = 256
HEADERS = {"half": ("cuda_fp16.h", "__half"), "bfloat16": ("cuda_bf16.h", "__nv_bfloat16")}
ROUND = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}
INTEGERS = {
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
}
C_TYPES = {
    "short": "short", "ushort": "unsigned short", "int": "int", "uint": "unsigned",
    "ll": "long long", "ull": "unsigned long long",
}  # fmt: skip
COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNARY = ["sqrt", "rsqrt", "rcp", "sin", "cos", "tanh", "exp", "exp2", "exp10", "log", "log2", "log10"]
EXACT = ["floor", "ceil", "rint", "trunc"]
OTHER = {"rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x, "exp10": lambda x: 10.0**x}
AFTER = {
    "": lambda v: v, "rn": lambda v: v, "nan": lambda v: v,
    "sat": lambda v: np.where(np.isnan(v), 0, np.clip(v, 0, 1)),
    "relu": lambda v: np.where(np.isnan(v), v, np.maximum(v, 0)),
}  # fmt: skip
ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply}

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")


def dtype_of(kind):
    return np.dtype(np.float16) if kind == "half" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def numbers(kind, seed):
    """Small floats of all sizes; among them zeros, the smallest, the largest, infinities and NaNs."""
    rng, inf = np.random.default_rng(seed), 0x7C00 if kind == "half" else 0x7F80
    bits = rng.integers(0, 1 << 16, COUNT)
    bits[::3] = rng.normal(0, 3, COUNT)[::3].astype(dtype_of(kind)).view(np.uint16)
    special = [0, 1, inf - 1, inf, inf + 1, 0x7FFF]
    bits[:12] = rng.permutation([*special, *(each | 0x8000 for each in special)])
    return bits.astype(np.uint16).view(dtype_of(kind))


def launch(kind, calls, arrays, result, out, device):
    """The values of the calls for each thread; in them S stands for half or bfloat16, a and b for two numbers."""
    header, name = HEADERS[kind]
    params = "".join(f"const {c_type}* {each}, " for each, c_type, _ in arrays)
    body = "".join(f"    out[{i} * n + t] = {call.replace('@', kind)};\n" for i, call in enumerate(calls))
    text = f"""#include <{header}>
typedef {name} S;
typedef {name}2 S2;
__global__ void k({params}{result}* out, int n) {{
    int t = threadIdx.x;
{body}}}"""
    given = [mg.tensor(values, device=device) for *_, values in arrays]
    out = mg.tensor(np.zeros(len(calls) * COUNT, out), device=device)
    mg.kernel(text, "k")(*given, out, COUNT, grid=1, block=COUNT)
    return out.numpy().reshape(len(calls), COUNT)


def rounded_sum(a, b, dtype):
    """a + b, rounded once: by a float with an odd last bit where it is not the sum, which settles ties."""
    total = a + b
    part = total - a
    near = total.astype(np.float32)
    lost = np.where(total == near, (a - (total - part)) + (b - part), total - near)
    even = (near.view(np.int32) & 1 == 0) & np.isfinite(near) & (lost != 0)
    odd = np.where(even, np.nextafter(near, np.copysign(np.inf, lost).astype(np.float32)), near)
    return odd.astype(dtype).astype(np.float64)


def equal(seen, wanted, call, rtol=0.0):
    seen, wanted = (np.asarray(each).astype(np.float64) for each in (seen, wanted))
    np.testing.assert_allclose(seen, wanted, rtol=rtol, atol=0, err_msg=call)


@pytest.mark.parametrize("kind", HEADERS)
def test_arithmetic(kind, kernel_device):
    dtype, x, y = dtype_of(kind), numbers(kind, 0), numbers(kind, 1)
    a, b = x.astype(np.float64), y.astype(np.float64)
    calls = {}
    for name, function in ARITHMETIC.items():
        value = function(a, b).astype(dtype).astype(np.float64)
        for after in ("", "rn", "sat"):
            end = f"_{after}" if after else ""
            calls[f"__h{name}{end}(x[t], y[t])"] = calls[f"__h{name}2{end}(S2(x[t], x[t]), S2(y[t], y[t])).y"] = AFTER[
                after
            ](value)
    for name, function in {"min": np.fmin, "max": np.fmax}.items():
        calls[f"__h{name}(x[t], y[t])"] = function(a, b)
        calls[f"__h{name}2_nan(S2(x[t], x[t]), S2(y[t], y[t])).x"] = getattr(np, f"{name}imum")(a, b)
    value = rounded_sum(a * b, b, dtype)
    for after in ("", "sat", "relu"):
        end = f"_{after}" if after else ""
        calls[f"__hfma2{end}(S2(x[t], x[t]), S2(y[t], y[t]), S2(y[t], y[t])).y"] = AFTER[after](value)
    for name in EXACT:
        calls[f"h{name}(x[t])"] = calls[f"h2{name}(S2(x[t], x[t])).y"] = getattr(np, name)(a)
    calls |= {
        "__lowhigh2highlow(S2(x[t], y[t])).x": b,
        "__habs2(S2(x[t], y[t])).y": np.abs(b),
        "(-S2(x[t], y[t])).x": -a,
        "(+S2(x[t], y[t])).y": b,
        "+x[t] * S(1.0f)": a,
    }
    calls["__hisnan2(S2(x[t], y[t])).y"] = np.isnan(b)
    calls["__ushort_as_@(__@_as_ushort(x[t]))"] = a
    calls["__short_as_@(__@_as_short(x[t]))"] = a
    out = launch(kind, calls, [("x", "S", x), ("y", "S", y)], "S", dtype, kernel_device)
    for (call, wanted), seen in zip(calls.items(), out, strict=True):
        equal(seen, wanted, call)


@pytest.mark.parametrize("kind", HEADERS)
def test_functions(kind, kernel_device):
    dtype = dtype_of(kind)
    x = np.random.default_rng(0).uniform(0.01, 4, COUNT).astype(dtype)
    calls = {f"h2{name}(S2(x[t], x[t])).{part}": name for name in UNARY for part in "xy"}
    calls |= {f"h{name}(x[t])": name for name in UNARY}
    out = launch(kind, calls, [("x", "S", x)], "S", dtype, kernel_device)
    for (call, name), seen in zip(calls.items(), out, strict=True):
        wanted = OTHER.get(name, getattr(np, name, None))(x.astype(np.float64)).astype(dtype)
        bits = [each.view(np.int16).astype(int) for each in (seen, wanted)]
        near = np.abs(bits[0] - bits[1]) <= 1
        assert near.all(), call  # within one unit in the last place


@pytest.mark.parametrize("kind", HEADERS)
def test_comparisons(kind, kernel_device):
    x, y = numbers(kind, 0), numbers(kind, 1)
    y[::4] = x[::4]
    nan = np.isnan(x.astype("f4")) | np.isnan(y.astype("f4"))
    calls = {}
    for name, function in COMPARE.items():
        true = function(x.astype("f4"), y.astype("f4"))
        for end, holds in {"": true & ~nan, "u": true | nan}.items():
            same, other = f"__h{name}{end}", holds & holds[::-1]
            pairs = "S2(x[t], x[n - 1 - t]), S2(y[t], y[n - 1 - t])"
            calls |= {f"{same}(x[t], y[t])": holds, f"__hb{name}{end}2({pairs})": other}
            calls[f"{same}2_mask({pairs})"] = holds * 0xFFFF + holds[::-1] * 0xFFFF0000
            calls[f"(unsigned)__@2uint_rz({same}2({pairs}).y)"] = holds[::-1]
    out = launch(kind, calls, [("x", "S", x), ("y", "S", y)], "unsigned", np.uint32, kernel_device)
    for (call, wanted), seen in zip(calls.items(), out, strict=True):
        equal(seen, wanted, call)


@pytest.mark.parametrize("kind", HEADERS)
def test_to_an_integer(kind, kernel_device):
    """What lies outside its range becomes its end, NaN 0, and of 64 bits the highest bit."""
    x = numbers(kind, 2)
    calls = {f"__@2{name}_{mode}(x[t])": (name, mode) for name in C_TYPES for mode in ROUND}
    out = launch(kind, calls, [("x", "S", x)], "long long", np.int64, kernel_device)
    for (call, (name, mode)), seen in zip(calls.items(), out, strict=True):
        to = INTEGERS[name]
        ends = np.iinfo(to)
        for value, one in zip(x.astype(np.float64), seen.astype(to), strict=True):
            if np.isnan(value):
                wanted = (ends.min or 1 << 63) if ends.bits == 64 else 0
            else:
                wanted = int(ROUND[mode](np.clip(value, -1e20, 1e20)))
            assert int(one) == min(max(wanted, ends.min), ends.max), (call, value)


@pytest.mark.parametrize("kind", HEADERS)
def test_a_number_is_rounded_once_in_the_mode_of_the_name(kind, kernel_device):
    dtype, rng = dtype_of(kind), np.random.default_rng(4)
    whole = rng.integers(-(1 << 63), (1 << 63) - 1, COUNT, endpoint=True) >> rng.integers(0, 63, COUNT)
    x = (rng.normal(size=COUNT) * 10.0 ** rng.uniform(-8, 6, COUNT)).astype(np.float32)
    calls = [f"__{name}2@_{mode}(({c_type})whole[t])" for name, c_type in C_TYPES.items() for mode in ROUND]
    calls += [f"__float2@_{mode}(x[t])" for mode in ROUND]
    out = launch(kind, calls, [("whole", "long long", whole), ("x", "float", x)], "S", dtype, kernel_device)
    steps = np.arange(0x7C00 if kind == "half" else 0x7F80, dtype=np.uint16).view(dtype).astype(np.float64)
    for name, seen in zip([*C_TYPES, "float"], out.reshape(-1, len(ROUND), COUNT), strict=True):
        given = [float(v) for v in x] if name == "float" else [int(v) for v in whole.astype(INTEGERS[name])]
        check_directed(given, dict(zip(ROUND, seen, strict=True)), steps)


def check_directed(given, seen, steps):
    """Of the small floats on both sides of a number, each mode takes its own."""
    sides = [*(-steps[:0:-1]).tolist(), *steps.tolist()]  # Python's: it compares floats with integers exactly
    for at, value in enumerate(given):
        i = bisect_left(sides, value)
        above = sides[i] if i < len(sides) else np.inf
        below = above if above == value else sides[i - 1] if i else -np.inf
        found = {mode: float(values[at]) for mode, values in seen.items()}
        assert (found["rd"], found["ru"]) == (below, above), (value, found)
        assert found["rz"] == (below if value > 0 else above) and found["rn"] in (below, above), (value, found)
        if isfinite(below) and isfinite(above):
            nearer = (Fraction(value) - Fraction(below)) - (Fraction(above) - Fraction(value))
            assert nearer == 0 or found["rn"] == (below if nearer < 0 else above), (value, found)
