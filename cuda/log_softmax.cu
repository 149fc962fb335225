#include "row_in_registers.cuh"

// Both kernels: block -> one row, the n elements of an array (rows, n, inner) that are `inner` apart;
// thread -> every BLOCK-th element of the row, so a row may be of any length.

// y = x - max - log(sum(exp(x - max))): never the logarithm of a softmax that has underflowed to 0.
extern "C" __global__ void log_softmax_forward(const real* x, real* y, int n, int inner) {
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    x += start;
    y += start;
    wide most = block_max(n, [=](int i) { return x[i * inner]; });
    wide log_sum = log(block_sum(n, [=](int i) { return exp(x[i * inner] - most); }));
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i * inner] = x[i * inner] - most - log_sum;
    }
}

// dx = dy - exp(y) * sum(dy).
extern "C" __global__ void log_softmax_backward(const real* dy, const real* y, real* dx, int n, int inner) {
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    dy += start;
    y += start;
    dx += start;
    wide sum = block_sum(n, [=](int i) { return dy[i * inner]; });
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dx[i * inner] = dy[i * inner] - exp(y[i * inner]) * sum;
    }
}

// The same for a row that fits into the registers of a block: see row_in_registers.cuh.
extern "C" __global__ void __launch_bounds__(1024, RESIDENT) log_softmax_held(const real* x, real* y, int n) {
    wide own[HELD], sum = 0;
    hold(own, x + blockIdx.x * n, n, -INFINITY);
    wide most = held_reduce(own, Max());
#pragma unroll
    for (int j = 0; j < HELD; ++j) sum += exp(own[j] - most);
    wide log_sum = log(block_reduce(sum, Add()));
#pragma unroll
    for (int j = 0; j < HELD; ++j) own[j] = own[j] - most - log_sum;
    release(own, y + blockIdx.x * n, n);
}

extern "C" __global__ void __launch_bounds__(1024) log_softmax_held_backward(
    const real* dy, const real* y, real* dx, int n) {
    wide own[HELD], log_share[HELD];
    hold(own, dy + blockIdx.x * n, n, 0);
    hold(log_share, y + blockIdx.x * n, n, 0);
    wide sum = held_reduce(own, Add());
#pragma unroll
    for (int j = 0; j < HELD; ++j) own[j] -= exp(log_share[j]) * sum;
    release(own, dx + blockIdx.x * n, n);
}

#ifndef SHARE
#define SHARE 8
#endif
#include "short_row.cuh"

// The same for a row that fits into the registers of some lanes of a warp: see short_row.cuh.
extern "C" __global__ void log_softmax_lanes(const real* x, real* y, int rows, int n) {
    Short mine(rows, n);
    wide own[MINE], grown[MINE];
    mine.hold(own, x + mine.row * n, -INFINITY);
    wide most = lanes_reduce(own, Max());
#pragma unroll
    for (int j = 0; j < MINE; ++j) grown[j] = own[j];
    wide log_sum = log(lanes_exp(grown, most));
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] = own[j] - most - log_sum;
    mine.release(own, y + mine.row * n);
}

extern "C" __global__ void log_softmax_lanes_backward(const real* dy, const real* y, real* dx, int rows, int n) {
    Short mine(rows, n);
    wide own[MINE], log_share[MINE];
    mine.hold(own, dy + mine.row * n, 0);
    mine.hold(log_share, y + mine.row * n, 0);
    wide sum = lanes_reduce(own, Add());
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] -= exp(log_share[j]) * sum;
    mine.release(own, dx + mine.row * n);
}
