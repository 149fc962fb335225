#include "vector.cuh"

// Gather: y[i] = element i of the view of x. thread -> one element of y.
extern "C" __global__ void getitem_forward(const real* x, real* y, View x_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[x_at(i)];
    }
}

// Scatter: element i of the view of dx = dy[i], over zeros. thread -> one element of dy.
// A slice contains no element twice, so no two threads write the same element.
extern "C" __global__ void getitem_backward(const real* dy, real* dx, View dx_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[dx_at(i)] = dy[i];
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void getitem_vectorized(const real* x, real* y, View x_at, int n) {
    map(y, n, [](real x) { return x; }, Viewed{x, x_at});
}

extern "C" __global__ void getitem_vectorized_backward(const real* dy, real* dx, View dx_at, int n) {
    map(Viewed{dx, dx_at}, n, [](real dy) { return dy; }, dy);
}
