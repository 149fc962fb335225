"""Kernels outside the differentiable subset are rejected with line, column and a sentence."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import KernelError, LaunchError

PARAMS = "const double* x, double* y, double a, int n"
KERNEL = 'extern "C" __global__ void f(const float* x, float* y, float a, int n) {{\n{}\n}}\n'
GUARD = "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def source(body, ahead="", params=PARAMS):
    """A kernel whose body begins on line 4."""
    return f'{ahead}\nextern "C" __global__ void f({params}) {{\nint i = threadIdx.x; y[0] = a;\n{body}\n}}\n'


def refused(text, message):
    with pytest.raises(NotDifferentiable) as caught:
        mg.adjoint(text, name="f")
    assert str(caught.value).startswith(f"f.cu:{message}")


# bodies, with line, column and reason of the error
BODIES = {
    "y[i] = x[i]; /* never ends": "4:14: this comment has no end; close it with */",
    "(i > 3 ? y[0] : 2.0) = x[i];": "4:1: write the target of the assignment as a variable or as an element",
    "if (x != y) y[i] = x[i];": "4:7: != of these pointers is outside the subset; compare indices of one",
    "y[i] = x[i][0];": "4:12: [ after a number, which has no elements; an array takes one index for each of its axes.",
    "goto end; end: ;": "4:1: goto is outside the differentiable subset; write if, or leave a loop with break",
    "end: y[i] = x[i];": "4:1: labels are outside the differentiable subset; leave a loop with break",
    "double a = (i, x[i]);": "4:14: the comma operator is outside the subset; write two statements",
    "P p;": "4:1: the type P is outside the differentiable subset; whole numbers, bool, float, double, ha",
    "atomicMax(&i, 3);": "4:1: atomicMax has no derivative rule here, and is no __device__ function; of t",
    "double old = atomicAdd(&y[i], 1.0);": "4:14: the value that atomicAdd returns depends on the order of the threads",
    "if (i > 3) break; y[i] = x[i];": "2:1: f has a break or continue outside any loop; leave it out",
    "return 3;": "4:1: f returns no value; so must this return",
    "double v = x[i]; { double v = v * v; y[i] = v; }": "4:27: v is read in its own initial value, before it has one",
    "int blockIdx = 3;": "4:5: blockIdx is the name of a builtin; choose another name",
    "double v; y[i] = v * x[i];": "4:8: v is read and never given a value; give it one",
    "int k = 3; double q[k]; q[0] = x[i]; y[i] = q[0];": "4:21: the extent of q must be a constant: a number, a macro",
    "for (double v : x) y[i] = v;": "4:1: a for over all elements takes an array of known extent; count with an",
    "y[i] = x[i]": "4:12: a ; is missing here, at the end of the statement",
    "if (i > 2 and i < 5) y[i] = x[i];": "4:11: and is outside the differentiable subset; write &&",
    "y[i] = (x[i]));": "4:14: expected ';', found ')'.",
    "if i > 3) { y[i] = x[i]; }": "4:4: expected '(', found 'i'.",
    "y[i] = x[i]; }": "5:1: this } closes nothing; there is one too many, or a { is missing",
    "if (i > 3) { y[i] = x[i];": "6:1: the file ends within f; a } is missing.",
    "y[0] = foo(x[0]);": "4:8: foo has no derivative rule here",
    "x[0] = 1;": "4:2: x is const and is written here.",
    "const double c = 1; c = 2;": "4:21: c is const and is written here",
    "static double s;": "4:1: static variables",
    "y[0] = 010 * x[0];": "4:8: 010 is octal in C++; write it in decimal",
    "y[007u] = x[0] * 00.5 + 1e05;": "4:3: 007u is octal",
    "y[0] = 0b11 * x[0];": "4:8: the literal 0b11 is outside the differentiable subset; write it in decimal",
    "\n#define EIGHT 010\ny[i] = EIGHT * x[i];": "5:15: 010 is octal",
    "quarter h = 0;": "4:1: the type quarter is outside",
    "y[0] = undeclared;": "4:8: undeclared is not declared here",
    "y[x[0]] = 1;": "4:3: an index must be a whole number",
    "y[0] = pow(x[0]);": "4:8: pow takes 2 arguments; got 1",
    "atomicCAS(&n, 0, 1);": "4:1: atomicCAS has no derivative rule here, and is no __device__ function; o",
    "if (threadIdx.x < 3) __syncthreads();": "4:22: __syncthreads() that only some threads reach",
    "__syncthreads(); if (threadIdx.x > 3) return; __syncthreads();": "4:47: __syncthreads() that only some threads "
        "reach: a condition around it or a jump before it differs between threads. Leave out the return, and put the",
    "for (int i = 0; i < threadIdx.x; ++i) __syncthreads();": "4:39: __syncthreads() that only some",
    "while (true) { if (x[threadIdx.x] > 0) break; __syncthreads(); }": "4:47: __syncthreads() that only some",
    "for (int r = 0; r < 3; ++r) { __syncthreads(); if (n) { y[0] = a; } else if (threadIdx.x > r) break; }":
        "4:31: __syncthreads() that only some",
    "y[0] = x[0] %2;": "4:13: % of floating-point numbers",
    "y[i] = x[i] ** 2;": "4:13: ** is no operator of C++; a power is x * x, or pow(x, 3)",
    "y[i] = x[i] ^ 2;": "4:13: ^ of floating-point numbers has no meaning; a power is x * x, or pow(x, 3)",
    "y[0] = ~x[0];": "4:8: ~ of a floating-point number has no meaning",
    "int i = 0; { int i = 1; y[i] = 1; } @": "4:5: i is declared twice in one scope.",
    "y[0] = x[0] +;": "4:14: expected an operand, found ';'",
    "y[0] = blockDim;": "4:6: a struct stands here in place of a number; take a",
    "y[0] = threadIdx.w;": "4:18: dim3 has no member w; it has x, y, z",
    "for (;;) { switch (i) { case 0: if (i > n) break; continue; } break; }": "4:33: a break beside a continue",
    "y[i] = x[i] * clock64();": "4:1: y depends on clock64(), and its adjoint runs at another time; leave",
    "if (clock() > n) return; y[i] = a;": "4:1: a jump depends on a clock, and the adjoint runs at another time",
    "for (int j = 0; j < n; ++j) { if (clock() % 5 == 0) break; y[i] *= a; }": "4:1: a jump depends on a clock",
    "if (clock() > n) y[i] = a;": "4:1: y depends on clock(), and its",
    "double tape_slots = x[i]; y[i] = tape_slots;": "4:8: the adjoint itself uses the name tape_slots; choose another",
}  # fmt: skip


@pytest.mark.parametrize(("body", "message"), BODIES.items())
def test_refused_in_a_body(body, message):
    refused(source(body), message)


DEEP = {
    "parentheses": "(" * 400 + "x[i]" + ")" * 400,
    "a sum": "x[i] + " * 2000 + "a",
    "calls": "sin(" * 180 + "x[i]" + ")" * 180,
}


@pytest.mark.parametrize("value", DEEP.values(), ids=DEEP)
def test_what_is_too_deep_is_refused(value):
    with pytest.raises(NotDifferentiable, match=r"f.cu:\d+:\d+: this is nested too deeply; put a part of an expr"):
        mg.adjoint(source(f"y[i] = {value};"))


# line 1, ahead of the kernel; the error; and the kernel's body where it is not y[i] = g(x[i]);
FILES = [
    ("__device__ double g(double v) { return v > 0 ? 1 : g(v); }", "1:52: g calls itself;"),
    ("__device__ double h(double v);", "4:8: h has no derivative rule here, and is no __device__", "y[i] = h(x[i]);"),
    ("__device__ double g(double v) { if (v > 1) return v; }", "1:1: g does not return a double on"),
    ("__device__ double g(double v) { return v * clock(); }", "4:8: y depends on clock(), and its adjoint runs at"),
    ("__device__ double f_adjoint(double v) { return v; }", "2:1: the name f_adjoint is taken in this file", ""),
    ('#include "own.cuh"', "4:8: there is no file own.cuh, and g has no derivative rule here"),
    ('#include "own.cuh"', "4:8: there is no file own.cuh, and W is not declared here", "y[0] = W;"),
    ('#include "own.cuh"', "4:1: there is no file own.cuh, and the type Pair is outside", "Pair p;"),
    ("__device__ double c;", "1:1: 'double' outside functions: make it __constant__, or", "y[i] = c * x[i];"),
]  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_refused_where_it_is_used(case):
    text, message, *body = case
    refused(source(*(body or ["y[i] = g(x[i]);"]), ahead=text), message)


def test_a_place_in_a_header_has_its_name(tmp_path):
    (tmp_path / "g.cuh").write_text(
        '\n__device__ double g(double v) {\n    goto end; end: return v; }\n#include "k.cuh"\n'
    )
    (tmp_path / "k.cuh").write_text("\n__device__ void set(double* y, double v) { *y = v; }\n")
    head = "__global__ void {}(const double* x, double* y)"
    text = f'#include "g.cuh"\n{head.format("f")} {{ y[0] = g(x[0]); }}\n'
    (tmp_path / "f.cu").write_text(f"{text}{head.format('race')} {{ set(y, x[threadIdx.x]); }}\n")
    with pytest.raises(NotDifferentiable, match=r"^g.cuh:3:5: goto is outside the differentiable subset"):
        mg.adjoint(tmp_path / "f.cu", name="f")
    made = mg.adjoint(tmp_path / "f.cu", name="race")
    assert "// adjoint of line 2 of k.cuh: *y = v;" in made.source
    with pytest.raises(NotDifferentiable, match=r"^k.cuh:2:1: the kernel has a race and so no gradient"):
        made.vjp(np.ones(2), np.ones(1), dy=[np.ones(1)], grid=1, block=2)


@pytest.mark.parametrize(("params", "message"), [
    ("double** x", "2:37: references and pointers to pointers"),
    ("double& x", "2:36: references and pointers to pointers"),
    ("const View* x", "2:30: a parameter of type 'View' is outside"),
    ("View x", "2:30: a parameter of type 'View' is outside"),
])  # fmt: skip
def test_refused_parameters(params, message):
    refused(source(params=params, body=""), message)


def test_a_pointer_to_anything_has_one_type():
    refused(
        source("*(float*)p = *(double*)p;", params=f"{PARAMS}, void* p"), "4:15: p is cast to float* and to double*"
    )


def test_a_template_cannot_be_asked_for():
    with pytest.raises(ValueError, match=r"f is a template of <int B>; give it arguments"):
        mg.adjoint(f"template <int B>\n__global__ void f({PARAMS}) {{ y[0] = a; }}\n")


@pytest.mark.parametrize(("loop", "why"), [
    ("for (int j = 0; j < 3; j += c[0]) { s = s * s; }", "the header of an"),
    ("for (int j = 0; r < c[0] && j < c[r]; ++j) { s = s * s; }", "an"),
    ("while (c[0] > 0) { c[0] -= 1; s = s * s; }", "the header of an"),
    ("for (int j = 0; c[j % 2] > j; ++j) { s = s * s; }", "the header of an"),
    ("for (int q = 0; q < (int)x[r]; ++q) { s = s * c[q]; }", "an"),
    ("int q = 0; while (q < 2) { s = s * c[q]; q += s > 0; }", "an"),
    ("int q = 0; while (q < 2) { int z[1] = {c[q]}; s = s * s * z[0]; q += s > 0; }", "an"),
])  # fmt: skip
def test_what_only_the_rounds_of_a_loop_know_is_refused_and_not_guessed(loop, why):
    """A tape for nested loops needs its size ahead of them; a loop header is read once, in front of its loop."""
    body = f"    float s = x[0];\n    for (int r = 0; r < 2; ++r) {{\n{loop} c[0] = 1;\n    }}\n    y[0] = s;"
    with pytest.raises(
        NotDifferentiable, match=rf"f.cu:4:\d+: c is overwritten in an outer loop and read in {why} inner one"
    ):
        mg.adjoint(KERNEL.replace("float* y", "float* y, int* c").format(body), wrt=["x"])


@pytest.mark.parametrize(
    "body", ["s = s * g(c, 0); c[0] = s; s = s * c[0];", "for (int r = 0; r < 2; ++r) { s = s * g(c, r); c[0] = s; }"]
)
def test_an_array_that_changes_after_a_function_has_read_it(body):
    """The adjoint of a product reads the factors again; that of a difference does not."""
    head = "__device__ float g(const float* v, int j) { return v[j] * v[j + 1]; }\n"
    text = KERNEL.replace("float* y", "float* y, float* c").format(f"    float s = x[0];\n    {body}\n    y[0] = s;")
    with pytest.raises(
        NotDifferentiable, match=r"f.cu:4:\d+: c is overwritten after g has read it, and the adjoint of g reads it"
    ):
        mg.adjoint(head + text, wrt=["x", "c"])
    mg.adjoint(head.replace("v[j] * v", "v[j] - v") + text, wrt=["x", "c"])


def test_a_launch_that_the_indices_do_not_allow_is_refused():
    made = mg.adjoint(KERNEL.format("int i = blockIdx.x * 16 + threadIdx.x;\n y[i] = a * x[i];"))
    x, y = mg.ones(32, device="sim"), mg.ones(32, device="sim")
    with pytest.raises(LaunchError, match=r"blockDim.x is 32, and its adjoint relies on at most 16"):
        made.vjp(x, y, 2.0, 32, dy=[y], grid=1, block=32)
    with pytest.raises(LaunchError, match=r"blockDim.y is 2, and its adjoint relies on 1"):
        made.vjp(x, y, 2.0, 32, dy=[y], grid=2, block=(16, 2))


def test_other_indices_are_examined_anew():
    head = 'extern "C" __global__ void f(const double* x, const int* at, double* y)'
    text = f"{head} {{ y[at[threadIdx.x]] = x[threadIdx.x]; }}"
    made = mg.adjoint(text)
    x, y, apart, equal = (
        mg.tensor(values, device="sim")
        for values in (np.arange(8.0), np.zeros(8), np.arange(8, dtype=np.int32)[::-1].copy(), np.zeros(8, np.int32))
    )
    assert made.vjp(x, apart, y, dy=[x], grid=1, block=8)[0].numpy().tolist() == list(range(7, -1, -1))
    with pytest.raises(NotDifferentiable, match=r"f.cu:1:1: the kernel has a race and so no gradient: .*y"):
        made.vjp(x, equal, y, dy=[x], grid=1, block=8)


STRUCT = """struct P { double a, b; __device__ double mean() const { return a * 0.5 + b * 0.5; } };
__global__ void f(const P* p, double* y, int* n) {
    int i = threadIdx.x;
    y[i] = p[i].mean();
    n[i] = 7;
}"""


@pytest.mark.parametrize(
    ("of", "misread", "found"),
    [
        ("b * 0.5", "b * 0.25", r"stores 2\.5 into y\[1\], and 1\.75"),
        ("7", "8", r"stores 7 into n\[0\], and 8"),
    ],
)
def test_a_kernel_that_is_read_otherwise_than_it_is_compiled_has_no_gradient(of, misread, found, monkeypatch):
    """A parser that reads another number stands for all that it could read wrongly."""
    made = mg.adjoint(STRUCT)
    p, y, n = np.array([(0, 0), (2, 3)], [("a", float), ("b", float)]), np.zeros(2), np.zeros(2, np.int32)
    assert made.vjp(p, y, n, dy=[np.ones(2)], grid=1, block=2)[0]["b"].tolist() == [0.5, 0.5]
    names = type(made)._derive.__globals__
    parse = names["parse"]
    texts = []
    monkeypatch.setitem(
        names, "parse", lambda text, *more: texts.append(text) or parse(text.replace(of, misread), *more)
    )
    wrong = mg.adjoint(STRUCT)
    for _ in range(2):
        with pytest.raises(NotDifferentiable, match=rf"the adjoint reads this otherwise .*{found} as it was read"):
            wrong.vjp(p, y, n, dy=[np.ones(2)], grid=1, block=2)
    assert len(texts) == 1


def test_a_refused_launch_is_refused_again_behind_one_that_passes(monkeypatch):
    """A number read wrongly that only some launches use; its error is small beside the largest element."""
    text = "__global__ void f(const float* x, float* y, int n) { int i = threadIdx.x; y[i] = x[i] * (n ? 1.5f : 2.f); }"
    x, w = (mg.tensor(np.array(v, np.float32), device="sim") for v in ([9, 1], [1, 1]))
    launch = {"dy": [w], "grid": 1, "block": 2}
    names = type(mg.adjoint(text))._derive.__globals__
    parse = names["parse"]
    monkeypatch.setitem(names, "parse", lambda text, *more: parse(text.replace("1.5f", "1.501f"), *more))
    made = mg.adjoint(text)
    for n in (1, 0, 1):
        if n:
            with pytest.raises(NotDifferentiable, match="reads this otherwise"):
                made.vjp(x, w, n, **launch)
        else:
            assert made.vjp(x, w, n, **launch)[0].numpy().tolist() == [2, 2]


def test_a_large_launch_is_compared_where_no_launch_was(monkeypatch):
    """One whose values were left to chance, an element that nobody has set, compares nothing."""
    text = """__global__ void f(const double* x, double* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; double a[2]; a[0] = 1; y[i] = n ? a[1] : x[i] * 1.5; }"""
    names = type(mg.adjoint(text))._derive.__globals__
    parse, x = names["parse"], np.ones(8192)
    monkeypatch.setitem(names, "parse", lambda text, *more: parse(text.replace("1.5", "1.25"), *more))
    made = mg.adjoint(text)
    with pytest.warns(UserWarning, match="nothing has set"):
        made.vjp(x[:8], x[8:16], 1, dy=[x[:8]], grid=1, block=8)
    with pytest.raises(NotDifferentiable, match="reads this otherwise"):
        made.vjp(x, x.copy(), 0, dy=[x], grid=32, block=256)


def test_a_loop_whose_step_is_0_in_a_launch_is_named():
    body = "int i = threadIdx.x, c = 0; double v = x[i]; for (int j = 0; j < 4; j += n) { v *= v; if (++c > 2) break; }"
    made = mg.adjoint(f"__global__ void f(const double* x, double* y, int n) {{ {body} y[i] = v; }}")
    x = np.ones(2)
    assert made.vjp(x, x.copy(), 4, dy=[x], grid=1, block=2)[0].tolist() == [2, 2]
    with pytest.raises(LaunchError, match="f: the loop at line 1 has a step of 0 in this launch"):
        made.vjp(x, x.copy(), 0, dy=[x], grid=1, block=2)


FLOATS = {
    "if (x[i] > 0) y[0] = x[i] * x[i];": True,
    "double v = x[i]; int k = v > 0 ? 0 : i; y[k] = v;": True,
    "int k = i; if (x[i] > 0) k = 0; y[k] = x[i];": True,
    "int k = (int)x[i]; y[k < 0 ? i : 0] = x[i];": True,
    "if (x[i] <= 0) return; y[0] = x[i];": True,
    "double v = x[i]; while (v > 0) { y[0] = v; v -= 9; }": True,
    "for (int j = 0; j < 3; ++j) { if (x[i] <= 0) break; y[0] = x[i]; }": True,
    "y[i] = x[i]; double v = x[i] > 0 && y[0] > 0 ? 2 : 1; x[i] *= v;": True,
    "int k = x[i] > 0 ? 0 : i; atomicAdd(&y[0], x[i]); x[k] = 1;": True,
    "y[i] = x[i]; x[i] = at(y, x[i] > 0 ? 0 : i);": True,
    "double v = x[i]; if (v > 0) v = 2 * v; y[i] = v;": False,
    "y[i] = x[i] > 0 ? x[i] : 0;": False,
    "double v = x[i]; while (v > 1) v *= 0.5; y[i] = v;": False,
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("body", "examined"), FLOATS.items())
def test_other_floats_are_examined_anew_where_they_decide(body, examined):
    """One x above 0 causes no race; three do, where x decides which elements are stored."""
    called = "__device__ double at(const double* y, int k) { return y[k]; }"
    head = f'{called} extern "C" __global__ void f(double* x, double* y)'
    made = mg.adjoint(f"{head} {{ int i = threadIdx.x; {body} }}", wrt=["x"])
    one, three, y = (mg.tensor(np.float64(v), device="sim") for v in ([1, -1, -2, -3], [1, 2, 3, -1], [0] * 4))
    launch = {"dy": [mg.ones(4, dtype="float64", device="sim")] * len(made.outputs), "grid": 1, "block": 4}
    made.vjp(one, y, **launch)
    if not examined:
        made.vjp(three, y, **launch)
        assert len(made._examined) == 1
        return
    with pytest.raises(NotDifferentiable, match=r"f.cu:1:1: the kernel has a race and so no gradient: .*[xy]"):
        made.vjp(three, y, **launch)


def test_a_number_is_examined_anew_where_it_decides():
    made = mg.adjoint(KERNEL.format("int i = threadIdx.x;\n if (a > 0) i = 0;\n y[i] = a * x[i];"), wrt=["x"])
    x, y = mg.ones(4, device="sim"), mg.ones(4, device="sim")
    assert made.vjp(x, y, -2.0, 4, dy=[y], grid=1, block=4)[0].numpy().tolist() == [-2] * 4
    with pytest.raises(NotDifferentiable, match="the kernel has a race and so no gradient"):
        made.vjp(x, y, 2.0, 4, dy=[y], grid=1, block=4)


def test_a_kernel_with_a_race_is_refused():
    """Only the launch shows that indices meet, so it is examined."""
    made = mg.adjoint(KERNEL.format(GUARD + "    y[i / 2] = a * x[i];"))
    x, y = mg.ones(32, device="sim"), mg.ones(32, device="sim")
    with pytest.raises(NotDifferentiable, match=r"f.cu:3:1: the kernel has a race and so no gradient: .*y"):
        made.vjp(x, y, 2.0, 32, dy=[y], grid=1, block=32)


def test_what_ends_a_launch_is_told_of_the_kernel_and_not_of_its_adjoint():
    made = mg.adjoint("""
