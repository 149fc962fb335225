#include "quick.cuh"
#include "row_in_registers.cuh"

// Both kernels: block -> one row of logits; thread -> every BLOCK-th class of it. The softmax is never
// stored: recomputing it in the backward pass costs less than writing and reading it.
// The target of a class is onehot(label) * (1 - smoothing) + smoothing / classes.

// The loss of a row, log(sum(exp(x))) - sum(target * x). A label that is no class gives NaN and is never an index. rest is
// the sum of x - most over all classes, if there is smoothing.
__device__ inline wide loss_of(
    const real* x, long long label, int classes, wide most, wide log_sum, wide smoothing, wide rest) {
    if (label < 0 || label >= classes) return NAN;
    wide own = x[label] - most;
    return log_sum - (smoothing > 0 ? (1 - smoothing) * own + smoothing / classes * rest : own);
}

extern "C" __global__ void cross_entropy_forward(
    const real* logits, const long long* labels, wide* losses, int classes, wide smoothing) {
    const real* x = logits + blockIdx.x * classes;
    wide most = block_max(classes, [=](int i) { return x[i]; });
    wide log_sum = log(block_sum(classes, [=](int i) { return exp(x[i] - most); }));
    wide rest = smoothing > 0 ? block_sum(classes, [=](int i) { return x[i] - most; }) : 0;
    if (threadIdx.x == 0) losses[blockIdx.x] = loss_of(x, labels[blockIdx.x], classes, most, log_sum, smoothing, rest);
}

// dx = (softmax(x) - target) * dy / divisor. `step` is 0 if all rows share one dy, else 1.
extern "C" __global__ void cross_entropy_backward(
    const wide* dy, const real* logits, const long long* labels, real* dx, int classes, wide smoothing, int step,
    wide divisor) {
    const real* x = logits + blockIdx.x * classes;
    dx += blockIdx.x * classes;
    wide most = block_max(classes, [=](int i) { return x[i]; });
    wide sum = block_sum(classes, [=](int i) { return exp(x[i] - most); });
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < classes;
    wide upstream = known ? dy[blockIdx.x * step] / divisor : NAN;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        dx[i] = (exp(x[i] - most) / sum - (i == label ? 1 - smoothing : 0) - smoothing / classes) * upstream;
    }
}

// The same for a row that fits into the registers of a block: see row_in_registers.cuh.
extern "C" __global__ void __launch_bounds__(1024, RESIDENT) cross_entropy_held(
    const real* logits, const long long* labels, wide* losses, int n, wide smoothing) {
    const real* x = logits + blockIdx.x * n;
    wide own[HELD];
    hold(own, x, n, -INFINITY);
    wide most = held_reduce(own, Max());
    wide log_sum = log(held_exp(own, most));
    wide rest = smoothing > 0 ? block_sum(n, [=](int i) { return x[i] - most; }) : 0;
    if (threadIdx.x == 0) losses[blockIdx.x] = loss_of(x, labels[blockIdx.x], n, most, log_sum, smoothing, rest);
}

extern "C" __global__ void __launch_bounds__(1024, RESIDENT) cross_entropy_held_backward(
    const wide* dy, const real* logits, const long long* labels, real* dx, int n, wide smoothing, int step, wide divisor) {
    wide own[HELD];
    hold(own, logits + blockIdx.x * n, n, -INFINITY);
    wide most = held_reduce(own, Max());
    wide sum = held_exp(own, most);
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < n;
    wide upstream = known ? dy[blockIdx.x * step] / divisor : NAN;
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        int i = threadIdx.x * LANES + j / LANES * LANES * blockDim.x + j % LANES;
        own[j] = (own[j] / sum - (i == label ? 1 - smoothing : 0) - smoothing / n) * upstream;
    }
    release(own, dx + blockIdx.x * n, n);
}

// The maximum of a row and the sum of exp(x - maximum), in one pass over vectors of 16 bytes: each thread has its own maximum
// so far, and scales its sum down when that grows. A row has a multiple of PER_THREAD numbers.
struct Peak {
    wide most = -INFINITY, sum = 0;

    __device__ Peak(const real* x, int n) {
#pragma unroll 4
        for (int i = threadIdx.x * PER_THREAD; i < n; i += blockDim.x * PER_THREAD) {
            auto some = as<wide>(vec<PER_THREAD>(x + i));
            wide larger = most;
#pragma unroll
            for (int j = 0; j < PER_THREAD; ++j) larger = Max()(some.at[j], larger);
            if (larger == -INFINITY) continue;
            sum *= quick_exp(most - larger), most = larger;
#pragma unroll
            for (int j = 0; j < PER_THREAD; ++j) sum += quick_exp(some.at[j] - most);
        }
        wide own = most;
        most = block_reduce(own, Max());
        sum = block_reduce(own == -INFINITY ? 0 : sum * exp(own - most), Add());
    }
};

