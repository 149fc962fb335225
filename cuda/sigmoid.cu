#include "vector.cuh"

// y = 1 / (1 + exp(-x)). thread -> one element.
extern "C" __global__ void sigmoid_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        wide e = exp(-fabs(x[i]));  // at most 1; for x < 0 the fraction is expanded by exp(x)
        y[i] = (x[i] >= 0 ? 1 : e) / (1 + e);
    }
}

// dx = dy * y * (1 - y). thread -> one element.
extern "C" __global__ void sigmoid_backward(const real* dy, const real* y, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * y[i] * (1 - y[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void sigmoid_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) {
        wide e = exp(-fabs(x));
        return (x >= 0 ? 1 : e) / (1 + e);
    }, x);
}

extern "C" __global__ void sigmoid_vectorized_backward(const real* dy, const real* y, real* dx, int n) {
    map(dx, n, [](wide dy, wide y) { return dy * y * (1 - y); }, dy, y);
}
