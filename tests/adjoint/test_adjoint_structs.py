"""Structs with arrays in them, as elements of arrays: copied, stored and passed whole, against central differences."""

import numpy as np
import pytest
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import LaunchError

B = np.dtype([("p", "f8", 3), ("q", "f8")])
PLAIN = "struct B { double p[3]; double q; };\n"
ALIAS = (
    "template <class T, int N> struct Row { T p[N]; T q; };\ntemplate <class T> using Of = Row<T, 3>;\n"
    "using B = Of<double>;\n"
)
AHEAD = (
    "__device__ double f(B v) { v.p[0] *= 2; return v.p[0] * v.p[1] * v.q; }\n"
    "__device__ B g(const B& v) { B w = v; w.p[1] *= w.q; return w; }\n"
)
FORMS = {
    "moved parameters": "b += i; y += i; B q = *b++; y->q = q.p[1] * q.p[2] * q.q; b -= i + 1; "
    "y->p[1] = b[3 - i].q * q.q;",
    "a copy": "B q = b[i]; y[i].q = q.p[1] * q.p[2] * q.q;",
    "an assignment": "B q; q = b[i]; q.p[0] *= q.p[1]; y[i].q = q.p[1] * q.p[0] * q.q;",
    "a store": "B q = b[i]; q.p[1] *= q.q; y[i] = q;",
    "from element to element": "y[i] = b[i]; y[i].p[2] *= b[i].q;",
    "shared memory": "__shared__ B s[4]; s[i] = b[i]; __syncthreads(); B q = s[3 - i]; "
    "y[i].q = q.p[1] * s[i].p[1] * q.q;",
    "arguments and results": "B q = g(b[i]); y[i].q = f(b[i]) * q.p[1] * q.q; y[i].p[2] = f(q);",
    "a pointer": "const B* p = b + i; B q = *p; y[i].q = q.p[1] * q.p[2] * q.q;",
    "a swap": "y[i] = b[i]; __syncthreads(); if (i < 2) { B t = y[i]; y[i] = y[i + 2]; y[i + 2] = t; "
    "y[i].p[1] *= y[i].q; }",
    "the largest": "B q = b[0]; for (int j = 1; j < 4; j++) { B t = b[j]; if (t.p[0] > q.p[0]) q = t; } "
    "y[i].q = q.p[0] * q.p[1] * b[i].q;",
    "a choice": "B q = i > 1 ? b[i] : b[0]; y[i] = b[i].q > 0.9 ? b[i] : b[3 - i]; y[i].q = q.p[1] * q.q;",
    "a choice of what is stored": "B s[2]; s[0] = b[i]; s[1] = b[3 - i]; B& r = i > 1 ? s[0] : s[1]; r.p[1] *= r.q; "
    "y[i].q = s[0].p[1] * s[1].p[1] * s[1].q;",
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", FORMS)
def test_structs_with_arrays(form):
    ahead = (ALIAS if "s" in form else PLAIN) + AHEAD
    text = f"{ahead}__global__ void k(const B* b, B* y) {{ int i = threadIdx.x;\n{FORMS[form]} }}"
    kernel, rng = mg.kernel(text, "k"), np.random.default_rng(2)
    b, w = (rng.random(16) + 0.5).view(B), rng.standard_normal(16)

    def value(numbers):
        y = mg.tensor(np.zeros(4, B), device="sim")
        kernel(mg.tensor(numbers.view(B), device="sim"), y, grid=1, block=4)
        return w @ y.numpy().view("f8")

    args = [mg.tensor(a, device="sim") for a in (b, np.zeros(4, B))]
    with mg.microscope.watching() as report:
        (db,) = mg.adjoint(kernel, ["b"]).vjp(*args, dy=[mg.tensor(w.view(B), device="sim")], grid=1, block=4)
    assert not report.problems
    slopes = [(value(b.view("f8") + h) - value(b.view("f8") - h)) / 2e-6 for h in 1e-6 * np.eye(16)]
    np.testing.assert_allclose(db.numpy().view("f8"), slopes, rtol=1e-6, atol=1e-8)


def test_a_member_of_a_struct_by_value_has_no_gradient_and_that_is_said():
    head = "struct P { double k, b; }; __global__ void f(const double* x, double* y, P p) { int i = threadIdx.x; "
    made = mg.adjoint(head + "y[i] = p.k * x[i] + p.b; }")
    assert made.wrt == ("x",) and made.decisions["p.k"].how == "no gradient"
    with pytest.raises(ValueError, match=r"wrt: p\.k is a member of a struct that is passed by value"):
        mg.adjoint(head + "y[i] = p.k * x[i]; }", ["p.k"])
    with pytest.raises(ValueError, match=r"whole numbers \(p\.k is a member .* make it a parameter\)"):
        mg.adjoint(head + "y[i] = p.k; }")


NAMES = {
    "the values of constants": (
        "P q = ONE; for (const P& p : TABLE) q.a += p.b; y[i] = x[i] * x[i] * q.a * TABLE[i % 2].a * BOTH.v[i % 2] "
        "* OPEN[1].p.a * (sizeof(OPEN) / sizeof(Q));",
        "struct P { double a, b; };\nstruct Q { P p; double v[2]; };\nconstexpr P ONE{2, 3};\n"
        "__constant__ P TABLE[2] = {{1, 2}, {3, 4}};\n__constant__ Q BOTH = {{1, 2}, {3, 4}};\n"
        "__constant__ Q OPEN[] = {1, 2, 3, 4, {5, 6, 7, 8}, {{9, 10}, {11, 12}}};",
    ),
    "enums within": (
        "T<2> t; for (int k = 0; k < T<2>::size; ++k) t.v[k] = x[k] * x[i]; T<2>::Kind k = T<2>::both;\n"
        "y[i] = t.v[0] * t.v[3] * t.twice() + (k == T<2>::Kind::one ? 1.0 : x[i]) * (int)Case::Of::b;",
        "template <int N> struct T { enum { size = 2 * N }; enum Kind { one = 3, both }; double v[size];\n"
        "  __device__ double twice() const { return v[1] * both; } };\n"
        "struct Case { enum class Of : int { a = 2, b = 5 }; double v; };",
    ),
    "an enum by its whole name": (
        "enum M mode = B; y[i] = g(x[i], i > 3 ? A : mode) * x[i];",
        "enum M { A, B = 5 };\n__device__ double g(double v, enum M mode) { return v * (mode == B ? 2 : 3); }",
    ),
    "constants of types": (
        "y[i] = half<3> * x[i] * area(x[i]) * (wide<double> ? x[i] : 1.0) * (half<1> < x[i] ? x[i] : 2.0);",
        "template <class T> constexpr T pi = T(3.25);\ntemplate <int N> __device__ constexpr double half = N * 0.5;\n"
        "template <class T> constexpr bool wide{sizeof(T) > 4};\n"
        "template <class T> __device__ T area(T r) { return pi<T> * r * r; }",
    ),
    "an if constexpr of macros and constants": (
        "if constexpr (LANES < wide && twice(3) == FEW - 26) y[i] = x[i] * x[i]; else y[i] = x[i];",
        "#define LANES 32\n#define FEW LANES\nconstexpr int wide = FEW + 1;\n"
        "__device__ constexpr int twice(int n) { return 2 * n; }",
    ),
    "type traits": (
        "y[i] = h(x[i]) * h(2) + S<true>{x[i]}.a * S<false>{0.1f}.a + g(x[i]) * g(3);",
        "#include <type_traits>\n"
        "template <class T> __device__ T h(T v) {\n"
        "  if constexpr (std::is_same<T, double>::value && !std::is_integral_v<T>) return v * v; else return v; }\n"
        "template <bool B> struct S { std::conditional_t<B, double, float> a; };\n"
        "template <class T> __device__ T g(const T& v) { using A = std::decay_t<T>;\n"
        "  using B = typename std::conditional<std::is_floating_point_v<A>, A, float>::type; B w = v; return w * w; }",
    ),
    "defaults ahead of the body": (
        "V v{x[i]}; y[i] = g(x[i]) * g(x[i], 3) + v.at(x[i]) * V().a + h(x[i]) + few(x[i]);",
        "__device__ double g(double, double = 2 * 1.5);\n__device__ double h(double v) { return g(v); }\n"
        "__device__ double g(double v, double by) { return v * v * by; }\n"
        "struct V { double a; __device__ V(double v = 2); __device__ double at(double v, int k = 3) const; };\n"
        "__device__ V::V(double v) : a(v * v) {}\n"
        "__device__ double V::at(double v, int k) const { return a * v * k; }\n"
        "__device__ double few(double v, int k = 2 * 3) { return v * v * k; }",
    ),
    "the extents of arrays": (
        "double q[3] = {x[i], x[0]}, m[2][2] = {x[i], 1, x[1], 2}; scale(m[1], 2.0);\n"
        "__shared__ double s[8]; fill(s, x[i]); y[i] = sum(q) * sum(m[1]) + trace(m) * s[7 - i];",
        "template <class T, size_t N> __device__ T sum(const T (&v)[N])\n"
        "{ T s = 0; for (T a : v) s += a * a; return s; }\n"
        "template <class T, int N> __device__ void scale(T (&v)[N], T by) { for (T& a : v) a *= by; }\n"
        "template <int N> __device__ void fill(double (&v)[N], double a) { v[threadIdx.x % N] = a; __syncthreads(); }\n"
        "template <int N, int M> __device__ double trace(const double (&m)[N][M]) {\n"
        "  double s = 1; for (int k = 0; k < M; ++k) s *= m[k][k] * N; return s; }",
    ),
    "names of members": (
        "auto [a, b] = pair(x[i]); P p{x[0], 2}; auto& [u, v] = p; u *= a; v += b; auto [s, t] = p; p.a = 1; s *= 2;\n"
        "const auto [tx, ty, tz] = threadIdx; y[tx] = a * b + p.a * p.b + s * t * v * (ty + 1); auto&& [k] = One{3};\n"
        "k *= x[i]; y[i] *= k;",
        "struct P { double a, b; };\nstruct One { double a; };\n__device__ P pair(double v) { return {v, v * v}; }",
    ),
    "iterators": (
        "double q[]{x[i], x[0], 2}; Span<double> s{q + 1, 2}; for (double& v : s) v *= x[i];\n"
        "double sum = 0; for (const auto& a : Span<const double>{x, 4}) for (double b : s) sum += a * b;\n"
        "for (It at{0}, end{3}; at != end; ++at) sum += q[*at] * sum; Ref r{x[i]}; *r *= 2; y[i] = sum**r;",
        "template <class T> struct Span { T* at; int n; __device__ T* begin() const { return at; }\n"
        "  __device__ T* end() const { return at + n; } };\n"
        "struct It { int k; __device__ It& operator++() { ++k; return *this; }\n"
        "  __device__ int operator*() { return k; }\n"
        "  __device__ bool operator!=(const It& o) const { return k != o.k; } };\n"
        "struct Ref { double v; __device__ double& operator*() { return v; } };",
    ),
    "dim3 of a uint3, and of a number": (
        "uint3 u = threadIdx; dim3 d = u, e(2); d = u; y[d.x] = x[first(u)] * x[first(4)] * x[first(e)] * (e.y + d.y);",
        "__device__ int first(dim3 at) { return at.x; }",
    ),
    "functions of whole numbers, and some that leave all as it is": (
        "int k = lround(x[i] * 3); long long l = llrintf((float)x[i] * 5); y[i] = x[i] * k + x[i] * x[i] * l;\n"
        "auto bits = __brev(i); if (i > 99) __trap(); double v = std::move(y[i]); y[i] += bits * 1e-9 * v;",
        "#include <utility>",
    ),
    "memory that is set to 0": (
        "P p; double m[2][SIZE], v = 2; for (int k = 0; k < 2; ++k) { memset(m, 0, 2 * SIZE * sizeof(double));\n"
        "memset(&p, 0, sizeof(P)); m[k][2] += x[i]; p.v[k] += m[k][2] * x[k]; y[i] += p.v[0] * p.a;\n"
        "y[i] += p.v[1] * m[k][2]; p.a = 1; }\n"
        "memset(m[1], 0, sizeof m[1]); memset(&v, 0, sizeof(v)); y[i] += m[1][2] + v * x[i];",
        "#define SIZE 3\nstruct P { double a, v[2]; };",
    ),
    "members by their number": (
        "V v(x[i], x[0], 1); v[1] *= 2; v[i % 3] += x[1];\n"
        "double3 u = make_double3(x[i], 2, 3); (&u.x)[1] *= v.last();\n"
        "double s = 0; for (int k = 0; k < 3; ++k) s += v[k] * v[k] * (&u.x)[k]; y[i] = s * *(&u.y + 1);",
        "struct V { double x, y, z; __device__ V(double a, double b, double c) : x(a), y(b), z(c) {}\n"
        "  __device__ double& operator[](int k) { return (&x)[k]; } __device__ double last() { return *(&x + 2); } };",
    ),
    "lambdas of the device": (
        "auto f = [=] __device__ (double v) { return v * v * x[0]; };\n"
        "auto g = [&] __host__ __device__ { return f(x[i]) * x[i]; }; y[i] = g() * f(x[1]);",
        "",
    ),
    "lambdas without parameters, and pragmas": (
        "double v = x[i]; auto twice = [&] { v *= x[0]; }; twice(); twice();\n"
        "const double all = [&] { double s = 0; UNROLL for (int k = 0; k < 3; ++k) s += x[k] * v; return s; }();\n"
        "#pragma nounroll\nfor (int k = 0; k < 2; ++k) v *= all;\n#pragma GCC ivdep\n"
        "for (int k = 0; k < 2; ++k) v += x[k];\ny[i] = v;",
        '#define UNROLL _Pragma("unroll")',
    ),
}


@pytest.mark.parametrize("form", NAMES)
def test_names_and_what_they_stand_for(form):
    body, ahead = NAMES[form]
    check(f"{ahead}\n__global__ void f(const double* x, double* y) {{\nint i = threadIdx.x;\n{body}\n}}\n")


ROWS = "const double {}, double {}) {{ int r = threadIdx.x / 4, c = threadIdx.x % 4; "
MATRICES = {
    "rows": ("x[][4]", "(*y)[4]", "y[r][c] = x[r][c] * x[1 - r][3 - c];"),
    "extents": ("x[R][4]", "y[R][4]", "const double* row = x[r]; double* to = y[r] + c; *to = row[c] * *(*x + 1);"),
    "three axes": ("x[2][2][2]", "(*__restrict__ y)[2][2]", "y[r][c / 2][c % 2] = x[r][c % 2][c / 2] * x[0][1][r];"),
    "functions": ("(*x)[4]", "y[][4]", "add(y, r, c, dot(x[r], x[1 - r]) + at(x, r, c)); y[r][c] *= at(x, 0, c);"),
    "a pointer": ("x[R][4]", "y[R][4]", "const double* p = &x[0][0]; y[r][c] = p[4 * r + c] * p[c];"),
}


@pytest.mark.parametrize("form", MATRICES)
def test_parameters_of_several_axes(form):
    x, y, body = MATRICES[form]
    check(
        "#define R 2\n__device__ double dot(const double* a, const double* b) { return a[0] * b[1] + a[2] * b[3]; }\n"
        "__device__ double at(const double m[][4], int r, int c) { return m[r][c] * m[r][0]; }\n"
        "__device__ void add(double (*m)[4], int r, int c, double v) { m[r][c] += v; }\n"
        f"__global__ void f({ROWS.format(x, y)}{body} }}\n"
    )


def test_a_matrix_of_a_template():
    text = "template <int N> __global__ void k(float a[N][N], float y[N][N]) { y[0][threadIdx.x] = a[threadIdx.x][1]; }"
    a = mg.tensor(np.arange(4, dtype=np.float32), device="sim")
    made, y, ones = mg.adjoint(text, "k<2>"), mg.zeros(4, device="sim"), mg.ones(4, device="sim")
    assert made.vjp(a, y, dy=[ones], grid=1, block=2)[0].numpy().tolist() == [0, 1, 0, 1]


def test_a_struct_by_value_may_hold_arrays_of_structs():
    """Also one in an array of __constant__ structs."""
    text = (
        "struct A { double2 d; double v[2]; };\nstruct B { A a; A m[2]; double3 q[2]; int k; };\n"
        "typedef struct { B b[2]; double s; } C, *Reference;\n__constant__ A TABLE[1] = {{{1, 2}, {3, 4}}};\n"
        "__constant__ B ONE = {{{1, 2}, {3, 4}}, {{{5, 6}, {7, 8}}, {{9, 10}, {11, 12}}}, {{1, 2, 3}, {4, 5, 6}}, 2};\n"
        "__global__ void k(const __grid_constant__ C p, [[maybe_unused]] const double* x, double* y, int) {\n"
        "    int i = threadIdx.x;\n"
        "    A a = p.b[1].m[i];\n    y[i] = x[i] * a.d.y * p.b[i].m[1].v[0] * p.b[0].a.d.x * p.b[i].q[1].z * p.s\n"
        "        + x[i] * ONE.m[i].v[1] * ONE.q[1].y * ONE.k * TABLE[0].v[i];\n}\n"
    )
    members = [{"d": (n + 1, n + 2), "v": [n + 2, n + 3]} for n in range(6)]
    b = [{"a": members[n], "m": members[n + 2 : n + 4], "q": [(1, 2, 3 + n), (4, 5, 6 + n)], "k": 0} for n in range(2)]
    x = np.array([2.0, 3.0])
    slope = np.array([m["d"][1] * b[i]["m"][1]["v"][0] * b[i]["q"][1][2] for i, m in enumerate(b[1]["m"])])
    slope = slope * b[0]["a"]["d"][0] * 0.5
    slope += np.array([8, 12]) * 5 * 2 * np.array([3, 4])
    y = mg.zeros(2, device="sim", dtype="float64")
    args = [{"b": b, "s": 0.5}, mg.tensor(x, device="sim"), y, 0]
    mg.kernel(text, "k")(*args, grid=1, block=2)
    np.testing.assert_allclose(y.numpy(), x * slope)
    (dx,) = mg.adjoint(text, "k").vjp(*args, dy=[np.ones(2)], grid=1, block=2)
    np.testing.assert_allclose(dx.numpy(), slope)


@pytest.mark.parametrize("what", ["an element", "a member", "one of many", "a number in a list", "a constant"])
def test_whole_numbers_are_examined_anew_wherever_they_are(what):
    ahead, param, index = {
        "an element": ("struct S { int j; float v; };", "const S* s", "s[i].j"),
        "a member": ("struct S { int j; };", "S s", "i * s.j"),
        "one of many": ("struct S { short j[1500]; };", "S s", "i * s.j[700]"),
        "a number in a list": ("struct A { float v; int j; }; struct S { A a[2]; };", "S s", "i * s.a[1].j"),
        "a constant": ("struct S { int j; }; __constant__ S s;", "int", "i * s.j"),
    }[what]
    text = (
        f"{ahead}\n__global__ void f(const float* x, float* y, {param}) {{ int i = threadIdx.x; y[{index}] = x[i]; }}"
    )
    made, x = mg.adjoint(kernel := mg.kernel(text, "f"), wrt=["x"]), np.ones(4, np.float32)
    for js in (1, 0):
        given = {"an element": np.array([(i * js, 0) for i in range(4)], [("j", "i4"), ("v", "f4")]),
                 "a member": np.array((js,), [("j", "i4")]), "a constant": js,
                 "one of many": {"j": np.eye(1, 1500, 700, dtype=np.int16)[0] * np.int16(js)},
                 "a number in a list": {"a": [{"v": 0, "j": 0}, {"v": 0, "j": js}]}}[what]  # fmt: skip
        if what == "a constant":
            kernel.constant("s", {"j": js})
        if js:
            assert made.vjp(x, 0 * x, given, dy=[x], grid=1, block=4)[0].tolist() == [1] * 4
    with pytest.raises(NotDifferentiable, match="the kernel has a race and so no gradient"):
        made.vjp(x, 0 * x, given, dy=[x], grid=1, block=4)


def test_arrays_to_which_a_struct_points_on_the_tape():
    """The kernel writes copies of the outputs, and the whole numbers in place; each array has its own gradient."""
    f = mg.differentiable(
        "struct D { const double* x; double* y; int* at; int n; };\n__global__ void f(D d, const double* w) {\n"
        "int i = threadIdx.x; if (d.y && i < d.n) { d.y[i] = d.x[i] * d.x[i] * w[d.at[i]]; d.at[i] = 0; } }"
    )
    x, w, y = (mg.tensor(v, device="sim") for v in (np.arange(4.0), np.array([1.0, 2, 3, 4]), np.zeros(4)))
    at = mg.tensor(np.array([1, 2, 3, 0], np.int32), device="sim")
    x.requires_grad = w.requires_grad = True
    out = f({"x": x, "y": y, "at": at, "n": 4}, w, grid=1, block=4)
    out.sum().backward()
    assert out.numpy().tolist() == [0, 3, 16, 9] and y.numpy().tolist() == at.numpy().tolist() == [0] * 4
    assert x.grad.numpy().tolist() == [0, 6, 16, 6] and w.grad.numpy().tolist() == [9, 0, 1, 4]
    dx, dw = f.adjoint.vjp({"x": x, "y": None, "at": at, "n": 4}, w, dy=[None], grid=1, block=4)
    assert dx.numpy().tolist() == dw.numpy().tolist() == [0] * 4
    with pytest.raises(LaunchError, match="f: d_x and d_y share memory and d_y is written; pass a copy"):
        f.adjoint.vjp({"x": (v := np.ones(4)), "y": v, "at": at, "n": 4}, w, dy=[v], grid=1, block=4)
