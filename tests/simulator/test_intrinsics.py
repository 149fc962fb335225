"""CUDA's intrinsics: arithmetic in four roundings, conversions, integers, stores with cache hints; on `sim` and a GPU."""

import math
import os
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from sim_kernels import filled

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.errors import KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import kernel
from minigrad.source import Source

ROUNDINGS = "rn", "rz", "ru", "rd"
OPERATIONS = {  # the arguments, and the exact result; of a root, its square
    "add": ("x, y", lambda x, y, z: x + y), "sub": ("x, y", lambda x, y, z: x - y),
    "mul": ("x, y", lambda x, y, z: x * y), "div": ("x, y", lambda x, y, z: x / y),
    "rcp": ("y", lambda x, y, z: 1 / y), "ma": ("x, y, z", lambda x, y, z: x * y + z), "sqrt": ("fabs(x)", None),
}  # fmt: skip
NAMES = {"f": {"ma": "__fmaf"}, "d": {"ma": "__fma"}}
CONVERSIONS = ("int", np.int32), ("uint", np.uint32), ("ll", np.int64), ("ull", np.uint64)


def arithmetic(letter, real):
    calls = [
        f"{NAMES[letter].get(name, f'__{letter}{name}')}_{rounding}({arguments})"
        for name, (arguments, _) in OPERATIONS.items()
        for rounding in ROUNDINGS
    ]
    body = "".join(f"    out[{i} * n + t] = {call};\n" for i, call in enumerate(calls))
    return f"""extern "C" __global__ void {real}s(const {real}* xs, const {real}* ys, const {real}* zs, {real}* out, int n) {{
    int t = threadIdx.x;
    {real} x = xs[t], y = ys[t], z = zs[t];
{body}}}
"""


def conversions():
    text = ""
    for name, _ in CONVERSIONS:
        full = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}[name]
        for source in ("float", "double"):
            body = "".join(f"    out[{i} * n + t] = __{source}2{name}_{r}(x[t]);\n" for i, r in enumerate(ROUNDINGS))
            head = f'extern "C" __global__ void {source}_to_{name}(const {source}* x, {full}* out, int n)'
            text += f"{head} {{\n    int t = threadIdx.x;\n{body}}}\n"
        body = "".join(f"    out[{i} * n + t] = __{name}2float_{r}(x[t]);\n" for i, r in enumerate(ROUNDINGS))
        text += f'extern "C" __global__ void from_{name}(const {full}* x, float* out, int n) {{\n    int t = threadIdx.x;\n{body}}}\n'
    body = "".join(f"    out[{i} * n + t] = __double2float_{r}(x[t]);\n" for i, r in enumerate(ROUNDINGS))
    head = 'extern "C" __global__ void narrowed(const double* x, float* out, int n)'
    return f"{text}{head} {{\n    int t = threadIdx.x;\n{body}}}\n"


INTEGERS = r"""
extern "C" __global__ void integers(const int* xs, const int* ys, const int* zs, int* out, int n) {
    int t = threadIdx.x, x = xs[t], y = ys[t], z = zs[t];
    unsigned u = x, v = y, w = z;
    int* at = out + t;
    auto put = [&](int value) { *at = value, at += n; };
    put(__umul24(u, v));
    put(__mul24(x, y));
    put(__sad(x, y, w));
    put(__usad(u, v, w));
    put(__byte_perm(u, v, w));
    put(__funnelshift_l(u, v, w));
    put(__funnelshift_lc(u, v, w));
    put(__funnelshift_r(u, v, w));
    put(__funnelshift_rc(u, v, w));
    put(__dp4a(x, y, z));
    put(__dp4a(u, v, w));
    put(__dp4a(*(const char4*)(xs + t), *(const char4*)(ys + t), z));
    put(__dp4a(*(const uchar4*)(xs + t), *(const uchar4*)(ys + t), w));
    put(__fns(u, t % 32, z % 40));
}
extern "C" __global__ void others(float* y, long long* when) {
    when[0] = clock64();
    y[0] = norm3df(2, 3, 6), y[1] = rnorm3df(2, 3, 6), y[2] = norm3df(3e38f, 0, 1e38f), y[3] = rnorm3df(INFINITY, NAN, 0);
    y[4] = norm4df(1, 1, 1, 1), y[5] = rnorm4df(1, 1, 1, 1), y[6] = norm3d(2, 3, 6), y[7] = rhypotf(3, 4);
    __stwt(y + 8, 8.0f), __stcg(y + 9, 9.0f), __stcs(y + 10, 10.0f), __stwb(y + 11, 11.0f);
    y[12] = __ldcg(y + 8) + __ldcs(y + 9) + __ldca(y + 10);
    when[1] = clock64();
}
"""
ENDLESS = """extern "C" __global__ void endless(float* y) {
    float sum = 0;
    while (sum >= 0) sum = __fadd_ru(__fadd_rd(sum, 1), -1);
    y[0] = sum;
}
"""
TEXT = arithmetic("f", "float") + arithmetic("d", "double") + conversions() + INTEGERS + ENDLESS
FILE = Source(TEXT, "intrinsics.cu")


