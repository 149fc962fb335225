#include "matmul/tile_copy.cuh"

#ifndef EDGE
#define EDGE 128
#endif

constexpr int DEPTH = 8, EACH = 8, SIDE = EDGE / EACH, THREADS = SIDE * SIDE;
static_assert(DEPTH * EDGE / LANES % THREADS == 0, "EDGE is 64 or 128");

// c = a @ b. block -> EDGE x EDGE tile of c; thread -> 8 x 8 elements, as in matmul_vectorized.
// Shared memory holds two tiles of each matrix: while the threads multiply one pair, the next one arrives. The copies
// bypass the registers, and one barrier per step suffices instead of two.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_double_buffered(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    // [own]
    __shared__ alignas(16) real a_tiles[2][DEPTH][EDGE + LANES], b_tiles[2][DEPTH][EDGE];
    int me = threadIdx.y * SIDE + threadIdx.x, row = threadIdx.y * LANES, column = threadIdx.x * LANES;
    int top = blockIdx.y * EDGE, left = blockIdx.x * EDGE;
    a += a_at(blockIdx.z) * m * k;
    b += b_at(blockIdx.z) * k * n;
    c += blockIdx.z * m * n;
    real sum[EACH][EACH] = {};
    // [copy the first tiles]
    auto copy = [&](int buffer, int start) {
        copy_transposed<THREADS, DEPTH, EDGE>(a_tiles[buffer], a, top, start, m, k, me);
        copy_tile<THREADS, DEPTH, EDGE>(b_tiles[buffer], b, start, left, k, n, me);
        copy_commit();
    };
    copy(0, 0);
    for (int start = 0, buffer = 0; start < k; start += DEPTH, buffer ^= 1) {
        // [copy the next tiles]
        copy_wait<0>();
        __syncthreads();  // these tiles are complete, and the ones before have been read by all
        if (start + DEPTH < k) copy(buffer ^ 1, start + DEPTH);
        // [multiply]
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            Vec a_own[2], b_own[2];
#pragma unroll
            for (int run = 0; run < 2; ++run) {
                a_own[run] = vec(&a_tiles[buffer][i][row + run * EDGE / 2]);
                b_own[run] = vec(&b_tiles[buffer][i][column + run * EDGE / 2]);
            }
#pragma unroll
            for (int y = 0; y < EACH; ++y) {
#pragma unroll
                for (int x = 0; x < EACH; ++x) sum[y][x] += a_own[y / LANES].at[y % LANES] * b_own[x / LANES].at[x % LANES];
            }
        }
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
