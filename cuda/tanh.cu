#include "common.cuh"

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
