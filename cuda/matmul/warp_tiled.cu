#include "matmul/tile_copy.cuh"

#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 128
#endif

// block -> ROWS x COLUMNS tile of c; each of its four warps -> a quarter; thread -> TALL x WIDE elements, in runs of four.
constexpr int THREADS = 128, TALL = ROWS / 2 / 4, WIDE = COLUMNS / 2 / 8;  // a warp is 4 rows of 8 threads
static_assert(TALL % LANES == 0 && WIDE % LANES == 0, "ROWS is a multiple of 32 and COLUMNS of 64");

// DEPTH: the terms of the sum in a stage. PAD: extra elements per row of a tile, since a transposing copy writes down a
// column, whose elements then lie in different banks.
struct AsItLies {
    static constexpr int DEPTH = sizeof(real) == 4 ? 1024 / ROWS : 8, STAGES = sizeof(real) == 4 ? (ROWS < 128 ? 3 : 4) : 2;
    static constexpr int PAD = LANES;
};
// Without padding a stage may be twice as deep in the 48 KB of a block, so there are half as many barriers: 2764 us, not 2885.
struct Packed { static constexpr int DEPTH = 64 / sizeof(real), STAGES = 3, PAD = 0; };

// The product, as a pipeline: while the threads multiply numbers in registers, the next ones are loaded from shared
// memory, and STAGES - 1 tiles are in flight from global memory. The tile of a warp is compact: the warp reads few
// different numbers, and many threads share each read. The rows of a and b are a_width and b_width long. The loop has no
// branch for the end of the sum: tiles beyond it are zeros, and the last numbers fetched are never used. With a branch
// the compiler no longer moves the reads between the multiplications: 4096^3 took 3047 us instead of 2897 on an H200
// (minigrad bench --only matmul, 2026-11-21).
template <class Stage, bool A_TRANSPOSED, bool B_TRANSPOSED>
__device__ void product(const real* a, const real* b, real* c, int m, int n, int k, int a_width, int b_width) {
    // [own]
    constexpr int DEPTH = Stage::DEPTH, STAGES = Stage::STAGES, PAD = Stage::PAD;
    __shared__ alignas(16) real a_tiles[STAGES][DEPTH][ROWS + PAD], b_tiles[STAGES][DEPTH][COLUMNS + PAD];
    int top = blockIdx.y * ROWS, left = blockIdx.x * COLUMNS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Lanes i and i ^ 1 share their rows, i and i ^ 2 their columns: then the reads of half a warp are merged into one.
    int row = warp / 2 * (ROWS / 2) + ((lane >> 1 & 1) | (lane >> 3 & 2)) * LANES;
    int column = warp % 2 * (COLUMNS / 2) + ((lane & 1) | (lane >> 1 & 6)) * LANES;
    real sum[TALL][WIDE] = {};
    Vec a_own[2][TALL / LANES], b_own[2][WIDE / LANES];
    // [copy a stage]
    auto copy = [&](int stage, int start) {
        if (A_TRANSPOSED) copy_tile<THREADS, DEPTH, ROWS>(a_tiles[stage], a, start, top, k, a_width, threadIdx.x);
        else copy_transposed<THREADS, DEPTH, ROWS>(a_tiles[stage], a, top, start, m, a_width, threadIdx.x);
        if (B_TRANSPOSED) copy_transposed<THREADS, DEPTH, COLUMNS>(b_tiles[stage], b, left, start, n, b_width, threadIdx.x);
        else copy_tile<THREADS, DEPTH, COLUMNS>(b_tiles[stage], b, start, left, k, b_width, threadIdx.x);
        copy_commit();
    };
    // [fetch from shared memory]
    auto fetch = [&](int buffer, int stage, int i) {
#pragma unroll
        for (int y = 0; y < TALL; y += LANES) a_own[buffer][y / LANES] = vec(&a_tiles[stage][i][row + y * 4]);
#pragma unroll
        for (int x = 0; x < WIDE; x += LANES) b_own[buffer][x / LANES] = vec(&b_tiles[stage][i][column + x * 8]);
    };
    // [fill the pipeline]
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * DEPTH);
    copy_wait<STAGES - 2>();
    __syncthreads();
    fetch(0, 0, 0);
    // [multiply]
    auto step = [&](int buffer, int stage, int next) {
        fetch(1 - buffer, stage, next);
#pragma unroll
        for (int y = 0; y < TALL; ++y) {
#pragma unroll
            for (int x = 0; x < WIDE; ++x) {
                sum[y][x] += a_own[buffer][y / LANES].at[y % LANES] * b_own[buffer][x / LANES].at[x % LANES];
            }
        }
    };
    for (int start = 0, reading = 0, writing = STAGES - 1; start < k; start += DEPTH) {
        copy(writing, start + (STAGES - 1) * DEPTH);
        writing = (writing + 1) % STAGES;
#pragma unroll
        for (int i = 0; i < DEPTH - 1; ++i) step(i % 2, reading, i + 1);
        copy_wait<STAGES - 2>();  // the next numbers belong to the next stage
        __syncthreads();
        reading = (reading + 1) % STAGES;
        step((DEPTH - 1) % 2, reading, 0);
    }
    // [store]
#pragma unroll
    for (int y = 0; y < TALL; ++y) {
#pragma unroll
        for (int x = 0; x < WIDE; x += LANES) {
            write(c, top + row + y / LANES * 4 * LANES + y % LANES, left + column + x * 8, m, n, vec(&sum[y][x]));
        }
    }
}

// c = a @ b.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_warp_tiled(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    int batch = blockIdx.z;
    product<AsItLies, false, false>(a + a_at(batch) * m * k, b + b_at(batch) * k * n, c + batch * m * n, m, n, k, k, n);
}

// da = dy @ b^T: (m, n) @ (n, k). b is read as it is stored.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_warp_tiled_backward_a(
    const real* dy, const real* b, real* da, int m, int n, int k, View dy_at, View b_at) {
    int batch = blockIdx.z;
    product<AsItLies, false, true>(dy + dy_at(batch) * m * n, b + b_at(batch) * k * n, da + batch * m * k, m, k, n, n, n);
}

// db = a^T @ dy: (k, m) @ (m, n). a is read as it is stored.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_warp_tiled_backward_b(
    const real* a, const real* dy, real* db, int m, int n, int k, View a_at, View dy_at) {
    int batch = blockIdx.z;
    product<AsItLies, true, false>(a + a_at(batch) * m * k, dy + dy_at(batch) * m * n, db + batch * k * n, k, n, m, k, n);
}

// c = a @ b, of packed copies: that of a is transposed, (k, m), and the rows of both begin at multiples of four; they are
// 4 * a_fours and 4 * b_fours long. So all tiles are copied in fours, at the price of packing k (m + n) elements for
// m n k multiplications.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_packed(
    const real* a, const real* b, real* c, int m, int n, int k, int a_fours, int b_fours) {
    product<Packed, true, false>(a, b, c, m, n, k, a_fours * LANES, b_fours * LANES);
}
