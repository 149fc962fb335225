"""C++ as people write it: pointers, structs, references, templates, macros; each against central differences."""

import re

import numpy as np
import pytest
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import LaunchError

PARAMS = "const double* x, double* y"


def kernel(body, ahead="", params=PARAMS):
    return f"{ahead}\n__global__ void f({params}) {{\nint i = threadIdx.x;\n{body}\n}}\n"


FORMS = {
    "statements in expressions": kernel(
        "double a, b; a = b = x[i]; int k = 0; double q[3]; q[k++] = a * a; q[k++] = b; q[k] = x[i] * 3; int j = i;\n"
        "y[i] = q[0] + q[--k] * x[j-- % 8], j += 2; if ((a = y[i]) > 0.1) y[i] = a * x[j % 8];\n"
        "double v{2.5}, w(x[i]);\n"
        "y[i] *= v * w + (i > 3 ? x[k++] : x[0]) * k;"
    ),
    "loops": kernel(
        "int j, k; double s = 0, p = 1; for (j = 0; j < 3; j++) for (k = 0; k < 2; k++) s += x[j] * x[k] * p;\n"
        "bool done = false; for (j = 0; !done && j < 5; j++) { p *= x[j]; done = j == 3; }\n"
        "for (int a = 0, b = 7; a < b; ++a, --b) { if (a == 1) continue; s += x[a] * x[b]; }\n"
        "do { p *= x[i]; s *= 0.5; } while (s > 0.3); do { p *= 2; } while (0);\n"
        "int n = 3; while (n-- > 0) { p *= x[n]; }\n"
        "for (uint32_t u = 0; u < 6 / 2; ++u) { for (size_t z = 1; z < 4; z += 2) { p *= x[u + z] * 1.5;\n"
        "s += p * (u - 1 > 5); } }\n"
        "for (double t = 0.5; t < 2; t += 0.5) s += t * x[i]; y[i] = s * p;"
    ),
    "switch": kernel(
        "double v = x[i]; switch (i % 4) { case 0: v *= v; break; case 1: case 2: { v = 3 * v * v; break; }\n"
        "default: v = -v; } y[i] = v;"
    ),
    "types": kernel(
        "T v = x[i]; uint32_t u = 3; unsigned char c = (unsigned char)260; short s = -2; size_t z = sizeof(double);\n"
        "long m = 5; const unsigned int e = E_TWO; auto w = v * u; auto k = 7; volatile double o = w; char n = 1;\n"
        "y[i] = o * c + s * v * z * m * e * k * n * std::sin(::sqrt(v)) * static_cast<R>(i) + FLT_EPSILON * 0x1.8p3;",
        "#include <cfloat>\ntypedef double T;\nusing R = T;\nenum Kind { E_ONE = 1, E_TWO };\n"
        "enum class Other : int { A, B };",
    ),
    "macros": kernel(
        "#ifdef FAST\nthis is no code\n#elif N > 3 && !defined(SLOW)\nint n = N;\n#else\nint n = 1;\n#endif\n"
        "double t; FOR(j, n) { t = SQ(x[AT(j, 1)]); ADD(y[i], t * x[i]) } y[i] += JOIN(t, mp) * A * x[0];",
        "#define N 4\n#define SQ(v) ((v) * (v))\n#define AT(r, c) \\\n    ((r) + (c))\n"
        "#define FOR(v, n) for (int v = 0; v < n; ++v)\n"
        "#define ADD(to, v) to += v;\n#define JOIN(a, b) a##a##b\n#define ttmp t\n#define A 1 + 2\n#undef Q",
    ),
    "pointers": kernel(
        "const double* p = x + i; const double* q = x; double* out = &y[i]; const double* const r = p - i;\n"
        "double s = *p * p[0] + *(q + 2) * r[1]; q += 3; s += *q++ * *q; const double* e = x + 8;\n"
        "for (const double* w = q; w < e; ++w) s += *w * x[i] * (e - w); *out = s;\n"
        "out[0] += (double)*p * __ldg(x + i);\n"
        "const double* late; if (i > 3) { late = x + 1; } else { late = x + 2; } *out *= *late;\n"
        "p = y + i; y[i] += *p * *x; p = x + 1; y[i] *= *p;"
    ),
    "moved parameters": kernel("x += 2; y += i; *y = x[i % 6] * x[0]; ++x; y[0] *= half(*x, 4);",
        "__device__ double half(double a, int n) { n = n / 2; a *= a; return a * n; }"),
    "references and void functions": kernel(
        "double s, c; both(x[i], s, c); swap(s, c); double& t = y[i]; t = s * c; square(&y[i]); double r = 0;\n"
        "each(x, 8, r); y[i] += r * early(x[i]) * early(-x[i]) + pick(x + 1, i) + defaulted(x[i]);\n"
        "while (early(r) > 0.5) { r *= 0.5; } y[i] += r;",
        "__device__ void both(double v, double& s, double& c) { s = sin(v); c = cos(v) * v; }\n"
        "template <typename T> __device__ __forceinline__ void swap(T& a, T& b) { T t = a; a = b; b = t; }\n"
        "__device__ void square(double* v) { *v *= *v; }\n"
        "__device__ void each(const double* __restrict__ v, int n, double& r) {\n"
        "    for (int j = 0; j < n; j++) { if (v[j] > 0.9) continue; r += v[j] * v[j]; } }\n"
        "__device__ double early(double v) { double w = v; if (v < 0) return 0.5 * v; w *= v; return w; }\n"
        "template <int N = 3> __device__ double pick(const double* v, int k) { return v[k % N] * N; }\n"
        "__device__ double defaulted(double v, double w = 2) { return v * w; }\n",
    ),
    "structs": kernel(
        "V a = {x[i], 2}, b; b.x = x[0]; b.y = a.x * a.x; V c = a + b * 2.0; c += a; V d = i > 3 ? a : c; d.y *= 2;\n"
        "V e[2]; e[0] = c; e[1].x = d.dot(a); e[1].y = e[0].x; B box; box.lo = c; box.w[1] = a.x; d = V{d.y, d.x};\n"
        "double2 f = make_double2(x[i], x[1]); f.y *= f.x; move(c, 2); y[i] = length(c) + d.x * d.y + e[1].x * e[1].y\n"
        "  + box.lo.x * box.w[1] + f.x * f.y + C(x[i], 2).abs2();",
        "typedef struct { double x, y; } Unused;\nstruct V { double x; double y;\n"
        "  __device__ double dot(const V& o) const { return x * o.x + y * o.y; } };\n"
        "struct B { V lo; double w[2]; };\n"
        "__device__ V operator+(const V& a, const V& b) { V r; r.x = a.x + b.x; r.y = a.y + b.y; return r; }\n"
        "__device__ V operator*(V a, double s) { a.x *= s; a.y *= s; return a; }\n"
        "__device__ void operator+=(V& a, V b) { a = a + b; }\n__device__ void move(V& v, int n) { v.x += n * v.y; }\n"
        "__device__ double length(const V v) { return sqrt(v.dot(v)); }\n"
        "struct C { double re, im; __device__ C(double a, double b) : re(a), im(b * a) {}\n"
        "  __device__ double abs2() const { return re * re + im * im; } };",
    ),
    "shared memory": kernel(
        "__shared__ double total, s[8]; __shared__ V v[8]; if (i == 0) total = 0; s[i] = x[i] * x[i]; v[i].a = s[i];\n"
        "v[i].b = x[i]; __syncthreads(); atomicAdd(&total, at(s, i)); __syncthreads(); fill(s, total, i);\n"
        "__syncthreads(); y[i] = s[7 - i] * v[(i + 1) % 8].a * v[i].b;",
        "struct V { double a, b; };\n__device__ double at(const double* s, int i) { return s[(i + 1) % 8]; }\n"
        "__device__ void fill(double* s, double v, int i) { __syncthreads(); s[i] = v * v; }",
    ),
    "two axes": kernel(
        "__shared__ double t[4][2]; double m[2][2] = {{1, 2}, {3, x[i]}}; double z[2][3] = {{0}};\n"
        "t[i / 2][i % 2] = x[i];\n"
        "__syncthreads(); double* row = t[i / 2]; z[1][2] = row[0] * sum(t[1]) * m[1][1]; y[i] = z[1][2] * m[1][0];",
        "__device__ double sum(double v[2]) { return v[0] + v[1]; }",
    ),
    "templates of structs": kernel(
        "Row<double, 3> r; for (int j = 0; j < R3::width; ++j) r[j] = x[i] * x[j] + r.shift;\n"
        "Both<double> b{x[i], 2 * x[0]}; Both<float> s = {1, 2}; R3::number t = R3::of(x[1]).total() * r.width;\n"
        "Row<double, 3> other = r; other[0] *= x[i]; R3 none = R3();\n"
        "y[i] = r.total() * b.joined() + last(r) * s.joined() + t * last(other) * other[0] + none.shift;",
        "template <typename T, int N = 2> struct Row {\n  T v[N]; double shift = 0.5; using number = T;\n"
        "  Row() = default;\n  static constexpr int width = N * sizeof(double) / 8;\n"
        "  __device__ static Row of(T a) { Row made; for (int j = 0; j < N; ++j) made.v[j] = a * j; return made; }\n"
        "  __device__ T& operator[](int j) { return v[j]; }\n"
        "  __device__ T total() const { T sum = 0; for (int j = 0; j < N; ++j) sum += v[j]; return sum; }\n};\n"
        "using R3 = Row<double, 3>;\ntemplate <typename T> class Both { public: T a, b;"
        " __device__ T joined() { return a * b; } };\n"
        "template <> struct Both<float> { float a, b; __device__ float joined() { return a + b; } };\n"
        "template <typename T, int N> __device__ T last(const Row<T, N>& r) { return r.v[N - 1]; }",
    ),
    "bits": kernel(
        "if (i < 4) { Pair p = load(x + i * Pair::size), q = p; const Pair z = Pair::both(x[7]); q[0] *= 3;\n"
        "for (int k = 0; k < p.size; ++k) q[k] = q[k] * p[1 - k] * z[k];\n"
        "save(y + 2 * i, q); }",
        "template <class T> struct alignas(16) Packed {\n"
        "  __device__ explicit Packed(int4 bits) { static_assert(sizeof(bits) == sizeof(lane), \"sizes\");\n"
        "    memcpy(&lane, &bits, sizeof(bits)); }\n  Packed() = default;\n"
        "  __device__ static Packed both(T v) { Packed made; for (int k = 0; k < size; ++k)\n"
        "      made.lane[k] = v * (k + 1); "
        "    return made; }\n"
        "  __device__ T& operator[](int k) { return lane[k]; }\n"
        "  __device__ const T& operator[](int k) const { return lane[k]; }\n"
        "  __device__ int4 bits() const { int4 made; memcpy(&made, &lane, sizeof(made)); return made; }\n"
        "  static constexpr const size_t size = sizeof(int4) / sizeof(T); T lane[size];\n};\n"
        "template <class T> __device__ Packed<T> load(const T* at)\n"
        "{ return Packed<T>{*reinterpret_cast<const int4*>(at)}; }\n"
        "template <class T> __device__ void save(T* at, Packed<T> v) { *reinterpret_cast<int4*>(at) = v.bits(); }\n"
        "typedef Packed<double> Pair;",
    ),
    "lambdas": kernel(
        "double by = x[0]; auto square = [&](double v) { return v * v * by; };\n"
        "auto half = [i](double v) -> double { if (i > 3) return v / 2; return v; };\n"
        "by *= 2; Scale s{x[i]}; double t = square(x[i]) + half(x[1]); y[i] = twice(t, square) + s(t);",
        "struct Scale { double by; __device__ double operator()(double v) const { return v * by; } };\n"
        "template <typename F> __device__ double twice(double v, F f) { return f(f(v)); }",
    ),
    "lambdas that change their arguments": kernel(
        "double t = x[i], u = x[0]; auto g = [&](double v) { t = 7 * u; return v; }; y[i] = g(t) * t;\n"
        "V p{x[i], u}; auto h = [&](V v, const double& w) { p.a = 7 * u; return v.a * w; }; y[i] += h(p, p.a) * p.a;\n"
        "t = x[i]; auto k = [&]() { t = 3 * u; }; y[i] *= apply(t, k) * t;",
        "struct V { double a, b; };\ntemplate <typename F> __device__ double apply(double v, F f) { f(); return v; }",
    ),
    "values whose type is deduced": kernel(
        "double t = x[i]; auto inc = [&]() { t *= x[i]; return t; }; double u = inc() * inc(); y[i] = u * u;\n"
        "y[i] *= twice(t) * twice(t);",
        "__device__ auto twice(double& t) { t *= 2; return t; }",
    ),
    "structs passed by value": kernel(
        "V p{x[i], 2, 1}; double t = scaled(p) * doubled(p) * tripled(p) * shifted(p); y[i] = t * p.a * p.m;",
        "struct V { double a, b; int m; __device__ void scale(double s) { a *= s; } };\n"
        "__device__ void twice(double& s) { s *= 2; }\n"
        "__device__ double scaled(V v) { v.scale(2); return v.a; }\n"
        "__device__ double doubled(V v) { twice(v.a); return v.a; }\n"
        "__device__ double tripled(V v) { double& r = v.a; r = 3 * r; return v.b * r; }\n"
        "__device__ double shifted(V v) { v.m |= 2; v.m <<= 1; return v.a * v.m; }",
    ),
    "lambdas that capture by value": kernel(
        "double t = x[i]; V p{t, 2}; const double c[2] = {3, 4}; const double* q = x; __shared__ double s[8];\n"
        "s[i] = t; __syncthreads(); auto g = [=](double v) { return v * t * p.a * c[1] * q[i % 4] * s[7 - i]; };\n"
        "auto h = [&, t](double v) { return v * t * p.a; }; double& r = t; r = 2 * r; p.a = 5 * t; q += 3;\n"
        "y[i] = g(t) * q[0] + h(p.a); twice(t); auto k = [=, &p](double v) { return v * t * p.a; };\n"
        "twice(t); p.a = t; y[i] *= k(t) * p.times(t);",
        "struct V { double a, b; __device__ double times(double v) {\n"
        "    auto g = [=](double w) { return w * a * v; }; a *= 3; v = 7; return g(v) * a; } };\n"
        "__device__ void twice(double& v) { v *= 2; }",
    ),
    "arrays declared in a loop": kernel(
        "double sum = 0; for (int n = 0; n < 2; ++n) { __shared__ double s[8];\n"
        "s[i] = x[(i + n) % 8] * x[i]; __syncthreads(); sum += s[7 - i] * s[i]; __syncthreads(); }\n"
        "if (x[0] > 0) { __shared__ double s[8]; s[i] = sum; __syncthreads(); sum += s[i ^ 1]; } y[i] = sum;"
    ),
    "numbers by other types": kernel(
        "float f[2] = {(float)x[i], -2}; bool below = ((unsigned char*)(void*)&f[1])[3] & LAST; double m[2][3];\n"
        "for (int k = 0; k < 6; ++k) set(&m[0][0], k, x[k] * x[i]); double* p = &m[0][0]; double t = p[i % 6] * p[4];\n"
        "if (*(const long long*)(x + i) > 0 && __float_as_int(f[0]) > 0 && below) t *= m[1][2]; y[i] = t + FIRST;",
        "typedef enum { FIRST = 1 << 0, LAST = (1 << 7) | FIRST } Flag;\n"
        "__device__ void set(double* m, int k, double v) { m[k] = v; }",
    ),
    "arrays with values in a branch": kernel(
        "double v = x[i]; if (v > 0.6) { double c[3] = {1, -2, 0.5}; double d[3] = {v, 2 * v};\n"
        "for (int k = 0; k < 3; ++k) v += c[k] * v * v + d[k] * v; } y[i] = v * v;"
    ),
    "a constructor that runs by itself": kernel(
        "V v; V w{}; V u = V(); y[i] = v.s * x[i] + w.s * u.s * x[i] * x[i];",
        "struct V { double s; __device__ V(double a = 3) : s(a) {} };",
    ),
    "the most special template": kernel(
        "R<double, 3> a; R<float, 3> b; R<float, 4> c; y[i] = a.get(x[i]) * b.get(x[i]) + c.get(x[i]);",
        "template <typename T, int N> struct R { __device__ double get(double t) { return t; } };\n"
        "template <> struct R<double, 3> { __device__ double get(double t) { return 5 * t; } };\n"
        "template <typename T> struct R<T, 3> { __device__ double get(double t) { return 3 * t * t; } };",
    ),
    "arrays in two structs of a function": kernel(
        "O p = make(x[i]), q = make(2 * x[i]); double p_v_a = 2; y[i] = p.v[0].a * q.v[1].a * p_v_a;",
        "struct I { double a; }; struct O { I v[2]; };\n"
        "__device__ O make(double t) { O o; for (int j = 0; j < 2; ++j) o.v[j].a = t * j + t; return o; }",
    ),
    "the grid": kernel(
        "int n = cg::this_grid().thread_rank(); int across = cg::this_thread_block().thread_index().y;\n"
        "y[n] = x[n] * x[0] * (2 + across) * cg::this_thread_block().group_dim().x;",
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;"),
    "braces with names, and left out": kernel(
        "A a = {.v = {1, x[i]}, .d = x[i]}, b = {1, x[i], 3, x[i], x[i], 6, x[i]}; I s = {x[i], 2}, p = {.b = x[i]};\n"
        "A c[2] = {1, 2, s, s, 3}; double m[][2] = {1, x[i], 3, 4, x[i]}, t = a.v[1] * a.d + a.s[1].a + b.v[1] * b.d;\n"
        "for (int j = 0; j < sizeof(m) / sizeof(m[0]); ++j) t += m[j][0] * m[j][1] + m[j][0] * c[0].s[1].a;\n"
        "p = {.a = p.b * t, .b = p.a}; y[i] = p.a * p.b * make({x[i], 3}).a * c[1].d * b.s[0].b * b.s[1].a;",
        "struct I { double a = 3, b = 2; }; struct A { double v[2]; I s[2]; double d = 4; };\n"
        "__device__ I make(I k) { return {.a = k.a * k.b}; }"),
    "intrinsics": kernel(
        'double s, c; sincos(x[i], &s, &c); if (i > 99) printf("%d", i); assert(i < 8); y[i] = s * c\n'
        "  + normcdf(x[i]) + __dmul_rn(x[i], x[i]) * norm3d(x[i], s, 1.0) * __mul24(2, 3) * __popc(i)\n"
        "  + __double2int_rd(2.5) * x[i] * (warpSize / 8) * __drcp(x[i]);",
        "__device__ double __drcp(double v) { return 1 / v; }",
    ),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("form", FORMS)
def test_right(form):
    check(FORMS[form])


def test_parameters_that_change_are_copies():
    made = mg.adjoint(kernel("n /= 2; a = a * a; y += n; y[i] = x[i] * a;", params=f"{PARAMS}, double a, int n"))
    x, y = mg.ones(2, dtype="float64", device="sim"), mg.zeros(4, dtype="float64", device="sim")
    dx, da = made.vjp(x, y, 3.0, 4, dy=[mg.ones(4, dtype="float64", device="sim")], grid=1, block=2)
    assert dx.numpy().tolist() == [9, 9]
    assert da.item() == 2 * 3 * 2


def test_template_arguments_and_integers_in_memory():
    text = (
        "template <typename T, int N> __global__ void f(const T* x, const unsigned char* at, T* y) {\n"
        "  int i = threadIdx.x; T v = 0; for (int j = 0; j < N; ++j) v += x[at[i]] * x[i]; y[i] = v; }"
    )
    made = mg.adjoint(mg.kernel(text, "f<double, 3>"))
    x, at = mg.tensor([1.0, 2.0], dtype="float64", device="sim"), mg.tensor(np.uint8([1, 0]), device="sim")
    one = mg.ones(2, dtype="float64", device="sim")
    (dx,) = made.vjp(x, at, one, dy=[one], grid=1, block=2)
    assert dx.numpy().tolist() == [12, 6]


REFUSED = {
    "float *p = i > 3 ? u : y;": "points into one of two arrays; write a branch for each",
    "float *p = u; if (i > 3) p = y;": "p points into two arrays in turn; make them one, s[2][N]",
    "const float* p = nullptr; if (i > 3) p = u; if (p) y[i] = p[i];": "a branch alone has given this pointer an array",
    "const float* p = nullptr; while (i > 3) { if (p) y[i] = 1; p = u; }": "p is asked for ahead of this; keep",
    "float *p = u; if (i > 3) p = nullptr;": "p becomes nullptr here; keep in a bool whether it counts",
    "double* p = (double*)u;": "a pointer to float is cast to double*, another type of element",
    "int* p = (int*)y; p[i] = 3;": "write the target of the assignment as a variable or as an element",
    "__shared__ float s[4][4]; y[i] = s[i];": "an array or a pointer stands here in place of a number",
    "__shared__ float s[4][4][2]; float* p = &s[0][0][0];": "leaves out the axes of s; give it one axis",
    "y[i] = ((unsigned char*)&u[i])[i];": "write the number of this byte as a literal",
    "y[i] = rec(u[i]);": "rec calls itself; recursion is outside the subset",
    "y[i] = two(u[i]);": "two takes 2 arguments; got 1",
    "float4 v; y[i] = v.q;": "float4 has no member q; it has x, y, z, w",
    "float2 v = make_float2(1, 2); v = v * v;": "* of float2 and float2 is not defined in this file",
    "extern __shared__ float s[]; extern __shared__ float t[];": "s and t are the same memory",
    "float* rows[3];": "rows is an array of pointers; choose between their elements",
    "y[i] = M(1);": "the macro M takes 2 arguments; got 1",
    "float s = 1; auto g = [t = 2 * s](float v) { return v * t; }; y[i] = g(2);": "copy its value to a const variable",
    "float s[2] = {1, 2}; auto g = [=](float v) { return v * s[0]; }; y[i] = g(2);": "the lambda has a copy of s",
    "float s = 1; auto g = [s](float v) mutable { return v * s++; }; y[i] = g(2);": "g changes its own copies",
    "__shared__ float s; auto g = [=](float v) { return v * s; }; y[i] = g(2);": "s lies in shared memory",
    "auto g = [](float v) { if (v > 0) return v; return 2 * v; }; y[i] = g(u[i]);": "g has several returns",
    "auto g = [](float v) { return v; }; y[i] = g();": "g does not take these 0 arguments",
    "float4 v = *(float4*)u; int4 w = *(int4*)u; v = w;": "a conversion to float4",
    "extern __shared__ char s[]; float* p = (float*)s; double* q = (double*)s;": "s has numbers of float here",
    "extern __shared__ char s[]; float* p = (float*)s; p[0] = s[i]; y[i] = p[0];": "s is used as float and as",
}


@pytest.mark.parametrize(("body", "why"), REFUSED.items())
def test_refused(body, why):
    ahead = (
        "#define M(a, b) a\n__device__ float rec(float v) { return v > 0 ? 1 : rec(v); }\n"
        "__device__ float two(float& v, int n) { return v * n; }"
    )
    with pytest.raises(NotDifferentiable, match=rf"f.cu:7:\d+: .*{re.escape(why)}|f.cu:2:\d+: rec calls itself"):
        mg.adjoint(kernel(f"y[i] = u[i];\n{body}", ahead, "float* u, float* y"), name="f")


def test_arrays_of_structs_and_vectors():
    """Members are differentiated one by one; the gradient is an array of the same structs."""
    text = (
        "struct P { double2 at; int kind; double w[2]; };\nstruct Box { double scale; int n; };\n"
        "__global__ void f(const P* p, Box box, double4* out) { int i = threadIdx.x; if (i >= box.n) return;\n"
        "const P& own = p[i]; const P* next = p + (i + 1) % box.n; double4 v = out[i];\n"
        "v.x = own.at.x * next->at.y * own.w[1]; v.z *= own.kind * box.scale; out[i] = v; }"
    )
    made = mg.adjoint(text)
    assert made.wrt == ("p", "out")
    pair = ("<f8", (2,))
    kind = np.dtype({"names": ["at", "kind", "w"], "formats": [pair, "<i4", pair], "offsets": [0, 16, 24],
                     "itemsize": 48})  # fmt: skip
    p = np.zeros(3, kind)
    p["at"], p["w"], p["kind"] = [[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]], [1, 2, 3]
    box = np.zeros((), np.dtype({"names": ["scale", "n"], "formats": ["<f8", "<i4"], "itemsize": 16}))
    box["scale"], box["n"] = 0.5, 3
    out, w = np.ones((3, 4)), np.arange(1.0, 13).reshape(3, 4)
    dp, dout = made.vjp(p, box, out, dy=[w], grid=1, block=4)
    y = np.roll(p["at"][:, 1], -1)
    np.testing.assert_allclose(dp["at"][:, 0], w[:, 0] * y * p["w"][:, 1])
    np.testing.assert_allclose(dp["at"][:, 1], np.roll(w[:, 0] * p["at"][:, 0] * p["w"][:, 1], 1))
    np.testing.assert_allclose(dp["w"], np.stack([0 * y, w[:, 0] * p["at"][:, 0] * y], 1))
    np.testing.assert_allclose(dout, w * np.stack([[0, 1, 0.5 * k, 1] for k in (1, 2, 3)]))


def test_arrays_to_which_a_struct_points():
    """Each is an array of its own in the adjoint, named after the struct and its member."""
    text = (
        "typedef struct { double re, im; } Complex;\nstruct Data { int n; double *x, *y; const int* at; Complex* poles;"
        " double scale, *unused; };\n"
        "__device__ double pole(const Data& d, int i) { return d.poles[i].re * d.poles[i].im; }\n"
        "__device__ void add(Data d, int i, double* out) { const double* x = d.x; *out += x[i] * d.scale; }\n"
        "__global__ void f(Data d, double* out) { int i = threadIdx.x; if (i >= d.n) return; double v = pole(d, i);\n"
        "add(d, d.at[i], &v); d.y[i] = v * v; out[i] = v; }"
    )
    made = mg.adjoint(text)
    assert (made.wrt, made.outputs) == (("d_x", "d_poles"), ("d_y", "out"))
    x, at, w, u = np.arange(1.0, 5), np.int32([3, 2, 1, 0]), np.arange(2.0, 6), np.array([0.1, 0.2, 0.3, 0.4])
    poles = np.array([(1, 10), (2, 20), (3, 30), (4, 40)], [("re", "f8"), ("im", "f8")])
    data = {"n": 4, "x": x, "y": 0 * x, "at": at, "poles": poles, "scale": 2}
    data = {name: mg.tensor(v, device="sim") if isinstance(v, np.ndarray) else v for name, v in data.items()}
    dx, dpoles = made.vjp(data, 0 * x, dy=[w, u], grid=1, block=8)
    dv = 2 * (poles["re"] * poles["im"] + 2 * x[at]) * w + u
    np.testing.assert_allclose(dx.numpy()[at], 2 * dv)
    np.testing.assert_allclose(dpoles.numpy()["re"], dv * poles["im"])
    np.testing.assert_allclose(dpoles.numpy()["im"], dv * poles["re"])
    with pytest.raises(TypeError, match="d has no array at, and the kernel uses it without asking for it"):
        made.vjp({**data, "at": None}, 0 * x, dy=[w, u], grid=1, block=8)
    with pytest.raises(NotDifferentiable, match=r"Data holds the pointer x; pass the array as a parameter of its own"):
        mg.adjoint(text.replace("f(Data d", "f(Data* d").replace("d.", "d->"), name="f")


def test_shared_memory_of_the_launch():
    """The extent is a macro of the adjoint, which a launch sets; the adjoint needs as much again for the gradient."""
    text = kernel(
        "extern __shared__ double s[]; double* left = s; double* right = s + 8;\n"
        "left[i] = x[i]; right[i] = x[i] * x[i];\n"
        "__syncthreads(); y[i] = left[7 - i] * right[(i + 1) % 8];"
    )
    made, x, w = mg.adjoint(text, ["x"]), np.arange(1.0, 9), np.arange(2.0, 10)
    (dx,) = made.vjp(x, np.zeros(8), dy=[w], grid=1, block=8, shared=128)
    i = np.arange(8)
    want = np.zeros(8)
    np.add.at(want, 7 - i, w * x[(i + 1) % 8] ** 2)
    np.add.at(want, (i + 1) % 8, w * x[7 - i] * 2 * x[(i + 1) % 8])
    np.testing.assert_allclose(dx, want)
    chars = text.replace("double s[];", "unsigned char raw[]; double* s = reinterpret_cast<double*>(raw);")
    chars = chars.replace("s + 8", "(double*)&raw[8 * sizeof(double)]")
    chars += chars.replace(" f(", " g(")  # the other kernel of the file has memory of the same name
    for name in "fg":
        bytewise = mg.adjoint(chars, wrt=["x"], name=name)
        np.testing.assert_allclose(bytewise.vjp(x, 0 * x, dy=[w], grid=1, block=8, shared=128)[0], want)
    with pytest.raises(LaunchError, match="s lies in the launch's shared memory; give shared=bytes"):
        made.vjp(x, np.zeros(8), dy=[w], grid=1, block=8)
    with pytest.raises(LaunchError, match="shared=32768 and as much for its gradient are more than 49152 bytes"):
        made.vjp(x, np.zeros(8), dy=[w], grid=1, block=8, shared=32768)


def test_structs_in_the_shared_memory_of_the_launch():
    text = kernel("extern __shared__ P s[]; s[i].a = x[i]; s[i].b = x[i] * x[i]; __syncthreads();\n"
                  "y[i] = s[3 - i].a * s[i].b;", "struct P { double a, b; };")  # fmt: skip
    x, w = np.arange(1.0, 5), np.arange(2.0, 6)
    (dx,) = mg.adjoint(text, ["x"]).vjp(x, 0 * x, dy=[w], grid=1, block=4, shared=64)
    np.testing.assert_allclose(dx, (w * x * x)[::-1] + 2 * w * x * x[::-1])


def test_chars_of_shared_memory_used_as_one_type_and_default_values():
    body = "extern __shared__ unsigned char s[]; T* p = reinterpret_cast<T*>(s); p[threadIdx.x] = x[threadIdx.x];"
    body += " __syncthreads(); y[threadIdx.x] = p[n - threadIdx.x] * p[0] * m;"
    head = "template <typename T> __global__ void"
    params = "const T* x, T* y, int n, T* z = nullptr, int m = min(2, (3 + 1) * 4)"
    made = mg.adjoint(mg.kernel(f"{head} f({params}) {{ {body} }}\n{head} g({params}) {{ {body} }}", "f<double>"))
    x, dy = np.array([1.0, 2, 3]), np.array([1.0, 10, 100])
    (dx,) = made.vjp(x, x * 0, 2, x, 2, dy=[dy], grid=1, block=3, shared=24)
    assert dx.tolist() == [2 * (100 + 3 + 20 + 100), 20, 2]


def test_constant_memory_has_the_values_of_the_kernel():
    ahead = "extern __constant__ double C[2]; __constant__ double C[2]; __constant__ double2 D[2];"
    made = mg.kernel(kernel("y[i] = C[i % 2] * x[i] * x[i] * D[1].y;", ahead), "f")
    f, x, y = mg.adjoint(made), np.arange(1.0, 5), np.zeros(4)
    made.constant("D", np.array([0.0, 0, 0, 1]))
    for values in ([2.0, 3.0], [5.0, 7.0]):
        made.constant("C", np.array(values))
        (dx,) = f.vjp(x, y, dy=[np.ones(4)], grid=1, block=4)
        assert dx.tolist() == [2 * x * values[n % 2] for n, x in enumerate(x)]
