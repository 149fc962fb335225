"""Classes, enums and namespaces in full: which name is meant, what C++ converts and constructs by itself."""

import re

import numpy as np
import pytest
from test_adjoint_cpp import kernel
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

M = "struct M { double v; __device__ operator double() const { return v * v; } };\n"
OUTSIDE = """
struct V { double a, b; __device__ V(); __device__ V(double p, double q); __device__ V& operator+=(const V& o);
    __device__ V operator*(double s) const; __device__ double sq() const; static __device__ V one();
    V(const V&) = default; V& operator=(const V&) = default; ~V() = default; };
__device__ V::V() : a(0), b(0) {}
__device__ V::V(double p, double q) noexcept : a(p), b{q} { b += 1; }
__device__ V& V::operator+=(const V& o) { a += o.a; b += o.b; return *this; }
__device__ V V::operator*(double s) const { return V(a * s, b * s); }
[[nodiscard]] __device__ auto V::sq() const -> double { return a * a + b; }
__device__ V V::one() { return V(1, 1); }
template <typename T> struct Pair { T a, b; __device__ T sum() const; template <typename F> __device__ T by(F f) const;
    __device__ friend Pair operator*(T s, const Pair& p) { return Pair{s * p.a, p.b}; }
    __device__ friend T dot(const Pair& p, const Pair& q) { return p.a * q.a + p.b * q.b; } };
template <typename T> __device__ T Pair<T>::sum() const { return a * a + b; }
template <typename T> template <typename F> __device__ T Pair<T>::by(F f) const { return f(a) * b; }
namespace geo { struct Far { double a; __device__ double sq() const; }; }
__device__ double geo::Far::sq() const { return a * a; }
"""
SPACES = """
namespace a { struct W { double v; }; __device__ double f(double v) { return v * v; }
    __device__ double g(double v) { return f(v) * v; } __device__ double len(W w) { return w.v * w.v; }
    __device__ W operator+(W p, W q) { return W{p.v + q.v}; }
    namespace in { struct Sq { __device__ double operator()(double v) const { return v * v; } };
        __device__ double f(double v) { return 3 * v * a::f(v); } } }
namespace b { __device__ double f(double v) { return sin(v); } __device__ double g(double v) { return f(v) * 2; }
    __device__ double late(double v); __device__ double early(double v) { return late(v) * v; }
    __device__ double late(double v) { return v * v; }
    __device__ double sin(double v) { return v * v; } __device__ double both(double v) { return sin(v) * ::sin(v); } }
namespace c = a; __device__ double f(double v) { return 1 / v; }
"""
ENUMS = """
enum class Act : unsigned char { None, Cube = 4, Sine }; enum class Side { Sine, None };
struct P { Act act = Act::Cube; Side side; double s = 2; };
__constant__ Act modes[2] = {Act::Sine, Act::None};
__device__ double go(Act a, double v) {
    switch (a) { case Act::Cube: return v * v * v; case Act::Sine: return sin(v); default: return v; }
}
template <Act a> struct By { static __device__ double f(double v) {
    if constexpr (a == Act::Cube) return v * v * v;
    else if constexpr (a == Act::Sine) return sin(v); else return v; } };
"""
PARTS = """
struct In { double a, b; __device__ In(double p, double q) : a(p), b(p * q) {} };
struct Out { In p; double r[2]; double s = p.b * 2, t[2] = {s, 4}; int n{3};
    __device__ Out(double v) : p(v, 3), r{v} { r[1] += s; } __device__ Out() : Out(2) { n = 5; } };
struct Set { double v; __device__ Set() : v(4) {} }; struct Holds { Set s; double k; };
struct Grows : Set { double k; };
struct Taps { double w[2][2] = {{1, 2}, {3, 4}}; int n[3]; double k = 2; };
struct Mixed { double a, b; __device__ Mixed(double q) : b(q * a), a(2 * q) {} };
struct U { double u, v; }; struct X : U { double w; }; struct E {}; struct Y : E { double w; };
struct Base { double v; __device__ Base(double q) : v(q * q) {} };
struct Same : Base { using Base::Base; double w = 3; };
template <class T> struct One { T v; __device__ One(T q) : v(q * q) {} };
template <class T> struct Two : One<T> { T w; __device__ Two(T p, T q) : One<T>(p), w(q) {} };
"""
CURIOUS = """
template <class D> struct Does { double v;
    __device__ double twice(double q) const { return static_cast<const D*>(this)->own(q) * 2; }
    __device__ D& self() { return static_cast<D&>(*this); }
    __device__ void step(double h) { self().k += h * self().own(v); v += h; } };
struct Soft : Does<Soft> { double k; __device__ double own(double q) const { return q * q * k; } };
struct Hard : Does<Hard> { double k; __device__ double own(double q) const { return q + k * v; } };
template <class D> __device__ double call(const Does<D>& d, double q) { return d.twice(q); }
struct A { double v; __device__ double f() const { return v * v; } __device__ void grow() { v *= 2; } };
struct B : A { double w; __device__ A& base() { return *this; } };
__device__ double by_value(A a) { a.grow(); return a.f(); } __device__ void up(A* a, double s) { a->v += s; a->grow(); }
"""
HIDDEN = """
struct A { double v; __device__ double h() const { return v; } __device__ double f() const { return h() * v; }
    __device__ double g() const { return f() + v; } __device__ operator double() const { return v; } };
struct B : A { double w; __device__ double h() const { return w * w * w; }
    __device__ double f() const { return sin(w); }
    __device__ A& base() { return *this; } __device__ const A* point() const { return this; }
    __device__ double both() const { return A::f() * f(); } __device__ operator double() const { return w * w; } };
struct Hold { const A* a; }; __device__ A made(double v) { B b; b.v = v * v; b.w = 1; return b; }
__device__ void twice(A& a) { a.v = 2 * a.v * a.f(); } __device__ double point(const A* a) { return a->f(); }
__device__ double copied(A a) { return a.f(); } __device__ const A& same(const A& a) { return a; }
template <class D> struct Default { double v; __device__ double g() const { return v; }
    __device__ double f() const { return static_cast<const D*>(this)->g() * v; } };
struct Own : Default<Own> { double w; __device__ double g() const { return w * w; } }; struct None : Default<None> {};
namespace n { constexpr double k = 2; __device__ double len(double v) { return v * v; } }
struct Len { double v; __device__ double len() const { return n::len(v) * n::k; }
    __device__ double go(double k) const { return n::len(k) + len() + n::k * k; } };
__device__ double part(int v) { return 3 * v; } namespace n { __device__ double part(double v) { return v * v; }
    __device__ double lambda(double v) { auto f = [=](double q) { return part(q) * v; }; return f(2); } }
__device__ double user(double v) { using n::part; return part(v); }
struct Dual { double v; __device__ Dual(double q) : v(3 * q) {} }; __device__ Dual sin(Dual d) { return Dual(d.v); }
"""
TEMPLATES = """
template <class T> __device__ T inv(T v) { return T(1) / v; }
template <> __device__ float inv<float>(float v) { return 2 / v; }
template <> __device__ double inv<double>(double v) { return 3 / v; }
template <int N> __device__ double power(double v) { return v * power<N - 1>(v); }
template <> __device__ double power<0>(double v) { return 1; }
template <int N> __device__ double sum(const double* q) {
    if constexpr (N == 0) return 0; else return q[N - 1] * q[N - 1] + sum<N - 1>(q); }
template <typename T> struct Of { typedef double2 Type; }; template <> struct Of<float> { typedef float2 Type; };
template <typename T> __device__ typename Of<T>::Type scaled(typename Of<T>::Type q, T s) { q.x *= s; return q; }
template <class T> __device__ T square(T v) { return v * v; } __device__ double square(double v) { return v * v * v; }
template <double (*F)(double)> __device__ double again(double v) { return F(F(v)); }
__device__ double cube(double v) { return v * v * v; }
__device__ double total(const double (&q)[3]) { double s = 0; for (double e : q) s += e * e; return s; }
"""
FORMS = {
    "conversions that C++ makes by itself": kernel(
        "M m{x[i]}; const double& r = m; double a[2] = {m, 1}; m.v = 3 * x[0]; y[i] = r * m * a[0] + by(m, x[1]);\n"
        "y[i] += (i % 2 ? 2 : m) * x[i] + half(C{x[i]}) / 2 * x[i]; T t = x[i], u{m}; t = t.v * x[2];\n"
        "y[i] += use(x[i]) * t.v * u.v; S s = C{x[i]}; const S& q = C{x[0]}; y[i] += s.a * q.a * taken(C{x[1]});\n"
        "F g{x[i]}; if (g) y[i] += g * x[i]; y[i] *= !g ? 2.0 : -g;",
        M + "__device__ double by(double v, const double& w) { return v * v * w; }\n"
        "struct S { double a; };\nstruct C { double c; __device__ operator S() const { return S{c * c}; }\n"
        "  __device__ operator int() const { return (int)(7 * c); } };\n"
        "struct T { double v; __device__ T(double q) : v(2 * q) {} };\n"
        "__device__ double use(const T& t) { return t.v; }\n"
        "__device__ double half(int n) { return n; } __device__ double taken(S s) { return s.a * s.a; }\n"
        "struct F { double v; __device__ explicit operator bool() const { return v > 0.7; }\n"
        "  __device__ operator double() const { return v * v; } };",
    ),
    "bodies outside of their struct, and friends": kernel(
        "V v; v += V::one() * x[i]; V w = v; w = w * x[0]; Pair<double> p{x[i], 2}, q = 2.0 * p; geo::Far g{x[1]};\n"
        "y[i] = v.sq() * w.a + p.sum() * dot(p, q) + g.sq() * p.by([](double v) { return v * v; });", OUTSIDE,
    ),
    "names of namespaces": kernel(
        "using b::g; a::W w{x[i]}; a::in::Sq s; const c::W k{x[0]};\n"
        "y[i] = a::f(x[i]) + b::f(x[0]) * f(x[i]) + g(x[i]) * a::g(x[1]) + len(w + k) * s(x[i]) + c::in::f(x[2]);\n"
        "y[i] += b::both(x[i]) * b::early(x[1]) * sin(x[0]) * b::sin(x[i]);", SPACES,
    ),
    "enums": kernel(
        "enum { K = 3, L }; enum class Own { A, B = 7 }; Own o = i % 2 ? Own::A : Own::B;\n"
        "P p, q{Act::None, Side::Sine, 3};\n"
        "if (p.act == Act::Cube) p.act = q.act; y[i] = go(p.act, x[i]) * go(modes[i % 2], x[0]) * K * L * p.s;\n"
        "y[i] += By<Act::Cube>::f(x[i]) * By<Act::Sine>::f(x[0]) * (o == Own::B ? 2 : 1) * (int)Act::Sine;", ENUMS,
    ),
    "what a constructor and braces set": kernel(
        "Out o(x[i]), d; Holds h; Grows g; g.k = x[i]; h.k = x[0]; Taps t; t.w[0][1] *= x[i];\n"
        "Taps all[2]; Taps u{{{x[i]}}}; Mixed z(x[i]);\n"
        "X p{{x[i], 2}, 3}, q{U{1, x[i]}, 2}, r{x[0], 1, 2}; Y e{{}, x[i]}; Same s(x[i]); Two<double> w(x[i], x[0]);\n"
        "y[i] = o.p.b * o.r[0] * o.r[1] * o.t[0] * o.n + d.t[1] * d.r[1] * d.n + h.s.v * h.k * g.v * g.k;\n"
        "y[i] += t.w[0][1] * all[1].w[1][0] * u.w[0][0] + u.w[1][1] + u.n[2] + u.k + z.a * z.b;\n"
        "y[i] += p.u * p.v * p.w + q.v * q.w + r.u * r.w + e.w * s.v * s.w + w.v * w.w;", PARTS,
    ),
    "parts of an object and the whole": kernel(
        "Soft s; s.k = x[i]; s.v = x[0]; for (int k = 0; k < 3; ++k) s.step(0.1 * x[i]); Hard h; h.k = 2;\n"
        "h.v = x[1]; y[i] = s.twice(x[i]) * h.twice(x[0]) * s.k + call(s, 2) * call(h, x[i]); B b[3]; int k = 1;\n"
        "for (int n = 0; n < 3; ++n) { b[n].v = n + x[i]; b[n].w = n; } A& r = b[k]; A* p = &b[k]; A part = b[k];\n"
        "k = 2; r.grow(); up(p, x[i]); up(b + 2, x[0]); b[0].base().grow();\n"
        "y[i] += by_value(b[1]) * part.f() * b[2].A::f();\n"
        "y[i] += static_cast<const A&>(b[0]).f() * b[1].A::v * static_cast<B&>(r).w;", CURIOUS,
    ),
    "names that hide others": kernel(
        "B b; b.v = x[i]; b.w = 2 * x[0]; twice(b); A* p = &b; const A& r = b; A c = b; Hold h{&b};\n"
        "__shared__ B s[32]; y[i] = b.g() + b.f() * b.h() + b.A::f() * p->f();\n"
        "y[i] += same(b).h() * h.a->f() + r.f() * c.h() + point(&b) * copied(b);\n"
        "y[i] += made(x[i]).f() + b.base().f() * b.point()->g() + b.both() + cos(b) * cos(r); s[i] = b; A& q = s[i];\n"
        "twice(s[i]); y[i] += q.f() + s[i].f() + static_cast<A*>(&s[i])->h(); Own o; o.v = x[i]; o.w = x[1]; None e;\n"
        "e.v = x[2]; y[i] += o.f() + e.f() + o.g() + sin(x[i]) + sin(Dual(x[0])).v; double k = x[i]; Len l{x[i]};\n"
        "auto len = [](double v) { return 3 * v; }; y[i] += n::k * k + l.go(k) + n::len(k) * len(k);\n"
        "y[i] += n::lambda(x[i]) + part(2.7) * x[i] + user(x[i]);", HIDDEN,
    ),
    "templates for some arguments, and of themselves": kernel(
        "double q[3] = {x[i], 2, x[0]}; double2 v = scaled<double>(make_double2(x[i], x[1]), x[0]);\n"
        "y[i] = inv(x[i]) * inv<float>(2.0f) + power<4>(x[i]) + sum<3>(q) * v.x * v.y + square(x[i])\n"
        "* again<cube>(x[0]) + square<double>(x[i]) * total(q);\n"
        "struct L { double a, b; __device__ double s() const { return a * b; } };\n"
        "L l{x[i], 2}; y[i] += l.s() * [](auto v) { return v * v; }(x[i]) * sizeof q / sizeof(l.a);",
        TEMPLATES,
    ),
    "complex numbers of CUDA": kernel(
        "cuDoubleComplex z = make_cuDoubleComplex(x[i], x[0]), w = cuCmul(z, cuConj(make_cuDoubleComplex(2, x[1])));\n"
        "z = cuCdiv(cuCfma(z, w, z), cuCsub(w, make_cuDoubleComplex(x[i], 3)));\n"
        "y[i] = cuCreal(z) * cuCimag(w) + cuCabs(z);",
        "#include <cuComplex.h>",
    ),
    "macros with a second meaning": kernel(
        "double v = first(x);\n#define SIZE 3\n#define AT(r, c) (2 * SIZE * (r) + (c))\n"
        "y[i] = v * x[AT(ONE, 1)] * SIZE * EXP(x[i]);",
        "#define EXP exp\nint const ONE = 1;\n#define SIZE 2\n#define AT(r, c) (SIZE * (r) + (c))\n"
        "__device__ double first(const double* v) { return v[AT(1, 1)] * v[AT(1, 1)] * SIZE; }",
    ),
    "constants of CUDA": kernel(
        "double m = -CUDART_INF_F, least = CUDART_INF; for (int k = 0; k < 8; k++) { m = fmax(m, x[k]); }\n"
        "for (int k = 0; k < 8; k++) least = min(least, x[k] * CUDART_PIO2); y[i] = m * least * CUDART_SQRT_TWO;",
        "#include <math_constants.h>",
    ),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
def test_right(form):
    check(FORMS[form])


NAMED = """
namespace act { struct Sq { __device__ double operator()(double v) const { return v * v; } };
    enum class Way { Up, Down }; }
template <class T> struct Cube { __device__ T operator()(T v) const { return v * v * v; } };
template <int N> struct Times { static constexpr int n = N;
    __device__ double operator()(double v) const { return n * v; } };
__device__ double sine(double v) { return sin(v); }
template <class F> __global__ void of(const double* x, double* y) { F f; y[threadIdx.x] = f(x[threadIdx.x]); }
template <typename T, class F = Cube<T>> __global__ void two(const T* x, T* y) { y[threadIdx.x] = F()(x[threadIdx.x]); }
template <double (*F)(double)> __global__ void by(const double* x, double* y) { y[threadIdx.x] = F(x[threadIdx.x]); }
template <unsigned B, act::Way w> __global__ void when(const double* x, double* y) { double v = x[threadIdx.x];
    if constexpr (B >= 64 && w == act::Way::Down) v *= v; if constexpr (B >= 128u) v = 0; y[threadIdx.x] = v; }
"""


@pytest.mark.parametrize("name, slope", [
    ("of<act::Sq>", lambda x: 2 * x), ("two<double>", lambda x: 3 * x * x), ("two<double, act::Sq>", lambda x: 2 * x),
    ("of<Cube<double>>", lambda x: 3 * x * x), ("of<Times<5>>", lambda x: 5 + 0 * x), ("by<sine>", np.cos),
    ("when<64u, act::Way::Down>", lambda x: 2 * x),
])  # fmt: skip
def test_arguments_of_a_kernels_template_are_names_of_the_file(name, slope):
    x = np.array([0.3, 0.8])
    (dx,) = mg.adjoint(mg.kernel(NAMED, name)).vjp(x, np.zeros(2), dy=[np.ones(2)], grid=1, block=2)
    np.testing.assert_allclose(dx, slope(x), rtol=1e-14)


STRUCTS = (
    ENUMS
    + """
namespace geo { struct Vec { double a; Act act; __device__ double sq() const { return a * a; } }; }
struct Span { double h, q; __device__ Span() : h(0), q{1} {} __device__ Span(double a, double b = 2) : h{a}, q(b) {} };
__global__ void k(const double* x, double* y, P p, geo::Vec* v, const Act* act, const Span* s) { int i = threadIdx.x;
    P q = p; q.act = act[i]; v[i].act = q.act; v[i].a *= x[i]; geo::Vec u = v[i];
    y[i] = go(u.act, x[i]) * go(p.act, u.sq()) * (p.side == Side::None ? v[i].a : p.s) * s[i].h * s[i].q; }
"""
)


def test_enums_and_constructors_in_structs_that_a_launch_gives():
    kind = np.dtype([("a", "f8"), ("act", "u1")], align=True)
    v, s = np.zeros(2, kind), np.array([(2, 3), (5, 7)], [("h", "f8"), ("q", "f8")])
    v["a"], x, act = [1.5, 2.5], np.array([0.3, 0.8]), np.array([4, 5], "u1")
    kernel, p = mg.kernel(STRUCTS, "k"), {"act": 5, "side": 1, "s": 3.0}
    made = mg.adjoint(kernel, ["x"])
    dy = [np.ones(2) if name == "y" else None for name in made.outputs]
    (dx,) = made.vjp(x, np.zeros(2), p, v, act, s, dy=dy, grid=1, block=2)

    def value(x):
        given = [mg.tensor(each.copy(), device="sim") for each in (x, np.zeros(2), v, act, s)]
        kernel(given[0], given[1], p, *given[2:], grid=1, block=2)
        return given[1].numpy()

    np.testing.assert_allclose(dx, (value(x + 1e-6) - value(x - 1e-6)) / 2e-6, rtol=1e-8)


METHODS = """
__constant__ double table[2] = {2, 3};
__device__ double square(double v) { return v * v; } __device__ void half(double v, double* into) { *into = v / 2; }
struct Later; namespace g { struct Way { double a; int n; __device__ Way() {} __device__ double f(double v) const; }; }
class P : public g::Way { int m; g::Way other; protected: double s = square(2); public: __device__ ~P() {}
    __device__ double go(const Later& l, double v) const; __device__ double of(double v) const {
        double h; half(square(v), &h); return h * table[1] * f(v) * m; } };
struct Later { double k; }; __device__ double g::Way::f(double v) const { return a * v * n; }
__device__ double P::go(const Later& l, double v) const { return l.k * v * s * other.f(v); }
__global__ void k(const double* x, double* y, const P* p) { int i = threadIdx.x; Later l{x[i]}; P q = p[i];
    y[i] = q.of(x[i]) + p[i].go(l, x[i]); }
"""


def test_the_adjoint_has_structs_without_their_methods_and_with_their_layout():
    """What the methods use need not be in the adjoint. The base has a constructor, so m lies in its last bytes."""
    way = np.dtype([("a", "f8"), ("n", "i4")], align=True)
    kind = np.dtype({"names": ["a", "n", "m", "other", "s"], "formats": ["f8", "i4", "i4", way, "f8"],
                     "offsets": [0, 8, 12, 16, 32], "itemsize": 40})  # fmt: skip
    p, x = np.zeros(2, kind), np.array([0.3, 0.8])
    p["a"], p["n"], p["m"], p["s"], p["other"] = [2, 3], [5, 7], [11, 13], [1.5, 2.5], (3, 2)
    made = mg.adjoint(mg.kernel(METHODS, "k"), ["x"])
    assert "Later" not in made.source.partition("__global__")[0]
    (dx,) = made.vjp(x, np.zeros(2), p, dy=[np.ones(2)], grid=1, block=2)
    of = 1.5 * 3 * p["a"] * p["n"] * p["m"] * x**2
    np.testing.assert_allclose(dx, of + 18 * p["s"] * x**2, rtol=1e-14)


REFUSED = {
    "b::V v{x[i]}; y[i] = v.v;": (
        "namespace a { struct V { double v; }; } namespace b { struct V { double v; double w; }; }",
        "V has several meanings in this file; give each a name of its own",
    ),
    "y[i] = b::k * x[i];": (
        "namespace a { constexpr double k = 2; } namespace b { constexpr double k = 3; }",
        "k has several meanings in this file; give each a name of its own",
    ),
    "y[i] = f2(x[i]);": (
        "namespace a { __device__ double f2(double v) { return v; } } using namespace a;\n"
        "namespace b { __device__ double f2(double v) { return 2 * v; } } using namespace b;",
        "several functions f2 take these arguments; give the one that is meant a name of its own",
    ),
    "V<float> v{x[i]}; y[i] = v.f();": (
        "template <class T> struct V { T v; __device__ T f() const; };\n"
        "template <> __device__ float V<float>::f() const { return v; }",
        "V::f is not for all arguments of the template; write it in the struct",
    ),
    "W w{x[i], 2, 3}; y[i] = w.w[0];": ("struct W { double w[2]; };", "W has 1 members; got 2 values"),
    "decltype(x[i]) v = x[i]; y[i] = v;": ("", "decltype is outside the differentiable subset; write the type"),
    "y[i] = turn<3>(x[i]);": (
        "template <int N> __device__ double turn(double v) { return turn<N>(v); }",
        "turn calls itself; recursion is outside the subset, write a loop",
    ),
}


@pytest.mark.parametrize(("body", "ahead", "why"), [(body, *rest) for body, rest in REFUSED.items()])
def test_what_is_refused(body, ahead, why):
    with pytest.raises(NotDifferentiable, match=rf"f.cu:\d+:\d+: {re.escape(why)}"):
        mg.adjoint(kernel(body, ahead), name="f")


def test_an_enum_class_of_a_header_in_a_struct_is_refused(tmp_path):
    (tmp_path / "way.h").write_text("enum class Way { Up, Down };\nstruct P { Way way; double s; };\n")
    text = (
        '#include "way.h"\n__global__ void f(const double* x, double* y, P p) { y[0] = p.way == Way::Up ? x[0] : 0; }\n'
    )
    (tmp_path / "k.cu").write_text(text)
    with pytest.raises(NotDifferentiable, match=r"P holds a Way, an enum of way\.h; make that member an int"):
        mg.adjoint(tmp_path / "k.cu")


def test_constants_of_a_header_in_the_namespace_of_the_kernel(tmp_path):
    (tmp_path / "sizes.h").write_text(
        "namespace a::b { constexpr int TWICE = 2; }\nnamespace a { constexpr double RATE = 3; }\n"
    )
    text = """#include "sizes.h"
namespace a::b {
constexpr int LENGTH = TWICE * 2;
__global__ void f(const double* x, double* y) {
    double s[LENGTH] = {};
    for (int k = 0; k < LENGTH; ++k) s[k] = RATE * x[k * TWICE] * x[k];
    y[threadIdx.x] = s[0] * s[3];
}
}
"""
    (tmp_path / "k.cu").write_text(text)
    x, y = (mg.tensor(np.arange(1.0, 9.0), device="sim") for _ in range(2))
    (dx,) = mg.adjoint(tmp_path / "k.cu").vjp(x, y, dy=[mg.ones(8, dtype="float64", device="sim")], grid=1, block=1)
    assert dx.numpy().tolist() == [2 * 9 * 28, 0, 0, 9 * 7, 0, 0, 9 * 4, 0]


def test_braces_in_the_type_that_a_function_returns():
    ahead = """namespace lists { template <typename T> struct Wrap {};
template <typename T> __device__ auto rest(T) -> decltype(Wrap<T>{}) { return Wrap<T>{}; } }
__device__ double square(double v) { return v * v; }"""
    check(kernel("y[i] = square(x[i]);", ahead))


def test_an_explicit_instance_at_the_end_of_a_file():
    ahead = "template <class T> class Twice { T v; };"
    check(kernel("y[i] = x[i] * x[i];", ahead) + "template class Twice<double>;\ntemplate class Twice<float>;\n")


def test_private_members_in_a_header_are_refused(tmp_path):
    text = "class Angle { double v; public: __device__ double get() const { return v; } __device__ Angle() {} };\n"
    body = "__global__ void f(const Angle* a, const double* x, double* y) { y[0] = a[0].get() * x[1] * x[0]; }"
    (tmp_path / "angle.h").write_text(text)
    (tmp_path / "f.cu").write_text(f'#include "angle.h"\n{body}')
    told = r"f.cu:2:1: Angle has private members in a header; make them public there, or put its text in this file"
    with pytest.raises(NotDifferentiable, match=told):
        mg.adjoint(tmp_path / "f.cu", "f")
    (tmp_path / "angle.h").write_text(text.replace("class Angle {", "class Angle { public:"))
    assert mg.adjoint(tmp_path / "f.cu", "f").kernels
    for own in (text, text.replace("class", "class __align__(8)")):
        assert mg.adjoint(own + body, "f").kernels


@pytest.mark.parametrize("member", ["Angle of;", "Angle* of;", "Angle of[2];"])
def test_private_members_of_a_members_class_in_a_header_are_refused(tmp_path, member):
    angle = "class Angle { double v; public: __device__ double get() const { return v; } };"
    (tmp_path / "turn.h").write_text(f"{angle}\nstruct Turn {{ {member} double by; }};\n")
    body = "__global__ void f(Turn t, const double* x, double* y) { y[0] = t.by * x[1] * x[0]; }"
    (tmp_path / "f.cu").write_text(f'#include "turn.h"\n{body}')
    with pytest.raises(NotDifferentiable, match=r"f.cu:2:1: Turn has private members in a header; make them public"):
        mg.adjoint(tmp_path / "f.cu", "f")
