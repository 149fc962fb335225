#include "vector.cuh"

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x ^ 3): the weight of x in gelu_tanh. By the
// exponential it needs half as many instructions, and no digits are lost where tanh(u) is close to -1.
__device__ inline wide gelu_weight(wide x) {
    return 1 / (1 + exp(wide(-2 * 0.79788456080286536) * (x + wide(0.044715) * x * x * x)));
}

__device__ inline wide gelu_tanh_slope(wide x) {
    wide s = gelu_weight(x), inner = wide(2 * 0.79788456080286536) * (1 + wide(3 * 0.044715) * x * x);
    return s + x * (s * (1 - s)) * inner;
}

// y = x * (1 + tanh(u)) / 2. thread -> one element.
extern "C" __global__ void gelu_tanh_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * gelu_weight(x[i]);
    }
}

// dx = dy * (1 + t + x * (1 - t * t) * u') / 2, t = tanh(u). thread -> one element.
extern "C" __global__ void gelu_tanh_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * gelu_tanh_slope(x[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void gelu_tanh_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return x * gelu_weight(x); }, x);
}

extern "C" __global__ void gelu_tanh_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy * gelu_tanh_slope(x); }, dy, x);
}

// f(x + bias, i) for elements of rows of `columns`, to y. thread -> PER_THREAD neighbors
template <class F>
__device__ void map_biased(const real* x, const wide* bias, real* y, int columns, int n, F f) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    if (columns % PER_THREAD) {
        for (int end = min(n, i + PER_THREAD); i < end; ++i) y[i] = f(x[i] + bias[i % columns], i);
    } else if (i < n) {
        auto some = as<wide>(vec<PER_THREAD>(x + i));
        auto own = vec<PER_THREAD>(bias + i % columns);
#pragma unroll
        for (int j = 0; j < PER_THREAD; ++j) some.at[j] = f(some.at[j] + own.at[j], i + j);
        put(y, i, some);
    }
}

// y = gelu_tanh(x + bias)
extern "C" __global__ void bias_gelu_tanh_forward(const real* x, const wide* bias, real* y, int columns, int n) {
    map_biased(x, bias, y, columns, n, [](wide sum, int i) { return sum * gelu_weight(sum); });
}

// dx = dy times the slope at x + bias
extern "C" __global__ void bias_gelu_tanh_backward(
    const real* dy, const real* x, const wide* bias, real* dx, int columns, int n) {
    map_biased(x, bias, dx, columns, n, [=](wide sum, int i) { return dy[i] * gelu_tanh_slope(sum); });
}