__global__ void f(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i <= n) y[i] = x[i] * x[i];
}""")
    x = np.ones(4, "float32")
    with pytest.raises(KernelError, match=r"f.cu\(4\): out-of-bounds: reads x\[4\]") as error:
        made.vjp(x, 0 * x, 4, dy=[x], grid=1, block=8)
    assert (error.value.kind, error.value.buffer, error.value.line) == ("out-of-bounds", "x", 4)


def test_values_that_nobody_has_set_bring_a_warning():
    made = mg.adjoint("""
__global__ void f(const float* x, float* y, int n) {
    float sum;
    for (int i = 0; i < n; ++i) sum += x[i];
    y[threadIdx.x] = sum;
}""")
    x = np.ones(4, "float32")
    why = r"f has a problem, so its gradients may be wrong, too: f.cu\(4\): uninitialised: .*sum"
    with pytest.warns(UserWarning, match=why):
        made.vjp(x, 0 * x, 4, dy=[x], grid=1, block=4)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *(
            (each, "a pointer to void has no numbers; cast it: ")
            for each in (
                "int a = g[i]; y[i] = x[a];",
                "y[i] = g[1] * 2;",
                "y[0] += *g;",
                "y[g[0]] = 1;",
                "if (g[0]) y[0] = 1;",
                "y[i] = sin(g[1]);",
            )
        ),
        ("half2 h = __floats2half2_rn(x[i]); y[i] = x[i];", "__floats2half2_rn takes 2 arguments; got 1."),
        ("auto f = [&](int a)", "write the lambda f as [&](double v) { ... }"),
        ("y[i] = __low2float();", "__low2float takes 1 argument; got 0."),
        ("float a; sincosf(x[i], &a);", "sincosf takes 3 arguments; got 2."),
    ],
)
def test_what_has_no_value_is_told(body, words):
    text = f"__global__ void k(const float* x, float* y, const void* g) {{ int i = threadIdx.x; {body} }}"
    with pytest.raises(NotDifferentiable, match=re.escape(words)):
        mg.adjoint(text, "k")
    assert mg.adjoint(text.replace(body, "y[i] = x[i] * ((const float*)g)[i];"), "k").wrt == ("x", "g")


@pytest.mark.parametrize("rest", ["__device__ float g(float a", "void f(", "struct P { float a;", "enum {"])
def test_a_bracket_that_the_file_leaves_open_behind_the_kernel(rest):
    assert mg.adjoint(f"__global__ void k(const float* x, float* y) {{ y[0] = x[0] * x[0]; }}\n{rest}", "k").wrt == (
        "x",
    )
