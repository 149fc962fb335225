#include "vector.cuh"

// y = -x. thread -> one element.
extern "C" __global__ void negative_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = -x[i];
    }
}

// dx = -dy. thread -> one element.
extern "C" __global__ void negative_backward(const real* dy, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = -dy[i];
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void negative_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return -x; }, x);
}

extern "C" __global__ void negative_vectorized_backward(const real* dy, real* dx, int n) {
    map(dx, n, [](wide dy) { return -dy; }, dy);
}
