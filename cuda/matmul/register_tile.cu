#include "common.cuh"

#ifndef EDGE
#define EDGE 128
#endif
#ifndef EACH
#define EACH 8
#endif

// Both kernels: block -> EDGE x EDGE tile of c = a @ b. Shared memory holds DEPTH columns of a and DEPTH rows of b at
// a time. matmul_tiled reads two numbers there for each multiplication; registers are faster.
constexpr int DEPTH = 8;
static_assert(EDGE % EACH == 0, "EACH divides EDGE");

// thread -> EACH elements of a column of c. A number of b is read from shared memory once and used EACH times.
extern "C" __global__ void matmul_register_tile_1d(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    // [own]
    __shared__ real a_tile[EDGE][DEPTH], b_tile[DEPTH][EDGE];
    constexpr int THREADS = EDGE * EDGE / EACH;
    int me = threadIdx.y * EDGE + threadIdx.x;
    int top = blockIdx.y * EDGE, left = blockIdx.x * EDGE, row = threadIdx.y * EACH, column = threadIdx.x;
    a += a_at(blockIdx.z) * m * k;
    b += b_at(blockIdx.z) * k * n;
    c += blockIdx.z * m * n;
    real sum[EACH] = {};
    for (int start = 0; start < k; start += DEPTH) {
        // [load tiles]
        for (int i = me; i < EDGE * DEPTH; i += THREADS) {
            int y = i / DEPTH, x = i % DEPTH;
            a_tile[y][x] = top + y < m && start + x < k ? a[(top + y) * k + start + x] : 0;
        }
        for (int i = me; i < EDGE * DEPTH; i += THREADS) {
            int y = i / EDGE, x = i % EDGE;
            b_tile[y][x] = start + y < k && left + x < n ? b[(start + y) * n + left + x] : 0;
        }
        __syncthreads();
        // [multiply]
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            real b_own = b_tile[i][column];
#pragma unroll
            for (int y = 0; y < EACH; ++y) sum[y] += a_tile[row + y][i] * b_own;
        }
        __syncthreads();
    }
    // [store]
#pragma unroll
    for (int y = 0; y < EACH; ++y) {
        if (top + row + y < m && left + column < n) c[(top + row + y) * n + left + column] = sum[y];
    }
}

// thread -> EACH x EACH elements of c. For EACH * EACH multiplications it reads 2 * EACH numbers: with EACH = 8, one for four.
// Its rows and columns are EDGE / EACH apart, so that neighboring threads read and write neighbors.
extern "C" __global__ void __launch_bounds__(EDGE * EDGE / EACH / EACH) matmul_register_tile_2d(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    // [own]
    __shared__ real a_tile[EDGE][DEPTH + 1], b_tile[DEPTH][EDGE];  // + 1: see transpose_padded
    constexpr int SIDE = EDGE / EACH, THREADS = SIDE * SIDE;
    int row = threadIdx.y, column = threadIdx.x, me = row * SIDE + column;
    int top = blockIdx.y * EDGE, left = blockIdx.x * EDGE;
    a += a_at(blockIdx.z) * m * k;
    b += b_at(blockIdx.z) * k * n;
    c += blockIdx.z * m * n;
    real sum[EACH][EACH] = {};
    for (int start = 0; start < k; start += DEPTH) {
        // [load tiles]
        for (int i = me; i < EDGE * DEPTH; i += THREADS) {
            int y = i / DEPTH, x = i % DEPTH;
            a_tile[y][x] = top + y < m && start + x < k ? a[(top + y) * k + start + x] : 0;
        }
        for (int i = me; i < EDGE * DEPTH; i += THREADS) {
            int y = i / EDGE, x = i % EDGE;
            b_tile[y][x] = start + y < k && left + x < n ? b[(start + y) * n + left + x] : 0;
        }
        __syncthreads();
        // [multiply]
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            real a_own[EACH], b_own[EACH];
#pragma unroll
            for (int y = 0; y < EACH; ++y) a_own[y] = a_tile[row + y * SIDE][i];
#pragma unroll
            for (int x = 0; x < EACH; ++x) b_own[x] = b_tile[i][column + x * SIDE];
#pragma unroll
            for (int y = 0; y < EACH; ++y) {
#pragma unroll
                for (int x = 0; x < EACH; ++x) sum[y][x] += a_own[y] * b_own[x];
            }
        }
        __syncthreads();
    }
    // [store]
#pragma unroll
    for (int y = 0; y < EACH; ++y) {
#pragma unroll
        for (int x = 0; x < EACH; ++x) {
            int to_row = top + row + y * SIDE, to_column = left + column + x * SIDE;
            if (to_row < m && to_column < n) c[to_row * n + to_column] = sum[y][x];
        }
    }
}
