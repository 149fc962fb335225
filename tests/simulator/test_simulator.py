"""The device `sim`: that it runs CUDA C++ as written, and that what goes wrong has a name and a place."""

import ctypes
import gc
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from minigrad.create import tensor
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import CompileError, KernelError, LaunchError
from minigrad.kernels.kernel import Kernel, kernel
from minigrad.simulator import Simulator
from minigrad.source import Source

FEW_ADDRESSES = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
WORKS = r"""
#include <cuda_runtime.h>
#include <cstdio>

extern "C" __global__ void nothing() {}
extern "C" __global__ void indices(int* y) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z, width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    y[(z * height + v) * width + x] = x + 100 * v + 10000 * z;
}

struct Pair { char tag; double value; };  // padded: the parameters behind it are found all the same
extern "C" __global__ void parameters(bool flag, const Pair pair, float a, long long big, int* y) {
    y[0] = flag; y[1] = pair.tag; y[2] = pair.value; y[3] = a; y[4] = big >> 32;
}

__device__ __forceinline__ float total(float v) {  // shared memory of a function, with a comment; inside it
    __shared__ float parts[2]   // a tail
        [16], first;
    parts[threadIdx.x / 16][threadIdx.x % 16] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        first = 0;
        for (int i = 0; i < 32; ++i) first += parts[i / 16][i % 16];
    }
    __syncthreads();
    return first;
}
template <typename T, int N> __device__ T reversed(T v) {
    __shared__ alignas(16) T s[N];
    s[threadIdx.x] = v;
    __syncthreads();
    return s[N - 1 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(32) shared_static(float* __restrict__ y) {
    __shared__ struct { int a; float b; } pair; __shared__ volatile int n, m[3];
    if (threadIdx.x == 0) { pair.a = 1000; pair.b = 0.5f; n = m[2] = 7; }
    y[threadIdx.x] = total(threadIdx.x) + reversed<float, 32>(threadIdx.x) + reversed<double, 32>(0.25) + pair.a + pair.b + n - m[2];
}
extern __shared__ float everywhere[];
extern "C" __global__ void shared_dynamic(float* y) {
    __shared__ extern __align__(16) float4 quads[];
    __shared__ float one;
    everywhere[threadIdx.x] = threadIdx.x;
    one = 1;
    __syncthreads();
    float4 q = quads[7 - threadIdx.x / 4];
    y[threadIdx.x] = (threadIdx.x % 4 == 0 ? q.x : threadIdx.x % 4 == 1 ? q.y : threadIdx.x % 4 == 2 ? q.z : q.w) + one;
}
extern "C" __global__ void shared_undefined(float* y) {  // what a block leaves behind, the next must not find
    __shared__ float s[32];
    y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
    s[threadIdx.x] = 1;
}

extern "C" __global__ void barriers(int* y) {  // a sum along the block, in steps that need all the others
    __shared__ int s[1024];
    s[threadIdx.x] = 1;
    for (int step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        int before = threadIdx.x >= step ? s[threadIdx.x - step] : 0;
        __syncthreads();
        s[threadIdx.x] += before;
    }
    y[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void barrier_votes(int* y) {
    int i = threadIdx.x, low = i < 40, all = i < 100;
    y[i] = __syncthreads_count(low) + 1000 * __syncthreads_and(low) + 2000 * __syncthreads_and(all);
    y[i] += 4000 * __syncthreads_or(i == 63) + 8000 * __syncthreads_or(i == 64) + __syncthreads_count(0);
}

template <typename T> __device__ void shuffle(T* y) {
    int i = threadIdx.x;
    T v = i;
    y[i] = __shfl_sync(0xffffffff, v, 5);
    y[i + 32] = __shfl_sync(0xffffffff, v, i + 1, 8);
    y[i + 64] = __shfl_up_sync(0xffffffff, v, 3);
    y[i + 96] = __shfl_up_sync(0xffffffff, v, 3, 8);
    y[i + 128] = __shfl_down_sync(0xffffffff, v, 3);
    y[i + 160] = __shfl_down_sync(0xffffffff, v, 3, 8);
    y[i + 192] = __shfl_xor_sync(0xffffffff, v, 5);
    y[i + 224] = __shfl_xor_sync(0xffffffff, v, 12, 8);
}
extern "C" __global__ void shuffle_int(int* y) { shuffle(y); }
extern "C" __global__ void shuffle_float(float* y) { shuffle(y); }
extern "C" __global__ void shuffle_double(double* y) { shuffle(y); }
extern "C" __global__ void shuffle_long(long long* y) { shuffle((unsigned long long*)y); }
extern "C" __global__ void shuffle_partial(float* y) {  // lanes that are not there give NaN, not a plausible number
    y[threadIdx.x] = __shfl_down_sync(0xffffffff, 1.0f, 8);
}
extern "C" __global__ void votes(int* y) {
    unsigned i = threadIdx.x, half = i < 16 ? 0x0000ffff : 0xffff0000;
    y[i] = __ballot_sync(0xffffffff, i % 2) == 0xaaaaaaaa;
    y[i] += 2 * __any_sync(half, i == 3) + 4 * __all_sync(half, i < 16);
    if (i % 4 == 1) y[i] += 8 * (__activemask() == 0x22222222);
    __syncwarp();
    y[i] += 16 * (__match_any_sync(0xffffffff, i / 8) == 0xffu << i / 8 * 8);
    y[i] += 32 * (__reduce_add_sync(half, 1) == 16) + 64 * (__reduce_max_sync(0xffffffff, int(i) - 40) == -9);
}

extern "C" __global__ void atomics(int* i, float* f, double* d, long long* l) {
    unsigned* u = (unsigned*)i; unsigned long long* q = (unsigned long long*)l;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(i, 1); atomicSub(i + 1, 2); atomicMin(i + 2, -t); atomicMax(i + 3, t); atomicAnd(i + 4, ~(1 << t % 8));
    atomicOr(i + 5, 1 << t % 8); atomicXor(i + 6, t); atomicAdd(u + 7, 3u); atomicInc(u + 8, 9); atomicMax(u + 9, (unsigned)t);
    atomicAdd(q, 1ull << 33); atomicMin(q + 1, 1000ull - t); atomicAdd(f, 1); atomicAdd(d, 0.5);
    int old = i[10], seen;
    do { seen = old; old = atomicCAS(i + 10, seen, seen + 2); } while (old != seen);
    if (t == 5) { atomicExch(i + 11, 77); atomicExch(f + 1, 2.5f); atomicExch(q + 2, 1ull << 40); }
}
extern "C" __global__ void lock(int* y) {  // the holder waits at __syncwarp, so that those who spin must let it run
    bool done = false;
    while (!done)
        if (atomicCAS(y, 0, 1) == 0) { __syncwarp(1u << threadIdx.x % 32); y[1] += 1; atomicExch(y, 0); done = true; }
}
extern "C" __global__ void two_blocks(int* y) {  // each waits for the other: two cores at work
    atomicAdd(y, 1);
    while (atomicAdd(y, 0) < 2) {}
}

__constant__ float weights[2][2] = {{1, 2}, {3, 4}};
__device__ int launches = 0;
static __device__ const int offset = 10;
extern "C" __global__ void globals(float* y) { y[threadIdx.x] = weights[threadIdx.x / 2][threadIdx.x % 2] + offset + launches++; }

extern "C" __global__ void vectors(const float4* x, float4* y, int2* p, double* d) {
    float4 a = x[threadIdx.x], b = __ldg(x + threadIdx.x);
    y[threadIdx.x] = make_float4(a.w, b.z, a.y, b.x);
    p[threadIdx.x] = make_int2(sizeof(float3), alignof(double2));
    double2 both = {1.5, 2.5};
    reinterpret_cast<double2*>(d)[threadIdx.x] = both;
}
extern "C" __global__ void hello(int n) {
    if (threadIdx.x < n) printf("thread %d of %s, %.1f\n", threadIdx.x, "block", 0.5 + blockIdx.x);
}
"""


