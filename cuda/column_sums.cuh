// A matrix that is made row by row, and the sums of its columns on the way: so the gradient of a bias reads nothing again.
#pragma once
#include "vector.cuh"

constexpr int HEIGHT = 8, STRIP = 32 * PER_THREAD;  // rows of a block at a time, and its columns

// y (rows, columns) = f.at<N>(row, first column), N neighbors at a time, where N divides runs of them in memory; parts
// (gridDim.y, columns) = for each column the sum of a block's rows, gridDim.y * HEIGHT apart; null: no sums.
// thread -> PER_THREAD neighboring columns.
template <int N, class F>
__device__ void make_rows(real* y, wide* parts, int columns, int rows, const F& f) {
    __shared__ wide all[HEIGHT][STRIP];
    int first = blockIdx.x * STRIP + threadIdx.x * PER_THREAD;
    wide sums[PER_THREAD] = {};
    for (int row = blockIdx.y * HEIGHT + threadIdx.y; row < rows; row += gridDim.y * HEIGHT) {
#pragma unroll
        for (int j = 0; j < PER_THREAD; j += N) {
            if (first + j >= columns) continue;
            Neighbors<wide, N> own = f.template at<N>(row, first + j);
            put(y, row * columns + first + j, own);
#pragma unroll
            for (int k = 0; k < N; ++k) sums[j + k] += own.at[k];
        }
    }
    if (!parts) return;
    // [sums of the block]
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) all[threadIdx.y][threadIdx.x * PER_THREAD + j] = sums[j];
    __syncthreads();
    for (int i = threadIdx.y * 32 + threadIdx.x; i < min(STRIP, columns - (int)blockIdx.x * STRIP); i += 32 * HEIGHT) {
        wide sum = 0;
        for (int j = 0; j < HEIGHT; ++j) sum += all[j][i];
        parts[blockIdx.y * columns + blockIdx.x * STRIP + i] = sum;
    }
}
