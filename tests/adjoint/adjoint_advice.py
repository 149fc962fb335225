"""Kernels that `mg.adjoint` rejects, and those that follow its advice: the data of `test_adjoint_advice.py`."""

GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;"""
PAIR = "struct Pair { double a, b; };"
# the sentence; the refused body, and what stands ahead of it; the body that follows the advice, and what is ahead of it
ADVICE = {
    "is a pointer or an array type; write it out where it is used": (
        ("Vec p = x; y[i] = p[i];", "typedef const double* Vec;"),
        ("const double* p = x; y[i] = p[i] * p[i];",),
    ),
    "or an array type; write it out where it is used": (
        ("P<double> p = x; y[i] = p[i] * p[i];", "template <class T> using P = const T*;"),
        ("const double* p = x; y[i] = p[i] * p[i];",),
    ),
    "is outside the subset; write a struct of numbers": (
        ("U u; u.a = x[i]; y[i] = u.a * u.a;", "union U { double a; long b; };"),
        ("U u; u.a = x[i]; y[i] = u.a * u.a;", "struct U { double a; long b; };"),
    ),
    "a template for some types alone is outside the subset; give it a name of its own": (
        ("y[i] = x[i] * V<double>;",
         "template <class T> constexpr T V = 2; template <> constexpr double V<double> = 3;"),
        ("y[i] = x[i] * x[i] * V;", "constexpr double V = 3;"),
    ),
    "is no int; give the enum a type: enum : unsigned { ... }": (
        ("y[i] = x[i] * A;", "enum { A = 4000000000u };"),
        ("y[i] = x[i] * x[i] * LARGE;", "enum : unsigned { LARGE = 4000000000u };"),
    ),
    "are not known here; write their number": (
        ("y[i] = x[i] * sizeof(P);", "#pragma pack(1)\nstruct P { double a; char b; };\n#pragma pack()"),
        ("y[i] = x[i] * x[i] * 9;",),
    ),
    "memcpy copies numbers of one type here; write a loop": (
        ("float v[2]; memcpy(v, x + i, 8); y[i] = v[0];",),
        ("double v[2]; for (int k = 0; k < 2; k++) v[k] = x[i]; y[i] = v[0] * v[1] * x[i];",),
    ),
    "takes any number of arguments; write a function for each number of them": (
        ("y[i] = g(x[i], w[i]);", "template <class... T> __device__ double g(T... v) { return (v + ...); }"),
        ("y[i] = g(x[i], w[i]);", "__device__ double g(double a, double b) { return a * b; }"),
    ),
    "has no constructor of these 2 arguments": (
        ("Q q = x[i]; Q r(q, 2.0); y[i] = r.a;", "struct Q { double a; __device__ Q(double v) : a(v) {} };"),
        ("Q q = x[i]; y[i] = q.a * q.a;", "struct Q { double a; __device__ Q(double v) : a(v) {} };"),
    ),
    "changes its own copies; pass them as arguments by reference, and leave mutable out": (
        ("double v = x[i]; auto g = [v]() mutable { v *= 2; return v; }; y[i] = g();",),
        ("double v = x[i]; auto g = [](double& v) { v *= 2; return v; }; y[i] = g(v) * x[i];",),
    ),
    "copy its value to a const variable first, and capture that": (
        ("auto g = [v = x[i] * 2]() { return v * v; }; y[i] = g();",),
        ("const double v = x[i] * 2; auto g = [v]() { return v * v; }; y[i] = g();",),
    ),
    "lies in shared memory; give it to the lambda as an argument": (
        ("__shared__ double s; if (i == 0) s = x[0]; __syncthreads(); auto g = [=](double v) { return v * s; }; y[i] "
         "= g(w[i]);",),
        ("__shared__ double s; if (i == 0) s = x[0]; __syncthreads(); auto g = [=](double v, double s) { return v * "
         "s; }; y[i] = g(w[i], s);",),
    ),
    "returns one of several references; return it at the end": (
        ("double a = x[i], b = w[i]; pick(a, b, c) *= a; y[i] = a * b;",
         "__device__ double& pick(double& a, double& b, int c) { if (c) return a; return b; }"),
        ("double a = x[i], b = w[i]; pick(a, b, c) *= a; y[i] = a * b;",
         "__device__ double& pick(double& a, double& b, int c) { return c ? a : b; }"),
    ),
    "has several returns; write the type that it returns": (
        ("auto g = [](double v) { if (v > 1.2) return v * v; return v; }; y[i] = g(x[i]);",),
        ("auto g = [](double v) -> double { if (v > 1.2) return v * v; return v; }; y[i] = g(x[i]);",),
    ),
    "a struct stands here in place of a number; take an element or a member of it": (
        ("Pair p = {x[i], w[i]}; y[i] = sin(p);", PAIR),
        ("Pair p = {x[i], w[i]}; y[i] = sin(p.a) * p.b;", PAIR),
    ),
    "a branch alone has given this pointer an array; ask what the branch asks, or keep that in a bool": (
        ("const double* p = nullptr; if (c > 0) p = x; if (p) y[i] = p[i] * p[i];",),
        ("const double* p = nullptr; if (c > 0) p = x; if (c > 0) y[i] = p[i] * p[i];",),
    ),
    "or keep that in a bool": (
        ("const double* p = nullptr; if (c > 0) p = x; if (p) y[i] = p[i] * p[i];",),
        ("const double* p = nullptr; bool has = false; if (c > 0) { p = x; has = true; } if (has) y[i] = p[i] * "
         "p[i];",),
    ),
    "a break beside a continue or return in one case is outside the subset; write if and else": (
        ("double v = 0; for (int k = 0; k < 3; k++) { switch (k) { case 0: if (c) break; continue; default: v += "
         "x[i]; } v *= v; } y[i] = v;",),
        ("double v = 0; for (int k = 0; k < 3; k++) { if (k == 0) { if (!c) continue; } else v += x[i]; v *= v; } "
         "y[i] = v;",),
    ),
    "atomicAdd takes an element: atomicAdd(&x[i], value)": (
        ("double v = x[i]; atomicAdd(&v, 1.0); y[i] = v;",),
        ("atomicAdd(&y[i], x[i] * x[i]);",),
    ),
    "of a pointer is outside the subset; use + or -": (
        ("const double* p = x; p *= 2; y[i] = p[i];",),
        ("const double* p = x; p += i; y[i] = *p * *p;",),
    ),
    "becomes nullptr here; keep in a bool whether it counts": (
        ("const double* p = x; if (c > 0) p = nullptr; y[i] = p ? p[i] : w[i];",),
        ("const double* p = x; bool has = true; if (c > 0) has = false; y[i] = has ? p[i] : w[i] * w[i];",),
    ),
    "is asked for ahead of this; keep the answer in a bool": (
        ("const double* p = nullptr; for (int k = 0; k < 2; k++) { if (p) y[i] = p[i]; p = x; }",),
        ("const double* p = x; bool has = false; for (int k = 0; k < 2; k++) { if (has) y[i] = p[i] * p[i]; has = "
         "true; }",),
    ),
    "leave virtual out, and call the method that is meant": (
        ("B b; b.a = x[i]; y[i] = b.g();",
         "struct A { double a; __device__ virtual double g() { return a; } }; struct B : A { __device__ double g() "
         "override { return a * a; } };"),
        ("B b; b.a = x[i]; y[i] = b.g2();",
         "struct A { double a; __device__ double g2() { return a; } }; struct B : A { __device__ double g2() { "
         "return a * a; } };"),
    ),
    "a virtual base is outside the subset; leave virtual out": (
        ("B b; b.a = x[i]; y[i] = b.a;", "struct A { double a; }; struct B : virtual A { double c; };"),
        ("B2 b; b.a = x[i]; y[i] = b.a * b.a;", "struct A2 { double a; }; struct B2 : A2 { double c; };"),
    ),
    "write the number of this byte as a literal": (
        ("float v = x[i]; y[i] = ((unsigned char*)&v)[c] * w[i];",),
        ("float v = x[i]; y[i] = ((unsigned char*)&v)[3] * w[i] * w[i];",),
    ),
    "runs for each of": (
        ("Q q; q.v[0].a = x[i]; y[i] = q.v[0].a * q.v[1].a;",
         "struct P { double a; __device__ P() : a(2) {} }; struct Q { P v[40]; };"),
        ("Q2 q; q.v[0].a = x[i]; q.v[1].a = w[i]; y[i] = q.v[0].a * q.v[1].a;",
         "struct P { double a; }; struct Q2 { P v[40]; };"),
    ),
    "which holds pointers; choose between elements: k ? a.p[i] : b.p[i]": (
        ("S a{x}, b{w}; S s = c > 1 ? a : b; y[i] = s.p[i];", "struct S { const double* p; };"),
        ("S a{x}, b{w}; y[i] = (c > 1 ? a.p[i] : b.p[i]) * a.p[i];", "struct S { const double* p; };"),
    ),
    "write a variable for each element, and not auto [...] = ...": (
        ("double p[2] = {x[i], w[i]}; auto [a, b] = p; y[i] = a * b;",),
        ("double p[2] = {x[i], w[i]}; double a = p[0], b = p[1]; y[i] = a * b;",),
    ),
    "holds pointers; write a variable for each element of": (
        ("S s[2] = {{x}, {w}}; y[i] = s[0].p[i] * s[1].p[i];", "struct S { const double* p; };"),
        ("S s = {x}; S t = {w}; y[i] = s.p[i] * t.p[i];", "struct S { const double* p; };"),
    ),
    "sets its own members in each of many elements; set them in a loop": (
        ("P p[40]; p[0].a = x[i]; y[i] = p[0].a * p[1].a;", "struct P { double a = 2; };"),
        ("P2 p[40]; for (int k = 0; k < 40; k++) p[k].a = 2; p[0].a = x[i]; y[i] = p[0].a * p[1].a * p[0].a;",
         "struct P2 { double a; };"),
    ),
    "must be a constant: a number, a macro or a const int": (
        ("int k = 3; double q[k]; q[0] = x[i]; y[i] = q[0];",),
        ("const int k = 3; double q[k]; q[0] = x[i]; y[i] = q[0] * q[0];",),
    ),
    "a number, a macro or a const int": (
        ("double q[n]; q[0] = x[i]; y[i] = q[0];",),
        ("double q[EIGHT]; q[0] = x[i]; y[i] = q[0] * q[0];", "#define EIGHT 8"),
    ),
    "a for over all elements takes an array of known extent; count with an int": (
        ("double s = 0; for (double v : x) s += v; y[i] = s;",),
        ("double s = 0; for (int k = 0; k < 32; k++) s += x[k] * x[k]; y[i] = s;",),
    ),
    "of floating-point numbers has no meaning; a power is x * x, or pow(x, 3)": (
        ("y[i] = x[i] ^ 2;",),
        ("y[i] = x[i] * x[i] + pow(x[i], 3);",),
    ),
    "and the other one changes it; write two statements": (
        ("double v = x[i]; y[i] = v * (v += w[i]);",),
        ("double v = x[i]; double u = v; v += w[i]; y[i] = u * v;",),
    ),
    "of these pointers is outside the subset; compare indices of one array": (
        ("y[i] = x < w ? x[i] : 1;",),
        ("int a = i, b = 3; y[i] = a < b ? x[i] * x[i] : 1;",),
    ),
    "this is one of two places, of which one has statements; write a branch for each": (
        ("double a = x[i], b = w[i]; (c ? g(a) : b) = 2; y[i] = a * b;",
         "__device__ double& g(double& v) { v *= v; return v; }"),
        ("double a = x[i], b = w[i]; if (c) { g3(a) *= 2; } else { b = 2; } y[i] = a * b;",
         "__device__ double& g3(double& v) { v *= v; return v; }"),
    ),
    "leaves out the axes of s; give it one axis": (
        ("double s[2][2][2]; s[0][0][1] = x[i]; double* p = &s[0][0][0]; y[i] = p[1];",),
        ("double s[8]; s[1] = x[i]; double* p = &s[0]; y[i] = p[1] * p[1];",),
    ),
    "is not known here; write g<...>": (
        ("y[i] = g(x[i]);", "template <int N> __device__ double g(double v) { return v * v * N; }"),
        ("y[i] = g4<2>(x[i]);", "template <int N> __device__ double g4(double v) { return v * v * N; }"),
    ),
    "takes a pointer to float, and gets one to double": (
        ("y[i] = g(x);",
         "template <class T> __device__ double h(T v) { return v; } __device__ double g(const float* p) { return "
         "p[0]; }"),
        ("y[i] = g5(x);", "__device__ double g5(const double* p) { return p[0] * p[0]; }"),
    ),
    "is left out, and ++ may change something; write a statement ahead of it": (
        ("int k = i; assert(k++ >= 0); y[i] = x[k - 1];",),
        ("int k = i; k++; assert(k >= 0); y[i] = x[k - 1] * x[i];",),
    ),
    "is not defined in this file; write the members one by one": (
        ("Pair p = {x[i], w[i]}; Pair q = p + p; y[i] = q.a;", PAIR),
        ("Pair p = {x[i], w[i]}; Pair q = {p.a + p.a, p.b + p.b}; y[i] = q.a * q.b;", PAIR),
    ),
    "has no derivative rule here, and is no __device__ function; write it as a __device__ function of differentiable "
    "ones, above this line": (
        ("y[i] = foo(x[i]);",),
        ("y[i] = foo(x[i]);", "__device__ double foo(double v) { return sin(v) * v; }"),
    ),
    "__longlong_as_double has no derivative rule here, and is no __device__ function; compute the number itself, not "
    "its bits": (
        ("y[i] = x[i] * __longlong_as_double(__double_as_longlong(x[i]) & 0x7fffffffffffffff);",),
        ("y[i] = x[i] * fabs(x[i]);",),
    ),
    "only the running kernel knows the threads of this group; take a tile, where those left out give 0": (
        ("auto g = cg::coalesced_threads(); y[i] = cg::reduce(g, x[i], cg::plus<double>());", GROUPS),
        ("auto g = cg::tiled_partition<32>(cg::this_thread_block()); y[i] = cg::reduce(g, x[i] * x[i], "
         "cg::plus<double>());",
         GROUPS),
    ),
    "does something; call a function for it at the end of the block": (
        ("Q q; q.a = x[i]; y[i] = q.a;", "struct Q { double a; __device__ ~Q() { a = 0; } };"),
        ("Q3 q; q.a = x[i]; y[i] = q.a * q.a; q.end();", "struct Q3 { double a; __device__ void end() { a = 0; } };"),
    ),
    "is a bit-field; make it a whole number, and take its bits by shifts": (
        ("Q q; q.a = i; y[i] = x[i] * q.a;", "struct Q { unsigned a : 3; };"),
        ("Q4 q; q.a = i; y[i] = x[i] * x[i] * (q.a & 7);", "struct Q4 { unsigned a; };"),
    ),
    "is not for all arguments of the template; write it in the struct": (
        ("Q<double> q; q.a = x[i]; y[i] = q.g();",
         "template <class T> struct Q { T a; __device__ T g(); }; template <> __device__ double Q<double>::g() { "
         "return a * a; }"),
        ("Q5<double> q; q.a = x[i]; y[i] = q.g6();",
         "template <class T> struct Q5 { T a; __device__ T g6() { return a * a; } };"),
    ),
    "Let all of them run it as often, with a condition around what some of them do": (
        ("double v = x[i]; for (int j = 0; j < i; j++) v += __shfl_xor_sync(0xffffffffu, v, 1); y[i] = v;",),
        ("double v = x[i]; for (int j = 0; j < 32; j++) { double u = __shfl_xor_sync(0xffffffffu, v, 1); if (j < i) "
         "v += u * 0.01 * v; } y[i] = v;",),
    ),
    "differs between threads. Move it out": (
        ("__shared__ double s[32]; s[i] = x[i]; if (i < 16) { __syncthreads(); y[i] = s[i + 16]; }",),
        ("__shared__ double s[32]; s[i] = x[i]; __syncthreads(); if (i < 16) { y[i] = s[i + 16] * s[i]; }",),
    ),
    "differs between threads. Leave out the return, and put the statements between barriers": (
        ("__shared__ double s[32]; s[i] = x[i]; __syncthreads(); if (i > 15) return; s[i] *= s[i + 16]; "
         "__syncthreads(); y[i] = s[15 - i];",),
        ("__shared__ double s[32]; s[i] = x[i]; __syncthreads(); if (i <= 15) { s[i] *= s[i + 16]; } "
         "__syncthreads(); if (i <= 15) { y[i] = s[15 - i]; }",),
    ),
    "__syncwarp() that only some threads reach": (
        ("__shared__ double s[32]; s[i] = x[i]; if (i < 16) { __syncwarp(); y[i] = s[i ^ 1]; }",),
        ("__shared__ double s[32]; s[i] = x[i]; __syncwarp(); if (i < 16) { y[i] = s[i ^ 1] * s[i]; }",),
    ),
    "on every path; end it with a return": (
        ("y[i] = g(x[i]);", "__device__ double g(double v) { if (v > 1.2) return v * v; }"),
        ("y[i] = g7(x[i]);", "__device__ double g7(double v) { if (v > 1.2) return v * v; return v; }"),
    ),
    "is a pointer to a function; call the function by its name": (
        ("double (*h)(double) = g; y[i] = h(x[i]);", "__device__ double g(double v) { return v * v; }"),
        ("y[i] = g8(x[i]);", "__device__ double g8(double v) { return v * v; }"),
    ),
    "union is outside the differentiable subset;": (
        ("union { double a; long b; } u; u.a = x[i]; y[i] = u.a;",),
        ("double a; long b; a = x[i]; y[i] = a * a;",),
    ),
    "new is outside the differentiable subset;": (
        ("double* p = new double[2]; p[0] = x[i]; y[i] = p[0];",),
        ("double p[2]; p[0] = x[i]; y[i] = p[0] * p[0];",),
    ),
    "decltype is outside the differentiable subset;": (
        ("decltype(x[i]) v = x[i]; y[i] = v;",),
        ("double v = x[i]; y[i] = v * v;",),
    ),
    "write the mask of the lanes that reach this line, 0xffffffff for whole warps": (
        ("double v = x[i]; y[i] = v * __shfl_xor_sync(__activemask(), v, 1);",),
        ("double v = x[i]; y[i] = v * __shfl_xor_sync(0xffffffff, v, 1);",),
    ),
    "memcpy into a variable of an outer block is outside the subset": (
        ("int4 v; if (c) { memcpy(&v, z + 4 * i, 16); } y[i] = ((float*)&v)[0] * x[i];",),
        ("int4 v; memcpy(&v, z + 4 * i, 16); y[i] = ((float*)&v)[0] * x[i] * x[i];",),
    ),
    "int4 has no member x; it has bits of floats, to be read as these: ((float*)&v)[0]": (
        ("int4 v = *(int4*)(z + 4 * i); y[i] = v.x * x[i];",),
        ("int4 v = *(int4*)(z + 4 * i); y[i] = ((float*)&v)[0] * x[i] * x[i];",),
    ),
    "write the number of this float2 as a literal": (
        ("int4 v = *(int4*)(z + 4 * i); float2* p = (float2*)&v; y[i] = p[c].x;",),
        ("int4 v = *(int4*)(z + 4 * i); float2* p = (float2*)&v; y[i] = p[1].x * x[i] * x[i];",),
    ),
    "bits and numbers of int4 are not copied to each other; declare a variable for each": (
        ("int4 v = *(int4*)(z + 4 * i); v = make_int4(1, 2, 3, 4); y[i] = v.x * x[i];",),
        ("int4 v = *(int4*)(z + 4 * i); int4 u = make_int4(1, 2, 3, 4); y[i] = (u.x + ((float*)&v)[1]) * x[i];",),
    ),
    "the bits of float are read as double, another type of element": (
        ("int4 v = *(int4*)(z + 4 * i); double* p = (double*)&v; y[i] = p[0];",),
        ("int4 v = *(int4*)(z + 4 * i); float* p = (float*)&v; y[i] = p[0] * x[i] * x[i];",),
    ),
    "first takes no braces here; put their values into a variable": (
        ("y[i] = first({x[i], w[i]});", "__device__ double first(const double* p) { return p[0] * p[1]; }"),
        ("double v[2] = {x[i], w[i]}; y[i] = first(v);",
         "__device__ double first(const double* p) { return p[0] * p[1]; }"),
    ),
    "is no template of this file; write it": (
        ("y[i] = plain<int>(x[i]);", "__device__ double plain(double v) { return v; }"),
        ("y[i] = squared<double>(x[i]);", "template <class T2> __device__ T2 squared(T2 v) { return v * v; }"),
    ),
    "several functions mixed take these arguments; give the one that is meant a name of its own": (
        ("y[i] = mixed(1, 2) * x[i];",
         "__device__ double mixed(int a, double b) { return a * b; }\n__device__ double mixed(double a, int b) { "
         "return a * b; }"),
        ("y[i] = mixed2(1, 2) * x[i] * x[i];",
         "__device__ double mixed(int a, double b) { return a * b; }\n__device__ double mixed2(double a, int b) { "
         "return a * b; }"),
    ),
    "K has several meanings in this file; give each a name of its own": (
        ("y[i] = x[i] * K;",
         "constexpr double K = 2; namespace other { constexpr double K = 3; } using namespace other;"),
        ("y[i] = x[i] * x[i] * K2;",
         "constexpr double K2 = 2; namespace other2 { constexpr double L2 = 3; } using namespace other2;"),
    ),
    "and constants or types are made of it; give each a name": (
        ("y[i] = x[i] * TWO;",
         "#define SIZE 2\nconstexpr double TWO = SIZE;\n#undef SIZE\n#define SIZE 3\nconstexpr double FOUR = SIZE + "
         "1;"),
        ("y[i] = x[i] * x[i] * TWO;",
         "#define SIZE 2\nconstexpr double TWO = SIZE;\n#define SIZE3 3\nconstexpr double FOUR = SIZE3 + 1;"),
    ),
    "of a struct moves in a loop or a branch; copy it to a pointer ahead of that": (
        ("View s{x}; for (int k = 0; k < 2; ++k) s.p += 1; y[i] = s.p[0];", "struct View { const double* p; };"),
        ("View s{x}; const double* p = s.p; for (int k = 0; k < 2; ++k) p += 1; y[i] = p[0] * p[i % 8];",
         "struct View { const double* p; };"),
    ),
    "only the running kernel knows how many iterations that takes; give it a bound that the launch knows, and leave "
    "it with break": (
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { for (int j = 0; j < (int)w[r]; ++j) s = s * m[i]; m[i] = s; "
         "} y[i] = s;",),
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { for (int j = 0; j < 8; ++j) { if (j >= (int)w[r]) break; s "
         "= s * m[i]; } m[i] = s; } y[i] = s;",),
    ),
    "copy it into a variable before the inner loop, or": (
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { for (int j = 0; j < 3; j += h[i]) s = s * s; h[i] = 2; } "
         "y[i] = s;",),
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { int d = h[i]; for (int j = 0; j < 3; j += d) s = s * s; "
         "h[i] = 2; } y[i] = s;",),
    ),
    "or test it in the body of a for that break leaves": (
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { while (h[i] > 0) { h[i] -= 1; s = s * s; } h[i] = 1; } y[i] "
         "= s;",),
        ("double s = x[i]; for (int r = 0; r < 2; ++r) { for (int j = 0; j < 9; ++j) { if (h[i] <= 0) break; h[i] -= "
         "1; s = s * s; } h[i] = 1; } y[i] = s;",),
    ),
    "pass its elements as numbers, or": (
        ("double s = area(m); m[i] = s; y[i] = s * m[i] * x[i];",
         "__device__ double area(const double* v) { return v[0] * v[0]; }"),
        ("double s = product(m[i], m[i]); m[i] = s; y[i] = s * m[i] * x[i];",
         "__device__ double product(double a, double b) { return a * b; }"),
    ),
    "or write the body of area here": (
        ("double s = area(m); m[i] = s; y[i] = s * m[i] * x[i];",
         "__device__ double area(const double* v) { return v[0] * v[0]; }"),
        ("double s = m[i] * m[i]; m[i] = s; y[i] = s * m[i] * x[i];",),
    ),
    "threads that return ahead of this barrier have gradients to compute behind it. Leave out the return, and put "
    "the statements between barriers": (
        ("__shared__ double s[32]; double v = x[i] * __shfl_xor_sync(0xffffffffu, x[i], 1); if (i > 15) return; s[i] "
         "= v; __syncthreads(); y[i] = s[15 - i] * v;",),
        ("__shared__ double s[32]; double v = x[i] * __shfl_xor_sync(0xffffffffu, x[i], 1); if (i <= 15) { s[i] = v; "
         "} __syncthreads(); if (i <= 15) { y[i] = s[15 - i] * v; }",),
    ),
    "= inside an expression is outside the subset; make it a statement": (
        ("int j; y[i] = x[j = i];",),
        ("int j; j = i; y[i] = x[j] * x[i];",),
    ),
    "can become several types here; call a method of it instead": (
        ("Both b; b.a = x[i]; if (b) y[i] = b.a;",
         "struct Both { double a; __device__ operator double() const { return a; } __device__ operator int() const { "
         "return a; } };"),
        ("Both2 b; b.a = x[i]; if (b.get()) y[i] = b.a * b.a;",
         "struct Both2 { double a; __device__ double get() const { return a; } };"),
    ),
    "calls itself; recursion is outside the subset, write a loop": (
        ("y[i] = power(x[i], 3);", "__device__ double power(double v, int n) { return n ? v * power(v, n - 1) : 1; }"),
        ("y[i] = power2(x[i], 3);",
         "__device__ double power2(double v, int n) { double r = 1; for (; n; n--) r *= v; return r; }"),
    ),
    "operators; write a loop in place of repeated lines and calls": (
        ("double v = x[i]; " + "v = v * w[i] * 0.5 + x[i]; " * 800 + "y[i] = v;",),
        ("double v = x[i]; for (int k = 0; k < 800; k++) v = v * w[i] * 0.5 + x[i]; y[i] = v;",),
    ),
    "has no static width with a value here": (
        ("y[i] = x[i] * Table::width;", "struct Table { double a; static const int width; };"),
        ("y[i] = x[i] * x[i] * Table2::width;", "struct Table2 { double a; static const int width = 3; };"),
    ),
    "Twice has no arguments here; let the parameter be a class, and give it Twice<...> with its arguments": (
        ("y[i] = all<Twice, double>(x[i]);",
         "template <class T> struct Twice { __device__ T operator()(T v) const { return v * v; } };\n"
         "template <template <class> class F, class T> __device__ T all(T v) { return F<T>()(v); }"),
        ("y[i] = all<Twice2<double>, double>(x[i]);",
         "template <class T> struct Twice2 { __device__ T operator()(T v) const { return v * v; } };\n"
         "template <class F, class T> __device__ T all(T v) { return F()(v); }"),
    ),
}  # fmt: skip
