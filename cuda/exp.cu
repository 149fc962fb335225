#include "vector.cuh"

// y = e^x. thread -> one element.
extern "C" __global__ void exp_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = exp(x[i]);  // for float the compiler takes the float version
    }
}

// dx = dy * y: the output is its own derivative. thread -> one element.
extern "C" __global__ void exp_backward(const real* dy, const real* y, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dy[i] * y[i];
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void exp_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return exp(x); }, x);
}

extern "C" __global__ void exp_vectorized_backward(const real* dy, const real* y, real* dx, int n) {
    map(dx, n, [](wide dy, wide y) { return dy * y; }, dy, y);
}
