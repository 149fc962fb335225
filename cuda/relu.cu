#include "vector.cuh"

// y = max(x, 0). thread -> one element.
extern "C" __global__ void relu_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] < 0 ? real(0) : x[i];  // asked this way round, NaN stays NaN
    }
}

// dx = dy where x > 0, else 0. thread -> one element.
extern "C" __global__ void relu_backward(const real* dy, const real* x, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = x[i] > 0 ? dy[i] : real(0);
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void relu_vectorized(const real* x, real* y, int n) {
    map(y, n, [](wide x) { return x < 0 ? 0 : x; }, x);
}

extern "C" __global__ void relu_vectorized_backward(const real* dy, const real* x, real* dx, int n) {
    map(dx, n, [](wide dy, wide x) { return x > 0 ? dy : 0; }, dy, x);
}
