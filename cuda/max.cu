#include "partial_reduce.cuh"

// y = the largest x along an axis, with x seen as (rows, n, inner), in passes as in sum.cu. NaN stays.

// block -> one piece of one output; thread -> every BLOCK-th element of it.
extern "C" __global__ void max_warp(const real* x, wide* y, int outputs, int n, int inner, int chunk) {
    Piece piece(x, blockIdx.x, outputs, n, inner, chunk);
    wide most = block_max(piece.count, [=](int i) { return piece.x[i * inner]; });
    if (threadIdx.x == 0) y[piece.to] = most;
}

// thread -> one piece of one output, alone; neighboring threads read neighboring columns.
extern "C" __global__ void max_columns(const real* x, wide* y, int outputs, int n, int inner, int chunk) {
    int output = blockIdx.x * blockDim.x + threadIdx.x;
    Piece piece(x, output, outputs, n, inner, chunk);
    wide most = -INFINITY;
    for (int i = 0; i < piece.count; ++i) {
        most = Max()(most, piece.x[i * inner]);
    }
    if (output < outputs) y[piece.to] = most;
}

// As max_warp, with four neighbors at a time where the piece is one run that begins at a multiple of four.
extern "C" __global__ void max_vectorized(const real* x, wide* y, int outputs, int n, int inner, int chunk) {
    Piece piece(x, blockIdx.x, outputs, n, inner, chunk);
    int fours = inner == 1 && (piece.x - x) % LANES == 0 ? piece.count / LANES : 0, left = fours * LANES;
    wide most = thread_reduce(fours, -INFINITY, [=](int i) {
        Vec four = vec(&piece.x[i * LANES]);
        return Max()(Max()(four.at[0], four.at[1]), Max()(four.at[2], four.at[3]));
    }, Max());
    most = thread_reduce(piece.count - left, most, [=](int i) { return piece.x[(left + i) * inner]; }, Max());
    most = block_reduce(most, Max());
    if (threadIdx.x == 0) y[piece.to] = most;
}

#ifndef SHARE
#define SHARE 8
#endif

// SHARE lanes of a warp -> one piece of one output: for rows so short that a block takes many.
extern "C" __global__ void max_lanes(const real* x, wide* y, int outputs, int n, int inner, int chunk) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Piece piece(x, i / SHARE, outputs, n, inner, chunk);
    bool whole = inner == 1 && n % LANES == 0 && chunk % LANES == 0;
    wide most = piece_reduce<SHARE>(piece, whole, i % SHARE, -INFINITY, Max());
    if (i % SHARE == 0 && i / SHARE < outputs) y[piece.to] = most;
}

// As max_columns, but a column has blockDim.y threads: block -> one piece of 32 outputs.
extern "C" __global__ void max_strips(const real* x, wide* y, int outputs, int n, int inner, int chunk) {
    int output = blockIdx.x * 32 + threadIdx.x;
    Piece piece(x, output, outputs, n, inner, chunk);
    wide most = column_reduce(piece.count, -INFINITY, piece, Max());
    if (threadIdx.y == 0 && output < outputs) y[piece.to] = most;
}

// ties = 1 where x is its maximum, else 0. thread -> one element of x; the view y_at finds its y.
extern "C" __global__ void max_ties(const real* x, const real* y, wide* ties, View y_at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        ties[i] = x[i] == y[y_at(i)] ? 1 : 0;
    }
}

// dx = dy / (number of ties) at a tie, else 0; a choice, since 0 * dy is NaN for infinite dy. thread -> one element of dx.
extern "C" __global__ void max_backward(
    const real* dy, const wide* ties, const wide* number, real* dx, View dy_at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        dx[i] = (ties[i] ? dy[dy_at(i)] : real(0)) / number[dy_at(i)];
    }
}