def array(values, dtype=None):
    return Array.upload(get("sim"), np.array(values, dtype))


def filled(size, dtype=np.float32, value=0):
    return array(np.full(size, value, dtype))


def works(name, *args, grid=1, block=32, shared=0):
    """Run one of the kernels above and return its last array."""
    Kernel(Source(WORKS, "works.cu"), name)(*args, grid=grid, block=block, shared=shared)
    return args[-1].numpy() if args and isinstance(args[-1], Array) else None


@pytest.fixture(autouse=True)
def on_sim(monkeypatch):
    """Kernels without arrays run here too, on a machine with a GPU."""
    monkeypatch.setenv("MINIGRAD_DEVICE", "sim")


@pytest.mark.parametrize(
    "grid, block", [((1,), (1,)), ((5,), (33,)), ((3, 2), (8, 4)), ((2, 3, 4), (4, 2, 3)), ((7,), (1024,))]
)
def test_every_thread_of_every_block_runs_once(grid, block):
    (gx, gy, gz), (bx, by, bz) = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    y = works("indices", filled(gx * gy * gz * bx * by * bz, np.int32, -1), grid=grid, block=block)
    z, v, x = np.indices((gz * bz, gy * by, gx * bx))
    assert (y.reshape(z.shape) == x + 100 * v + 10000 * z).all()


def test_parameters_lie_as_in_cudas_buffer():
    from minigrad.kernels.arguments import STRUCTS

    class Pair(ctypes.Structure):
        _fields_ = (("tag", ctypes.c_byte), ("value", ctypes.c_double))

    STRUCTS["Pair"] = Pair
    assert works("parameters", True, Pair(7, 8.0), 9.0, 10 << 32, filled(5, np.int32)).tolist() == [1, 7, 8, 9, 10]


def test_static_shared_memory():
    assert (works("shared_static", filled(32)) == 496 + 31 - np.arange(32) + 0.25 + 1000.5).all()


def test_dynamic_shared_memory():
    rows = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert (works("shared_dynamic", filled(32), shared=128) == rows[::-1].ravel() + 1).all()


def test_shared_memory_begins_as_nan_in_every_block():
    assert np.isnan(works("shared_undefined", filled(32 * 50), grid=50)).all()


