#include "common.cuh"

#ifndef TILE
#define TILE 16
#endif

// c = a @ b: (m, k) @ (k, n) -> (m, n). block -> TILE x TILE tile of c; thread -> one element of it.
extern "C" __global__ void matmul_tiled(const real* a, const real* b, real* c, int m, int n, int k) {
    __shared__ real a_tile[TILE][TILE], b_tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    real sum = 0;
    for (int start = 0; start < k; start += TILE) {
        a_tile[ty][tx] = row < m && start + tx < k ? a[row * k + start + tx] : 0;
        b_tile[ty][tx] = start + ty < k && column < n ? b[(start + ty) * n + column] : 0;
        __syncthreads();
        for (int j = 0; j < TILE; ++j) {
            sum += a_tile[ty][j] * b_tile[j][tx];
        }
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
