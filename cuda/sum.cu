#include "partial_reduce.cuh"

// y = (sum of x over an axis) / divisor, with x seen as (rows, n, inner); it has rows * inner = outputs.
// All but `sum_atomic` split the n elements of an output into pieces of `chunk` elements and write partial sums,
// (rows, pieces, inner). The next launch adds those up, until one piece is left. The order is fixed.

// thread -> one element, added to its output. y must start as 0. The order of the atomics varies, and with it
// the last digits of y.
extern "C" __global__ void sum_atomic(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < outputs * n) {
        int row = i / (n * inner), column = i % inner;
        atomicAdd(&y[row * inner + column], x[i] / divisor);
    }
}

// block -> one piece of one output; thread -> every BLOCK-th element of it.
// A tree in shared memory adds up the threads' sums: in each step the front half adds the back half to its own.
extern "C" __global__ void sum_tree(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    // [find the piece]
    Piece piece(x, blockIdx.x, outputs, n, inner, chunk);
    // [add up the thread's share]
    __shared__ wide sums[1024];
    sums[threadIdx.x] = thread_reduce(piece.count, 0, [=](int i) { return piece.x[i * inner]; }, Add());
    // [add up the block]
    for (int width = blockDim.x, half; width > 1; width = half) {
        half = (width + 1) / 2;
        __syncthreads();
        if (threadIdx.x < width / 2) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    // [store]
    if (threadIdx.x == 0) y[piece.to] = sums[0] / divisor;
}

// As sum_tree, but warp shuffles add up the threads' sums, register to register: see reduce.cuh.
extern "C" __global__ void sum_warp(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    // [find the piece]
    Piece piece(x, blockIdx.x, outputs, n, inner, chunk);
    // [add up]
    wide sum = block_sum(piece.count, [=](int i) { return piece.x[i * inner]; });
    // [store]
    if (threadIdx.x == 0) y[piece.to] = sum / divisor;
}

// As sum_warp, with four neighbors at a time where the piece is one run that begins at a multiple of four.
extern "C" __global__ void sum_vectorized(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    // [find the piece]
    Piece piece(x, blockIdx.x, outputs, n, inner, chunk);
    int fours = inner == 1 && (piece.x - x) % LANES == 0 ? piece.count / LANES : 0, left = fours * LANES;
    // [add up]
    wide sum = thread_reduce(fours, 0, [=](int i) {
        Vec four = vec(&piece.x[i * LANES]);
        return (four.at[0] + four.at[1]) + (four.at[2] + four.at[3]);
    }, Add());
    sum = thread_reduce(piece.count - left, sum, [=](int i) { return piece.x[(left + i) * inner]; }, Add());
    sum = block_reduce(sum, Add());
    // [store]
    if (threadIdx.x == 0) y[piece.to] = sum / divisor;
}

// thread -> one piece of one output, alone. Neighboring threads own neighboring columns, so where inner
// is large the reads of a warp are coalesced; in the kernels above they would be `inner` elements apart.
extern "C" __global__ void sum_columns(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    int output = blockIdx.x * blockDim.x + threadIdx.x;
    Piece piece(x, output, outputs, n, inner, chunk);
    wide sum = 0;
    for (int i = 0; i < piece.count; ++i) {
        sum += piece.x[i * inner];
    }
    if (output < outputs) y[piece.to] = sum / divisor;
}

#ifndef SHARE
#define SHARE 8
#endif

// SHARE lanes of a warp -> one piece of one output: for rows so short that a block takes many.
extern "C" __global__ void sum_lanes(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Piece piece(x, i / SHARE, outputs, n, inner, chunk);
    bool whole = inner == 1 && n % LANES == 0 && chunk % LANES == 0;
    wide sum = piece_reduce<SHARE>(piece, whole, i % SHARE, 0, Add());
    if (i % SHARE == 0 && i / SHARE < outputs) y[piece.to] = sum / divisor;
}

// As sum_columns, but a column has blockDim.y threads: block -> one piece of 32 outputs.
extern "C" __global__ void sum_strips(
    const real* x, wide* y, int outputs, int n, int inner, int chunk, wide divisor) {
    int output = blockIdx.x * 32 + threadIdx.x;
    Piece piece(x, output, outputs, n, inner, chunk);
    wide sum = column_reduce(piece.count, 0, piece, Add());
    if (threadIdx.y == 0 && output < outputs) y[piece.to] = sum / divisor;
}

// dx = dy / divisor, repeated along the summed axes. thread -> one element of dx; the view finds its dy.
extern "C" __global__ void sum_backward(const real* dy, real* dx, View dy_at, int size, wide divisor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        dx[i] = dy[dy_at(i)] / divisor;
    }
}

// The same with four elements per thread: see vector.cuh.
extern "C" __global__ void sum_vectorized_backward(const real* dy, real* dx, View dy_at, int size, wide divisor) {
    map(dx, size, [=](wide dy) { return dy / divisor; }, Viewed{dy, dy_at});
}
