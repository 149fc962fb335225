"""Layouts of structs are the compiler's: the size of what is read is that of the host compiler; the rest is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import LaunchError

MACROS = """#ifndef R
#define R double
#endif
#ifndef N
#define N 3
#endif
%s
__global__ void k(P p, P* q, R* y) { y[0] = p.a + q[0].n + p.v[N - 1]; q[0].n = sizeof(P); }
"""
STRUCTS = [
    "struct P { R a; int n; R v[N]; };",
    "#define FIELDS R a; int n; R v[N];\nstruct P { FIELDS };",
    "typedef R real_t;\nstruct P { real_t a; int n; R v[N]; };",
    "using real_t = R;\ntypedef struct { R a, b; int n; real_t v[N]; } P;",
    "struct Q { R v[2]; };\nstruct P { Q q; R a; int n; R v[N]; };",
]


@pytest.mark.parametrize("struct", STRUCTS)
@pytest.mark.parametrize("defines", [{}, {"R": "float"}, {"R": "float", "N": 4}])
def test_macros_reach_members(struct, defines, kernel_device):
    kernel = mg.kernel(MACROS % struct, "k", defines)
    real = np.dtype("f4" if defines else "f8")
    wrong = np.zeros(1, "f4")
    with pytest.raises(TypeError, match="which is not P; that is") as caught:
        kernel(wrong[0], mg.tensor(wrong, device="sim"), mg.zeros(1, dtype=real, device="sim"), grid=1, block=1)
    dtype = eval(str(caught.value).partition("that is ")[2].rstrip("."), {"np": np})
    host = np.zeros(1, dtype)
    host["a"], host["n"], host["v"] = 1.5, 7, 0.25
    assert dtype["a"] == real and dtype["v"].shape == (defines.get("N", 3),)
    q, y = mg.tensor(host, device=kernel_device), mg.zeros(1, dtype=real, device=kernel_device)
    kernel(host[0], q, y, grid=1, block=1)
    assert y.numpy()[0] == 8.75 and q.numpy()["n"][0] == dtype.itemsize


READ = [
    "struct P { char c; int n; };",
    "#pragma pack(push, 1)\nstruct Q { char c; int n; };\n#pragma pack(pop)\nstruct P { char c; int n; };",
    "#define A16 __align__(16)\nstruct A16 P { float x; int n; };",
    "struct P { float x = 1.f; int n{2}; double d[2] = {1, 2}; };",
    "struct P { float m[2][3]; char c; double d; };",
    "#define N (1 << 3)\nstruct P { float x[N]; };",
    "#define N 8\nstruct P { float x[N / 2][N % 3]; };",
    "constexpr int M = 2; constexpr int N = M * 3; struct P { float x[N]; };",
    "struct P { int n;; mutable float x; friend struct Z; };",
    "struct P { float x; int n; P() = default; __host__ __device__ P(float a) : x(a), n(0) {} ~P() {}"
    " operator float() const { return x; } static_assert(sizeof(float) == 4); };",
]


@pytest.mark.parametrize("struct", READ)
def test_a_layout_is_that_of_the_compiler(struct):
    text = f"{struct}\n__global__ void k(long long* y, P* p) {{ y[0] = sizeof(P); y[1] = alignof(P); }}"
    y = mg.tensor(np.zeros(2, "i8"), device="sim")
    with pytest.raises(TypeError) as caught:
        mg.kernel(text, "k")(y, mg.zeros(1, device="sim"), grid=1, block=1)
    dtype = eval(str(caught.value).partition("that is ")[2].rstrip("."), {"np": np})
    mg.kernel(text, "k")(y, mg.tensor(np.zeros(1, dtype), device="sim"), grid=1, block=1)
    assert y.numpy()[0] == dtype.itemsize


REFUSED = [
    "struct __attribute__((packed)) P { char c; int n; };",
    "struct P { char c; int n; } __attribute__((packed));",
    "#pragma pack(1)\nstruct P { char c; int n; };\n#pragma pack()",
    "#define ARRAY(t, n) t n[4]\nstruct P { ARRAY(float, x); int n; };",
    "struct P { virtual void f() {} float x; };",
    "struct P { int n; float data[]; };",
    "struct P { int n __attribute__((aligned(16))); float x; };",
    "struct P { unsigned a : 3; unsigned b : 5; };",
    "struct P { struct { float x, y; } in; int n; };",
    "namespace a { struct P { double q; }; }\nstruct P { int n; };",
]


@pytest.mark.parametrize("struct", REFUSED)
def test_what_is_not_read_is_refused(struct):
    text = f"{struct}\n__global__ void k(P* p) {{ p[0] = P(); }}"
    with pytest.raises(LaunchError, match=r"struct P: the layout of .* is not read here"):
        mg.kernel(text, "k")(mg.zeros(4, device="sim"), grid=1, block=1)
