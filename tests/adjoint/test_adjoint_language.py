"""Forms of CUDA C++ that students write have the right gradient; test_adjoint_refusals has the unsupported ones."""

import math
from functools import partial

import numpy as np
import pytest
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint.frontend import macros

I = "int i = threadIdx.x;"  # noqa: E741
HEAD = 'extern "C" __global__ void'
PARAMS = "const double* x, double* y"


def source(body="y[i] = x[i] * x[i];", ahead="", head=HEAD, params=PARAMS):
    return f"{ahead}\n{head} f({params}) {{\n{I}\n{body}\n}}\n"


def ahead(text, body):
    return source(body, ahead=text)


RIGHT = {
    "a function that moves a pointer and returns it": source(
        "const double* p = x; auto next = [&]() { p += 1; return p; }; if (i < 6) y[i] = *next() * *next();"
    ),
    "names of type traits": source(
        "double decay = x[i]; for (int conditional = 0; conditional < 3; ++conditional) decay *= x[i];\n"
        "y[i] = decay < 0.5 ? decay : x[i];"
    ),
    "arguments of templates that have the names of others": ahead(
        "template <class T> struct Size { T v; }; template <int R> __device__ double f(double v) { return v * R; }\n"
        "template <int Size> __device__ double g(double v) { return f<Size>(v); }",
        "constexpr int decay = 2; y[i] = f<decay>(x[i] * x[i]) * g<3>(x[i]);",
    ),
    "a comparison in a default value": ahead(
        "#define N 3\n__device__ double g(double a = (N > 2) ? 2 : 1, double s = N > 2 ? 3 : 4) { return a * s; }",
        "y[i] = g(x[i] * x[i]) + g() * g(x[i], 0.5);",
    ),
    "a comparison in a default value of what has the name of a template of the standard": ahead(
        "constexpr int decay = 2;\nstruct S { double v; bool s = decay < 4; };\n"
        "__device__ double g(double a, bool b = decay < 4, double c = 3) { return a * b * c; }\n"
        "const bool below = decay < 4, other = 5 > 2;",
        "S s; s.v = x[i] * x[i]; y[i] = g(s.v) * s.s * below * other;",
    ),
    "digits in groups": ahead(
        "#define N 1'0\n#if N > 1'1\n#error N\n#endif\nvoid g(double* y) { y[1'0] = 2'0; }",
        "int n = 1'000 + 0x1'0; y[i] = x[i] * x[i] * n * (N + 2'0) * 1'0.2'5e1 * .5'1 * 1'0u;",
    ),
    "bounds before void": source(head='extern "C" __global__ __launch_bounds__(256, 2) void'),
    "bounds behind void": source(head='extern "C" __global__ void __launch_bounds__(B)', ahead="#define B 256"),
    "a whole file": source(
        head="namespace a { namespace b::c {\nstatic __global__ void __launch_bounds__((8 * 2) / 2, 1)",
        params="const double* __restrict x, double *__restrict y",
        ahead="#include <cublas_v2.h>\n#define CHECK(call) do { \\\n    call; } while (0)\nint count = 'a';\n"
        "int main() { CHECK(cudaMalloc()); f<<<1, 8>>>(0, 0); return count == '}' ? 017 : 0; }\n",
    ) + "} }",
    "braces of C": f"extern \"C\" {{\n{source(head='__global__ void')}}}\n",
    "declared ahead": ahead(f"__global__ void g(int n);\n{HEAD} f({PARAMS});", "y[i] = x[i] * x[i];"),
    "for the host too": ahead("__host__ __device__ inline double g(double v) { return v * v; };", "y[i] = g(x[i]);"),
    "constexpr": source("constexpr double c = 2.5; double const d = c; constexpr int k = 3; y[i] = c * x[i] * k * d;"),
    "constants": ahead(
        "static constexpr double C = 2.5;\nconst int K = 3;\n__device__ const double D = 0.5;\n__constant__ int T = 2;",
        "double v = x[i]; for (int j = 0; j < K; ++j) v *= C * x[j]; y[i] = v * D * T;",
    ),
    "an extent by name": source(
        "const int T = 8; constexpr int U = T + 1; __shared__ double s[T]; double q[U - 1]; s[i] = x[i] * x[i]; "
        "for (int j = 0; j < T; ++j) { q[j] = s[i] * (j + 1); } __syncthreads(); y[i] = s[T - 1 - i] * q[2];"
    ),
    "static_cast": source("y[i] = static_cast<double>(i / 2) * x[i] * static_cast<int>(2.5 + x[i]);"),
    "goes on": source("y[i] = x[i] * \\\n   x[i]; // a comment \\\n y[i] = 0;\n"),
    "comments": ahead(
        "#define A /* one */ 1.5 /* over\n lines } */\n// it's \"odd\n",
        "y[i] = x[i] /* { */ * /**/ A * x[i]; // }",
    ),
    "const anywhere": source(params="double const* const __restrict__ x, double* __restrict__ const y"),
    "__ldg": source("y[i] = __ldg(&x[i]) * __ldg(&x[(i + 1) % 8]);"),
    "what it does not need": ahead(
        "#include <cstdio>\n#pragma once\n#define SQ(v) ((v) * (v))\n#define DEV __device__\n#define OPEN {\n"
        "template <class T> DEV T g(T v) { return v; }\nstruct P { double a; };\nenum class E : int { A, B };\n"
        "using R = double;\nenum { A = 3 };\n"
        "__device__ void swap(double* a) { double t = *a; *a = t; }\nnamespace a { int b; }\nint host() { return 0; }",
        "y[i] = x[i] * x[i];",
    ),
    "steps": source("int k = i; k++; ++k; double v = x[k % 8]; v++; y[i] = v * v; y[i]++; y[i] *= x[i];"),
    "shadowed": source("double v = x[i]; { double v = 2; y[i] = v * x[i]; } for (int i = 0; i < 3; ++i) v += x[i] * v; "
                       "y[i] = y[i] * v;"),
    "choices": source("y[i] = x[i] > 0.8 ? x[i] * x[i] : x[i] > 0.7 ? 3 * x[i] : -x[i];"),
    "else": source("y[i] = x[i]; if (x[i] > 0.7) if (x[i] > 0.8) y[i] = x[i] * x[i]; else y[i] = 3 * x[i];;"),
    "unsigned": source("unsigned u = 0; u = u - 1u; int k = 1; double f = (threadIdx.x - 5) / 2 > 9 ? 2 : 3; "
                       "y[i] = x[i] * x[i] * (u > 5u ? 2 : 3) * f * (-1 < u ? 1 : 2) * (k - 3u > 9 ? 5 : 7);"),
    "down": source("double s = 0; for (unsigned j = 2; j < 3; --j) s += x[j] * x[j]; y[i] = s;"),
    "whole numbers": source("y[i] = x[i] * x[i] * ((i - 5) % 3) * ((i - 5) / 2) * (1 << i) * (x[i] > 0.75) * 0x10;"),
    "cases that go on into the next": source(
        "double v = x[i]; switch (i % 4) { case 0: v *= x[i]; case 1: v *= x[i]; }\n"
        "switch (i) { case 7: v *= 2; [[fallthrough]]; default: v *= x[i]; case 3: case 2: if (v > 0.5) break;\n"
        "  v *= 3; break; case 1: double t; t = v; v = sin(t); break; case 4: v = v * v; case 5: t = v + x[0]; v = t;\n"
        "  for (int j = 0; j < 9; ++j) { if (j == 2) break; v *= x[j]; } }\n"
        "for (int j = 0; j < 3; ++j) { switch (j + i) { case 2: continue; case 3: v *= 2; case 4: v += x[j]; }\n"
        "  v *= x[i]; } y[i] = v;"
    ),
    "clocks": ahead(
        "__device__ double square(double v) { long long t0 = clock64(), t1 = clock64() - t0; return v * v; }",
        "__shared__ long long t[8]; __shared__ double u[8]; const long long t0 = clock64();\n"
        "y[i] = x[i] * square(x[i]); int spent = clock() - (int)t0; t[i] = spent; u[i] = (double)spent * clock64();\n"
        "while (clock64() - t0 < 10) { t[i] += 1; }",
    ),
    "pointers to anything": source(
        "double* out = static_cast<double*>(y); if (x != nullptr) out[i] = at(x, i) * ((const double*)x)[7 - i];",
        ahead="__device__ double at(const void* p, int i) { return ((const double*)p)[i]; }",
        params="const void* __restrict__ x, void* y",
    ),
    "functions of one operand": source(
        "double v = exp10(x[i]) * sinpi(x[i]) + cospi(x[0]) * asinh(x[i]) + acosh(x[i] + 1) * atanh(x[1]);\n"
        "y[i] = v * rcbrt(x[i]) + erfcx(x[i]) * erfinv(x[i]) + erfcinv(x[i]) * normcdfinv(x[0]);"
    ),
    "functions of two operands": source(
        "double s, c; sincospi(x[i], &s, &c); if (__builtin_expect(i < 5, 1)) s += fdim(x[i], x[7 - i]);\n"
        "y[i] = fdim(x[i], 0.7) + s * c * nearbyint(x[0]) + rhypot(x[i], x[0]) * ldexp(x[i], i);\n"
        "y[i] += scalbn(x[i] * x[i], -2);"
    ),
    "for ever": source("double v = x[i]; for (;;) { v = v * x[i]; if (v < 0.1) break; } y[i] = v;"),
    "names": ahead("#define REAL double\n#define TWO 2\n#define FOUR (TWO + 2)", "REAL v = x[i]; y[i] = v * FOUR;"),
    "a macro that makes a macro's name, and types of functions": ahead(
        "#define CUBE(v) ((v) * (v) * (v))\n#define JOIN(a, b) a##b\n#define OF(op) CU##op\n#define POWER CUBE\n"
        "typedef double number; typedef number (*rule)(number, int); using other = number (*)(number);\n"
        '_Pragma("nv_diag_suppress 177")',
        "number v = x[i]; y[i] = v + JOIN(CU, BE)(x[i]) + OF(BE)(x[i] * JOIN(CU, BE)(2)) * POWER(x[i])\n"
        "+ (JOIN(, x))[i];",
    ),
    "a macro over lines": ahead("#define SUM (1 + \\\n  2 + \\\n  3)", "double v = x[i];\ny[i] = v * v * SUM;"),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore:.*code for the host is left out")
@pytest.mark.parametrize("case", RIGHT)
def test_right(case):
    check(RIGHT[case])


def test_a_constant_is_as_good_as_a_macro():
    text = "for (int j = 0; j < K; ++j) { v = v * x[j]; } y[i] = v;"
    for constant in ("#define K 4", "const int K = 4;"):
        assert mg.adjoint(ahead(constant, f"double v = 1; {text}")).decisions["v_tape"].how == "local tape"


def test_a_constant_is_read_where_something_names_it(monkeypatch):
    taken, literal = [], macros.literal
    monkeypatch.setattr(macros, "literal", lambda text: taken.append(text) or literal(text))
    numbers = ", ".join(map(str, range(1000)))
    text = f"""const float t[] = {{{numbers}}}; __constant__ int unused = 7; constexpr int W = 4;
    template <int N> __global__ void f(const float* x, float* y) {{ y[threadIdx.x] = N * x[threadIdx.x]; }}"""
    made = mg.adjoint(text, "f<W>").source
    assert set(taken) <= {"4"} and "W = 4;" in made and "t[" not in made and "unused" not in made


def test_a_template_is_given_a_template():
    text = """namespace own { template <class T> struct Scaled {
        T k; __device__ Scaled(T k) : k(k) {} __device__ T operator()(T v) const { return k * v * v; } }; }
    template <class T, template <class> class Op, int N> __global__ void f(const T* x, T* y) {
        Op<T> op(N); y[threadIdx.x] = op(x[threadIdx.x]) + Op<T>(2)(x[threadIdx.x]); }
    __global__ void g(const double* x, double* y) { y[threadIdx.x] = own::Scaled<double>(4)(x[threadIdx.x]); }"""
    for name, slope in (("f<double, own::Scaled, 3>", 10), ("g", 8)):
        (dx,) = mg.adjoint(text, name).vjp(np.arange(3.0), np.zeros(3), dy=[np.ones(3)], grid=1, block=3)
        assert dx.tolist() == [0, slope, 2 * slope]


KNOWN = [  # what a template decides, the slope where R is true, and where it is false
    ("if (R) v *= v; else v *= 5;", 4, 5),
    ("v = R ? v * v : 5 * v;", 4, 5),
    ("if (R) switch (n) { case 3: v *= v; break; default: v = 0; } else v *= 5;", 4, 5),
    ("if (!R) for (int k = 0; k < 2; ++k) { v *= 2; } else if (R) v *= v; else v *= 7;", 4, 4),
    ("if (R) v = [](double t) { double s = t; return s * t; }(v); else do { v *= 5; n = 0; } while (n > 2);", 4, 5),
    ("if (!R) { do v *= 5; while (--n > 2); } else v *= v;", 4, 5),
    ("if (R) v *= v; else y[0] = mystery(v);", 4, None),
]


@pytest.mark.parametrize(("body", "true", "false"), KNOWN)
def test_a_branch_that_a_template_decides_is_none(body, true, false):
    """The other side is not read, so it may have what no adjoint has, and its tokens end where C++ ends it."""
    head = "template <bool R> __global__ void f(const double* x, double* y, int n) { double v = x[threadIdx.x]; "
    for name, slope in (("f<true>", true), ("f<false>", false)):
        make = partial(mg.adjoint, f"{head}{body} y[threadIdx.x] = v; }}", name)
        if slope is None:
            with pytest.raises(mg.adjoint.NotDifferentiable, match="mystery has no derivative rule here"):
                make()
            continue
        assert "if (true" not in make().source
        if "mystery" not in body:
            (dx,) = make().vjp(np.array([2.0]), np.zeros(1), 3, dy=[np.ones(1)], grid=1, block=1)
            assert dx.tolist() == [slope]


def test_a_branch_that_a_template_decides_by_numbers_that_wrap_around():
    """Where C++ takes 2 - 5 and -1 for large numbers, the branch is not decided here, and stays."""
    head = "template <unsigned N, int M> __global__ void f(const double* x, double* y) { double v = x[threadIdx.x]; "
    for condition in ("N - 5 > 2", "M < N", "M / 2 == 0", "N * 2 - 3 == 1"):
        text = f"{head} if ({condition}) v *= v; else v *= 5; y[threadIdx.x] = v; }}"
        (dx,) = mg.adjoint(text, "f<2, -1>").vjp(np.array([2.0]), np.zeros(1), dy=[np.ones(1)], grid=1, block=1)
        assert dx.tolist() == [5 if condition == "M < N" else 4]
        constants = "constexpr unsigned N = 2; constexpr int M = -1; " + text.partition("> ")[2]
        for same, name in ((text, "f<2, -1>"), (constants, "f")) if condition in ("N - 5 > 2", "M < N") else ():
            with pytest.raises(mg.adjoint.NotDifferentiable, match="if constexpr is not known here; write if"):
                mg.adjoint(same.replace("if (", "if constexpr ("), name)


def test_a_function_is_called_in_a_branch_that_is_never_taken():
    """The adjoint's file has the caller without that branch, as the function is missing or comes later."""
    head = "__device__ double f(double a) { return a * sin(a); }\n__device__ double g(double a) { double s = a * a;\n"
    for body, slope in (("g(x[0]) * x[0]", 12), ("g(x[0]) * f(x[0])", 12 * math.sin(2) + 8 * math.cos(2))):
        text = f"{head} if (sizeof(a) == 4) s += f(a); return s; }}\n"
        text += f"__global__ void k(const double* x, double* y) {{ y[0] = {body}; }}"
        (dx,) = mg.adjoint(text).vjp(np.array([2.0]), np.zeros(1), dy=[np.ones(1)], grid=1, block=1)
        np.testing.assert_allclose(dx, [slope], rtol=1e-14)


def test_assembly_that_reads_a_clock():
    """Only a GPU runs it."""
    code = 'unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); at[i] = t; y[i] = x[i] * x[i];'
    assert "d_x[i] = 2 *" in mg.adjoint(source(code, params=f"{PARAMS}, unsigned long long* at")).source


def test_a_header_of_the_project_is_read_whatever_its_brackets(tmp_path):
    (tmp_path / "include").mkdir()
    guard = "#include <unistd.h>\n#if _POSIX_VERSION > 1\n#else\n#error unknown\n#endif\n"
    (tmp_path / "include" / "own").mkdir()
    (tmp_path / "include" / "own" / "power.h").write_text('#include "number.h"\n')  # its own one
    (tmp_path / "include" / "own" / "number.h").write_text("#define NUMBER 1\n")
    (tmp_path / "include" / "number.h").write_text("#define NUMBER_OF_ANOTHER 3\n")
    guard += '#include "own/power.h"\n#include "number.h"\n'
    square = "__device__ double square(double v) { return v * v * NUMBER; }"
    (tmp_path / "include" / "square.h").write_text(f"{guard}{square}\n")
    path = tmp_path / "src" / "k.cu"
    path.parent.mkdir()
    path.write_text(source("y[i] = square(x[i]);", "#include <square.h>"))
    (dx,) = mg.adjoint(path).vjp(np.array([3.0]), np.zeros(1), dy=[np.ones(1)], grid=1, block=1)
    assert dx.tolist() == [6]


FILES = {
    "a part of a body, twice": (
        {"step.inl": "v = v * 1.5 + x[t];\n"},
        'double v = x[t];\n#include "step.inl"\n#include "step.inl"\ny[t] = v * v;', "", 4.75**2 * 2,
    ),
    "a function for each macro": (
        {"op.inl": "__device__ double NAME(double a) { return BODY; }\n"}, "y[t] = square(x[t]) * cube(x[t]);",
        '#define NAME square\n#define BODY a * a\n#include "op.inl"\n#undef NAME\n#undef BODY\n'
        '#define NAME cube\n#define BODY a * a * a\n#include "op.inl"', 5,
    ),
    "a list": (
        {"list.def": "OP(one, a)\nOP(two, a * a)\n#undef OP\n"},
        'double v = 0;\n#define OP(name, e) v += name(x[t]);\n#include "list.def"\ny[t] = v;',
        '#define OP(name, e) __device__ double name(double a) { return e; }\n#include "list.def"', 3,
    ),
    "headers that are read once": (
        {"g.h": "#ifndef G\n#define G\n#define W 3\n__device__ double g(double a) { return a * a * W; }\n#endif\n",
         "h.h": '#pragma once\n#include "g.h"\n__device__ double h(double a) { return g(a) * a; }\n'},
        "y[t] = h(x[t]) * g(x[t]);", '#include "g.h"\n#include "h.h"\n#include "g.h"\n#include "h.h"', 45,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error")  # the adjoint has no function twice
@pytest.mark.parametrize("case", FILES)
def test_files_are_included_where_they_stand_and_as_often(case, tmp_path):
    files, body, head, slope = FILES[case]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = tmp_path / "k.cu"
    path.write_text(f"{head}\n__global__ void f({PARAMS}) {{ int t = threadIdx.x;\n{body}\n}}\n")
    (dx,) = mg.adjoint(path).vjp(np.ones(2), np.zeros(2), dy=[np.ones(2)], grid=1, block=2)
    np.testing.assert_allclose(dx, [slope, slope], rtol=1e-14)


def test_structs_with_arrays_are_copied_as_a_whole():
    text = (
        "#define N 2\nstruct B { double p[N], a[3]; int n; };\n"
        "__device__ double g(B b) { b.a[2] *= 2; return b.p[1] * b.a[2] + b.p[0]; }\n"
        "__global__ void f(const B* x, B* c, double* y) { int i = threadIdx.x; B q = x[i], r; __shared__ B s[3];\n"
        "s[i] = q; __syncthreads(); r = c[i]; c[i] = s[2 - i]; y[i] = g(r) * g(x[i]) * r.n + g(s[1]) * c[i].a[0]; }"
    )
    kernel, rng = mg.kernel(text, "f"), np.random.default_rng(3)
    kind = np.dtype([("p", "f8", 2), ("a", "f8", 3), ("n", "i4")], align=True)
    x, c, dc = (np.zeros(3, kind) for _ in range(3))
    for each in (x, c, dc):
        each["p"], each["a"], each["n"] = rng.random((3, 2)), rng.random((3, 3)), [1, 2, 3]
    w = rng.standard_normal(3)

    def value():
        now, y = mg.tensor(c, device="sim"), mg.tensor(np.zeros(3), device="sim")
        kernel(mg.tensor(x, device="sim"), now, y, grid=1, block=3)
        return w @ y.numpy() + sum((dc[part] * now.numpy()[part]).sum() for part in "pa")

    found = mg.adjoint(kernel, ["x", "c"]).vjp(x, c, np.zeros(3), dy=[dc, w], grid=1, block=3)
    for array, d in zip((x, c), found, strict=True):
        for part in "pa":
            for at in np.ndindex(array[part].shape):
                values = []
                for step in (1e-6, -2e-6, 1e-6):
                    array[part][at] += step
                    values.append(value())
                np.testing.assert_allclose(d[part][at], (values[0] - values[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_comparison_in_a_default_value_of_the_kernel():
    head = "constexpr int decay = 2;\n__global__ void k(const double* x, double* y, bool b = decay < 4)"
    (dx,) = mg.adjoint(f"{head} {{ y[0] = 3 * x[0]; }}").vjp(
        np.ones(1), np.zeros(1), True, dy=[np.ones(1)], grid=1, block=1
    )
    assert dx == 3
