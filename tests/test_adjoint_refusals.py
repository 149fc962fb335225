"""What is outside the differentiable subset is refused, with its line and column and a sentence."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import Refused
from minigrad.errors import LaunchError

HEAD = "__device__ float twice(float v) { return 2 * v; }\n"
KERNEL = 'extern "C" __global__ void f(const float* x, float* y, float a, int n) {{\n{}\n}}\n'
GUARD = "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"

BODIES = {
    "switch (n) { }": "3:1: switch is outside the differentiable subset",
    "goto end;": "3:1: goto is outside",
    "do { } while (n);": "3:1: do is outside",
    "float& r = y[0];": "3:6: local pointers and references",
    "float* p = y;": "3:6: local pointers and references",
    "y += n;": "3:1: y is an array of 1 axes and is used here with 0 indices",
    "y[0] = *x;": "3:8: * before an operand is outside the subset; write x[i]",
    "y[0] = foo(x[0]);": "3:8: foo has no derivative rule here",
    "y[0] = x[n++];": "3:11: '++' is outside",
    "x[0] = 1;": "3:1: x is const and is written here",
    "const float c = 1; c = 2;": "3:20: c is const and is written here",
    "a = 2;": "3:1: the parameter a is changed here; copy it into a variable first",
    "extern __shared__ float s[];": "3:1: extern variables",
    "__shared__ float s;": "3:18: s is one value shared by the block, which is outside the subset; "
    "make it an array of one element: __shared__ float s[1];",
    "__shared__ float s[2], t;": "3:24: t is one value shared by the block",
    "static float s;": "3:1: static variables",
    "y[0] = 010 * x[0];": "3:8: 010 is octal in C++; write it in decimal",
    "y[007u] = x[0] * 00.5 + 1e05;": "3:3: 007u is octal",
    "y[0] = 0b11 * x[0];": "3:8: the literal 0b11 is outside the differentiable subset; write it in decimal",
    "y[0] = 0x1p3 * x[0];": "3:8: the literal 0x1p3 is outside",
    "#define EIGHT 010": "3:15: 010 is octal",
    "half h = 0;": "3:1: the type half is outside",
    "y[0] = undeclared;": "3:8: undeclared is not declared here",
    "int k = 0; k = x[0];": "3:14: a float becomes int here; write the cast",
    "y[x[0]] = 1;": "3:3: an index must be a whole number",
    "y[0] = pow(x[0]);": "3:8: pow takes 2 arguments; got 1",
    "y[0] = twice(x[0], a);": "3:8: twice takes 1 arguments; got 2",
    "y[0] = (x[0] = 1);": "3:14: = inside an expression is outside the subset; make it a statement",
    "atomicCAS(&n, 0, 1);": "3:1: the call of atomicCAS as a statement",
    "float old = atomicAdd(&y[0], a);": "3:13: the value that atomicAdd returns depends on the order of the threads",
    "#pragma once": "3:1: of pragmas only #pragma unroll",
    "#define F(x) x\ny[0] = F(a);": "3:1: the macro F takes arguments; write it as a __device__ function",
    "#if 1": "3:1: #if is outside",
    "for (int i = 0, j = 0; i < n; ++i) y[i] = a;": "3:1: a for with several variables",
    "for (int i = 0; i < n; ++i) { if (x[i] > 0) return; y[i] = x[i]; }": "3:1: a return inside a loop",
    "if (threadIdx.x < 3) __syncthreads();": "3:22: __syncthreads() where only some threads come by",
    "if (threadIdx.x > 3) return; __syncthreads();": "3:30: __syncthreads() where only some threads come by",
    "for (int i = 0; i < threadIdx.x; ++i) __syncthreads();": "3:39: __syncthreads() where only some",
    "while (true) { if (x[threadIdx.x] > 0) break; __syncthreads(); }": "3:47: __syncthreads() where only some",
    "for (int r = 0; r < 3; ++r) { __syncthreads(); if (n) { y[0] = a; } else if (threadIdx.x > r) break; }": "3:31: "
    "__syncthreads() where only some",
    "y[0] = x[0] %2;": "3:13: % of floating-point numbers",
    "y[threadIdx.y] = __shfl_down_sync(1, x[0], 1);": "3:18: __shfl_down_sync has no derivative rule",
    "char c = 0;": "3:1: the type char is outside",
    "int i = 0; { int i = 1; y[i] = 1; } @": "3:37: '@' is outside",
    "y[0] = x[0] +;": "3:14: expected an operand, found ';'",
    "y[0] = blockDim;": "3:8: blockDim is used by its parts x, y and z",
    "y[0] = threadIdx.w;": "3:18: threadIdx.w does not exist",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_outside_the_subset(body):
    with pytest.raises(Refused) as caught:
        mg.adjoint(HEAD + KERNEL.format(f"{body}\ny[0] = a;"))
    assert str(caught.value).startswith(f"f.cu:{BODIES[body]}")


@pytest.mark.parametrize("params, message", [
    ("float** x", "1:39: references and pointers to pointers"),
    ("float& x", "1:38: references and pointers to pointers"),
    ("float x[4]", "1:39: write the array parameter as a pointer: float* x"),
    ("View x", "1:33: a parameter of type 'View' is outside"),
])  # fmt: skip
def test_parameters(params, message):
    with pytest.raises(Refused) as caught:
        mg.adjoint(f'extern "C" __global__ void kernel({params}) {{ }}\n', name="kernel")
    assert message.split(": ", 1)[1] in str(caught.value)


def test_an_array_carried_around_two_loops_is_refused_and_not_guessed():
    body = (
        GUARD
        + """
    for (int j = 0; j < n; ++j) {
        for (int l = 0; l < 3; ++l) {
            y[i] = y[i] * x[i];
        }
        y[i] = y[i] * a;
    }"""
    )
    with pytest.raises(Refused, match=r"f.cu:\d+:\d+: y is overwritten in an outer loop and read in an inner one"):
        mg.adjoint(KERNEL.format(body))


@pytest.mark.parametrize("loop", [
    "for (int j = 0; j < 3; j += c[0]) { s = s * s; }",
    "for (int j = 0; r < 1 && j < c[r]; ++j) { s = s * s; }",
    "while (c[0] > 0) { c[0] -= 1; s = s * s; }",
    "for (int q = 0; q < 2; ++q) { for (int j = c[0]; j > 0; --j) { s = s * s; } }",
    "for (int q = 0; q < 2; ++q) { int z[1] = {c[q]}; s = s * s * z[0]; }",
])  # fmt: skip
def test_what_only_the_rounds_of_a_loop_know_is_refused_and_not_guessed(loop):
    """One slot for each round of the loop around holds what is the same in all rounds of the inner one, no more."""
    body = f"    float s = x[0];\n    for (int r = 0; r < 2; ++r) {{\n{loop} c[0] = 1;\n    }}\n    y[0] = s;"
    where = "the header of an" if "q" not in loop else "an"
    with pytest.raises(Refused, match=rf"f.cu:4:\d+: c is overwritten in an outer loop and read in {where} inner one"):
        mg.adjoint(KERNEL.replace("float* y", "float* y, int* c").format(body), wrt=["x"])


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
    with pytest.raises(Refused, match=r"f.cu:1:1: the kernel has a race and so no gradient: .*y"):
        made.vjp(x, equal, y, dy=[x], grid=1, block=8)


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


@pytest.mark.parametrize(("body", "examined"), FLOATS.items())
def test_other_floats_are_examined_anew_where_they_decide(body, examined):
    """With one x above 0 no two threads meet; with three of them they do, where x decides what is stored."""
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
    with pytest.raises(Refused, match=r"f.cu:1:1: the kernel has a race and so no gradient: .*[xy]"):
        made.vjp(three, y, **launch)


def test_a_number_is_examined_anew_where_it_decides():
    made = mg.adjoint(KERNEL.format("int i = threadIdx.x;\n if (a > 0) i = 0;\n y[i] = a * x[i];"), wrt=["x"])
    x, y = mg.ones(4, device="sim"), mg.ones(4, device="sim")
    assert made.vjp(x, y, -2.0, 4, dy=[y], grid=1, block=4)[0].numpy().tolist() == [-2] * 4
    with pytest.raises(Refused, match="the kernel has a race and so no gradient"):
        made.vjp(x, y, 2.0, 4, dy=[y], grid=1, block=4)


def test_a_kernel_with_a_race_is_refused():
    """The launch is examined: whether indices meet is known only there."""
    made = mg.adjoint(KERNEL.format(GUARD + "    y[i / 2] = a * x[i];"))
    x, y = mg.ones(32, device="sim"), mg.ones(32, device="sim")
    with pytest.raises(Refused, match=r"f.cu:3:1: the kernel has a race and so no gradient: .*y"):
        made.vjp(x, y, 2.0, 32, dy=[y], grid=1, block=32)
