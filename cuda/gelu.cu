#include "vector.cuh"

// P(x) by erfc: 1 + erf would lose its digits for x << 0.
__device__ inline wide share_below(wide x) { return wide(0.5) * erfc(-x * wide(0.70710678118654752)); }  // 1 / sqrt(2)

// The derivative of x P(x), with p(x) = exp(-x * x / 2) / sqrt(2 pi).
__device__ inline wide gelu_slope(wide x) {
    return share_below(x) + x * (wide(0.39894228040143268) * exp(wide(-0.5) * x * x));
}

// y = x * P(x), P the share of a normal distribution below x. thread -> one element.
extern "C" __global__ void gelu_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * share_below(x[i]);
    }
}

// dx = dy * (P(x) + x * p(x)), p its density. thread -> one element.
extern "C" __global__ void gelu_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * gelu_slope(x[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void gelu_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return x * share_below(x); }, x);
}

extern "C" __global__ void gelu_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy * gelu_slope(x); }, dy, x);
}
