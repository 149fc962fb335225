"""What a text of C++ means where it is easily misread: each kernel's gradient against central differences."""

import re

import numpy as np
import pytest
from test_adjoint_cpp import kernel
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

V = "struct V { double a, b; };\n"
MANY = " ".join(f"case {n}: r *= {n};{' break;' * (n % 7 > 0)}" for n in range(120))
FORMS = {
    "a number has the type of what it is given to": kernel(
        "auto a = double{3}; auto b = float(); auto c = double{}; b += 1; c += x[i]; const V& r = V{n + 2, 2};\n"
        "y[i] = x[i] * (a / 2) * (b / 2) * c * ratio({3, 2}) * ratio(V{7, 2}) * r.x / r.y * (S{}.b / 2) * (S::k / 2)\n"
        "* (C<7>::r / 2) * (unsigned{3} - 5 > 2 ? 2 : 3) * (A - 2 > 0 ? 2 : 5)\n"
        "* most<3>(x[i]) * U<unsigned, 3>::v;",
        "struct V { double x, y; }; struct S { double a = 5, b = a / 2; static constexpr double k = 1; };\n"
        "template <int N> struct C { static constexpr double r = N; }; enum E : unsigned { A = 1 };\n"
        "template <unsigned N> __device__ double most(double v) { return v * (N - 5 > 2 ? 2 : 3); }\n"
        "template <class T, T N, T M = N - 5> struct U { static constexpr int v = M > 2 ? 2 : 3; };\n"
        "constexpr int n = 5; __device__ double ratio(const V& v) { return v.x / v.y; }",
    ),
    "sizes, and numbers that wrap around": kernel(
        "y[i] = x[i] * (sizeof(V) + sizeof(B) * 1e2 + sizeof(E) * 1e4 + (sizeof(P) - 99 > 2) * 1e5) * x[i];\n"
        "y[i] += x[i] * ((1 << 31) * 1e-9 + (unsigned char)300 + 0xffffffff + 2) + times<(1 << 31)>(x[i]);",
        "struct P { float* a; float4 b; char c; }; struct V { double a[3]; short b; P p[2]; }; struct E {};\n"
        "struct B : E { char a; double b; };\n"
        "template <int N> __device__ double times(double v) { return v * N * 1e-9; }",
    ),
    "references to copies, and arrays of constants": kernel(
        "double s[3] = {1.7, 2.9, x[i]}, a = 0; for (const int& v : s) a += v * x[i]; for (double& v : s) v *= x[i];\n"
        "const double c[2][3] = {{1, x[i]}, {3, 4, 5}}; auto h = [=](int k) { return c[k][1] * c[0][k]; };\n"
        "for (const auto& v : s) a += v * h(i % 2); y[i] = a;"
    ),
    "threadIdx.x is unsigned where a type is taken from it": kernel(
        "auto v = threadIdx.x - 5; auto w = i % 2 ? threadIdx.x : -9; auto g = [](auto q) { return q - 5; };\n"
        "double a = v, b = w, c = g(threadIdx.x), d = less(threadIdx.x), e = g(TID / 2), f = +threadIdx.x - 5;\n"
        "int k = threadIdx.x; auto m = k - 5; const V p{x[i]}; y[i] = a + b * 2 + c * 3 + d * 5 + e * 7 + f * 11;\n"
        "y[i] *= x[i] * over(threadIdx.x) * (m < 0 ? 2 : 3) * 1e-9; y[i] += signed_less(threadIdx.x, p);",
        "struct V { double a; };\n#define TID (threadIdx.x)\n__device__ auto less(int i) { return threadIdx.x - 5; }\n"
        "__device__ int over(int i) { return 2; }\n__device__ int over(unsigned i) { return 3; }\n"
        "__device__ double signed_less(const int& k, V v) { double d = k - 5; return d * v.a; }",
    ),
    "constants made by functions, and other names of templates": kernel(
        "double q[N]; for (int k = 0; k < N; ++k) q[k] = x[i] * k; R<double> r{x[i], 2}; W<double, 2> w{{x[i], 3}};\n"
        "y[i] = q[N - 1] * q[1] * D * product(r) + sum(w) * sum(w);",
        "constexpr int sq(int n) { return n * n; }\nconstexpr double half_of(double v) { return v / 2; }\n"
        "constexpr int M = 2, N = sq(M) - 1; const double D = half_of(3) + M;\n"
        "template <class T> struct Q { T a, b; }; template <class T, int N> struct W { T v[N]; };\n"
        "template <class U> using R = Q<U>; template <class U> using P = W<U, 2>; template <class U> using O = R<U>;\n"
        "template <class T> __device__ T product(O<T> v) { return v.a * v.b; }\n"
        "template <class T> __device__ T sum(const P<T>& w) { return w.v[0] / 3 + w.v[1] * w.v[0]; }",
    ),
    "a switch of many cases": kernel(
        f"double r = x[i]; switch (5 * i) {{ default: r *= r; break;\n{MANY}\n}} y[i] = r * x[i];",
    ),
    "the bits of a variable": kernel(
        "double d = x[i] + 3; long long a = *(long long*)&d, b = (long long&)d, *p = (long long*)&d; d = 2 * d;\n"
        "y[i] = d * (1 + (a >> 52 & 1)) * (b == a ? 2 : 3) + (*p >> 52 & 7) * x[i] * (double&)d;\n"
        "y[i] *= reinterpret_cast<const long long&>(d) == *p ? (const float&)n + 2 : 3;",
        "constexpr double n = 2.7;",
    ),
    "pointers that may be none, and copies of memory": kernel(
        "double p, q; put(x[i], &p); put(x[i] * p, &p, &q); double r[3]; memcpy(r, x + i % 6, sizeof r);\n"
        "double s[2]; s[0] = p; s[1] = q; memcpy(r + 1, s, 2 * sizeof(double));\n"
        "for (int k = 0; k < 3; ++k) p *= r[k];\n"
        "switch (i % 3) { double t; case 0: t = x[i]; p *= t * t; break; case 1: t = 2 * x[i]; p += t; }\n"
        "y[i] = p + at(nullptr, i) * at(x, i);",
        "__device__ void put(double v, double* a, double* b = nullptr) { *a = v; if (b) *b = v * v; }\n"
        "__device__ double at(const double* p, int i) { return p ? p[i] : 1.5; }",
    ),
    "a method of the object it is given": kernel(
        "V p{x[i], 2}, q[2]; p.scale(p); q[0] = q[1] = p; q[i % 2].scale(q[0]); q[0] += q[0]; V* r = &q[1];\n"
        "r->scale(q[1]); p.both(q[1], p); y[i] = p.a + p.b * q[0].a * q[0].b + q[1].a * q[1].b;",
        "struct V { double a, b;\n  __device__ void scale(const V& o) { a *= 1.5; b = o.a * a; a += 0.1 * o.b; }\n"
        "  __device__ V& operator+=(const V& o) { a += o.a; b += o.a * o.b; return *this; }\n"
        "  __device__ void both(const V& u, V& o) { o.a = u.a * a; b = o.a; } };",
    ),
    "references to const that change": kernel(
        "double t = x[i]; V p{t, 2}; double q[2] = {t, 2}; into(t, t); into(p.a, p.a); scaled(p, p.a);\n"
        "first(q, q[0]); into(q[i % 2], q[0]); p *= p.b; y[i] = t; into(y[i], y[i]);\n"
        "y[i] += p.a * p.b * q[0] * q[1] + t; const double& m = larger(t, x[0]);\n"
        "t = 2 * t; y[i] *= m; float f = 2; const double& c = f; f = 3;\n"
        "y[i] *= c;",
        "struct V { double a, b; __device__ void operator*=(const double& s) { a *= s; b *= s; } };\n"
        "__device__ void into(double& a, const double& b) { a = 2 * a; a *= b; }\n"
        "__device__ void scaled(V& v, const double& s) { v.a *= s; v.b *= s; }\n"
        "__device__ void first(double* q, const double& b) { q[0] = 2 * b; q[1] *= b; }\n"
        "template <typename T> __device__ const T& larger(const T& a, const T& b) { return a > b ? a : b; }",
    ),
    "temporaries, and references to them": kernel(
        "V p{x[i], x[0]}; double t = x[i], s = V(p).up().a; const V& c = V(p); const V& d = W{p, 2}.v;\n"
        "auto&& e = V{t, s}; const double& f = W{p, 2}.v.a; const double2& g = make_double2(t, s);\n"
        "const V& h = i % 2 ? p : made(t); const double& k = i % 2 ? t : square(s); const double& l = +t;\n"
        "s += into(V{t, s}, t) + into(V{V{p}}, p.a);\n"
        "auto&& m = N{{t, p.b}, 2}; N n = m; n.q[0] *= s; e.up();\n"
        "double u[2] = {t, t *= 2}; V z{t, ++t}; p.a = t = 9;\n"
        "y[i] = s + c.a * c.b + d.a * d.b + e.a * e.b + f * g.x * g.y + h.a * h.b + k * k\n"
        "  + l * m.q[0] * n.q[0] + changed(m) + u[0] * u[1] * z.a * z.b;\n"
        "N o{N{}}, r(N{}); N& q = o; q.q[1] = x[i]; turn(r, x[i]); y[i] += o.q[1] * r.q[0];",
        "struct V { double a, b; __device__ V& up() { a *= 2; return *this; } }; struct W { V v; double z; };\n"
        "struct N { double q[2], z; };\n__device__ V made(double v) { return V{v * v, v}; }\n"
        "__device__ double square(double v) { return v * v; }\n"
        "__device__ double into(const V& v, double& t) { t *= 3; return v.a * v.b; }\n"
        "__device__ void turn(N& v, double t) { v.q[0] = t * t; }\n"
        "__device__ double changed(const N& v) { N n = v; n.q[0] = 5; return v.q[0] * n.q[1]; }",
    ),
    "pointers that turn to another array, and references to them": kernel(
        "double w[8], s; for (int k = 0; k < 8; ++k) w[k] = x[k] * x[k]; const double *p = x, *q = w, *o = x;\n"
        "swap(p, q); s = p[i] * q[i]; { swap(p, q); } auto turn = [&]() { q = x; }; turn(); const double*& r = p;\n"
        "r = w; auto& t = o; t += i; y[i] = s * p[i] * q[i] * o[0];",
        "__device__ void swap(const double*& p, const double*& q) { const double* o = p; p = q; q = o; }",
    ),
    "members of an element whose index changes": kernel(
        "W o[2]; o[0].v.a = x[i]; o[0].v.b = 1; o[1].v.a = 2; o[1].v.b = x[0]; int k = 0; V& r = o[k].v; k = 1;\n"
        "r.a *= 3; move(o[k].v, k); y[i] = o[0].v.a * o[0].v.b + o[1].v.a * o[1].v.b * k;",
        f"{V}struct W {{ V v; double z; }};\n"
        "__device__ void move(V& v, int& k) { k = 0; v.a *= 3; v.b += v.a; k = 5; }",
    ),
    "a choice as a target": kernel(
        "double a = x[i], b = 2; V p{x[i], 2}, q{x[0], 3}; (i > 3 ? a : b) *= 3; (a > b ? a : b) += a;\n"
        "double& r = i > 5 ? a : b; r *= x[0]; twice(i % 2 ? a : y[i]); (i % 2 ? p : q) = V{a, b}; ++(i > 2 ? a : b);\n"
        "V& s = i > 4 ? p : q; s.a *= a; pick(p, i % 2) = p.a * p.b; y[i] += a * b * p.a * p.b + q.a * q.b;",
        f"{V}__device__ void twice(double& v) {{ v *= 2; }}\n"
        "__device__ double& pick(V& v, int k) { return k ? v.a : v.b; }",
    ),
    "methods and operators of the own type": kernel(
        "V p{x[i], 2}, q{x[0], 3}; V s = -p - q * 2.0; ++p; V m = p < q ? p : q; V n = p; n = s; n += 2;\n"
        "y[i] = s.a * s.b + p.go() * V::twice(m.a) + n.a * n.b; y[i] *= s++.b; y[i] *= s.b;",
        "__device__ double square(double v) { return v * v; }\n"
        "struct V { double a, b; __device__ double square(double v) const { return 3 * v; }\n"
        "  __device__ static double half(double v) { return v / 2; }\n"
        "  __device__ static double twice(double v) { return 4 * half(v); }\n"
        "  __device__ double go() { a *= 2; return square(a) * this->square(b); }\n"
        "  __device__ V operator-() const { return V{-a, b * 2}; }\n"
        "  __device__ V operator-(const V& o) const { return V{a - o.a, b * o.b}; }\n"
        "  __device__ V operator*(double s) const { return V{a * s, b + s}; }\n"
        "  __device__ V& operator=(const V& o) { a = o.a * 2; b = o.b; return *this; }\n"
        "  __device__ void operator+=(double s) { a += s; }\n"
        "  __device__ bool operator<(const V& o) const { return a < o.a; }\n"
        "  __device__ V operator++(int) { V o = *this; b *= 3; return o; }\n"
        "  __device__ V& operator++() { a *= 2; return *this; } };",
    ),
    "overloads": kernel(
        "float f = 1.5; unsigned short u = 3; double t = x[i]; const double c = 2; double w[2] = {x[i], 2};\n"
        "y[i] = t * t * (g(u) + g(2) + g(f) + g(i > 3) + h(2)) + k(t) + k(c) + k(2 * t) + p(w) * p(x) + d(2, t) * t;",
        "__device__ double g(double v) { return 2 * v; }\n__device__ double g(unsigned v) { return 5.0 * v; }\n"
        "__device__ double g(int v) { return 3.0 * v; }\n__device__ double h(double v) { return 7 * v; }\n"
        "template <class T> __device__ double h(T v) { return v / 3 + 1; }\n"
        "__device__ double k(const double& v) { return v; }\n__device__ double k(double& v) { return v * v; }\n"
        "__device__ double k(double&& v) { return 5 * v; }\n__device__ double p(double* v) { return v[0] * v[0]; }\n"
        "__device__ double p(const double* v) { return 3 * v[1]; }\n"
        "template <typename T, typename U> __device__ T d(T a, U b) { return a * b * 1.5; }",
    ),
    "values that nobody uses, and bytes": kernel(
        "double t = x[i], q[3] = {t, 2, 3}; __shared__ double s[8]; s[i] = t; __syncthreads(); (void)(t = 3 * t);\n"
        "(void)twice(t); (void)i, y[i] = 1; (void)atomicAdd(&y[i], t); const double* p = x; assert(t > 0);\n"
        "for (int k = 0; k < sizeof(q) / sizeof(q[0]); k++) y[i] *= q[k] + s[sizeof(s) / 8 - 1 - i];\n"
        "y[i] += sizeof(p) * t;",
        "#include <cassert>\n__device__ double twice(double& v) { v *= 2; return v; }",
    ),
    "an index that is written in several ways": kernel(
        "int j = i, z = 0; const double* p = x + i;\n"
        "y[i] = x[i] * x[i + 0] * x[(size_t)i] * x[2 * i - i] * x[j] * p[0] * x[i + z];"
    ),
    "a loop over all elements": kernel(
        "double q[3] = {x[i], 2, x[0]}, s = 1, m[2][2] = {{1, x[i]}, {2, 3}}; V p[2];\n"
        "for (auto& e : p) e.a = e.b = x[i]; for (double v : q) { if (v > 1.9) continue; s *= v; v = 0; } \n"
        "for (auto& v : q) v *= 2; for (auto& row : m) for (const double& v : row) s += v * v;\n"
        "int r = 0; for (double v : m[r]) { s += v; r = 1; }\n"
        "for (V v : p) { v.a *= s; s += v.a * v.b; } y[i] = s * q[0] + apply(square, x[i]);",
        f"{V}__device__ double square(double v) {{ return v * v; }}\n"
        "template <typename F> __device__ double apply(F f, double v) { return f(v) + f(2 * v); }",
    ),
    "a reference to a pointer": kernel(
        "const double* p = x; p++; move(p); y[i] = *p * x[i]; move(p); y[i] += *p * *p;",
        "__device__ void move(const double*& p) { p += 2; }",
    ),
    "the order of side effects": kernel(
        "double q[4] = {1, 2, 3, 4}, t = x[i]; int j; for (j = 0, t *= 2; j < 3; j++, t *= x[j]) q[j] += t;\n"
        "for (int a = 1, b = 3; a < b; a += b, --b) t += x[a];\n"
        "y[i] = q[0] + q[1] * q[2] * t;"
    ),
    "whole numbers that do not fit": kernel(
        "unsigned char c = 250 + i; c += 10; bool b = i; short s = 40000 + i; signed char d; d = 300 * i;\n"
        "double q[4]; for (int n = 0; n < 4; ++n) q[n] = x[n]; unsigned char k = 257 + i % 2; q[k] *= x[i];\n"
        "q[b + b] += x[0]; y[i] = (c + b + s + d) * x[i] * x[i] + (q[0] + q[1] * q[2]) * q[3] * narrow(300 + i);",
        "__device__ int narrow(unsigned char n) { return n; }",
    ),
    "a value becomes what it is given to": kernel(
        "V a{x[i], 1}, b = i % 2 ? a : V(w(i)), c = i % 2 ? a : w(i), s[3] = {{x[i], 1}, a}, e = {};\n"
        "C d{x[i]}; double f = d; int k = d; float g = i; unsigned char h{300}; double q[2][3] = {{x[i]}, {2, 3}};\n"
        "for (; d;) d.n -= 1; while (d.m) d.m -= 1; double t = x[0]; double& r = static_cast<double&>(t); r *= 2;\n"
        "if (d.m || static_cast<double>(d) > 9) t += double(d) * (double)D{3};\n"
        "y[i] = b.a * c.a + s[i % 3].a * s[1].b + s[2].a + e.b + f * k + g / 2 * h + g * q[0][i % 2] + q[1][0] * t\n"
        "  + half(i) * half(d) + list(x[i]) + pair({{x[i], 2}, 3}) + a.dot({x[i], 3}) + less(x[i]) * t;",
        "struct V { double a, b; __device__ V() = default; __device__ V(double v) : a(v), b(v * v) {}\n"
        "  __device__ V(double v, double u) : a(v), b(u) {}\n"
        "  __device__ double dot(const V& o) const { return a * o.a / o.b; } }; struct W { V v; double z; };\n"
        "struct C { double v; int n = 3, m = 2; __device__ operator double() const { return v * v; }\n"
        "  __device__ operator int() const { return 3; }\n"
        "  __device__ explicit operator bool() const { return n > 0; } };\n"
        "struct D { int n; __device__ explicit operator int() const { return n; }\n"
        "  __device__ explicit operator double() const { return n * 1.5; } };\n"
        "__device__ double w(int i) { return {i + 0.5}; } __device__ double half(double v) { return v / 2; }\n"
        "__device__ double list(double v) { if (v > 1) return {v * v}; return {7}; }\n"
        "__device__ double pair(const W& w) { return w.v.a * w.v.b / w.z; }\n"
        "__device__ double less(double v, V o = {7, 2}) { return v * o.a / o.b; }",
    ),
    "memory seen as structs from where it was": kernel(
        "int k = i; const double2* p = reinterpret_cast<const double2*>(x) + k / 4; k = 0;\n"
        "y[i] = p[0].x * p[1].y * x[k];"
    ),
    "parts that braces make, and functions in functions": kernel(
        "D d{{x[i], 2}, 3}; H h{{x[i], 2}, 1}; V v(x[i]), u(d); u.turn(0.3); V r = i % 2 ? v : V(x[i]).turn(2);\n"
        "int k = 3, q[2] = {9, i}; k -= 0.5 * x[i]; q[k % 2]++; q[1] *= 1.7;\n"
        "for (int n = 1; n < 9; n *= 1.5 + 1) k += n;\n"
        "y[i] = (d.c + h.e) * d.q[0] * h.b.q[i % 2] + v.a * v.k[1] * r.a + u.a * u.b + k * x[i];\n"
        "y[i] += q[0] * q[1] * u.k[2];",
        "struct B { double q[2]; int c; __device__ B(double v, int n) : q{v, 2}, c(n) {} }; struct D : B { int d; };\n"
        "struct H { B b; double e; }; struct A { double a, k[3]; };\n"
        "struct V : A { double b; __device__ V(double v) : A{v, {2.5f, v}}, b(v) {}\n"
        "  __device__ V(const D& d) : A(of(d)) { b = d.q[0]; }\n"
        "  static __device__ A of(const D& d) { return {d.q[0], {1, 2, d.q[1]}}; }\n"
        "  __device__ V& turn(double t) { auto g = [&](double v) { return v * a; }; a = g(t); b += g(b);\n"
        "    return *this; } };",
    ),
    "other names of templates": kernel(
        "S<double> s = x[i]; V3<double> v{{x[0], 3, x[i]}, s}; D<2> d{{2, x[i]}, x[1]}; F f = v; f.v[1] *= x[i];\n"
        "y[i] = s * v.v[1] * v.v[2] * v.z * d.v[1] * d.z * f.v[1] * first(v);",
        "template <class T, int N = 2> struct V { T v[N]; T z; }; template <class T> using V3 = V<T, 3>;\n"
        "template <class T> using S = T; namespace p { template <int N> using D = V<double, N>; } using p::D;\n"
        "using F = V3<double>; __device__ double first(const V3<double>& v) { return v.v[0]; }",
    ),
    "pointers in structs": kernel(
        "Q q; q.a = x; q.b = x + 1; q.n = 1; Q r = q, s(x, x + 2, 2), t = made(x, i), u{}; r.a += 2; s.next();\n"
        "Q v = s; double z = x[i], w = 2; v = q; v.a = x + 3; u.b = x; add(q, x);\n"
        "C c{&z, 3}, d; c.add(w); d = c; d.add(x[i]);\n"
        "d.p = &w; *d.p *= z; auto g = [=](int k) { return v.a[k] * s.at(k); }; for (int k = 0; k < 3; ++k) s.next();\n"
        "y[i] = q.a[i % 4] * q.b[1] + r.a[1] * s.a[0] + t.a[i % 2] * t.n + g(1) + (u.a ? u.a[i] : u.b[i]) * z + w;",
        "struct Q { const double *a, *b; int n; Q() = default;\n"
        "  __device__ Q(const double* p, const double* q, int n) : a(p), b(q), n(n) {}\n"
        "  __device__ void next() { ++a; } __device__ double at(int k) const { return b[k]; } };\n"
        "struct C { double* p; int n; __device__ void add(double v) { *p += v * n; } };\n"
        "__device__ void add(Q& q, const double* p) { q.a = p + 1; q.b += 1; }\n"
        "__device__ Q made(const double* p, int n) { if (n % 2) return Q(p, p, 1); Q q; q.a = p + 1; q.b = p;\n"
        "  q.n = 2; return q; }",
    ),
    "minus an unsigned number": kernel(
        "y[i] = -(3u / x[i]) - 3u * x[i]; y[i] -= sizeof(double) * x[i] + cos(5u * x[i]) * x[0]; unsigned u = i + 3;\n"
        "double s = x[i]; s = 2u - 3u * s; s = s - 5u * s - (-u * 1e-9) * s; y[i] += s - u * x[i] * x[i];\n"
        "const double* p = x + 7; y[i] *= *(p - 3u);"
    ),
    "names in blocks that are no blocks of the adjoint": kernel(
        "double a, b = 0; SUM(x[i], a); SUM(x[i] * x[0], b); if constexpr (ONE == 1) { double t = a * a; a = t; }\n"
        "if (true) { double t = 3 * b; b = t * x[i]; } if (false) { a = 0; } else { double t = a; a = t * b; } "
        "y[i] = a;",
        "#define ONE 1\n#define SUM(v, out) do { double t = 0; for (int q = 0; q < 3; ++q) t += (v) * x[q]; out = t; } "
        "while (0)",
    ),
    "bases and members that their constructors set": kernel(
        "B a{}; C b{}, c = {}, d{{x[i]}}; E e{}, f{{x[i]}, 2};\n"
        "y[i] = x[i] * a.a * b.a * (b.c + 1) * c.a * (d.c + 2) * d.a * e.e.a * (e.c + 2) * e.f[1].a\n"
        "  + f.e.a * f.f[1].a + x[i] * B().a * C().a * (C().c + 1) * E().e.a * E().f[0].a;",
        "struct A { double a; __device__ A(double v) : a(v) {} __device__ A() : a(3) {} }; struct B : A {};\n"
        "struct C : A { double c; }; struct E { A e; double c; A f[2]; };",
    ),
    "constants that functions give": kernel(
        "constexpr int m = square(2); double q[m], r[square(k) - 7]; for (int j = 0; j < m; ++j) q[j] = x[j];\n"
        "r[0] = r[1] = x[0]; y[i] = x[i] * (A + B * 10 + C * 100) * x[i] + D * q[3] * r[1] + T<k + 1>::v * x[i];",
        "constexpr int square(int v) { return v * v; } constexpr int k = 3;\n"
        "enum { A = square(k + 1), B = k - 1, C = sizeof(double) * square(2), D = -B };\n"
        "template <int N> struct T { static constexpr int v = N * N; };",
    ),
    "a macro with several meanings": kernel(
        "y[i] = A * x[i] * g(x[i]) * TIMES(x[0]) * square(x[i]);",
        "#define A 2\n#define B (A * 3)\n#define TIMES(v) (v) * 5\n"
        "__device__ double g(double v) { return TIMES(v) * A * B; }\n#undef A\n#undef TIMES\n#define A 3\n"
        "#define TIMES(v) (v) * 7\n#define WRITE(name, e) __device__ double name(double v) { return e; }\n"
        "WRITE(square, v * v)\n#undef WRITE",
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("form", FORMS)
def test_right(form):
    check(FORMS[form])


def test_an_index_that_wraps_around_is_no_proof_that_an_element_belongs_to_one_thread():
    text = kernel("unsigned char k = i; y[i] = x[k] * x[k];")
    x, w = np.arange(1.0, 257), np.ones(512)
    on_sim = [mg.tensor(v, device="sim") for v in (x, 0 * w, w)]
    with mg.microscope.watching() as report:
        (dx,) = mg.adjoint(text, ["x"]).vjp(*on_sim[:2], dy=on_sim[2:], grid=1, block=512)
    assert not report.problems
    np.testing.assert_array_equal(dx.numpy(), 4 * x)


def test_the_extent_of_an_array_is_a_constant_to_every_compiler():
    body = "constexpr int n = std::min(SIZE / 8, 4); double q[n]; for (int k = 0; k < n; ++k) q[k] = x[k] * x[i]; "
    text = kernel(f"{body}y[i] = q[0] * q[n - 1];", "#include <algorithm>\n#define SIZE 24")
    check(text)
    assert "double q[SIZE / 8 < 4 ? SIZE / 8 : 4];" in mg.adjoint(text).source


SEVERAL = "has several meanings in this file; give each a name of its own"
REFUSED = {
    "for (double v : x) y[i] = v;": "a for over all elements takes an array of known extent; count with an int",
    "double t = x[i]; y[i] = t * twice(t);": "one side of this * reads t and the other one changes it; write two",
    "int k = 0; double q[2]; q[k++] = k; y[i] = q[0] * x[i];": "one side of this = reads k and the other one changes",
    "V v{x[i], 2}; const V& w = v; y[i] = v.get() * w.get();": "several functions V::get take these arguments",
    "const double *p = x, *q = y; turn(p, q, i); y[i] = p[i];": "p points into two arrays in turn",
    "const double *p = x, *q = y; leave(p, q, i); y[i] = p[i];": "p points into two arrays in turn",
    "const double *p = x, *q = y; i % 2 && (p = q); y[i] = p[i];": "p points into two arrays in turn",
    "double s = 0; for (const double* p = x; s < 2; p = y) s += p[i]; y[i] = s;": "p points into two arrays in turn",
    "T t = x[i]; y[i] = t;": f"T {SEVERAL}",
    "S s; s.v = x[i]; y[i] = s.v;": f"S {SEVERAL}",
    "C c; c.v = x[i]; C d = c; y[i] = d.v;": "C has a constructor of its own for copies; leave it out",
    "H h; h.c.v = x[i]; H k; k = h; y[i] = k.c.v;": "C has an operator= of its own for copies; leave it out, or copy",
    "D d; d.v = x[i]; y[i] = d.v;": "the destructor of D does something; call a function for it",
    'int n = 0; printf("%d", n++); y[i] = x[n];': "printf is left out, and ++ may change something; write a statement",
    "double t = x[i]; assert(twice(t) > 0); y[i] = t;": "assert is left out, and twice may change something",
    'V v{x[i], 2}; printf("%f", v.get()); y[i] = v.a;': "printf is left out, and get may change something",
    'int n = 0; printf("%d", atomicAdd(&n, 1)); y[i] = x[n];': "printf is left out, and atomicAdd may change something",
    "int k = 0; assert(counted(x, k) > 0); y[i] = k * x[i];": "assert is left out, and counted may change something",
    "double u = 1, v = 2; double& r = i % 2 ? next(u) : v; r = x[i]; y[i] = u * v;": "this is one of two places, of "
    "which one has statements; write a branch for each.",
    "y[i] = x[i] * sizeof(L);": "the bytes of L are not known here; write their number.",
    "extern __shared__ char s[]; V* v = (V*)s; int* c = (int*)(v + 2); y[i] = c[i];": "s is read as int, "
    "and nothing is stored in it as int; convert the numbers, as by __float_as_int.",
    "y[i] = k(x[i]);": "k takes arguments of other types",
    "float v = x[i]; (int&)v &= 0x7fffffff; y[i] = v;": "write the target of the assignment as a variable",
    "float v = x[i]; const int& b = (int&)v; v = 2; y[i] = b;": "a reference to the bits of a number; write a variable",
    "float v = x[i]; cut((int&)v); y[i] = v;": "a reference to the bits of a number; write a variable, const int b",
    "double v = x[i]; y[i] = v + *(float*)&v;": "a pointer to double is cast to float*, another type of element; "
    "convert the value: (float)v.",
    "int b = i; y[i] = x[i] * reinterpret_cast<float&>(b);": "a pointer to int is cast to float*, another type",
    "V v{x[i], 2}; y[i] = ((M*)&v)->b;": "a pointer to V is cast to M*, another type of element.",
    "V v[2]; v[0].a = x[i]; ((double2*)v)[0].x *= 2; y[i] = v[0].a;": "a pointer to V is cast to double2*, another",
    "V v; v = x[i]; y[i] = v.a;": "a conversion to V is outside the subset; write its members.",
    "P<double> p = x; y[i] = p[i];": "P is a pointer or an array type; write it out where it is used.",
    "Q q{y}, r{x}; if (i % 2) q.a = r.a; y[i] = q.a[i];": "q_a points into two arrays in turn",
    "Q q{x}; leave(q.a, y, i); y[i] = q.a[i];": "q_a points into two arrays in turn",
    "Q q{x}; for (int k = 0; k < 2; ++k) q.a += 1; y[i] = q.a[i];": "q_a of a struct moves in a loop or a branch; copy",
    "Q q{x}, r{y}, s = i % 2 ? q : r; y[i] = s.a[i];": "a choice of a Q, which holds pointers; choose between elements",
    "Q q[2]; q[0].a = x; y[i] = q[0].a[i];": "Q holds pointers; write a variable for each element of q",
    "y[i] = I::n * x[i];": "a type within I is outside the subset; write it ahead of I, with a name.",
    "y[i] = K[0] * x[i];": "N has several meanings in this file, and constants or types are made of it",
}  # fmt: skip
AHEAD = (
    "__device__ void cut(int& b) { b &= 0x7fffffff; }\nstruct M { double b, a; };\n"
    "__device__ double& next(double& v) { v *= 2; return v; }\n"
    "__device__ double twice(double& v) { v *= 2; return v; }\n"
    "__device__ int counted(const double* p, int& k) { return ++k; }\n"
    "__device__ void turn(const double*& p, const double* q, int i) { if (i % 2) { p = q; } }\n"
    "__device__ void leave(const double*& p, const double* q, int i) { if (i % 2) return; p = q; }\n"
    "struct V { double a, b; __device__ double get() { return a * a; } __device__ double get() const { return b; } };\n"
    "namespace p { __device__ double g(double v) { return v; } typedef double T; struct S { double v; };\n"
    "  enum class E { a = 1 }; }\n"
    "namespace q { __device__ double g(double v) { return 2 * v; } typedef int T; struct S { int v; };\n"
    "  enum class F { a = 2 }; }\nusing namespace p;\n"
    "struct C { double v; C() = default; __device__ C(const C& o) : v(2 * o.v) {}\n"
    "  __device__ C& operator=(const C& o) { v = 3 * o.v; return *this; } };\nstruct H { C c; };\n"
    "struct D { double v; __device__ ~D() { v = 0; } };\n__device__ double k(V v) { return v.a; }\n"
    "struct __align__(16) L { float a; };\n"
    "struct I { static constexpr int n = 3; struct J { int a; }; };\n"
    "template <class T> using P = const T*; struct Q { const double* a; };\n"
    "#define N 2\nconst double K[1] = {N};\n#undef N\n#define N 3\n"
)


@pytest.mark.parametrize(("body", "why"), REFUSED.items())
def test_what_may_mean_something_else_is_refused(body, why):
    with pytest.raises(NotDifferentiable, match=rf"f.cu:\d+:\d+: {re.escape(why)}"):
        mg.adjoint(kernel(body, AHEAD), name="f")


def test_a_struct_that_copies_its_members_is_copied():
    ahead = (
        "struct V { double a, b; __device__ V(double s) : a(s), b(2) {} __device__ V(const V& o) : a(o.a), b{o.b} {}\n"
        "  __device__ V& operator=(const V& o) { this->a = o.a; b = o.b; return *this; } };"
    )
    check(kernel("V v(x[i]); V w = v; w.a *= 3; v = w; y[i] = v.a * w.a * w.b;", ahead))


def test_floats_that_are_read_as_pairs_of_halves_are_refused():
    body = "half2 h = *(half2*)y; y[i] = x[i] + __low2float(h + h);"
    with pytest.raises(NotDifferentiable, match="a half2 of numbers of another type is computed with"):
        mg.adjoint(f"#include <cuda_fp16.h>\n{kernel(body).replace('double', 'float')}", name="f")
