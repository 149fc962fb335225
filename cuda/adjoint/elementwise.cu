#include "common.cuh"

// log(1 + exp(x)), without overflow
__device__ real softplus(real x) {
    if (x > 0) {
        return x + log1p(exp(-x));
    }
    return log1p(exp(x));
}

// A leaky unit: the slope a below 0 is a parameter.
__device__ real leaky(real x, real a) {
    return x > 0 ? x : a * x;
}

// y = softplus(x) + leaky(x, a). thread -> one element.
extern "C" __global__ void elementwise(const real* x, real a, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    real value = x[i];
    y[i] = softplus(value) + leaky(value, a);
}

// y = 0.5 x (1 + erf(x / sqrt(2))). thread -> one element.
extern "C" __global__ void gelu(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = real(0.5) * x[i] * (1 + erf(x[i] * real(0.7071067811865476)));
}
