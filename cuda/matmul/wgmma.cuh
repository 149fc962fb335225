// A product by wgmma, of matrices as they are or with one of them transposed.
#pragma once
#include "matmul/hopper.cuh"

// block -> tiles of ROWS x COLUMNS of c, one after another, so that it copies the next tile's factors while it stores. Of
// its three groups of four warps two multiply, each 64 rows, and one thread of the third feeds the copy engine. A stage,
// DEPTH terms of the sum of a and of b, 128 bytes, passes from the third group to the others. Wide tiles read the least,
// narrower ones leave fewer multiprocessors idle in the last turn.
#ifndef COLUMNS
#define COLUMNS 256
#endif
constexpr int ROWS = 128, STAGES = 4, GROUP = 128, BAND = 8, SHARED = 196672, BYTES = 128, MINE = COLUMNS / 2;
constexpr int STAGE = (ROWS + (COLUMNS + 63) / 64 * 64) * BYTES;
static_assert(STAGES * (STAGE + 2 * sizeof(Barrier)) <= SHARED, "the launch gives so much shared memory");

// The part of a matrix in a stage: EXTENT rows or columns of c. ALONG: the sum goes along the rows of the matrix in
// memory, so one box holds them all; else it goes down the columns, and each box holds 64 columns, 128 bytes.
template <class T, int EXTENT, bool ALONG>
struct Operand {
    static constexpr int DEPTH = BYTES / sizeof(T), SIZE = (ALONG ? EXTENT : (EXTENT + 63) / 64 * 64) * DEPTH;
    static __device__ void copy(T* tile, const TensorMap* map, int first, int start, int matrix, Barrier* full) {
        if (ALONG) {
            copy_box(tile, map, start, first, matrix, full);
        } else {
#pragma unroll
            for (int i = 0; i < EXTENT; i += 64) copy_box(tile + i * DEPTH, map, first + i, start, matrix, full);
        }
    }
    static __device__ Tile slice(const T* tile, int start) {
        return ALONG ? describe(tile + start, 16) : describe(tile + start * 64, DEPTH * 128);
    }
};

// Each of four lanes has a pair of columns of each of four groups of 8. They exchange pairs, so that each has 8 neighbors.
__device__ inline uint4 exchange(unsigned (&pair)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {  // the elements off the diagonal of 2 x 2 blocks are swapped
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & bit) continue;
            unsigned given = __shfl_xor_sync(~0u, upper ? pair[i] : pair[i + bit], bit);
            (upper ? pair[i] : pair[i + bit]) = given;
        }
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

// The products of a stage: 32 bytes of a's and b's terms at once.
template <class A, class B, bool A_ALONG, bool B_ALONG>
__device__ void multiply(float (&sum)[MINE], const bfloat16* a_tile, const bfloat16* b_tile) {
#pragma unroll
    for (int i = 0; i < A::DEPTH; i += 16) wgmma<!A_ALONG, !B_ALONG>(sum, A::slice(a_tile, i), B::slice(b_tile, i));
}
template <class A, class B, bool A_ALONG, bool B_ALONG>
__device__ void multiply(float (&sum)[MINE], const float* a_tile, const float* b_tile) {
    static_assert(A_ALONG && B_ALONG, "the instruction takes TF32 with the sum along the rows of both");
#pragma unroll
    for (int i = 0; i < A::DEPTH; i += 8) wgmma_tf32(sum, A::slice(a_tile, i), B::slice(b_tile, i));
}

