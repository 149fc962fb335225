#include "vector.cuh"

// Gather: y[i] = x[where the view finds element i of the slice]. thread -> one element of y.
extern "C" __global__ void getitem_forward(const real* x, real* y, View x_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[x_at(i)];
    }
}

// Scatter: dx[where element i came from] = dy[i], over zeros. thread -> one element of dy.
// A slice meets no element twice, so no two threads write the same place.
extern "C" __global__ void getitem_backward(const real* dy, real* dx, View dx_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[dx_at(i)] = dy[i];
    }
}

// Both again with four elements a thread: see vector.cuh.
extern "C" __global__ void getitem_vectorized(const real* x, real* y, View x_at, int n) {
    map(y, n, [](real x) { return x; }, Viewed{x, x_at});
}

extern "C" __global__ void getitem_vectorized_backward(const real* dy, real* dx, View dx_at, int n) {
    map(Viewed{dx, dx_at}, n, [](real dy) { return dy; }, dy);
}
