"""Numbers of several types in the shared memory that a launch gives, against central differences."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import LaunchError

RAW, SHARED = "extern __shared__ char raw[]; ", "extern __shared__ double s[]; "
USE = " s[i] = x[i] * x[i]; n[i] = i * 3 % 8; __syncthreads(); y[i] = s[n[i]] * s[7 - i] * n[7 - i];"
RIGHT = {
    "an element of the first part": f"{RAW}double* s = (double*)raw; int* n = (int*)&s[64];{USE}",
    "bytes, and the last part first": f"{RAW}int* n = (int*)(raw + 512); double* s = (double*)raw;{USE}",
    "extents of the launch": f"{RAW}double* s = (double*)raw; int* n = (int*)(s + blockDim.x);\n"
    f"double* u = reinterpret_cast<double*>(n + blockDim.x); u[i] = x[i];{USE} y[i] *= u[7 - i];",
    "memory declared as numbers": f"{SHARED}int* n = (int*)&s[64];{USE}",
    "pairs ahead of whole numbers": f"{RAW}double2* v = (double2*)raw; int* n = (int*)(v + blockDim.x); n[i] = 7 - i;\n"
    "v[i] = make_double2(x[i], x[0]); __syncthreads(); y[i] = v[n[i]].x * v[i].y * v[i].x;",
    "a function": f"{RAW}put((double*)raw, (int*)(raw + 256), i, x[i]); __syncthreads();\n"
    "y[i] = ((double*)raw)[7 - i] * ((int*)(raw + 256))[i];",
    "three types": f"{RAW}double* s = (double*)raw; unsigned char* c = (unsigned char*)(s + 8);\n"
    "int* m = (int*)(c + 8); s[i] = x[i]; c[i] = i; m[i] = 2 + i; __syncthreads(); y[i] = s[c[7 - i]] * m[i] * x[i];",
    "whole numbers behind floats of which the bits are read": "extern __shared__ float f[];\n"
    "unsigned* n = (unsigned*)&f[blockDim.x]; f[i] = 1.5 * i + 1; n[i] = 7 - i; __syncthreads();\n"
    "y[i] = f[n[i]] * x[i] * x[n[i]] * (*(int*)&f[i] > 0 ? 2 : 3);",
    "bytes used again after a barrier": f"{RAW}double* s = (double*)raw; int* n = (int*)(s + 4); n[i] = 7 - i;\n"
    "__syncthreads(); int k = n[7 - i]; __syncthreads(); s[i] = x[i]; __syncthreads(); y[i] = s[7 - i] * x[k];",
    "an offset that grows": f"{RAW}size_t at = 0; double* s = (double*)(raw + at); at += blockDim.x * sizeof(double);\n"
    f"int* n = (int*)(raw + at);{USE}",
    "a pointer that moves": f"{RAW}char* p = raw; double* s = (double*)p; p += 64; int* n = (int*)p;{USE}",
    "a function that moves a pointer": f"{RAW}char* p = raw; double* s = carve<double>(p, 8);\n"
    f"int* n = carve<int>(p, 8);{USE}",
    "an object that becomes a pointer to vectors": "double4* s = SharedMemory<double4>();\n"
    "s[i] = make_double4(x[i], x[0] * x[i], 1, i); __syncthreads(); double4 v = s[7 - i];\n"
    "y[i] = v.x * v.y * v.w + v.x;",
    "an object that becomes a pointer": f"double* s = SharedMemory<double>();{USE.replace('n[', 'N[')}",
}  # fmt: skip
OBJECTS = (
    "template <class T> struct SharedMemory { __device__ operator T*() { extern __shared__ int m[]; return (T*)m; } "
    "__device__ operator const T*() const { extern __shared__ int m[]; return (T*)m; } }; "
    "template <class T> __device__ T* carve(char*& p, int n) { T* own = (T*)p; p += n * sizeof(T); return own; } "
    "__shared__ int N[8]; "
)


def text(body):
    called = OBJECTS + "__device__ void put(double* s, int* n, int i, double v) { s[i] = v * v; n[i] = i + 1; }"
    return f"{called}\n__global__ void f(const double* x, double* y) {{ int i = threadIdx.x;\n{body}\n}}"


@pytest.mark.sample(3)
@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_right(body):
    kernel, rng = mg.kernel(text(body), "f"), np.random.default_rng(2)
    x, w = 0.6 + 0.3 * rng.random(8), rng.standard_normal(8)

    def value(x):
        y = mg.zeros(8, dtype="float64", device="sim")
        kernel(mg.tensor(x, device="sim"), y, grid=1, block=8, shared=768)
        return w @ y.numpy()

    inputs = [mg.tensor(v, device="sim") for v in (x, np.zeros(8), w)]
    with mg.microscope.watching() as report:
        (dx,) = mg.adjoint(kernel, ["x"]).vjp(*inputs[:2], dy=inputs[2:], grid=1, block=8, shared=768)
    assert not report.problems
    slopes = [(value(x + step) - value(x - step)) / 2e-6 for step in 1e-6 * np.eye(8)]
    np.testing.assert_allclose(dx.numpy(), slopes, rtol=1e-6, atol=1e-8)


REFUSED = {
    f"{RAW}double* s = (double*)raw; int* n = (int*)s;{USE}": "3:66: raw has numbers of double here, and is cast",
    f"{SHARED}int* n = (int*)s;{USE}": "3:26: s is used as int and as another type; give each type bytes",
    f"{SHARED}int* n = (int*)&s[8]; s[i] = x[i]; y[i] = n[i];": "3:26: s is read as int, and nothing is stored in it",
}


@pytest.mark.parametrize(("body", "why"), REFUSED.items())
def test_refused(body, why):
    with pytest.raises(NotDifferentiable, match=re.escape(f"f.cu:{why}")):
        mg.adjoint(text(body), name="f")


def test_bytes_that_hold_numbers_of_two_types_are_found_by_the_launch():
    body = f"{SHARED}int* n = (int*)&s[4]; y[i] = x[i]; s[5 + i] = x[i]; n[32 + i] = 1; y[i] = s[5 + i] * n[2 + 2 * i];"
    made, x = mg.adjoint(text(body), wrt=["x"], name="f"), np.ones(8)
    for _ in range(2):
        with pytest.raises(
            NotDifferentiable, match=r"f.cu:2:1: bytes of the launch's shared memory are read as int and"
        ):
            made.vjp(x, x + 0, dy=[x], grid=1, block=8, shared=256)
    with pytest.raises(
        LaunchError, match="shared=20000 and as much for each of its 2 types and each gradient are more"
    ):
        made.vjp(x, x + 0, dy=[x], grid=1, block=8, shared=20000)


def test_a_large_launch_needs_a_small_one_of_such_blocks():
    """Of a launch that nothing has looked at, it is not known whether numbers of two types share bytes."""
    body = f"int t = threadIdx.x; {SHARED}int* n = (int*)&s[8]; s[t] = x[i]; n[t] = t; y[i] = s[t] * n[t];"
    body = body.replace("int t", "i = blockIdx.x * blockDim.x + threadIdx.x; int t")
    made, x = mg.adjoint(text(body), wrt=["x"], name="f"), mg.tensor(np.ones(4800), device="sim")
    with pytest.raises(LaunchError, match="f keeps numbers of several types in one shared memory"):
        made.vjp(x, x + 0, dy=[x], grid=600, block=8, shared=256)
    made.vjp(x, x + 0, dy=[x], grid=1, block=8, shared=256)
    (dx,) = made.vjp(x, x + 0, dy=[x], grid=600, block=8, shared=256)
    assert (dx.numpy() == np.tile(np.arange(8), 600)).all()


def test_a_name_of_an_offset_may_stand_in_another_declaration():
    body = "extern __shared__ char raw[]; int t = threadIdx.x, m = blockDim.x; float* q = (float*)raw; "
    body += "double* s = (double*)(raw + 8 * m); q[t] = x[t]; __syncthreads(); s[t] = x[t] * x[t]; y[t] = s[t] + q[t];"
    ahead = "__device__ int a, m, c;\n__global__ void f(const double* x, double* y) {"
    (dx,) = mg.adjoint(f"{ahead} {body} }}").vjp(np.arange(4.0), np.zeros(4), dy=np.ones(4), grid=1, block=4, shared=64)
    assert dx.tolist() == [1, 3, 5, 7]
