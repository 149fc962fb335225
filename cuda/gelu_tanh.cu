#include "vector.cuh"

// tanh(u), which is close to the error function of gelu.
__device__ inline wide near_erf(wide x) {
    return tanh(wide(0.79788456080286536) * (x + wide(0.044715) * x * x * x));  // sqrt(2 / pi)
}

__device__ inline wide gelu_tanh_slope(wide x) {
    wide t = near_erf(x), inner = wide(0.79788456080286536) * (1 + wide(3 * 0.044715) * x * x);
    return wide(0.5) * (1 + t + x * (1 - t * t) * inner);
}

// y = x * (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 x ^ 3). thread -> one element.
extern "C" __global__ void gelu_tanh_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * (1 + near_erf(x[i])) * wide(0.5);
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
    map(y, n, [](wide x) { return x * (1 + near_erf(x)) * wide(0.5); }, x);
}

extern "C" __global__ void gelu_tanh_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy * gelu_tanh_slope(x); }, dy, x);
}
