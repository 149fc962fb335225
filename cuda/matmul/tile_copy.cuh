// Loads, stores and asynchronous copies of matrix tiles: four neighbors at a time, for matrices of any size.
#pragma once
#include "async_copy.cuh"
#include "vector.cuh"

// The four elements from (row, column) on; elements outside of the rows x columns matrix are 0.
__device__ inline Vec read(const real* matrix, int row, int column, int rows, int columns) {
    Vec four = {};
    if (row < rows && column < columns) {
        const real* first = matrix + row * columns + column;
        if (columns % LANES == 0) return vec(first);  // then every row begins at a multiple of 16 bytes
        for (int i = 0; i < LANES && column + i < columns; ++i) four.at[i] = first[i];
    }
    return four;
}

// Writes four elements from (row, column) on; those outside of the matrix are skipped.
__device__ inline void write(real* matrix, int row, int column, int rows, int columns, const Vec& four) {
    if (row < rows && column < columns) {
        real* first = matrix + row * columns + column;
        if (columns % LANES == 0) {
            vec(first) = four;
        } else {
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if (column + i < columns) first[i] = four.at[i];
            }
        }
    }
}

// Starts to copy tile[y][x] = matrix[top + y][left + x]. Rows beyond the last are zeros: the sum goes along them. A column
// beyond the last repeats the last one: its results are never stored.
template <int THREADS, int DEPTH, int WIDTH, int PITCH>
__device__ void copy_tile(real (&tile)[DEPTH][PITCH], const real* matrix, int top, int left, int rows, int columns, int me) {
    constexpr int ROW = WIDTH / LANES;
    if (columns % LANES == 0) {
#pragma unroll
        for (int i = 0; i < DEPTH * ROW / THREADS; ++i) {
            int y = me / ROW + i * (THREADS / ROW), x = me % ROW * LANES;
            const real* from = matrix + (top + y) * columns + min(left + x, columns - LANES);
            copy_async(&vec(&tile[y][x]), &vec(from), top + y < rows);
        }
    } else {
#pragma unroll
        for (int i = 0; i < DEPTH * WIDTH / THREADS; ++i) {
            int y = (me + i * THREADS) / WIDTH, x = (me + i * THREADS) % WIDTH;
            const real* from = matrix + (top + y) * columns + min(left + x, columns - 1);
            copy_async(&tile[y][x], from, top + y < rows);
        }
    }
}

// Starts to copy tile[x][y] = matrix[top + y][left + x]. Here the sum goes along the columns of the matrix. Elements are
// copied one by one, since neighbors in memory are far apart in the tile.
template <int THREADS, int DEPTH, int WIDTH, int PITCH>
__device__ void copy_transposed(real (&tile)[DEPTH][PITCH], const real* matrix, int top, int left, int rows, int columns, int me) {
    int x = me % DEPTH;
#pragma unroll
    for (int i = 0; i < DEPTH * WIDTH / THREADS; ++i) {
        int y = me / DEPTH + i * (THREADS / DEPTH);
        copy_async(&tile[x][y], matrix + min(top + y, rows - 1) * columns + left + x, left + x < columns);
    }
}
