#include "matmul/tile_copy.cuh"

#ifndef EDGE
#define EDGE 128
#endif

constexpr int DEPTH = 8, EACH = 8, SIDE = EDGE / EACH, THREADS = SIDE * SIDE;
static_assert(EDGE % (2 * LANES) == 0 && DEPTH * EDGE / LANES % THREADS == 0, "EDGE is 64 or 128");

// c = a @ b. block -> EDGE x EDGE tile of c; thread -> 8 x 8 elements, two runs of four rows by two runs of four columns.
// One instruction moves four neighbors, between global and shared memory and on to registers. The tile of a is stored
// transposed in shared memory, so that rows of a are neighbors there. Where the rows of a matrix are no multiple of four
// long, they do not begin at multiples of 16 bytes, and their elements are read one by one.
extern "C" __global__ void __launch_bounds__(THREADS) matmul_vectorized(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    // [own]
    __shared__ alignas(16) real a_tile[DEPTH][EDGE + LANES], b_tile[DEPTH][EDGE];
    int me = threadIdx.y * SIDE + threadIdx.x, row = threadIdx.y * LANES, column = threadIdx.x * LANES;
    int top = blockIdx.y * EDGE, left = blockIdx.x * EDGE;
    a += a_at(blockIdx.z) * m * k;
    b += b_at(blockIdx.z) * k * n;
    c += blockIdx.z * m * n;
    real sum[EACH][EACH] = {};
    for (int start = 0; start < k; start += DEPTH) {
        // [load tiles]
        for (int i = me * LANES; i < EDGE * DEPTH; i += THREADS * LANES) {
            int y = i / DEPTH, x = i % DEPTH;
            Vec four = read(a, top + y, start + x, m, k);
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) a_tile[x + lane][y] = four.at[lane];
        }
        for (int i = me * LANES; i < EDGE * DEPTH; i += THREADS * LANES) {
            int y = i / EDGE, x = i % EDGE;
            vec(&b_tile[y][x]) = read(b, start + y, left + x, k, n);
        }
        __syncthreads();
        // [multiply]
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            Vec a_own[2], b_own[2];
#pragma unroll
            for (int run = 0; run < 2; ++run) {
                a_own[run] = vec(&a_tile[i][row + run * EDGE / 2]);
                b_own[run] = vec(&b_tile[i][column + run * EDGE / 2]);
            }
#pragma unroll
            for (int y = 0; y < EACH; ++y) {
#pragma unroll
                for (int x = 0; x < EACH; ++x) {
                    sum[y][x] += a_own[y / LANES].at[y % LANES] * b_own[x / LANES].at[x % LANES];
                }
            }
        }
        __syncthreads();
    }
    // [store]
#pragma unroll
    for (int y = 0; y < EACH; ++y) {
#pragma unroll
        for (int run = 0; run < 2; ++run) {
            int to_row = top + row + y / LANES * EDGE / 2 + y % LANES;
            write(c, to_row, left + column + run * EDGE / 2, m, n, vec(&sum[y][run * LANES]));
        }
    }
}