def run(name, *inputs, rows, dtype, device):
    count = len(inputs[0])
    *given, out = (mg.tensor(each, device=device) for each in (*inputs, np.zeros(rows * count, dtype)))
    Kernel(FILE, name)(*given, out, count, grid=1, block=count)
    return out.numpy().reshape(rows, -1)


def stepped(near, sign, rounding):
    """The rounding of an exact number, from the float nearest to it and the sign of float - number."""
    if rounding == "rn" or sign == 0 or (rounding == "rz" and near == 0):
        return near
    down = rounding == "rd" or (rounding == "rz" and near > 0)
    wrong = sign > 0 if down else sign < 0
    return np.nextafter(near, near.dtype.type(-np.inf if down else np.inf)) if wrong else near


def nearest(exact, dtype):
    """The float nearest to a fraction; of two, the even one."""
    near = dtype(float(exact))
    choices = [near, np.nextafter(near, dtype(-np.inf)), np.nextafter(near, dtype(np.inf))]
    even = {one: int(one.view(np.uint32 if dtype is np.float32 else np.uint64)) & 1 for one in choices}
    return min(choices, key=lambda one: (abs(Fraction(float(one)) - exact), even[one]))


def sign_of(number):
    return (number > 0) - (number < 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_in_four_roundings(dtype, kernel_device):
    rng = np.random.default_rng(0)
    x, y, z = (rng.normal(size=(3, 200)) * 2.0 ** rng.integers(-30, 30, (3, 200))).astype(dtype)
    x[:20], y[:20] = y[:20] * 3, y[:20]
    out = run({np.float32: "floats", np.float64: "doubles"}[dtype], x, y, z, rows=28, dtype=dtype, device=kernel_device)
    rows = iter(out)
    for name, (_, function) in OPERATIONS.items():
        for rounding in ROUNDINGS:
            for a, b, c, seen in zip(x, y, z, next(rows), strict=True):
                if function is None:
                    square = Fraction(float(abs(a)))
                    near = np.sqrt(abs(a))
                    sign = sign_of(Fraction(float(near)) ** 2 - square)
                else:
                    exact = function(*(Fraction(float(one)) for one in (a, b, c)))
                    near = nearest(exact, dtype)
                    sign = sign_of(Fraction(float(near)) - exact)
                assert seen == stepped(near, sign, rounding), (name, rounding, a, b, c)


def test_roundings_at_the_ends_of_the_range(kernel_device):
    most, least = np.float32(3.4028235e38), np.float32(1.4e-45)
    x = np.array([most, -most, least, -least, 1, -1, 0, np.inf, np.nan], np.float32)
    y = np.array([most, most, least, least, 0, 0, 0, 1, 1], np.float32)
    out = run("floats", x, y, 0 * y, rows=28, dtype=np.float32, device=kernel_device)
    rows = dict(zip([(name, r) for name in OPERATIONS for r in ROUNDINGS], out, strict=True))
    infinite = np.float32(np.inf)
    assert [rows["mul", r][0] for r in ROUNDINGS] == [infinite, most, infinite, most]
    assert [rows["mul", r][1] for r in ROUNDINGS] == [-infinite, -most, -most, -infinite]
    assert [rows["mul", r][2] for r in ROUNDINGS] == [0, 0, least, 0]
    assert [rows["mul", r][3] for r in ROUNDINGS] == [0, 0, 0, -least]
    assert [rows["add", r][0] for r in ROUNDINGS] == [infinite, most, infinite, most]
    assert [math.copysign(1, rows["sub", r][0]) for r in ROUNDINGS] == [1, 1, 1, -1]  # the zero of x - x
    for rounding in ROUNDINGS:
        assert (rows["div", rounding][4:6] == [infinite, -infinite]).all() and np.isnan(rows["div", rounding][6])
        assert rows["add", rounding][7] == infinite and np.isnan(rows["add", rounding][8])


WHOLE = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


@pytest.mark.parametrize("name, dtype", CONVERSIONS)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_conversions_to_integers(source, name, dtype, kernel_device):
    rng, limits = np.random.default_rng(1), np.iinfo(dtype)
    ends = [0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan, float(limits.max), float(limits.min)]
    x = np.concatenate([ends, rng.normal(size=100) * 2.0 ** rng.integers(0, 70, 100)]).astype(source)
    real = {np.float32: "float", np.float64: "double"}[source]
    out = run(f"{real}_to_{name}", x, rows=4, dtype=dtype, device=kernel_device)
    for row, rounding in zip(out, ROUNDINGS, strict=True):
        for number, seen in zip(x, row, strict=True):
            whole = WHOLE[rounding](number)
            if np.isnan(number):  # as measured on an H100
                bits = np.iinfo(dtype).bits
                expected = 0 if bits == 32 and source is np.float32 else signed(1 << bits - 1, bits)
                assert int(seen) in (expected, expected % 2**bits), (rounding, number)
                continue
            else:
                expected = limits.max if whole > limits.max else limits.min if whole < limits.min else int(whole)
            assert int(seen) == min(expected, limits.max), (rounding, number)


@pytest.mark.parametrize("name, dtype", [*CONVERSIONS, ("double", np.float64)])
def test_conversions_to_float(name, dtype, kernel_device):
    rng = np.random.default_rng(2)
    if dtype is np.float64:
        x = rng.normal(size=100) * 2.0 ** rng.integers(-120, 120, 100)
    else:
        limits = np.iinfo(dtype)
        x = np.array([0, 1, limits.max, limits.min, *rng.integers(limits.min, limits.max, 100, dtype)], dtype)
    out = run("narrowed" if name == "double" else f"from_{name}", x, rows=4, dtype=np.float32, device=kernel_device)
    for row, rounding in zip(out, ROUNDINGS, strict=True):
        for number, seen in zip(x.tolist(), row, strict=True):
            exact = Fraction(number)
            near = nearest(exact, np.float32)
            assert seen == stepped(near, sign_of(Fraction(float(near)) - exact), rounding), (rounding, number)


def signed(number, bits=32):
    number %= 1 << bits
    return number - (number >> bits - 1 << bits)


def of_bytes(x):
    return [x >> 8 * i & 255 for i in range(4)]


def nth_set(mask, base, offset):
    places = range(base, 32) if offset > 0 else range(base, -1, -1) if offset < 0 else [base]
    found = [place for place in places if mask >> place & 1]
    return found[max(abs(offset), 1) - 1] if len(found) >= max(abs(offset), 1) else -1


def test_integers(kernel_device):
    rng = np.random.default_rng(3)
    x, y, z = rng.integers(-(2**31), 2**31, (3, 300)).astype(np.int32)
    x[:4], y[:4] = [-(2**31), 2**31 - 1, 0, -1], [2**31 - 1, -(2**31), 0, -1]
    z[:100] = rng.integers(0, 70, 100)
    out = run("integers", x, y, z, rows=14, dtype=np.int32, device=kernel_device)
    for t, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), z.tolist(), strict=True)):
        u, v, w = (one % 2**32 for one in (a, b, c))
        pair = v << 32 | u
        dots = [signed(c + sum(signed(i, 8) * signed(j, 8) for i, j in zip(of_bytes(u), of_bytes(v), strict=True)))]
        dots += [c + sum(i * j for i, j in zip(of_bytes(u), of_bytes(v), strict=True))]
        small = c % 40 if c >= 0 else -(-c % 40)
        expected = [
            (u % 2**24) * (v % 2**24), signed(u, 24) * signed(v, 24), abs(a - b) + w, abs(u - v) + w,
            sum((pair >> 8 * (w >> 4 * i & 7) & 255) << 8 * i for i in range(4)),
            pair << w % 32 >> 32, pair << min(w, 32) >> 32, pair >> w % 32, pair >> min(w, 32), *dots, *dots,
            nth_set(u, t % 32, small),
        ]  # fmt: skip
        assert out[:, t].tolist() == [signed(one) for one in expected], (a, b, c)


