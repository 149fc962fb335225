"""CUDA C++ that students write: differentiated rightly, or refused with line, column and the way out."""

import pytest
from test_adjoint_slopes import check

import minigrad as mg
from minigrad.adjoint import Refused

I = "int i = threadIdx.x;"  # noqa: E741
HEAD = 'extern "C" __global__ void'
PARAMS = "const double* x, double* y"


def source(body="y[i] = x[i] * x[i];", ahead="", head=HEAD, params=PARAMS):
    """A kernel whose body begins in line 4."""
    return f"{ahead}\n{head} f({params}) {{\n{I}\n{body}\n}}\n"


def ahead(text, body):
    return source(body, ahead=text)


RIGHT = {
    "bounds before void": source(head='extern "C" __global__ __launch_bounds__(256, 2) void'),
    "bounds behind void": source(head='extern "C" __global__ void __launch_bounds__(B)', ahead="#define B 256"),
    "braces of C": f"extern \"C\" {{\n{source(head='__global__ void')}}}\n",
    "declared ahead": ahead(f"__global__ void g(int n);\n{HEAD} f({PARAMS});", "y[i] = x[i] * x[i];"),
    "for the host too": ahead("__host__ __device__ __inline__ double g(double v) { return v * v; }", "y[i] = g(x[i]);"),
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
    "for ever": source("double v = x[i]; for (;;) { v = v * x[i]; if (v < 0.1) break; } y[i] = v;"),
    "names": ahead("#define REAL double\n#define TWO 2\n#define FOUR (TWO + 2)", "REAL v = x[i]; y[i] = v * FOUR;"),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_right(case):
    check(RIGHT[case])


# the body, then where it is refused and why; line 4 is the body's first
BODIES = {
    "y[i] = reinterpret_cast<const double*>(x)[i];": "4:8: reinterpret_cast is outside the differentiable subset; pass",
    "y[i] = ((const double*)x)[i];": "4:10: pointers cannot be cast in the subset; pass the array with its own type",
    "y[i] = x[i]; /* never ends": "4:14: this comment has no end; close it with */",
    "\n#if 1\ny[i] = x[i];\n#else\ny[i] = 2 * x[i];\n#endif": "5:1: #if is outside the differentiable subset; leave in",
    "\n#ifndef FAST\ny[i] = x[i];\n#endif": "5:1: #ifndef is outside the differentiable subset; leave in the lines",
    "\n#define A (1 + \\\n 2)\n": "5:1: this #define goes on in the next line; write it in one line",
    "\n#define A 2\n#define A 3\n": "6:1: A is defined twice; give the second another name",
    "\n#define A 2\n#ifndef A\n#define A 3\n#endif": "7:1: A is defined twice",
    "\n#pragma unroll\nwhile (i < 3) { }": "5:1: of pragmas only #pragma unroll before a for",
    "const double& d = x[i];": "4:13: local pointers and references are outside the subset; use an index",
    "const double* p = x + i;": "4:13: local pointers and references are outside the subset; use an index",
    "y[i] = *(x + i);": "4:8: * before an operand is outside the subset; write x[i]",
    "*y = x[i];": "4:1: write what is assigned as a variable or as an element: y[i] = ...;",
    "*(y + i) = x[i];": "4:1: write what is assigned as a variable or as an element",
    "(i > 3 ? y[0] : y[1]) = x[i];": "4:1: write what is assigned as a variable or as an element",
    "if (x != y) y[i] = x[i];": "4:5: x is an array of 1 axes and is used here with 0 indices; pointers cannot be",
    "y[i] = x[i][0];": "4:12: '[' is outside the differentiable subset here; an array takes one index for each of its",
    "do { y[i] = x[i]; } while (i > 9);": "4:1: do is outside the differentiable subset; write its body once, and then",
    "switch (i) { case 0: y[i] = x[i]; }": "4:1: switch is outside the differentiable subset; write if and else if",
    "goto end; end: ;": "4:1: goto is outside the differentiable subset; write if, or leave a loop with break",
    "end: y[i] = x[i];": "4:1: labels are outside the differentiable subset; leave a loop with break",
    "y[i] = x[i] > 0 ? x[i++] : 0;": "4:22: '++' is outside the differentiable subset here; make it a statement",
    "x[i] > 0 ? y[i] = 1 : y[i] = 2;": "4:6: expected an assignment, found '>'",
    "for (int j = 0, k; j < 3; ++j) y[i] = 0;": "4:1: a for with several variables; declare the others before the loop",
    "int k = 0; for (int j = 0; j < 3; ++j, ++k) y[i] = 0;": "4:38: the comma operator is outside the subset; write",
    "double a = (i, x[i]);": "4:14: the comma operator is outside the subset; write two statements",
    "y[i] = 0, i = 2;": "4:9: the comma operator is outside the subset; write two statements",
    "int k = 0; y[k++] = x[i];": "4:15: '++' is outside the differentiable subset here; make it a statement",
    "int k = 0; y[i] = x[++k];": "4:21: ++ before an operand is outside the subset; make it a statement",
    "struct P { double a; } p;": "4:1: struct is outside the differentiable subset; write a variable, or an array, for",
    "P p;": "4:1: the type P is outside the differentiable subset; int, unsigned, long long, bool, float, double and",
    "float4 v = make_float4(1, 2, 3, 4);": "4:1: the type float4 is outside the differentiable subset; int, unsigned",
    "unsigned char c = 1;": "4:1: the type unsigned char is outside",
    "unsigned long long c = 1;": "4:1: the type unsigned long is outside",
    "uint32_t c = 1;": "4:1: the type uint32_t is outside",
    "auto g = [](double v) { return v; };": "4:1: auto is outside the differentiable subset; write the type",
    "y[i] = __ldg(x + i);": "4:14: __ldg takes the element: __ldg(&x[i])",
    "atomicMax(&i, 3);": "4:1: the call of atomicMax as a statement is outside the subset; of the atomics only",
    "double old = atomicAdd(&y[i], 1.0);": "4:14: the value that atomicAdd returns depends on the order of the threads",
    "atomicAdd(y + i, x[i]);": "4:11: atomicAdd takes the element: atomicAdd(&x[i], value)",
    "for (int j = 0; j < 3; ++j) { if (x[j] > 1) return; y[i] = x[j]; }": "4:1: a return inside a loop is outside the",
    "return 3;": "4:1: f returns no value; so must this return",
    'printf("%d", i);': "4:1: printf is outside the differentiable subset; leave it out",
    "assert(i < 8);": "4:1: assert is outside the differentiable subset; leave it out",
    "double v = x[i]; { double v = v * v; y[i] = v; }": "4:27: v is read in its own first value, before it has one",
    "double sin = x[i];": "4:8: sin is the name of a function or macro; choose another name",
    "int blockIdx = 3;": "4:5: blockIdx is the name of a builtin; choose another name",
    "double v; y[i] = v * x[i];": "4:8: v is read and never given a value; give it one",
    "int k = 3; double q[k]; q[0] = x[i]; y[i] = q[0];": "4:21: the extent of q must be a constant: a number, a macro",
    "double q[] = {x[i], 2};": "4:10: write the extent of q",
    "double q[2][2] = {{1, 2}, {3, 4}};": "4:19: write all values of the array in one pair of braces",
    "double v{x[i]};": "4:9: write double v = ...; with an equals sign",
    "double v(x[i]);": "4:9: write double v = ...; with an equals sign",
    "double a; if ((a = x[i]) > 0) y[i] = a;": "4:18: = inside an expression is outside the subset; make it a",
    "if (double a = x[i]) y[i] = a;": "4:5: declare the variable a in a statement ahead of this one",
    "if constexpr (true) y[i] = x[i];": "4:4: if constexpr is outside the subset; write if",
    "for (double v : x) y[i] = v;": "4:1: a for over all elements is outside the subset; count with an int",
    "x[i]; y[i] = x[i];": "4:5: expected an assignment, found ';'",
    "y[i] = x[i]": "4:12: a ; is missing here, at the end of the statement",
    "y[i] = std::sin(x[i]);": "4:8: std is outside the differentiable subset; write the name without std::",
    "y[i] = x[i] * sizeof(double);": "4:15: sizeof is outside the differentiable subset; write the number of bytes",
    "if (i > 2 and i < 5) y[i] = x[i];": "4:11: and is outside the differentiable subset; write &&",
    "y[i] = __shfl_xor_sync(1, x[i], 1);": "4:8: __shfl_xor_sync has no derivative rule here, and is no __device__ fun",
    "__syncwarp();": "4:1: the call of __syncwarp as a statement is outside the subset; use __syncthreads()",
    "extern __shared__ double s[];": "4:1: extern variables are outside the differentiable subset; give the array its",
    "volatile double v = 1;": "4:1: volatile variables are outside the differentiable subset; leave volatile out",
    "y[i] = x[i]; }": "5:1: this } closes nothing; there is one too many, or a { is missing",
    "if (i > 3) { y[i] = x[i];": "6:1: the file ends within f; a } is missing",
}  # fmt: skip

# what stands ahead of the kernel, in line 1, and the kernel's body
FILES = {
    ("template <class T> __device__ T g(T v) { return v; }", "y[i] = g(x[i]);"): "1:1: template is outside the",
    ("__device__ double g(const double& v) { return v; }", "y[i] = g(x[i]);"): "1:33: references and pointers to",
    ("__device__ void g(double* v) { }", "g(y);"): "1:12: a __device__ function must return a number; void is none",
    ("__device__ double g(const double* v) { return v[0]; }", "y[i] = g(x + i);"): "4:12: hand over x alone, and the",
    ("__device__ double g(const double* v) { return v[0]; }", "y[i] = g(&x[i]);"): "4:10: hand over the array alone,",
    ("__device__ double g(double v) { return v > 0 ? 1 : g(v); }", "y[i] = g(x[i]);"): "1:52: g calls itself;",
    ("__device__ double h(double v);", "y[i] = h(x[i]);"): "4:8: h has no derivative rule here, and is no __device__",
    ("__device__ double g(double v) { if (v > 1) return v; }", "y[i] = g(x[i]);"): "1:1: g does not return a double on",
    ("__device__ double g(double v) { return; }", "y[i] = g(x[i]);"): "1:33: g returns a double; so must this return",
    ("__device__ double g(double v, double w = 3) { return v; }", "y[i] = g(x[i]);"): "1:40: w has a default value;",
    ("__device__ double g(int v) { return v; } __device__ double g(double v) { return v; }", "y[i] = g(x[i]);"):
        "1:42: g is defined twice, with other parameters; give each function a name of its own",
    ("#define SQ(v) ((v) * (v))", "y[i] = SQ(x[i]);"): "1:1: the macro SQ takes arguments; write it as a __device__",
    ("#define SET y[i] = x[i];", "SET"): "1:13: the macro SET must be a type or an expression in parentheses, of",
    ("#define CHECK(v)\nCHECK(1)", "y[i] = x[i];"): "1:1: the macro CHECK takes arguments; write it as a",
    ("struct P { double a; };", "P p;"): "1:1: struct is outside the differentiable subset; write a variable, or an",
    ("typedef double T;", "T v = x[i];"): "1:1: typedef is outside the differentiable subset; use #define",
    ("__constant__ double C[3];", "y[i] = C[0] * x[i];"): "1:21: C has no values here; write them, or pass it as a",
    ("__device__ double c;", "y[i] = c * x[i];"): "1:1: 'double' outside a function is outside the subset; make it a",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_refused_in_a_body(body):
    with pytest.raises(Refused) as caught:
        mg.adjoint(source(body))
    assert str(caught.value).startswith(f"f.cu:{BODIES[body]}")


@pytest.mark.parametrize(("text", "body"), FILES)
def test_refused_where_it_is_used(text, body):
    with pytest.raises(Refused) as caught:
        mg.adjoint(ahead(text, body))
    assert str(caught.value).startswith(f"f.cu:{FILES[text, body]}")


@pytest.mark.parametrize(("params", "message"), [
    ("const float4* x, double* y", "2:30: a parameter of type 'float4' is outside the differentiable subset;"),
    ("const double x[8], double* y", "2:44: write the array parameter as a pointer: double* x"),
    ("const double* x, double* y, int n = 3", "2:64: n has a default value; leave it out and pass it every time"),
    ("const double* x, double* y, int", "2:61: expected the parameter's name, found ')'"),
])  # fmt: skip
def test_refused_parameters(params, message):
    with pytest.raises(Refused) as caught:
        mg.adjoint(source(params=params))
    assert str(caught.value).startswith(f"f.cu:{message}")


def test_a_template_cannot_be_asked_for():
    with pytest.raises(ValueError, match="f is a template; write it for one set of types and values"):
        mg.adjoint(f"template <int B>\n{source(head='__global__ void').lstrip()}")


def test_a_constant_is_as_good_as_a_macro():
    text = "for (int j = 0; j < K; ++j) { v = v * x[j]; } y[i] = v;"
    for constant in ("#define K 4", "const int K = 4;"):
        assert mg.adjoint(ahead(constant, f"double v = 1; {text}")).decisions["v_tape"].how == "local tape"
