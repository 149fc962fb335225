// A matrix in memory as a factor of a product: which way the sum goes in it, and a loader of its tiles.
#pragma once
#include "common.cuh"

// The direction of the sum in a matrix in memory: ALONG its rows, as for a in a @ b, or DOWN its columns, as for b.
enum Way { ALONG, DOWN };

// A loader of the tiles of a matrix, rows x columns, from its row or column `first` on. A product calls copy for one stage
// after the other: it starts to copy a tile, from term `start` on, with zeros beyond the end of the sum. Where rows begin
// at multiples of 16 bytes, a thread copies 16 bytes per instruction and repeats the last row or column of c beyond the
// end: their results are never stored, and this saves a test. Elsewhere it copies elements one by one, synchronously.
template <class Its, Way WAY, bool ALIGNED = true>
struct Matrix : Its {
    using T = typename Its::T;
    const T* matrix;
    int first, rows, columns;
    __device__ Matrix(const T* matrix, int first, int rows, int columns)
        : matrix(matrix), first(first), rows(rows), columns(columns) {}

    __device__ void copy(T* tile, int start) const {
        constexpr int RUN = Its::RUN;
        int top = Its::y() + (WAY == ALONG ? first : start), column = Its::x() + (WAY == ALONG ? start : first);
#pragma unroll
        for (int i = 0; i < Its::RUNS; ++i) {
            int row = top + i * Its::STEP;
            if constexpr (ALIGNED) {
                bool inside = WAY == ALONG ? column < columns : row < rows;
                const T* from = matrix + (WAY == ALONG ? min(row, rows - 1) : row) * columns;
                Its::copy_run(tile, i, from + (WAY == ALONG ? column : min(column, columns - RUN)), inside);
            } else {
                bool inside = row < rows && column < columns;
                const T* from = matrix + (inside ? row * columns + column : 0);
                T* to = Its::run(tile, i);
#pragma unroll
                for (int j = 0; j < RUN; ++j) to[j] = inside && column + j < columns ? from[j] : T(0);
            }
        }
    }
};
