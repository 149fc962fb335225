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
    real most = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        most = Max()(most, x[i * inner]);
    }
    most = block_max(most);
    // [sum]
    real sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += exp(x[i * inner] - most);
    }
    sum = block_sum(sum);
    // [write]
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i * inner] = exp(x[i * inner] - most) / sum;
    }
}

// dx = y * (dy - sum(dy * y)): a row's outputs add up to 1, so the gradient along "all of them larger" is taken out.
extern "C" __global__ void softmax_backward(const real* dy, const real* y, real* dx, int n, int inner) {
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    dy += start;
    y += start;
    dx += start;
    real dot = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dot += dy[i * inner] * y[i * inner];
    }
    dot = block_sum(dot);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dx[i * inner] = y[i * inner] * (dy[i * inner] - dot);
    }
}
