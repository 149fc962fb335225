#include "vector.cuh"

// y = log(x). thread -> one element.
extern "C" __global__ void log_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = log(x[i]);
    }
}

// dx = dy / x. thread -> one element.
extern "C" __global__ void log_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] / x[i];
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void log_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return log(x); }, x);
}

extern "C" __global__ void log_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return dy / x; }, dy, x);
}
