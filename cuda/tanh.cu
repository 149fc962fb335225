#include "vector.cuh"

// y = tanh(x). thread -> one element.
extern "C" __global__ void tanh_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = tanh(x[i]);
    }
}

// dx = dy * (1 - y * y). thread -> one element.
extern "C" __global__ void tanh_backward(const real* dy, const real* y, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * (1 - y[i] * y[i]);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void tanh_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return tanh(x); }, x);
}

extern "C" __global__ void tanh_vectorized_backward(const real* dy, const real* y, real* dx, int n) {
    map(dx, n, [](wide dy, wide y) { return dy * (1 - y * y); }, dy, y);
}