// The same for long rows, such as a large vocabulary has: the row is read once, and for the gradient twice, the second time
// out of the L2 cache.
extern "C" __global__ void cross_entropy_long(
    const real* logits, const long long* labels, wide* losses, int classes, wide smoothing) {
    const real* x = logits + blockIdx.x * classes;
    Peak peak(x, classes);
    wide most = peak.most, rest = smoothing > 0 ? block_sum(classes, [=](int i) { return x[i] - most; }) : 0;
    if (threadIdx.x > 0) return;
    losses[blockIdx.x] = loss_of(x, labels[blockIdx.x], classes, most, log(peak.sum), smoothing, rest);
}

extern "C" __global__ void cross_entropy_long_backward(
    const wide* dy, const real* logits, const long long* labels, real* dx, int classes, wide smoothing, int step,
    wide divisor) {
    const real* x = logits + blockIdx.x * classes;
    Peak peak(x, classes);
    long long label = labels[blockIdx.x];
    bool known = 0 <= label && label < classes;
    wide upstream = known ? dy[blockIdx.x * step] / divisor : NAN, each = smoothing / classes, inverse = 1 / peak.sum;
    for (int i = threadIdx.x * PER_THREAD; i < classes; i += blockDim.x * PER_THREAD) {
        auto some = as<wide>(vec<PER_THREAD>(x + i));
#pragma unroll
        for (int j = 0; j < PER_THREAD; ++j) {
            wide target = (i + j == label ? 1 - smoothing : 0) + each;
            some.at[j] = (quick_exp(some.at[j] - peak.most) * inverse - target) * upstream;
        }
        put(dx, blockIdx.x * classes + i, some);
    }
}

#ifndef SHARE
#define SHARE 8
#endif
#include "short_row.cuh"

// The same for a row that fits into the registers of some lanes of a warp: see short_row.cuh.
extern "C" __global__ void cross_entropy_lanes(
    const real* logits, const long long* labels, wide* losses, int rows, int n, wide smoothing) {
    Short mine(rows, n);
    const real* x = logits + mine.row * n;
    wide own[MINE], rest = 0;
    mine.hold(own, x, -INFINITY);
    wide most = lanes_reduce(own, Max());
    if (smoothing > 0) {
#pragma unroll
        for (int j = 0; j < MINE; ++j) rest += mine.at(j) < mine.count ? own[j] - most : 0;
        rest = lanes_reduce<SHARE>(rest, Add());
    }
    wide log_sum = log(lanes_exp(own, most));
    if (mine.share == 0 && mine.count > 0) {
        losses[mine.row] = loss_of(x, labels[mine.row], n, most, log_sum, smoothing, rest);
    }
}

extern "C" __global__ void cross_entropy_lanes_backward(
    const wide* dy, const real* logits, const long long* labels, real* dx, int rows, int n, wide smoothing, int step,
    wide divisor) {
    Short mine(rows, n);
    wide own[MINE];
    mine.hold(own, logits + mine.row * n, -INFINITY);
    wide most = lanes_reduce(own, Max());
    wide sum = lanes_exp(own, most);
    long long label = mine.count > 0 ? labels[mine.row] : 0;
    bool known = 0 <= label && label < n;
    wide upstream = known && mine.count > 0 ? dy[mine.row * step] / divisor : NAN;
#pragma unroll
    for (int j = 0; j < MINE; ++j) {
        own[j] = (own[j] / sum - (mine.at(j) == label ? 1 - smoothing : 0) - smoothing / n) * upstream;
    }
    mine.release(own, dx + mine.row * n);
}

// From the softmax p of the logits, where another kernel has computed it.
// loss = -sum(target * log(p)). thread -> one row.
extern "C" __global__ void cross_entropy_of_softmax(
    const real* p, const long long* labels, wide* losses, int rows, int classes, wide smoothing) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        long long label = labels[row];
        bool known = 0 <= label && label < classes;
        wide loss = known ? -log(p[row * classes + label]) * (1 - smoothing) : NAN;
        for (int i = 0; smoothing > 0 && i < classes; ++i) loss -= log(p[row * classes + i]) * smoothing / classes;
        losses[row] = loss;
    }
}

// dx = (p - target) * dy / divisor. thread -> one element of dx, of `size`.
extern "C" __global__ void cross_entropy_of_softmax_backward(
    const wide* dy, const real* p, const long long* labels, real* dx, int size, int classes, wide smoothing, int step,
    wide divisor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        int row = i / classes;
        long long label = labels[row];
        bool known = 0 <= label && label < classes;
        wide target = (i % classes == label ? 1 - smoothing : 0) + smoothing / classes;
        dx[i] = known ? (p[i] - target) * dy[row * step] / divisor : NAN;
    }
}
