#include "vector.cuh"

// y = sqrt(x). thread -> one element.
extern "C" __global__ void sqrt_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = sqrt(x[i]);
    }
}

// dx = dy / (2 * y). thread -> one element.
extern "C" __global__ void sqrt_backward(const real* dy, const real* y, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] / (2 * y[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void sqrt_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return sqrt(x); }, x);
}

extern "C" __global__ void sqrt_vectorized_backward(const real* dy, const real* y, real* dx, int n) {
    map(dx, n, [](wide dy, wide y) { return dy / (2 * y); }, dy, y);
}
