"""Objects that are called, extended and converted, lambdas where they are used, and scans over tiles of a warp."""

import re

import pytest
from test_adjoint_cpp import kernel
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

CALLED = """
template <typename T> struct Square { __device__ T operator()(T v) const { return v * v; } };
template <int N> struct Power {
    __device__ double operator()(double v) const { double p = 1; for (int k = 0; k < N; ++k) p *= v; return p; } };
struct Scale { double s; __device__ Scale(double v) : s(v) {}
    __device__ double operator()(double v) const { return s * v; } };
struct Line { double a, b; __device__ double operator()(double t) const { return a + t * (b - a); } };
template <typename F> __device__ double apply(F f, double v) { return f(v) + f(2 * v); }
"""
EXTENDED = """
struct A { double a; __device__ double f() const { return a; } __device__ double g() const { return f() * f(); }
    __device__ void grow() { a *= 2; } };
struct B : public A { double b; __device__ double own() const { return a * a * b; }
    __device__ double h() { grow(); return A::f() * f() * own() * A::a; } };
__device__ double use(const A& v) { return v.a * v.f(); }
struct C { double c; __device__ C() : c(3) {} __device__ C(double v) : c(2 * v) {} };
struct D : C { double d; __device__ D(double u, double v) : C(u), d(c * v) { c *= d; } };
struct E : C { double e; __device__ E(double v) : e(v) {} };
template <typename T> struct P { T p; __device__ T square() const { return p * p; } };
template <typename T> struct Q : P<T> { T q; __device__ T go() const { return this->square() * q * this->p; } };
"""
CONVERTED = """
struct Degrees { double v; __device__ operator double() const { return v * v; } };
template <typename T> struct Own { T v; __device__ operator T() const { return v * v; } };
struct Flag { double v; __device__ explicit operator bool() const { return v > 0.7; } };
"""
PASSED_ON = """
namespace u { template <typename T> __device__ void wrap(T& d, T L) { if (d > T(0.5) * L) d -= L; } }
__device__ double squared(double d, double L) { u::wrap<double>(d, L); return d * d; }
__device__ void mix(double a, double& b, int& k) { b = a * b + k; ++k; }
__device__ double mixed(double a, double b, int n) { mix(a + 1, b, n); return a * b + n; }
__device__ void swapped(double& a, double& b) { double t = a; a = b; b = t; }
__device__ double sorted(double a, double b) { if (a > b) swapped(a, b); return 2 * a + b; }
struct Twice { __device__ void operator()(double& d) const { d *= 2; } };
template <typename Op> __device__ double with(Op op, double d) { op(d); return d * d; }
struct Sum { double s; __device__ void take(double& d) { s += d; d *= s; }
    __device__ double both(double d) { take(d); return d * s; } };
"""
UNNAMED = """
template <int N, int = 0, int M = 2> __device__ double power(double v) { double p = 1;
    for (int k = 0; k < N + M; ++k) p *= v; return p; }
template <typename T, typename = void> __device__ T twice(T v) { return v + v; }
"""
TILE = "auto tile = cg::tiled_partition<4>(cg::this_thread_block());\n"
GROUPS = "#include <cooperative_groups.h>\n#include <cooperative_groups/scan.h>\nnamespace cg = cooperative_groups;"
FORMS = {
    "copies that a function passes on by reference": kernel(
        "double v = x[i], w = x[0]; int k = i % 3; Sum c{1.0};\n"
        "y[i] = squared(v, 1.5) * v + mixed(v, w, k) * w + k + sorted(v, w) * v + sorted(w, v) * w;\n"
        "y[i] += with(Twice(), v) * v + c.both(v) * v + [](double t) { u::wrap(t, 1.0); return t; }(v) * v;", PASSED_ON,
    ),
    "parameters of a template without a name": kernel(
        "y[i] = power<1, 0, 3>(x[i]) * power<2>(x[0]) * twice<double>(x[i]) * twice(x[1]);", UNNAMED,
    ),
    "objects of no name": kernel(
        "y[i] = Square<double>()(x[i]) * Power<3>{}(x[0]) * Scale(x[1])(x[i]) * Line{x[2], x[i]}(0.3);\n"
        "y[i] += apply(Square<double>(), x[i]) * apply(Scale{x[3]}, x[i]) * apply(Power<2>(), x[4]);", CALLED,
    ),
    "lambdas of no name": kernel(
        "double s = x[0]; y[i] = [](double v) { return v * v; }(x[i]) * apply([=](double v) { return s * v * v; },\n"
        "x[i]); s = 2; y[i] *= apply([&](double v) -> double { return s * v * x[i]; }, x[1]);", CALLED,
    ),
    "structs that extend others": kernel(
        "B v; v.a = x[i]; v.b = x[0]; y[i] = v.g() * v.f() * v.h() + use(v); D d(x[i], x[1]); E e(x[2]);\n"
        "Q<double> q; q.p = x[i]; q.q = x[0]; y[i] *= d.c * d.d * e.c * e.e * q.go();", EXTENDED,
    ),
    "elements seen as their base": kernel(
        "__shared__ B s[32]; s[i].a = x[i]; s[i].b = x[0]; const A& first = s[i]; A& second = s[i];\n"
        "A sliced = use_of(s[i]); second.grow(); B own = s[i]; A* third = &own;\n"
        "y[i] = first.g() * second.f() * third->g() + use(s[i]) + sliced.f();",
        EXTENDED + "__device__ A use_of(B b) { return b; }",
    ),
    "the type that a function returns": kernel(
        "y[i] = whole(x[i]) * x[i] + some(x[0]) * x[i];",
        CONVERTED + "__device__ int whole(double v) { Degrees d{2 * v}; return d; }\n"
        "__device__ int some(double v) { Degrees d{3 * v}; if (v > 0.1) return d; return 5; }",
    ),
    "conversions": kernel(
        "Degrees d{x[i]}, e{x[0]}; double v = -d * e + d / 2.0 + sin(e); Own<double> o{x[1]}; Flag f{x[i]};\n"
        "if (f) v *= o; y[i] = v * (d > e ? (double)d : e.v) * (!f ? 2 : f.v);", CONVERTED,
    ),
    "functions with names of CUDA's": kernel(
        "y[i] = my::sinpi(x[i]) * my::sin(x[0]) + fdim(x[i], x[1], 3) * rhypot(x, 4) + cos(x[i]);",
        "namespace my { __device__ double sinpi(double v) { return v * v; }\n"
        "__device__ double sin(double v) { return v * v * v; } }\n"
        "__device__ double fdim(double a, double b, double c) { return a * b * c; }\n"
        "__device__ double rhypot(const double* p, int n)\n"
        "{ double s = 0; for (int k = 0; k < n; ++k) s += p[k]; return s; }",
    ),
    "aligned members": kernel(
        "A v; v.a = x[i]; v.b = x[0]; v.c = x[1]; y[i] = v.a * v.b * v.c * v.a;",
        "struct A { alignas(16) double a; mutable double b; __align__(8) double c; };",
    ),
    "scans": kernel(
        f"{TILE}double v = x[i]; for (int k = 0; k < 2; ++k) v = 0.3 * cg::inclusive_scan(tile, v * v) + x[k];\n"
        "v *= cg::exclusive_scan(tile, x[i], cg::plus<double>()); int m = cg::exclusive_scan(tile, 1);\n"
        "y[i] = v * x[m] * cg::inclusive_scan(tile, x[i] * x[i], cg::greater<double>());", GROUPS,
    ),
    "empty structs and parameters without a name": kernel(
        "y[i] = by(Fast{}, x[i], Whole()) * of(x[i], 2, 0.5) + by(Fast{}, x[0], Whole{}) * rest(Fast(), 3.0, x[i]);",
        "struct Fast {}; struct Whole {};\n__device__ double by(Fast, double v, Whole) { return v * v; }\n"
        "__device__ double of(double v, int, double) { return v * v * v; }\n"
        "__device__ double rest(Fast f, double, double v) { return v * v; }",
    ),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", FORMS)
def test_right(form):
    check(FORMS[form])


VIRTUAL = "struct A { double a; __device__ virtual double f() const { return a; } };\nstruct B : A { double b; };\n"
OWN_COPY = "struct A { double a; __device__ A& operator=(const A& o) { a = 2 * o.a; return *this; } };\n"
OWN_COPY += "struct B : A { double b; };"
MY = "namespace my { __device__ double sin(double v) { return v * v; } }\nusing namespace my;"
TWICE = "struct A { double a; };\nstruct B : A { double a; };\n"
SUM = "template <typename T, typename... R> __device__ T sum(T a, R... r) { return a + sum(r...); }"
BITS = "struct A { int n : 4; double a; };"
INNER = "struct A { struct In { double a; } in; };"
ENUM = "struct A { enum { X, Y } kind; double a; };"
REFUSED = {
    "A v; y[i] = v.a * x[i];": (BITS, "n is a bit-field; make it a whole number, and take its bits by shifts"),
    "A v; y[i] = v.in.a * x[i];": (INNER, "a type within A is outside the subset; write it ahead of A, with a name"),
    "A v; y[i] = v.kind * x[i];": (ENUM, "a type within A is outside the subset; write it ahead of A, with a name"),
    "B v; v.a = x[i]; y[i] = v.a;": (VIRTUAL, "A has virtual methods and is extended; leave virtual out"),
    "y[i] = sin(x[i]);": (MY, "sin is a function of CUDA, and one of a namespace here; give that one"),
    "B v, w; w.a = x[i]; v = w; y[i] = v.a;": (OWN_COPY, "A has an operator= of its own for copies; leave it out"),
    "B v; v.a = x[i]; y[i] = v.A::a;": (TWICE, "B and a struct that it extends have members of one name"),
    "auto g = cg::coalesced_threads(); y[i] = x[i];": (GROUPS, "coalesced_threads: only the running kernel knows"),
    "y[i] = sum(x[i], x[0], 2.0);": (SUM, "sum takes any number of arguments; write a function for each number"),
    "__shared__ double s[2][4]; double (*p)[4] = s;": ("", "p is a pointer to an array; write auto& p = ...;"),
    "double (*p)(double) = sin; y[i] = p(x[i]);": ("", "p is a pointer to a function; call the function by its name"),
    "double d[2] = {x[i], 2}; auto [a, b] = d;": ("", "write a variable for each element, and not auto [...]"),
    "double* q = (double*)malloc(16); q[0] = x[i];": ("", "malloc has .*; declare an array of fixed extent"),
}


@pytest.mark.parametrize(("body", "ahead", "why"), [(body, *rest) for body, rest in REFUSED.items()])
def test_what_is_refused(body, ahead, why):
    with pytest.raises(NotDifferentiable, match=rf"f.cu:\d+:\d+: {re.escape(why).replace(re.escape('.*'), '.*')}"):
        mg.adjoint(kernel(body, ahead), name="f")


def test_a_type_that_is_a_constant_chooses_among_branches():
    text = """template <bool B, int N>
    __device__ double by(double v, std::bool_constant<B>, std::integral_constant<int, N>) {
        if constexpr (B) return v * v * N; else return v;
    }
    template <bool B> __global__ void k(const double* x, double* y, std::bool_constant<B> chosen) {
        int i = threadIdx.x;
        y[i] = by(x[i], chosen, std::integral_constant<int, 3>{}) * (std::bool_constant<B>::value ? 2 : 1);
    }"""
    x, dy = (mg.tensor([v], dtype="float64", device="sim") for v in (4.0, 1.0))
    y = mg.zeros(1, dtype="float64", device="sim")
    for name, slope in (("k<true>", 48), ("k<false>", 1)):
        assert mg.adjoint(text, name=name).vjp(x, y, {}, dy=[dy], grid=1, block=1)[0].item() == slope