// Stores a lane's sums of row `row` and row + 8, pairs 8 columns apart.
__device__ inline void store(float (&sum)[MINE], bfloat16* c, int row, int left, int m, int n, int lane) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 16; ++i) {  // 32 columns of one of two rows
        int y = row + i % 2 * 8, x = left + i / 2 * 32 + lane % 4 * 8;
        unsigned pair[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float* first = &sum[(i / 2 * 4 + j) * 4 + i % 2 * 2];
            pair[j] = to_bf16(first[0], first[1]);
        }
        uint4 eight = exchange(pair, lane);
        if (y < m && x < n) *reinterpret_cast<uint4*>(&c[y * n + x]) = eight;
    }
}
__device__ inline void store(float (&sum)[MINE], float* c, int row, int left, int m, int n, int lane) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i) {
        int y = row + i % 2 * 8, x = left + i / 2 * 8 + lane % 4 * 2;
        if (y < m && x < n) *reinterpret_cast<float2*>(&c[y * n + x]) = make_float2(sum[i * 2], sum[i * 2 + 1]);
    }
}
// The same one by one, where rows of c begin anywhere.
template <class C>
__device__ void store_each(float (&sum)[MINE], C* c, int row, int left, int m, int n, int lane) {
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        int y = row + i / 2 % 2 * 8, x = left + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (y < m && x < n) c[y * n + x] = C(sum[i]);
    }
}

// c = a @ b, m x n, with a sum of length k, for `count` matrices; or the parts of one sum, of `chunk` terms each.
template <class T, bool A_ALONG, bool B_ALONG, class C>
__device__ void product(
    const TensorMap& a, const TensorMap& b, C* c, int m, int n, int k, int count, const View& a_at, const View& b_at,
    int chunk = 0) {
    using A = Operand<T, ROWS, A_ALONG>;
    using B = Operand<T, COLUMNS, B_ALONG>;
    constexpr int DEPTH = A::DEPTH, ELEMENTS = A::SIZE + B::SIZE;
    extern __shared__ __align__(1024) unsigned char memory[];
    T* stages = reinterpret_cast<T*>(memory);
    Barrier *full = reinterpret_cast<Barrier*>(memory + STAGES * STAGE), *empty = full + STAGES;
    int group = threadIdx.x / GROUP, across = (n + COLUMNS - 1) / COLUMNS, down = (m + ROWS - 1) / ROWS;
    int steps = ((chunk ? chunk : k) + DEPTH - 1) / DEPTH, turn = 0;  // counts the stages through all tiles
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&full[stage], 1), barrier_init(&empty[stage], 2);
        barriers_ready();
    }
    __syncthreads();
    for (int tile = blockIdx.x; tile < across * down * count; tile += gridDim.x) {
        // [own]
        // Eight rows of tiles at a time, column by column: blocks that run at the same time read the same rows and columns.
        int matrix = tile / (across * down), at = tile % (across * down), band = at / (BAND * across) * BAND;
        int height = min(down - band, BAND), place = at - band * across;
        int top = (band + place % height) * ROWS, left = place / height * COLUMNS;
        // [copy]
        if (group == 2) {
            if (threadIdx.x != 2 * GROUP) return;
            int a_matrix = a_at(matrix), b_matrix = b_at(matrix), start = chunk * matrix;
            for (int step = 0; step < steps; ++step, ++turn, start += DEPTH) {
                int stage = turn % STAGES, round = turn / STAGES;
                T* to = stages + stage * ELEMENTS;
                if (round > 0) barrier_wait(&empty[stage], (round - 1) % 2);
                barrier_expect(&full[stage], ELEMENTS * sizeof(T));
                A::copy(to, &a, top, start, a_matrix, &full[stage]);
                B::copy(to + A::SIZE, &b, left, start, b_matrix, &full[stage]);
            }
            continue;
        }
        // [multiply]
        float sum[MINE] = {};
        for (int step = 0; step < steps; ++step, ++turn) {
            int stage = turn % STAGES;
            const T* a_tile = stages + stage * ELEMENTS + group * 64 * DEPTH;
            const T* b_tile = stages + stage * ELEMENTS + A::SIZE;
            barrier_wait(&full[stage], turn / STAGES % 2);
            wgmma_fence(sum);
            multiply<A, B, A_ALONG, B_ALONG>(sum, a_tile, b_tile);
            wgmma_commit();
            wgmma_wait<1>(sum);  // the products of the step before are complete: its stage is free
            if (step > 0 && threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
        }
        wgmma_wait<0>(sum);
        if (threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
        // [store]
        int lane = threadIdx.x % 32, row = top + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        if (n * sizeof(C) % 16 == 0) store(sum, c + matrix * m * n, row, left, m, n, lane);
        else store_each(sum, c + matrix * m * n, row, left, m, n, lane);
    }
}
