#include "vector.cuh"

// s, as sigmoid.cu has it.
__device__ inline wide silu_share(wide x) {
    wide e = exp(-fabs(x));
    return (x >= 0 ? 1 : e) / (1 + e);
}

__device__ inline wide silu_slope(wide x) {
    wide s = silu_share(x);
    return s * (1 + x * (1 - s));
}

// y = x * s, s = 1 / (1 + exp(-x)). thread -> one element.
extern "C" __global__ void silu_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * silu_share(x[i]);
    }
}

// dx = dy * s * (1 + x * (1 - s)). thread -> one element.
extern "C" __global__ void silu_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * silu_slope(x[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void silu_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return x * silu_share(x); }, x);
}

extern "C" __global__ void silu_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy * silu_slope(x); }, dy, x);
}
