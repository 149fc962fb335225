"""Kernels for the tests of the device `sim`: WORKS, which are right, FAULTS, which fail, and functions that run them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

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
extern "C" __global__ void nowhere(float* x, int n) {
    double* p = (double*)(0xfefefefefefefefe - n);
    if (threadIdx.x == 3) n ? *p = 1 : *(char*)p = 1;  // nowhere
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
    __syncthreads();
    y[threadIdx.x] = __syncthreads_count(threadIdx.x < 7);
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


def array(values, dtype=None):
    return Array.upload(get("sim"), np.array(values, dtype))


def filled(size, dtype=np.float32, value=0):
    return array(np.full(size, value, dtype))


def works(name, *args, grid=1, block=32, shared=0):
    """Run one of the kernels above and return its last array."""
    Kernel(Source(WORKS, "works.cu"), name)(*args, grid=grid, block=block, shared=shared)
    return args[-1].numpy() if args and isinstance(args[-1], Array) else None


def faults(name, *args, grid=1, block=32, shared=0):
    Kernel(Source(FAULTS, "cuda/faults.cu"), name)(*args, grid=grid, block=block, shared=shared)


def line_of(name):
    """The line of FAULTS with the kernel's name as its mark."""
    return next(n for n, line in enumerate(FAULTS.splitlines(), 1) if line.endswith(f"// {name}"))


def error_of(name, *args, **launch):
    """The KernelError of a launch. Asserts that the next launch works."""
    with pytest.raises(KernelError) as caught:
        faults(name, *args, **launch)
    y = filled(32)
    faults("fine", y)
    assert (y.numpy() == 1).all()
    assert caught.value.kernel == name and str(caught.value).startswith(f"{name}: ")
    return caught.value


def python(script, **environment):
    """Run a script on `sim`, which may import the tests."""
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join(map(str, [tests / "simulator", tests, tests.parent, *sys.path]))
    environment = os.environ | {"PYTHONPATH": paths, "MINIGRAD_DEVICE": "sim"} | environment
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