def test_norms_and_cache_hints():
    y, when = filled(13), filled(2, np.int64)
    Kernel(FILE, "others")(y, when, grid=1, block=1)
    expected = [7, 1 / 7, math.hypot(3e38, 1e38), 0, 2, 0.5, 7, 0.2, 8, 9, 10, 11, 27]
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-7)
    assert when.numpy()[1] >= when.numpy()[0] > 0


RARE = {  # an expression and its value
    "__vabsss2(0x8000ffffu)": 0x7FFF0001, "__vabsss4(0x80ff01feu)": 0x7F010102,
    "__vnegss2(0x80000001u)": 0x7FFFFFFF, "__vnegss4(0x80017fffu)": 0x7FFF8101,
    "__ll2double_rd((1ll << 62) + 1)": 2.0**62, "__ll2double_ru((1ll << 62) + 1)": 2.0**62 + 1024,
    "__ll2double_rz(-(1ll << 62) - 1)": -(2.0**62), "__ull2double_rz(~0ull)": 2.0**64 - 2048,
    "__ull2double_ru(~0ull)": 2.0**64, "cyl_bessel_i0(30.0)": np.i0(30.0), "cyl_bessel_i0f(1.0f)": np.i0(1.0),
    "cyl_bessel_i1(-2.0)": -1.5906368546373291, "cyl_bessel_i1f(1.0f)": 0.5651591039924851,
    "cyl_bessel_i1(-1e300)": -math.inf, "cyl_bessel_i0(0.0 / 0.0 * y[0])": math.nan,
    "sinpi(1.0)": 0, "sinpif(-3.5f)": 1, "cospif(2.5f)": 0, "cospi(1e15 + 1)": -1, "1 / sinpi(-0.0)": -math.inf,
    "sinpif(1.25f)": -math.sqrt(0.5), "cospi(-1.75)": math.sqrt(0.5), "cospif(INFINITY)": math.nan,
    "__powf(-2.0f, 2.0f)": math.nan, "__powf(0.0f, 0.0f)": math.nan, "__powf(2.0f, 3)": 8, "powf(-2.0f, 2.0f)": 4,
    "__fdividef(1.0f, 0x1.8p126f)": 0, "__fdividef(INFINITY, 0x1.8p126f)": math.nan, "__fdividef(6.0f, 3.0f)": 2,
    "erfcx(INFINITY)": 0, "erfcx(1e200)": 0.5641895835477563e-200, "erfcx(25.0)": 0.022549572432641358,
    "normcdff(-10.0f)": 7.61985302416052e-24, "normcdf(-30.0)": 4.906713927148187e-198,
    "__double2int_rn(NAN)": -(2**31), "__float2int_rn(NAN)": 0, "fmaxf(NAN, -1.0f)": -1, "rsqrtf(-0.0f)": -math.inf,
}  # fmt: skip


