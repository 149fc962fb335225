#include "reduce.cuh"

// Both kernels: block -> one row, i.e. the n elements of an array (rows, n, inner) that lie `inner` apart;
// thread -> every BLOCK-th element of the row, so a row may be of any length.

// y = exp(x - max) / sum(exp(x - max)). The largest exponent is 0, so nothing overflows.
extern "C" __global__ void softmax_forward(const real* x, real* y, int n, int inner) {
    // [find the row]
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    x += start;
    y += start;
    // [max]
    real most = block_max(n, [=](int i) { return x[i * inner]; });
    // [sum]
    real sum = block_sum(n, [=](int i) { return exp(x[i * inner] - most); });
    // [write]
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i * inner] = exp(x[i * inner] - most) / sum;
    }
}

// dx = y * (dy - sum(dy * y)). A row of y adds up to 1, so its dx adds up to 0.
extern "C" __global__ void softmax_backward(const real* dy, const real* y, real* dx, int n, int inner) {
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    dy += start;
    y += start;
    dx += start;
    real dot = block_sum(n, [=](int i) { return dy[i * inner] * y[i * inner]; });
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dx[i * inner] = y[i * inner] * (dy[i * inner] - dot);
    }
}
