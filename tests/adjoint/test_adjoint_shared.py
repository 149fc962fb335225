"""Shared memory that a file declares outside of its kernels, as though in the kernel; arrays longer than a block."""

import numpy as np
import pytest
from test_adjoint_cpp import kernel

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import LaunchError

BODY = "s[i] = x[i]; __syncthreads(); y[i] = s[7 - i] * s[i];"
FUNCTIONS = "__device__ double at(int n) { return s[n]; }\n__device__ void put(int n, double v) { s[n] = v; }\n"
OTHER = kernel("extern __shared__ float t[]; t[i] = x[i]; y[i] = t[i];").replace(" f(", " g(")
FORMS = {  # ahead of the kernel, its body, and its bytes of shared memory
    "an extent of the launch": ("extern __shared__ __align__(16) double s[];", BODY, 64),
    "bytes": ("extern __shared__ unsigned char raw[];", f"double* s = reinterpret_cast<double*>(raw); {BODY}", 64),
    "its own extent": ("#define T 4\n__shared__ double s[2 * T];", BODY, 0),
    "a number and two axes": (
        "__shared__ double two; static __shared__ double s[2][4];",
        "if (i == 0) two = 1; s[i / 4][i % 4] = x[i]; __syncthreads(); y[i] = s[1 - i / 4][3 - i % 4] * x[i] * two;", 0,
    ),
    "structs": ("struct P { double a, b; };\n__shared__ P s[8];", "s[i].a = x[i]; s[i].b = 2 * x[i]; __syncthreads();\n"
                "y[i] = s[7 - i].a * s[i].b / 2;", 0),
    "functions that use it": (
        f"extern __shared__ double s[];\n{FUNCTIONS}", "put(i, x[i]); __syncthreads(); y[i] = at(7 - i) * at(i);", 64,
    ),
    "kernels with others": (f"extern __shared__ double s[];\n{OTHER}", BODY, 64),
    "no use of it": (f"extern __shared__ double s[];\n{FUNCTIONS}", "y[i] = x[7 - i] * x[i];", 0),
    "a name that the kernel hides": ("extern __shared__ double s[];", f"__shared__ double s[8]; {BODY}", 0),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_right(form):
    ahead, body, shared = FORMS[form]
    x, w = np.arange(1.0, 9), np.arange(2.0, 10)
    made = mg.adjoint(kernel(body, ahead), wrt=["x"], name="f")
    (dx,) = made.vjp(x, 0 * x, dy=[w], grid=1, block=8, shared=shared)
    np.testing.assert_allclose(dx, x[::-1] * (w + w[::-1]))


def test_two_names_of_the_memory_of_the_launch_are_refused():
    text = kernel(f"{BODY} y[i] *= t[i];", "extern __shared__ double s[];\nextern __shared__ double t[];")
    with pytest.raises(NotDifferentiable, match=r"f.cu:2:\d+: s and t are the same memory; give .* one name"):
        mg.adjoint(text)


def test_a_shared_array_longer_than_the_block_is_told_what_helps():
    text = """__global__ void k(const double* p, const int* id, double* y) {
        __shared__ double s[8];
        int t = threadIdx.x;
        double sum = 0;
        for (int b = 0; b < 2; b++) { s[t] = p[4 * b + t]; __syncthreads(); sum += s[id[t]] * s[t]; __syncthreads(); }
        y[t] = sum;
    }"""
    p, id, launch = np.arange(8.0), np.int32([1, 0, 3, 2]), {"dy": np.ones(4), "grid": 1, "block": 4}
    with pytest.raises(LaunchError, match=r"relies on 8, as.* Launch it so, or make the shared arrays as long as"):
        mg.adjoint(text).vjp(p, id, np.zeros(4), **launch)
    (dp,) = mg.adjoint(text.replace("s[8]", "s[4]")).vjp(p, id, np.zeros(4), **launch)
    assert dp.tolist() == [2, 0, 6, 4, 10, 8, 14, 12]
