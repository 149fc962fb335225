#include "row_in_registers.cuh"

// Both kernels: block -> one row of logits; thread -> every BLOCK-th class of it. The softmax is never
// stored: recomputing it in the backward pass costs less than writing and reading it.

// loss = log(sum(exp(x))) - x[label]. A label that is no class gives NaN and is never used as an index.
extern "C" __global__ void cross_entropy_forward(
    const real* logits, const long long* labels, real* losses, int classes) {
    const real* x = logits + blockIdx.x * classes;
    real most = block_max(classes, [=](int i) { return x[i]; });
    real log_sum = log(block_sum(classes, [=](int i) { return exp(x[i] - most); }));
    if (threadIdx.x == 0) {
        long long label = labels[blockIdx.x];
        bool known = 0 <= label && label < classes;
        losses[blockIdx.x] = known ? most - x[label] + log_sum : NAN;
    }
}

// dx = (softmax(x) - onehot(label)) * dy / divisor. `step` is 0 if all rows share one dy, else 1.
extern "C" __global__ void cross_entropy_backward(
    const real* dy, const real* logits, const long long* labels, real* dx, int classes, int step,
    real divisor) {
    const real* x = logits + blockIdx.x * classes;
    dx += blockIdx.x * classes;
    real most = block_max(classes, [=](int i) { return x[i]; });
    real sum = block_sum(classes, [=](int i) { return exp(x[i] - most); });
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < classes;
    real upstream = known ? dy[blockIdx.x * step] / divisor : NAN;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        dx[i] = (exp(x[i] - most) / sum - (i == label ? 1 : 0)) * upstream;
    }
}

// The same for a row that fits into the registers of a block: see row_in_registers.cuh.
extern "C" __global__ void __launch_bounds__(1024, RESIDENT) cross_entropy_held(
    const real* logits, const long long* labels, real* losses, int n) {
    const real* x = logits + blockIdx.x * n;
    real own[HELD];
    hold(own, x, n, -INFINITY);
    real most = held_reduce(own, Max());
    real log_sum = log(held_exp(own, most));
    if (threadIdx.x == 0) {
        long long label = labels[blockIdx.x];
        bool known = 0 <= label && label < n;
        losses[blockIdx.x] = known ? most - x[label] + log_sum : NAN;
    }
}

extern "C" __global__ void __launch_bounds__(1024, RESIDENT) cross_entropy_held_backward(
    const real* dy, const real* logits, const long long* labels, real* dx, int n, int step, real divisor) {
    real own[HELD];
    hold(own, logits + blockIdx.x * n, n, -INFINITY);
    real most = held_reduce(own, Max());
    real sum = held_exp(own, most);
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < n;
    real upstream = known ? dy[blockIdx.x * step] / divisor : NAN;
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        int i = threadIdx.x * LANES + j / LANES * LANES * blockDim.x + j % LANES;
        own[j] = (own[j] / sum - (i == label ? 1 : 0)) * upstream;
    }
    release(own, dx + blockIdx.x * n, n);
}

#ifndef SHARE
#define SHARE 8
#endif
#include "short_row.cuh"

// The same for a row that fits into the registers of some lanes of a warp: see short_row.cuh.
extern "C" __global__ void cross_entropy_lanes(
    const real* logits, const long long* labels, real* losses, int rows, int n) {
    Short mine(rows, n);
    const real* x = logits + mine.row * n;
    real own[MINE];
    mine.hold(own, x, -INFINITY);
    real most = lanes_reduce(own, Max());
    real log_sum = log(lanes_exp(own, most));
    if (mine.share == 0 && mine.count > 0) {
        long long label = labels[mine.row];
        bool known = 0 <= label && label < n;
        losses[mine.row] = known ? most - x[label] + log_sum : NAN;
    }
}

extern "C" __global__ void cross_entropy_lanes_backward(
    const real* dy, const real* logits, const long long* labels, real* dx, int rows, int n, int step, real divisor) {
    Short mine(rows, n);
    real own[MINE];
    mine.hold(own, logits + mine.row * n, -INFINITY);
    real most = lanes_reduce(own, Max());
    real sum = lanes_exp(own, most);
    long long label = mine.count > 0 ? labels[mine.row] : 0;
    bool known = 0 <= label && label < n;
    real upstream = known && mine.count > 0 ? dy[mine.row * step] / divisor : NAN;
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] = (own[j] / sum - (mine.at(j) == label ? 1 : 0)) * upstream;
    mine.release(own, dx + mine.row * n);
}

// From the softmax p of the logits, where another kernel has computed it.
// loss = -log(p[label]). thread -> one row.
extern "C" __global__ void cross_entropy_of_softmax(
    const real* p, const long long* labels, real* losses, int rows, int classes) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        long long label = labels[row];
        bool known = 0 <= label && label < classes;
        losses[row] = known ? -log(p[row * classes + label]) : NAN;
    }
}

// dx = (p - onehot(label)) * dy / divisor. thread -> one element of dx, of `size`.
extern "C" __global__ void cross_entropy_of_softmax_backward(
    const real* dy, const real* p, const long long* labels, real* dx, int size, int classes, int step, real divisor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        int row = i / classes;
        long long label = labels[row];
        bool known = 0 <= label && label < classes;
        dx[i] = known ? (p[i] - (i % classes == label ? 1 : 0)) * dy[row * step] / divisor : NAN;
    }
}
