"""The advice of a refusal works when it is followed: each refused kernel beside the one that follows the sentence."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

PARAMS = "const double* x, const double* w, double* y, int n, int c"
TILE = "auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()); "
GROUPS = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include <cooperative_groups/scan.h>"
PAIR = "struct Pair { double a, b; };"
ROW = "struct Row { double v[3]; };"


def kernel(body, ahead="", params=PARAMS):
    return f"{ahead}\n__global__ void f({params}) {{\nint i = threadIdx.x;\n{body}\n}}\n"


# the sentence; the refused body, and what stands ahead of it; the body that follows the advice, and what is ahead of it
ADVICE = {
    "for two pointers let an index that changes choose half of one array": (
        ("double a[2], b[2]; a[0] = x[i]; double* p = a; double* q = b; q[0] = p[0] * x[i]; "
         "std::swap(p, q); y[i] = p[0];",),
        ("double s[2][2]; int k = 0; s[k][0] = x[i]; s[1 - k][0] = s[k][0] * x[i]; k = 1 - k; y[i] = s[k][0];",),
    ),
    "give each lane the number of the lane that it reads: __shfl_sync(mask, v, lane)": (
        ("double v = x[i]; y[i] = v * __shfl_down_sync(0xffffffffu, v, i % 3);",),
        ("double v = x[i]; y[i] = v * __shfl_sync(0xffffffffu, v, i + i % 3 < 32 ? i + i % 3 : i);",),
    ),
    "swap numbers by a third": (
        ("double a = x[i], b = w[i]; std::swap(a, b); y[i] = a * a * b;",),
        ("double a = x[i], b = w[i]; double t = a; a = b; b = t; y[i] = a * a * b;",),
    ),
    "s is a pointer to an array; write auto& s = ...": (
        ("__shared__ double t[2][32]; t[0][i] = x[i]; t[1][i] = w[i]; __syncthreads(); "
         "double (*s)[32] = t; y[i] = s[1][i] * s[0][31 - i];",),
        ("__shared__ double t[2][32]; t[0][i] = x[i]; t[1][i] = w[i]; __syncthreads(); "
         "auto& s = t; y[i] = s[1][i] * s[0][31 - i];",),
    ),
    "s is a pointer to an array; read its numbers by one index, x[i * 4 + j]": (
        ("const double (*s)[4] = (const double (*)[4])x; y[i] = s[i / 4][1] * s[i / 4][2];",),
        ("y[i] = x[i / 4 * 4 + 1] * x[i / 4 * 4 + 2];",),
    ),
    "a pointer to double is cast to int*, another type of element; convert the value: (int)v": (
        ("double v = x[i] * x[i]; y[i] = *(int*)&v * w[i] * v;",),
        ("double v = x[i] * x[i]; y[i] = (int)v * w[i] * v;",),
    ),
    "a reference to the bits of a number; write a variable, const int b = ...": (
        ("float v = w[i]; int& b = (int&)v; y[i] = b > 0 ? x[i] * x[i] : x[i];",),
        ("float v = w[i]; const int b = (int&)v; y[i] = b > 0 ? x[i] * x[i] : x[i];",),
    ),
    "More has no such members, or a base or a constructor; write its values in their order, without .name =": (
        ("More p = {.c = x[i]}; y[i] = p.c * p.c;", f"{PAIR} struct More : Pair {{ double c; }};"),
        ("More p = {0, 0, x[i]}; y[i] = p.c * p.c;", f"{PAIR} struct More : Pair {{ double c; }};"),
    ),
    "M has no values here; write them, or pass it as a parameter": (
        ("y[i] = x[i] * x[i] * M;", "constexpr int sum(int n) { int s = 0; while (n) s += n--; return s; }\n"
         "constexpr int M = sum(3);"),
        ("y[i] = x[i] * x[i] * M;", "constexpr int M = 6;"),
    ),
    "this pointer points into one of two arrays; write a branch for each": (
        ("const double* p = c > 1 ? x : w; y[i] = p[i] * p[i];",),
        ("if (c > 1) y[i] = x[i] * x[i]; else y[i] = w[i] * w[i];",),
    ),
    "p points into two arrays in turn; make them one, s[2][N], and let an index that changes": (
        ("double a[2], b[2]; a[0] = x[i]; b[0] = w[i]; double* p = a; for (int t = 0; t < 3; t++) { "
         "p[0] *= p[0]; if (t > c) p = b; } y[i] = p[0];",),
        ("double s[2][2]; s[0][0] = x[i]; s[1][0] = w[i]; int k = 0; for (int t = 0; t < 3; t++) { "
         "s[k][0] *= s[k][0]; if (t > c) k = 1 - k; } y[i] = s[k][0];",),
    ),
    "p is an array of pointers; choose between their elements: k == 0 ? x[i] : w[i]": (
        ("const double* p[2] = {x, w}; double v = 0; "
         "for (int k = 0; k < 2; k++) v += p[k][i] * (k + 1); y[i] = v * v;",),
        ("double v = 0; for (int k = 0; k < 2; k++) v += (k == 0 ? x[i] : w[i]) * (k + 1); y[i] = v * v;",),
    ),
    "or choose between elements, k ? v[i] : w[i]": (
        ("const double* p = x; if (c > 1) p = w; y[i] = p[i] * p[i];",),
        ("double p = c > 1 ? w[i] : x[i]; y[i] = p * p;",),
    ),
    "or begin at the whole, (T*)&v": (
        ("double3 v = make_double3(x[i], w[i], 1.0); double* e = &v.x; double s = 0; "
         "for (int k = 0; k < 3; k++) s += e[k] * e[k] * (k + 1); y[i] = s;",),
        ("double3 v = make_double3(x[i], w[i], 1.0); double* e = (double*)&v; double s = 0; "
         "for (int k = 0; k < 3; k++) s += e[k] * e[k] * (k + 1); y[i] = s;",),
    ),
    "[ after one variable: write v.y": (
        ("double3 v = make_double3(x[i], w[i], 1.0); double* e = &v.x; y[i] = e[1] * e[0];",),
        ("double3 v = make_double3(x[i], w[i], 1.0); y[i] = v.y * v.x;",),
    ),
    "inclusive_scan takes a tile, a number, and plus, greater or less; write another operator as shuffles: "
    "u = tile.shfl_up(v, d); if (tile.thread_rank() >= d) v = f(u, v); for d = 1, 2, 4 and so on": (
        (f"{TILE}y[i] = cooperative_groups::inclusive_scan(tile, x[i], "
         "[](double a, double b) { return a * b; });", GROUPS),
        (f"{TILE}double v = x[i]; for (int d = 1; d < 32; d *= 2) {{ double u = tile.shfl_up(v, d); "
         "if (tile.thread_rank() >= d) v = u * v; } y[i] = v;", GROUPS),
    ),
    "reduce takes a tile, a number, and plus, greater, less or a lambda; write another operator as shuffles: "
    "v = f(v, tile.shfl_xor(v, d)) for d = 1, 2, 4 and so on": (
        (f"{TILE}y[i] = cooperative_groups::reduce(tile, x[i], times());",
         GROUPS + "\nstruct times { __device__ double operator()(double a, double b) const { return a * b; } };"),
        (f"{TILE}double v = x[i]; for (int d = 1; d < 32; d *= 2) v = v * tile.shfl_xor(v, d); y[i] = v;", GROUPS),
    ),
    "write the values of v in braces": (
        ("double v[2] = x[i]; y[i] = v[0] * v[0];",),
        ("double v[2] = {x[i]}; y[i] = v[0] * v[0];",),
    ),
    "write a value for v: ... = ...": (
        ("double& v; y[i] = x[i];",),
        ("double& v = y[i]; v = x[i] * x[i];",),
    ),
    "write the extent of v": (
        ("double v[]; v[0] = x[i]; y[i] = v[0] * v[0];",),
        ("double v[1]; v[0] = x[i]; y[i] = v[0] * v[0];",),
    ),
    "static variables are outside the differentiable subset; leave static out": (
        ("static double v = 2; y[i] = x[i] * v;",),
        ("double v = 2; y[i] = x[i] * v * x[i];",),
    ),
    "a double is made of one value": (
        ("double v = double(x[i], w[i]); y[i] = v;",),
        ("double v = double(x[i]); y[i] = v * v;",),
    ),
    "a double has one value in braces": (
        ("double v = {x[i], w[i]}; y[i] = v;",),
        ("double v = {x[i]}; y[i] = v * v;",),
    ),
    "Pair has no constructor of 2 arguments here; write its members": (
        ("Pair p(x[i], w[i]); y[i] = p.a * p.b;", PAIR),
        ("Pair p; p.a = x[i]; p.b = w[i]; y[i] = p.a * p.b;", PAIR),
    ),
    "& takes a variable or an element": (
        ("const double* p = &(x[i] * 2); y[i] = *p;",),
        ("double v = x[i] * 2; const double* p = &v; y[i] = *p * *p;",),
    ),
    "write the parameters of the lambda g: [&]() { ... }": (
        ("auto g = [&] { return x[i] * x[i]; }; y[i] = g();",),
        ("auto g = [&]() { return x[i] * x[i]; }; y[i] = g();",),
    ),
    "the condition of this if constexpr is not known here; write if": (
        ("if constexpr (sizeof(*x) + n > 4) y[i] = x[i] * x[i]; else y[i] = x[i];",),
        ("if (sizeof(*x) + n > 4) y[i] = x[i] * x[i]; else y[i] = x[i];",),
    ),
    "'double' outside a function is outside the subset; make it a parameter of the kernel, "
    "or a constant with its values": (
        ("y[i] = x[i] * g;", "__device__ double g;"),
        ("y[i] = x[i] * x[i] * g;", "__constant__ double g = 2.0;"),
    ),
    "this condition is no expression of whole numbers and macros; write the number of a character": (
        ("y[i] = x[i] * A;", "#if 'a' == 97\n#define A x[i]\n#endif"),
        ("y[i] = x[i] * A;", "#if 97 == 97\n#define A x[i]\n#endif"),
    ),
    "holds an array of structs; pass that as an array of its own": (
        ("y[i] = b[0].p[0].a * x[i];", f"{PAIR} struct Box {{ Pair p[2]; }};", f"{PARAMS}, const Box* b"),
        ("y[i] = x[i] * x[i];", PAIR),
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("sentence", ADVICE)
def test_the_advice_works(sentence):
    refused, followed = ADVICE[sentence]
    with pytest.raises(NotDifferentiable) as caught:
        mg.adjoint(kernel(*refused), name="f")
    assert sentence in str(caught.value)
    check(kernel(*followed))


def check(text):
    """The gradients of x and w against central differences."""
    made, random = mg.adjoint(text, name="f"), np.random.default_rng(0)
    x, w, dy = random.random(32) / 2 + 1, random.random(32) / 2 + 1, random.random(32)
    given = {"x": x, "w": w}

    def value(**changed):
        y = np.zeros(32)
        arrays = [mg.tensor(a, device="sim") for a in ({**given, **changed}["x"], {**given, **changed}["w"], y)]
        mg.kernel(text, "f")(*arrays, 8, 1, grid=1, block=32)
        return dy @ arrays[2].numpy()

    gradients = made.vjp(x, w, np.zeros(32), 8, 1, dy=[dy], grid=1, block=32)
    assert made.wrt
    for name, gradient in zip(made.wrt, gradients, strict=True):
        way = random.random(32)
        slope = (value(**{name: given[name] + 1e-6 * way}) - value(**{name: given[name] - 1e-6 * way})) / 2e-6
        np.testing.assert_allclose(np.asarray(gradient) @ way, slope, rtol=1e-6)


CONDITIONS = ["0x10 == 16", "010 == 8", "!1 == 0", "!(3 > 2 > 1)", "(6 & 3 == 3) == 0", "-7 / 2 == -3", "-7 % 3 == -1",
              "1 || 1 / 0", "2 + 3 * 4 << 1 == 28", "(2 && 3) == 1", "1 - 1 - 1 == -1", "~0 == -1 && !unknown",
              "defined(A) + defined B == 0", "16UL >= 0x10L", "(5 ^ 1 | 8) == 12"]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_of_the_preprocessor(condition):
    made = mg.adjoint(kernel("y[i] = x[i] * A;", f"#if {condition}\n#define A w[i]\n#else\n#define A x[i]\n#endif"))
    assert made.wrt == ("x", "w")


@pytest.mark.parametrize("condition", ["~0u > 0", "'a' == 97", "1.5 > 1", "(1 == 1", "1 = 1", "1 ? 1 : 0", "<", ""])
def test_other_conditions_are_refused(condition):
    with pytest.raises(NotDifferentiable, match=r"^f.cu:1:1: this condition is no expression of whole numbers"):
        mg.adjoint(kernel("y[i] = x[i] * x[i];", f"#if {condition}\n#endif"), name="f")