@pytest.mark.parametrize("block", [1, 2, 31, 32, 33, 1023, 1024])
def test_barriers(block):
    assert (works("barriers", filled(block, np.int32), block=block) == 1 + np.arange(block)).all()


def test_barriers_that_vote():
    assert (works("barrier_votes", filled(64, np.int32), block=64) == 40 + 2000 + 4000).all()


@pytest.mark.parametrize("name, dtype", [("int", "i4"), ("float", "f4"), ("double", "f8"), ("long", "i8")])
def test_shuffles(name, dtype):
    i = np.arange(32)
    segment, within = i // 8 * 8, i % 8
    expected = [
        np.full(32, 5), segment + (i + 1) % 8,
        np.where(i >= 3, i - 3, i), np.where(within >= 3, i - 3, i),
        np.where(i + 3 < 32, i + 3, i), np.where(within + 3 < 8, i + 3, i),
        i ^ 5, np.where((i ^ 12) // 8 > i // 8, i, i ^ 12),
    ]  # fmt: skip
    assert (works(f"shuffle_{name}", filled(256, dtype)).reshape(8, 32) == expected).all()


def test_a_shuffle_from_a_lane_that_is_not_there_is_nan():
    y = works("shuffle_partial", filled(40), block=40)
    assert (y[:24] == 1).all() and (y[24:32] == 1).all() and np.isnan(y[32:]).sum() == 8


def test_votes_and_warp_reductions():
    i = np.arange(32)
    expected = 1 + np.where(i < 16, 6, 0) + np.where(i % 4 == 1, 8, 0) + 16 + 32 + 64
    assert (works("votes", filled(32, np.int32)) == expected).all()


def test_atomics_from_all_blocks():
    i, f, d, q = (
        array([0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0], "i4"),
        filled(2),
        filled(1, "f8"),
        array([0, 1 << 50, 0], "i8"),
    )
    works("atomics", i, f, d, q, grid=20, block=100)
    n = 2000
    xor = np.bitwise_xor.reduce(np.arange(n))
    assert i.numpy().tolist() == [n, -2 * n, 1 - n, n - 1, 0, 255, xor, 3 * n, n % 10, n - 1, 2 * n, 77]
    assert f.numpy().tolist() == [n, 2.5] and d.numpy().tolist() == [n / 2]
    assert q.numpy().tolist() == [n << 33, 0, 1 << 40]


def test_a_spin_lock_lets_its_holder_run():
    assert works("lock", filled(2, np.int32), grid=4, block=64).tolist() == [0, 256]


@pytest.mark.skipif(get("sim").workers < 2, reason="one core")
def test_blocks_run_at_the_same_time():
    assert works("two_blocks", filled(1, np.int32), grid=2, block=1).tolist() == [2]


def test_constants_and_globals():
    y = works("globals", filled(4), block=4)
    assert (np.sort(y - [1, 2, 3, 4]) - np.arange(4) == y.min() - 1).all()


def test_vector_types():
    x = np.arange(32, dtype=np.float32)
    p, y, d = filled(16, "i4"), filled(32), filled(16, "f8")
    works("vectors", array(x), y, p, d, block=8)
    assert (y.numpy().reshape(8, 4) == x.reshape(8, 4)[:, ::-1]).all()
    assert p.numpy().tolist() == [12, 16] * 8 and d.numpy().tolist() == [1.5, 2.5] * 8


def test_printf_comes_out_through_python(capsys):
    works("nothing", grid=2)
    works("hello", 2, grid=2)
    lines = sorted(capsys.readouterr().out.splitlines())  # the order of blocks is left open
    assert lines == [f"thread {t} of block, {b}.5" for t in (0, 1) for b in (0, 1)]


FUNCTIONS = {
    "exp(x)": np.exp, "exp2(x)": np.exp2, "log(fabs(x))": lambda x: np.log(abs(x)), "tanh(x)": np.tanh,
    "sqrt(fabs(x))": lambda x: np.sqrt(abs(x)), "rsqrt(fabs(x))": lambda x: 1 / np.sqrt(abs(x)), "sin(x)": np.sin,
    "pow(fabs(x), x)": lambda x: abs(x) ** x, "fmax(x, (real)0.5)": lambda x: np.maximum(x, 0.5), "floor(x)": np.floor,
    "max(x, -x)": abs, "fma(x, x, x)": lambda x: x * x + x, "isfinite(x) ? x : INFINITY": lambda x: x, "min(x, NAN)": lambda x: x,
    "x * x - x * x": lambda x: 0 * x, "log1p(fabs(x))": lambda x: np.log1p(abs(x)), "cbrt(x)": np.cbrt, "copysign(x, -x)": np.negative,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mathematics_agrees_with_numpy(dtype):
    lines = "\n".join(f"y[{i} * n + t] = {text};" for i, text in enumerate(FUNCTIONS))
    body = f"int t = threadIdx.x; real x = in[t];\n{lines}"
    x = np.random.default_rng(0).standard_normal(500).astype(dtype)
    y = filled(len(FUNCTIONS) * 500, dtype)
    kernel(f'extern "C" __global__ void m(const real* in, real* y, int n) {{ {body} }}', "m")(
        array(x), y, 500, grid=1, block=500
    )
    for (text, function), row in zip(FUNCTIONS.items(), y.numpy().reshape(-1, 500), strict=True):
        few_ulp = 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(
            row, function(x), rtol=few_ulp, atol=few_ulp * (text == "fma(x, x, x)"), err_msg=text
        )


def test_fast_functions_and_bits():
    text = """extern "C" __global__ void k(float* y, float x) {
        y[0] = __expf(x) / expf(x); y[1] = __fdividef(x, 2); y[2] = __int_as_float(__float_as_int(x)); y[3] = __saturatef(x);
        y[4] = __popc(255) + __clz(1) + __ffs(8) + __brev(1u << 31); y[5] = __float2int_rn(2.5f) + __float2int_rz(-7.9f);
        y[6] = max(3, 5u) + min(2LL, 3LL) + fminf(1, NAN); y[7] = rsqrtf(x * x) * x; y[8] = __fmaf_rn(x, 2, 1);
        float s, c; sincosf(x, &s, &c); y[9] = s * s + c * c;
    }"""
    y = filled(10)
    kernel(text, "k")(y, 3.0, grid=1, block=1)
    np.testing.assert_allclose(y.numpy(), [1, 1.5, 3, 1, 8 + 31 + 4 + 1, 2 - 7, 5 + 2 + 1, 1, 7, 1], rtol=1e-6)


FAULTS = r"""
extern "C" __global__ void past_the_end(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i % n] = x[i];  // past_the_end
}
extern "C" __global__ void behind(const real* x, real* y, int n) { y[threadIdx.x] += 0 * x[n + threadIdx.x]; }
extern "C" __global__ void far_away(const float* x, float* y, int n) {
    y[0] = x[n];  // far_away
}
extern "C" __global__ void before_the_start(const float* x, float* y, int n) {
    y[threadIdx.x] = x[(int)threadIdx.x - 5000];  // before_the_start
}
extern "C" __global__ void written_before(float* y) { y[(int)threadIdx.x - 1] = 1; }
extern "C" __global__ void written_after(float* y, int n) { y[threadIdx.x] = 1; }
extern "C" __global__ void null_pointer(float* x, float* bias) {
    if (threadIdx.x == 3) x[0] = bias[threadIdx.x];  // null_pointer
}
extern "C" __global__ void misaligned(const float* x, float* y) {
    float4 v = *reinterpret_cast<const float4*>(x + 4 + threadIdx.x);  // misaligned
    y[threadIdx.x] = v.x;
}
extern "C" __global__ void divided(int* x, int n) {
    x[threadIdx.x] = 10 / (n - (int)threadIdx.x);  // divided
}
extern "C" __global__ void remainder_of_zero(int* x, int n) {
    x[threadIdx.x] = 10 % (n - (int)threadIdx.x);  // remainder_of_zero
}
extern "C" __global__ void returned_early(float* y) {
    if (threadIdx.x >= 20) return;
    __syncthreads();  // returned_early
}
extern "C" __global__ void two_barriers(float* y) {
    if (threadIdx.x < 20) __syncthreads();  // two_barriers
    else __syncthreads();
}
extern "C" __global__ void barrier_and_shuffle(float* y) {
    if (threadIdx.x < 20) __syncthreads();  // barrier_and_shuffle
    else y[threadIdx.x] = __shfl_sync(0xffffffff, 1.0f, 0);
}
extern "C" __global__ void left_out(float* y) {
    y[threadIdx.x] = __shfl_sync(0x7fffffff, 1.0f, 0);  // left_out
}
extern "C" __global__ void asserted(int n) {
    assert(threadIdx.x < n);  // asserted
}
extern "C" __global__ void shared_past_the_end(float* y, int n) {
    extern __shared__ float s[];
    s[(int)threadIdx.x + n] = 1;  // shared_past_the_end
}
extern "C" __global__ void deep(float* y, int n) {
    volatile float local[100000];
    for (int i = 0; i < n; ++i) local[i * 1000] = i;
    y[0] = local[n];
}
extern "C" __global__ void forever(int* x) {
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 5)
        while (1) {}
    x[0] = 1;
}
extern "C" __global__ void spinning(volatile int* x) {
    while (x[0] == 0) {}  // spinning
}
extern "C" __global__ void spinning_at_barriers(int* x) {
    for (;;) __syncthreads();  // spinning_at_barriers
}
extern "C" __global__ void spinning_at_a_lock(int* x) {
    while (atomicCAS(x, 1, 1) == 0) {}  // spinning_at_a_lock
}
extern "C" __global__ void waiting_for_the_grid(int* x) {
    while (atomicAdd(x, 0) < gridDim.x) {}  // waiting_for_the_grid
}
extern "C" __global__ void fine(float* y) { y[threadIdx.x] = 1; }
extern "C" __global__ void greedy(float* y) {
    __shared__ float a[8192], b[8192];
    a[threadIdx.x] = b[threadIdx.x] = y[threadIdx.x];
    y[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
extern "C" __global__ void greedy_in_all(float* y) {
    __shared__ float a[10000];
    extern __shared__ float s[];
    y[threadIdx.x] = a[threadIdx.x] = s[0];
}
"""


def faults(name, *args, grid=1, block=32, shared=0):
    Kernel(Source(FAULTS, "cuda/faults.cu"), name)(*args, grid=grid, block=block, shared=shared)


def line_of(name):
    """The line of FAULTS that is marked with the kernel's name."""
    return next(n for n, line in enumerate(FAULTS.splitlines(), 1) if line.endswith(f"// {name}"))


def error_of(name, *args, **launch):
    """The KernelError of a launch; another launch must work after it."""
    with pytest.raises(KernelError) as caught:
        faults(name, *args, **launch)
    y = filled(32)
    faults("fine", y)
    assert (y.numpy() == 1).all()
    assert caught.value.kernel == name and str(caught.value).startswith(f"{name}: ")
    return caught.value


def test_out_of_bounds_names_buffer_size_distance_thread_and_line():
    error = error_of("past_the_end", filled(1000), filled(1000), 1000, grid=4, block=256)
    assert (error.kind, error.buffer, error.block, error.thread) == ("out-of-bounds", "x", (3, 0, 0), (232, 0, 0))
    assert error.line == line_of("past_the_end")
    for part in (
        "x[1000] is past the end of x (1000 elements)",
        f"cuda/faults.cu({error.line})",
        "if (i < n)",
    ):
        assert part in str(error)


@pytest.mark.parametrize("size", [1, 3, 4, 1023, 1024, 1025, 5000])
def test_no_read_goes_past_the_end_unseen(size):
    with np.errstate(invalid="ignore"):
        y, n = filled(size), -(-size // 4) * 4 + 1  # the next multiple of 16 bytes is the furthest that may read as NaN
    assert error_of("past_the_end", filled(size), y, size, block=1, grid=n).buffer == "x"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 31, 1023, 1025])
def test_what_is_read_between_an_array_and_the_unmapped_page_is_nan(size, dtype):
    slack = -size * np.dtype(dtype).itemsize % 16 // np.dtype(dtype).itemsize
    x, y = filled(size, dtype), filled(32, dtype)
    faults("behind", x, y, size, block=slack)
    assert np.isnan(y.numpy()).tolist() == [True] * slack + [False] * (32 - slack)
    error = error_of("behind", x, y, size, block=slack + 1)
    assert (error.kind, error.buffer, error.thread) == ("out-of-bounds", "x", (slack, 0, 0))


def test_fresh_memory_is_nan_in_every_floating_type():
    sim, host = get("sim"), np.empty(1000, np.uint8)
    sim.download(sim.allocate(1000).address, host)
    bfloat16 = (host.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    for values in (host.view(np.float16), host.view(np.float32), host.view(np.float64), bfloat16):
        assert np.isnan(values).all()


def test_before_the_start():
    error = error_of("before_the_start", filled(1000), filled(1000), 1000)
    assert (error.kind, error.buffer) == ("out-of-bounds", "x") and "x[-5000] is before the start" in str(error)


@pytest.mark.skipif(FEW_ADDRESSES, reason="few addresses")
@pytest.mark.parametrize("index", [-16_000_000, 16_000_000])
def test_an_index_that_is_millions_too_far(index):
    error = error_of("far_away", filled(1000), filled(1000), index)
    assert (error.kind, error.buffer, error.line) == ("out-of-bounds", "x", line_of("far_away"))
    assert f"x[{index}] is" in str(error)


@pytest.mark.parametrize("name, args", [("written_before", ()), ("written_after", (0,))])
def test_a_write_beside_a_buffer_is_seen_after_the_launch(name, args):
    y = filled(30)
    error = error_of(name, y, *args, block=31)
    assert (error.kind, error.buffer) == ("out-of-bounds", "y") and "wrote outside y (30 elements" in str(error)
    faults("fine", y, block=30)  # the canary was mended


def test_null_pointer():
    error = error_of("null_pointer", filled(4), None)
    assert (error.kind, error.buffer, error.thread, error.line) == (
        "null-pointer",
        "bias",
        (3, 0, 0),
        line_of("null_pointer"),
    )


def test_misaligned_vector():
    error = error_of("misaligned", filled(100), filled(100))
    assert (error.kind, error.buffer, error.thread, error.line) == ("misaligned", "x", (1, 0, 0), line_of("misaligned"))
    assert "x[5]" in str(error) and "must begin at a multiple of 16 bytes" in str(error)


@pytest.mark.parametrize("name", ["divided", "remainder_of_zero"])
def test_integer_division_by_zero(name):
    error = error_of(name, filled(32, np.int32), 7)
    assert (error.kind, error.thread, error.line) == ("division", (7, 0, 0), line_of(name))


@pytest.mark.parametrize(
    "name, words",
    [
        ("returned_early", "20 wait at __syncthreads in line {0}, 12 have returned"),
        ("two_barriers", "20 wait at __syncthreads in line {0}, 12 wait at __syncthreads in line {1}"),
        ("barrier_and_shuffle", "20 wait at __syncthreads in line {0}, 12 wait at __shfl_sync in line {1}"),
        ("left_out", "lane 31 calls __shfl_sync with mask 0x7fffffff"),
    ],
)
def test_barriers_that_not_all_threads_reach(name, words):
    error, line = error_of(name, filled(32)), line_of(name)
    assert (error.kind, error.block, error.line) == ("barrier-divergence", (0, 0, 0), line)
    assert words.format(line, line + 1) in str(error)


def test_assert():
    error = error_of("asserted", 5)
    assert (error.kind, error.thread, error.line) == ("assert", (5, 0, 0), line_of("asserted"))
    assert "assert(threadIdx.x < n) failed" in str(error)


def test_past_the_end_of_shared_memory():
    error = error_of("shared_past_the_end", filled(1), 0, shared=96)
    assert (error.kind, error.thread, error.line) == ("out-of-bounds", (24, 0, 0), line_of("shared_past_the_end"))
    assert "shared memory (96 bytes)" in str(error)


@pytest.mark.skipif(FEW_ADDRESSES, reason="few addresses")
@pytest.mark.parametrize("index", [-16_000_000, 16_000_000])
def test_an_index_of_shared_memory_that_is_millions_too_far(index):
    error = error_of("shared_past_the_end", filled(1), index, shared=96)
    assert (error.kind, error.thread, error.line) == ("out-of-bounds", (0, 0, 0), line_of("shared_past_the_end"))
    assert "shared memory (96 bytes)" in str(error)


def test_too_much_local_memory():
    assert "stack" in str(error_of("deep", filled(1), 100, block=1))


@pytest.fixture
def impatient():
    sim = get("sim")
    before, sim.timeout = sim.timeout, 0.2
    yield
    sim.timeout = before


@pytest.mark.parametrize("name", ["forever", "spinning", "spinning_at_barriers", "spinning_at_a_lock"])
@pytest.mark.parametrize("grid", [1, 64])
def test_a_kernel_that_does_not_end_is_stopped(name, grid, impatient):
    error = error_of(name, filled(1, np.int32), grid=grid)
    waits = r"(; \d+ of 64 blocks run at once here, and these wait for memory to change)?"
    place = re.escape(f"block {error.block}, thread {error.thread}")
    assert error.kind == "timeout" and re.search(rf"after 0.2 s{waits}, {place}", str(error))
    if name == "forever":  # an empty loop has no line that compilers agree on
        assert (error.block, error.thread) == ((grid - 1, 0, 0), (5, 0, 0))
    else:
        assert error.line == line_of(name)


def test_blocks_that_wait_for_one_that_cannot_begin_are_told_so(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 1.0)
    blocks = get("sim").workers + 1
    error = error_of("waiting_for_the_grid", filled(1, np.int32), grid=blocks)
    assert (error.kind, error.line) == ("timeout", line_of("waiting_for_the_grid"))
    assert f"{blocks - 1} of {blocks} blocks run at once here" in str(error) and "cooperative" in str(error), error


def test_blocks_that_wait_in_turn_for_a_lock_are_not_stopped(monkeypatch):
    sim = get("sim")
    monkeypatch.setattr(sim, "timeout", 2.4)
    text = """extern "C" __global__ void count(int* lock, long long* turns, long long ns) {
        for (long long start = clock64(); clock64() - start < ns;) {
            while (atomicCAS(lock, 0, 1) != 0) {}
            turns[0] += 1;
            for (int i = 0; i < 2000; ++i) turns[1] = turns[1] * 3 + i;
            atomicExch(lock, 0);
        }
    }"""
    turns = tensor(np.zeros(2, np.int64), device="sim")
    kernel(text, "count")(
        tensor(np.zeros(1, np.int32), device="sim"), turns, 600_000_000, grid=sim.workers + 1, block=1
    )
    assert turns.numpy()[0] > 1000


@pytest.mark.parametrize(
    "T, look, nothing, change",
    [
        ("int", "atomicMax(f, 0)", 0, "1"),
        ("int", "atomicMin(f, 5)", 5, "1"),
        ("int", "atomicOr(f, 4)", 4, "6"),
        ("unsigned", "atomicInc(f, 0)", 0, "1"),
        ("float", "atomicAdd(f, 0.0f)", 0, "1.0f"),
    ],
)
def test_a_thread_may_wait_by_an_atomic_that_changes_nothing(T, look, nothing, change, impatient):
    text = f"""extern "C" __global__ void wait({T}* f, int* y) {{
        if (threadIdx.x == 0) {{ while ({look} == {nothing}) {{}} y[0] = 7; }}
        else if (threadIdx.x == 1) atomicExch(f, {change});
    }}"""
    dtype = {"int": np.int32, "unsigned": np.uint32, "float": np.float32}[T]
    y = filled(1, np.int32)
    kernel(text, "wait")(tensor(np.full(1, nothing, dtype), device="sim"), y, grid=1, block=64)
    assert y.numpy() == 7


@pytest.fixture
def interruptible():
    """Ctrl-C as Python has it: a shell starts its background jobs with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_a_kernel_and_its_handler_is_put_back(interruptible):
    before, main = signal.getsignal(signal.SIGINT), threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        faults("spinning", filled(1, np.int32), grid=64)
    assert time.monotonic() - start < 10 and signal.getsignal(signal.SIGINT) is before
    error_of("asserted", 5)


def test_other_handlers_are_put_back():
    script = "import faulthandler; faulthandler.enable()\nfrom test_simulator import *\ntest_assert(); faulthandler._sigsegv()"
    done = python(script)
    assert done.returncode == -signal.SIGSEGV and "Segmentation fault" in done.stderr and "_sigsegv" not in done.stdout


def python(script, **environment):
    """Run a script that may import this file."""
    paths = os.pathsep.join(
        [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), *sys.path]
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name, shared, number", [("greedy", 0, 65536), ("greedy_in_all", 9600, 40000)])
def test_too_much_shared_memory_is_refused(name, shared, number):
    y = filled(32, value=5)
    with pytest.raises(LaunchError, match=rf"{name}: static shared memory of {number} bytes.*a block may use 49152"):
        faults(name, y, shared=shared)
    assert (y.numpy() == 5).all()


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("__global__ void k(float* y) {\n  y[0] = x;\n}", 2, ["x", "y[0] = x;"]),
        ("__global__ void k(float* y) {\n  y[0] = 1\n}", 2, ["expected", "y[0] = 1"]),
        ("__global__ void k(float* y) {\n  __shared__ int a[2],\n b;\n  y[0] = c;\n}", 4, ["c"]),
        ("__global__ void k(float* y) {\n  atomicMax(y, 1.0f);\n}", 2, ["atomicMax"]),
        ("__global__ void k(float* y) {\n\n  struct { float a[9]; } b; __shfl_sync(~0u, b, 0);\n}", 3, ["at most 8 bytes", "b, 0"]),
        ('__global__ void k(int* y) {\n  asm volatile("mov.u32 %0, %%laneid;" : "=r"(y[0]));\n}', 2, ["inline PTX", "GPU"]),
        ('#include "helper.cuh"\nextern "C" __global__ void k(float* y) { y[0] = helper(1); }', 3, ["helper.cuh(3)", "nothing"]),
    ],
)  # fmt: skip
def test_a_compile_error_names_the_readers_file_and_line(tmp_path, text, line, words):
    (tmp_path / "helper.cuh").write_text("#pragma once\n__device__ float helper(float x) {\n  return nothing;\n}")
    source = Source(f'extern "C" {text}' if "#" not in text else text, "cuda/broken.cu", tmp_path)
    with pytest.raises(CompileError) as caught:
        Kernel(source, "k")(filled(1, np.int32 if "int* y" in text else np.float32), grid=1, block=1)
    message = str(caught.value)
    assert message.startswith(f"cuda/{'helper.cuh' if 'helper' in text else 'broken.cu'}({line}): error: ")
    assert all(word in message for word in words) and "minigrad" not in message.lower() and str(tmp_path) not in message


def test_that_ptx_runs_only_on_a_gpu_is_said_once():
    lines = "".join(f'asm volatile("mov.u32 %0, %{each};" : "=r"(y[0]));\n' for each in ("laneid", "warpid"))
    with pytest.raises(CompileError) as caught:
        kernel(f'extern "C" __global__ void k(int* y) {{\n{lines}}}', "k")(filled(1, np.int32), grid=1, block=1)
    assert str(caught.value).count("inline PTX") == 1 and "laneid" in str(caught.value)


def test_a_function_that_is_defined_nowhere():
    text = '__device__ float far(float x);\nextern "C" __global__ void k(float* y) { y[0] = far(y[0]); }'
    with pytest.raises(CompileError, match="k.cu: error: 'far' is used but defined nowhere"):
        kernel(text, "k")(filled(1), grid=1, block=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#include <cuda_fp16.h>\n", "error: there is no file cuda_fp16.h. Of CUDA's own headers the simulator has"),
        ('#include "mine.cuh"\n', "error: there is no file mine.cuh. Of"),
        (
            "__device__ int f(int x) { return __dp4a(x, x, x); }\n",
            "If it is a function of CUDA, the simulator does not",
        ),
    ],
)
def test_what_only_a_gpu_has_is_called_so(text, words):
    with pytest.raises(CompileError) as caught:
        kernel(text + 'extern "C" __global__ void k(int* y) {}', "k")(filled(1, np.int32), grid=1, block=1)
    assert words in str(caught.value) and "?." not in str(caught.value)


def test_ptx_that_is_not_compiled_is_no_error():
    text = """extern "C" __global__ void k(float* y) {
#ifdef MINIGRAD_SIM
        y[0] = 1;  // asm
#else
        asm("trap;");
#endif
    }"""
    kernel(text, "k")(filled(1), grid=1, block=1)


def test_an_included_file_is_followed(tmp_path):
    source = Source('#include "a.cuh"\nextern "C" __global__ void k(float* y) { y[0] = A; }', "k.cu", tmp_path)
    sim, y, entry = get("sim"), filled(1), {}
    for number, stamp in ((1, 10**9), (2, 2 * 10**9)):
        (tmp_path / "a.cuh").write_text(f"#define A {number}")
        os.utime(tmp_path / "a.cuh", ns=(stamp, stamp))
        entry[number] = sim.build(source, {})
        assert sim.build(source, {}) is entry[number]
        Kernel(source, "k")(y, grid=1, block=1)
        assert y.numpy() == number


def test_the_disk_cache_serves_several_processes_at_once(tmp_path):
    script = "from test_simulator import *; test_dynamic_shared_memory()"
    command = [sys.executable, "-c", script]
    paths = os.pathsep.join(
        [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2]), *sys.path]
    )
    environment = os.environ | {"PYTHONPATH": paths, "MINIGRAD_CACHE": str(tmp_path)}
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate()[1] for process in running] == [b"", b"", b""]
    objects = sorted(path.name for path in tmp_path.iterdir())
    assert len(objects) == 2 and objects[0].startswith("runtime-") and objects[1].startswith("works-")
    stamps = [path.stat().st_mtime_ns for path in tmp_path.iterdir()]
    assert python(script, MINIGRAD_CACHE=str(tmp_path)).returncode == 0
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == stamps  # nothing was built again


ELSEWHERE = {
    "portable": {"MINIGRAD_PORTABLE": "1"},
    "clang": {"MINIGRAD_CXX": "clang++"},
    "zig": {"MINIGRAD_CXX": f"{sys.executable} -m ziglang c++"},
}
MISSING = {"clang": not shutil.which("clang++"), "zig": not find_spec("ziglang"), "portable": False}


@pytest.mark.parametrize(
    "where", [pytest.param(w, marks=pytest.mark.skipif(MISSING[w], reason=f"no {w}")) for w in ELSEWHERE]
)
def test_elsewhere(where):
    """What depends on the compiler and on how stacks are switched, with others."""
    script = """
import pytest, sys
words = "shared or barriers or shuffle or votes or atomics or lock or parameters or bounds or null or misaligned or division"
words += " or assert or not_end or ctrl_c or compile_error or mathematics or local_memory"
sys.exit(pytest.main(["-q", "-x", "-c", "/dev/null", "-p", "no:cacheprovider", sys.modules["test_simulator"].__file__, "-k", words]))
"""
    done = python("import test_simulator\n" + script, **ELSEWHERE[where])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "darwin" or not shutil.which("g++"), reason="needs GCC's library as an archive")
def test_the_runtime_brings_no_cpp_library(tmp_path):
    """Else libraries loaded after it would find half of their exceptions' functions in it: the runtime is visible."""
    text = """
#include <exception>
#include <stdexcept>
extern "C" int caught() {
    try { throw std::runtime_error("thrown"); } catch (...) { return std::current_exception() != nullptr; }
}
"""
    (tmp_path / "later.cpp").write_text(text)
    later = tmp_path / "later.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(tmp_path / "later.cpp"), "-o", str(later)], check=True)
    script = f"""
import ctypes
from minigrad.simulator.runtime import runtime
library = runtime()
print(ctypes.CDLL({str(later)!r}).caught())
"""
    done = python(script, MINIGRAD_CXX="g++ -static-libstdc++", MINIGRAD_CACHE=str(tmp_path))
    assert done.stdout == "1\n", done.stderr


def test_launches_from_several_threads():
    arrays, failures = [filled(32, value=n) for n in range(8)], []

    def work(y):
        try:
            for _ in range(50):
                faults("fine", y)
            with pytest.raises(KernelError):
                faults("asserted", 5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(y,)) for y in arrays]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and all((y.numpy() == 1).all() for y in arrays)


def test_a_forked_child_can_launch():
    works("two_blocks" if get("sim").workers > 1 else "barriers", filled(32, np.int32), grid=2, block=1)
    script = """
from test_simulator import *
import warnings; warnings.simplefilter("ignore")
test_barriers(1024)
child = os.fork()
if child == 0:
    test_barriers(1024); test_every_thread_of_every_block_runs_once((7,), (1024,)); test_assert()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
test_barriers(1024)
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


def test_memory_is_reused_and_begins_as_nan():
    gc.collect()
    sim = get("sim")
    first = sim.allocate(1000)
    address = first.address
    assert address % 16 == 0
    sim.zero(address, 1000)
    del first
    again = sim.allocate(1010)
    assert again.address == address - 16  # the same pages, with the end where it belongs
    host = np.empty(250, np.float32)
    sim.download(again.address, host)
    assert np.isnan(host).all()


def test_unused_memory_goes_back_to_the_system():
    sim = Simulator()
    buffers = [sim.allocate(2**20) for _ in range(4)]
    del buffers
    assert sim._pool()._held == 4 * 2**20
    sim._pool().trim()
    assert sim._pool()._held == 0


def test_copies():
    sim, x = get("sim"), np.arange(6, dtype=np.float64)
    a, b = array(x), filled(6, np.float64)
    sim.copy(b.address, a.address + 8, 40)
    assert b.numpy().tolist() == [1, 2, 3, 4, 5, 0]
    sim.zero(b.address + 8, 16)
    assert b.numpy().tolist() == [1, 0, 0, 4, 5, 0]
