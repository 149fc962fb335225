// A matrix that is made row by row, and the sums of its columns on the way: so the gradient of a bias reads nothing again.
#pragma once
#include "vector.cuh"

#ifndef ROWS_AT_ONCE
#define ROWS_AT_ONCE 8
#endif

constexpr int STRIP = 32 * PER_THREAD;  // the columns of a block, which has ROWS_AT_ONCE rows at a time

// f(row) for the rows of a thread, gridDim.y * ROWS_AT_ONCE apart.
template <class F>
__device__ void each_row(int rows, F f) {
    for (int row = blockIdx.y * ROWS_AT_ONCE + threadIdx.y; row < rows; row += gridDim.y * ROWS_AT_ONCE) f(row);
}
// f(column) for the columns of a thread, PER_THREAD neighbors, N at a time.
template <int N, class F>
__device__ void each_column(int columns, F f) {
    int first = blockIdx.x * STRIP + threadIdx.x * PER_THREAD;
#pragma unroll
    for (int j = 0; j < PER_THREAD; j += N) {
        if (first + j < columns) f(first + j);
    }
}

// A row of parts (gridDim.y, columns): the sums of a thread's columns, added up over the block.
__device__ inline void write_sums(const wide (&sums)[PER_THREAD], wide* parts, int columns) {
    __shared__ wide all[ROWS_AT_ONCE][STRIP];
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) all[threadIdx.y][threadIdx.x * PER_THREAD + j] = sums[j];
    __syncthreads();
    for (int i = threadIdx.y * 32 + threadIdx.x; i < min(STRIP, columns - (int)blockIdx.x * STRIP); i += 32 * ROWS_AT_ONCE) {
        wide sum = 0;
        for (int j = 0; j < ROWS_AT_ONCE; ++j) sum += all[j][i];
        parts[blockIdx.y * columns + blockIdx.x * STRIP + i] = sum;
    }
}

// y (rows, columns) = f.at<N>(first column)(row), N neighbors at a time, where N divides runs of them in memory: what columns
// share is found once. parts (gridDim.y, columns) = for each column the sum of the block's rows; null: no sums.
template <int N, class F>
__device__ void make_rows(real* y, wide* parts, int columns, int rows, const F& f) {
    wide sums[PER_THREAD] = {};
    int first = blockIdx.x * STRIP + threadIdx.x * PER_THREAD;
    each_column<N>(columns, [&](int column) {
        auto make = f.template at<N>(column);
        each_row(rows, [&](int row) {
            Neighbors<wide, N> own = make(row);
            put(y, row * columns + column, own);
#pragma unroll
            for (int k = 0; k < N; ++k) sums[column - first + k] += own.at[k];
        });
    });
    if (parts) write_sums(sums, parts, columns);
}
