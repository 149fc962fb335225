#include "row_in_registers.cuh"

// Both kernels: block -> one row, the n elements of an array (rows, n, inner) that are `inner` apart;
// thread -> every BLOCK-th element of the row, so a row may be of any length.

// y = exp(x - max) / sum(exp(x - max)). The largest exponent is 0, so nothing overflows.
extern "C" __global__ void softmax_forward(const real* x, real* y, int n, int inner) {
    // [find the row]
    int start = blockIdx.x / inner * n * inner + blockIdx.x % inner;
    x += start;
    y += start;
    // [max]
    wide most = block_max(n, [=](int i) { return x[i * inner]; });
    // [sum]
    wide sum = block_sum(n, [=](int i) { return exp(x[i * inner] - most); });
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
    wide dot = block_sum(n, [=](int i) { return dy[i * inner] * y[i * inner]; });
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dx[i * inner] = y[i * inner] * (dy[i * inner] - dot);
    }
}

// The same for a row that fits into the registers of a block: see row_in_registers.cuh.
extern "C" __global__ void __launch_bounds__(1024, RESIDENT) softmax_held(const real* x, real* y, int n) {
    // [read]
    wide own[HELD];
    hold(own, x + blockIdx.x * n, n, -INFINITY);
    // [max]
    wide most = held_reduce(own, Max());
    // [sum]
    wide scale = 1 / held_exp(own, most);
    // [write]
#pragma unroll
    for (int j = 0; j < HELD; ++j) own[j] *= scale;
    release(own, y + blockIdx.x * n, n);
}

extern "C" __global__ void __launch_bounds__(1024) softmax_held_backward(
    const real* dy, const real* y, real* dx, int n) {
    wide own[HELD], share[HELD], dot = 0;
    hold(own, dy + blockIdx.x * n, n, 0);
    hold(share, y + blockIdx.x * n, n, 0);
#pragma unroll
    for (int j = 0; j < HELD; ++j) dot += own[j] * share[j];
    dot = block_reduce(dot, Add());
#pragma unroll
    for (int j = 0; j < HELD; ++j) own[j] = share[j] * (own[j] - dot);
    release(own, dx + blockIdx.x * n, n);
}

#ifndef SHARE
#define SHARE 8
#endif
#include "short_row.cuh"

// The same for a row that fits into the registers of some lanes of a warp: see short_row.cuh.
extern "C" __global__ void softmax_lanes(const real* x, real* y, int rows, int n) {
    Short mine(rows, n);
    wide own[MINE];
    mine.hold(own, x + mine.row * n, -INFINITY);
    wide scale = 1 / lanes_exp(own, lanes_reduce(own, Max()));
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] *= scale;
    mine.release(own, y + mine.row * n);
}

extern "C" __global__ void softmax_lanes_backward(const real* dy, const real* y, real* dx, int rows, int n) {
    Short mine(rows, n);
    wide own[MINE], share[MINE], products[MINE];
    mine.hold(own, dy + mine.row * n, 0);
    mine.hold(share, y + mine.row * n, 0);
#pragma unroll
    for (int j = 0; j < MINE; ++j) products[j] = own[j] * share[j];
    wide dot = lanes_reduce(products, Add());
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] = share[j] * (own[j] - dot);
    mine.release(own, dx + mine.row * n);
}
