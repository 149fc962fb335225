// Parts of attention by wgmma: tiles that the copy engine brings, and what a lane holds of scores.
#pragma once
#include "attention/flash.cuh"
#include "matmul/hopper.cuh"

// A tile of ROWS rows of q, k, v or dy: boxes of 64 columns, swizzled rows of 128 bytes, one behind the other.
template <int ROWS>
struct Rows {
    static constexpr int BOX = ROWS * 128, SIZE = WIDTH / 64 * BOX;
    static __device__ void copy(unsigned char* tile, const TensorMap& map, int first, int pair, Barrier* full) {
#pragma unroll
        for (int i = 0; i < WIDTH / 64; ++i) copy_box(tile + i * BOX, &map, i * 64, first, pair, full);
    }
    // A factor that begins at this row and column: the sum goes along its rows, or down its columns.
    static __device__ Tile along(const unsigned char* tile, int row, int column) {
        return describe(tile + column / 64 * BOX + row * 128 + column % 64 * 2, 16);
    }
    static __device__ Tile down(const unsigned char* tile, int row, int column = 0) {
        return describe(tile + column / 64 * BOX + row * 128 + column % 64 * 2, BOX);
    }
};

// Places for COUNT tiles of SIZE bytes, which pass from the warp that copies to groups of four warps that multiply. The tile
// number `turn` takes the place of the one COUNT before, when USERS threads have freed that: one of a group for all of them, or
// each for what it has read.
template <int COUNT, int SIZE, int USERS>
struct Ring {
    static constexpr int BYTES = COUNT * (SIZE + 2 * sizeof(Barrier));
    unsigned char* places;
    Barrier *full, *empty;

    __device__ explicit Ring(unsigned char* memory)
        : places(memory), full(reinterpret_cast<Barrier*>(memory + COUNT * SIZE)), empty(full + COUNT) {}
    __device__ void begin(int arrivals) const {
        for (int i = 0; i < COUNT; ++i) barrier_init(&full[i], arrivals), barrier_init(&empty[i], USERS);
    }
    __device__ unsigned char* tile(int turn) const { return places + turn % COUNT * SIZE; }
    // The barrier for the copies to a place, once it is free.
    __device__ Barrier* to_fill(int turn) const {
        if (turn >= COUNT) barrier_wait(&empty[turn % COUNT], (turn / COUNT - 1) % 2);
        return &full[turn % COUNT];
    }
    __device__ void wait(int turn) const { barrier_wait(&full[turn % COUNT], turn / COUNT % 2); }
    __device__ void free(int turn) const { barrier_arrive(&empty[turn % COUNT]); }
};

// Of a result of 64 rows a lane holds pairs of columns, 8 apart, of rows row() and row() + 8. f(i, j, its number) for each
// of row i and column j.
__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int row(int i) { return threadIdx.x / 32 % 4 * 16 + lane() / 4 + i * 8; }
__device__ inline int column(int j) { return j / 2 * 8 + lane() % 4 * 2 + j % 2; }
template <int N, class F>
__device__ void each(float (&c)[N], F f) {
#pragma unroll
    for (int n = 0; n < N; ++n) f(n / 2 % 2, n / 4 * 2 + n % 2, c[n]);
}

// The same numbers as a first factor of products, 16 terms of the sum each.
template <int N>
__device__ void pack(unsigned (&factor)[N / 8][4], const float (&c)[N]) {
#pragma unroll
    for (int n = 0; n < N; n += 2) factor[n / 8][n % 8 / 2] = to_bf16(c[n], c[n + 1]);
}

// c = a @ b^T, 64 rows of a tile from `row` on times all rows of another one: begins.
template <class A, class B, int N>
__device__ void begin_along(float (&c)[N], const unsigned char* a, int row, const unsigned char* b) {
    wgmma_fence(c);
    wgmma<false, false, false>(c, A::along(a, row, 0), B::along(b, 0, 0));
#pragma unroll
    for (int i = 16; i < WIDTH; i += 16) wgmma<false, false>(c, A::along(a, row, i), B::along(b, 0, i));
    wgmma_commit();
}

// c += factor @ b, a factor in registers: begins.
template <class B, int N, int SLICES>
__device__ void begin_down(float (&c)[N], const unsigned (&factor)[SLICES][4], const unsigned char* b) {
    wgmma_fence(c);
#pragma unroll
    for (int i = 0; i < SLICES; ++i) wgmma<true>(c, factor[i], B::down(b, i * 16));
}

// Writes factor times row i of the sums; spoiled: set if they are not finite.
template <int N>
__device__ void store(bfloat16* to, float (&sum)[N], int i, int width, float factor, int* spoiled) {
    float zero = 0;
#pragma unroll
    for (int n = 0; n < N; n += 4) {
        float first = sum[n + i * 2], second = sum[n + i * 2 + 1];
        zero += first * 0 + second * 0;
        write_run(to, column(n / 2), width, Run<bfloat16, 2>{bfloat16(first * factor), bfloat16(second * factor)});
    }
    tell(spoiled, zero);
}

// The softmax of two rows, as in flash_forward: sums are scaled down only where a maximum has grown by more than 2^8.
struct Softmax {
    float unit, most[2] = {-INFINITY, -INFINITY}, total[2] = {}, kept[2];

    __device__ explicit Softmax(float scale) : unit(scale * LOG2_E) {}
    // Makes weights of scores; true if what was summed before now counts kept times as much.
    template <int N>
    __device__ bool weigh(float (&score)[N]) {
        float best[2] = {-INFINITY, -INFINITY}, zero[2], part[2] = {};
        each(score, [&](int i, int, float& s) { best[i] = fmaxf(best[i], s); });
        bool grows = false;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            best[i] = fmaxf(best[i], __shfl_xor_sync(~0u, best[i], 1));
            best[i] = fmaxf(best[i], __shfl_xor_sync(~0u, best[i], 2)) * unit;
            grows |= best[i] > most[i] + 8;
        }
        grows = __any_sync(~0u, grows);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float larger = grows ? fmaxf(most[i], best[i]) : most[i];
            kept[i] = larger == most[i] ? 1 : power_of_two(most[i] - larger);
            most[i] = larger, zero[i] = larger == -INFINITY ? 0 : larger;
        }
        each(score, [&](int i, int, float& s) { part[i] += s = power_of_two(s * unit - zero[i]); });
#pragma unroll
        for (int i = 0; i < 2; ++i) total[i] = total[i] * kept[i] + part[i];
        return grows;
    }
    // Adds up the totals of the lanes that share a row.
    __device__ void finish() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            total[i] += __shfl_xor_sync(~0u, total[i], 1);
            total[i] += __shfl_xor_sync(~0u, total[i], 2);
        }
    }
    // What gradients make the weights from again: they begin from the rounded maximum.
    __device__ float inverse(int i) const { return most[i] == -INFINITY ? 0 : 1 / total[i]; }
    __device__ float peak(int i) const { return most[i] == -INFINITY ? 0 : most[i] * LN_2; }
    __device__ float weight(int i) const { return inverse(i) == 0 ? 0 : power_of_two(peak(i) * LOG2_E - most[i]) * inverse(i); }
};
