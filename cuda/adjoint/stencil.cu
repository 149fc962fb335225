#include "common.cuh"

#ifndef TILE
#define TILE 8
#endif

// y = k * (sum of the four neighbors - 4 x), with 0 outside. thread -> one point of the grid.
extern "C" __global__ void laplacian(const real* x, real k, real* y, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < columns) {
        real sum = -4 * x[r * columns + c];
        if (r > 0) sum += x[(r - 1) * columns + c];
        if (r < rows - 1) sum += x[(r + 1) * columns + c];
        if (c > 0) sum += x[r * columns + c - 1];
        if (c < columns - 1) sum += x[r * columns + c + 1];
        y[r * columns + c] = k * sum;
    }
}

// The same. block -> TILE x TILE points, which it loads with a border of one point on each side.
extern "C" __global__ void laplacian_tiled(const real* x, real k, real* y, int rows, int columns) {
    __shared__ real tile[TILE + 2][TILE + 2];
    int tx = threadIdx.x, ty = threadIdx.y;
    int c = blockIdx.x * TILE + tx, r = blockIdx.y * TILE + ty;
    for (int i = ty; i < TILE + 2; i += TILE) {
        for (int j = tx; j < TILE + 2; j += TILE) {
            int row = blockIdx.y * TILE + i - 1, column = blockIdx.x * TILE + j - 1;
            bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
            tile[i][j] = inside ? x[row * columns + column] : 0;
        }
    }
    __syncthreads();
    if (r < rows && c < columns) {
        real sum = tile[ty][tx + 1] + tile[ty + 2][tx + 1] + tile[ty + 1][tx] + tile[ty + 1][tx + 2];
        y[r * columns + c] = k * (sum - 4 * tile[ty + 1][tx + 1]);
    }
}