def test_rarer_functions():
    lines = "".join(f"y[{n}] = {said};\n" for n, said in enumerate(RARE))
    y = filled(len(RARE), np.float64)
    kernel(f"__global__ void k(double* y) {{\n{lines}}}", "k")(y, grid=1, block=1)
    np.testing.assert_allclose(y.numpy(), [*RARE.values()], rtol=6e-8)
    whole = [n for n, value in enumerate(RARE.values()) if math.isfinite(value) and value == int(value)]
    assert [y.numpy()[n] for n in whole] == [[*RARE.values()][n] for n in whole]


def test_a_kernel_that_is_stopped_leaves_the_rounding_of_python_as_it_was(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.05)
    third = np.float32(1) / np.array([3, 7, -3, -7], np.float32)
    for _ in range(5):
        with pytest.raises(KernelError, match="still running"):
            Kernel(FILE, "endless")(filled(1), grid=1, block=1)
        assert (np.float32(1) / np.array([3, 7, -3, -7], np.float32) == third).all()


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")
def test_the_kernels_are_cuda(tmp_path):
    (tmp_path / "intrinsics.cu").write_text(TEXT)
    options = "-std=c++17", "-arch=sm_80", "-ptx", "-Werror", "all-warnings", "-o", os.devnull
    source = tmp_path / "intrinsics.cu"
    done = subprocess.run([find_nvcc(), *options, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
