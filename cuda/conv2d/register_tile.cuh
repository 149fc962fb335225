// A product in registers whose factors come in tiles, wherever their loaders find them.
#pragma once
#include "async_copy.cuh"
#include "matmul/matrix.cuh"
#include "vector.cuh"

// block -> ROWS x COLUMNS tile of the result.
#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 128
#endif

constexpr int FOUR_WARPS = 128;
template <int ELEMENTS> constexpr int AT_ONCE = 4 - ELEMENTS / 8192;  // blocks of a multiprocessor, by their registers

// The part of a factor that a stage holds: EXTENT rows or columns of the result, DEPTH terms of the sum. RUN: the
// neighbors that a thread copies at once. In memory it has HEIGHT rows of WIDTH. Where they go along the sum, every 128
// bytes are followed by 16 that stay empty: so eight rows, which a warp reads at the same time, lie in different banks.
template <int SIDE, Way WAY, int LENGTH, int BYTES = 64>
struct RegisterTile {
    using T = real;
    static constexpr int EXTENT = SIDE, DEPTH = BYTES / sizeof(real), RUN = LENGTH;
    static constexpr int HEIGHT = WAY == ALONG ? EXTENT : DEPTH, WIDTH = WAY == ALONG ? DEPTH : EXTENT;
    static constexpr int TOGETHER = WAY == ALONG ? 128 / BYTES : 1, PAD = WAY == ALONG ? 16 / sizeof(real) : 0;
    static constexpr int SIZE = HEIGHT * WIDTH + HEIGHT / TOGETHER * PAD;
    static constexpr int ACROSS = WIDTH / RUN, STEP = FOUR_WARPS / ACROSS, RUNS = (HEIGHT + STEP - 1) / STEP;
    static constexpr int NEIGHBORS = WAY == ALONG ? 1 : LANES;  // of the elements that a thread owns
    static_assert(STEP % TOGETHER == 0 && 4 % TOGETHER == 0, "a step leads from a row to one of the same banks");

    static __device__ int place(int row) { return row * WIDTH + row / TOGETHER * PAD; }
    static __device__ int y() { return threadIdx.x / ACROSS; }
    static __device__ int x() { return threadIdx.x % ACROSS * RUN; }

    // Starts to copy run number i of this thread, or zeros.
    static __device__ void copy_run(real* tile, int i, const real* from, bool inside) {
        if (HEIGHT % STEP && y() + i * STEP >= HEIGHT) return;
        real* to = tile + place(y()) + x() + i * place(STEP);
        if constexpr (RUN == 1) copy_async(to, from, inside);
        else copy_async(&vec(to), &vec(from), inside);
    }
    // The row or column number i of the thread that is number `me` of APART.
    template <int APART>
    static __device__ int element(int me, int i) {
        return WAY == ALONG ? me + i * APART : (me + i / LANES * APART) * LANES + i % LANES;
    }
    // Four terms of the COUNT rows or columns of a thread, from `first` on.
    template <int APART, int COUNT>
    static __device__ void fetch(real (&own)[COUNT][LANES], const real* tile, int, int first, int me, int depth) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const real* from = WAY == ALONG ? tile + place(first + me) + place(i * APART) + depth
                                            : tile + place(depth + i % LANES) + first + element<APART>(me, i / LANES * LANES);
            Vec four = vec(from);
#pragma unroll
            for (int j = 0; j < LANES; ++j) (WAY == ALONG ? own[i][j] : own[i / LANES * LANES + j][i % LANES]) = four.at[j];
        }
    }
};

// Two stages in shared memory: one array, whichever runs the tiles are copied in.
template <int SIZE>
__device__ auto& two_stages() {
    __shared__ alignas(16) real tiles[2][SIZE];
    return tiles;
}

// Writes four neighbors of a row from `column` on; those beyond the last of its columns are skipped.
template <int RUN>
__device__ void write(real* row, int column, int columns, const Vec& four) {
    if (RUN == LANES) {
        if (column < columns) vec(row + column) = four;
    } else {
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            if (column + i < columns) row[column + i] = four.at[i];
        }
    }
}

// The sum over `terms` of a's tiles times b's. store(row, column, sum) takes an element, counted from the tile's corner, or
// four neighbors of a row where b's columns are neighbors. While a stage is multiplied, the next one is copied.
// warp -> TALL * 4 rows and 64 columns of the tile; thread -> TALL x 8 elements, in steps of the warp's 4 x 8 threads.
template <class A, class B, class Store>
__device__ void register_product(A a, B b, int terms, Store store) {
    // [own]
    constexpr int WARPS_ACROSS = B::EXTENT / 64, TALL = A::EXTENT * WARPS_ACROSS / 16, DEPTH = A::DEPTH;
    static_assert(TALL <= 16, "a tile has at most 16384 elements: 256 rows go with 64 columns");
    auto& tiles = two_stages<A::SIZE + B::SIZE>();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int top = warp / WARPS_ACROSS * TALL * 4, left = warp % WARPS_ACROSS * 64;
    // A warp is 4 x 8 threads. Lanes i and i ^ 1 share their rows, i and i ^ 2 their columns: then the reads of half a warp
    // are merged into one.
    int y = (lane >> 1 & 1) | (lane >> 3 & 2), x = (lane & 1) | (lane >> 1 & 6);
    real sum[TALL][8] = {};
    auto copy = [&](int stage, int start) {
        a.copy(tiles[stage], start);
        b.copy(tiles[stage] + A::SIZE, start);
        copy_commit();
    };
    copy(0, 0);
    for (int start = 0, stage = 0; start < terms; start += DEPTH, stage ^= 1) {
        // [copy the next stage]
        copy_wait<0>();
        __syncthreads();  // this stage is complete, and the one before has been read by all
        if (start + DEPTH < terms) copy(stage ^ 1, start + DEPTH);
        // [multiply]
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += LANES) {
            real a_own[TALL][LANES], b_own[8][LANES];
            b.template fetch<8>(b_own, tiles[stage] + A::SIZE, start, left, x, depth);
            a.template fetch<4>(a_own, tiles[stage], start, top, y, depth);
#pragma unroll
            for (int i = 0; i < TALL * LANES; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i / LANES][j] += a_own[i / LANES][i % LANES] * b_own[j][i % LANES];
            }
        }
    }
    // [store]
#pragma unroll
    for (int i = 0; i < TALL; ++i) {
#pragma unroll
        for (int j = 0; j < 8; j += B::NEIGHBORS) {
            int row = top + A::template element<4>(y, i), column = left + B::template element<8>(x, j);
            if constexpr (B::NEIGHBORS == 1) store(row, column, sum[i][j]);
            else store(row, column, vec(&sum[i][j]));
        }
    }
}
