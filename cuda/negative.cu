#include "common.cuh"

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
