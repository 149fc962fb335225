// A product on tensor cores, of matrices as they are or with one of them transposed.
#pragma once
#include "matmul/mma.cuh"

// block -> ROWS x COLUMNS tile of c, by eight warps; warp -> WARP x WARP of it, in TALL x FLAT pieces of 16 x 8.
constexpr int ROWS = 128, COLUMNS = 256, WARP = 64, THREADS = 256, TALL = WARP / 16, FLAT = WARP / 8, SHARED = 221184;

// The direction of the sum in a matrix in memory: ALONG its rows, as for a in a @ b, or DOWN its columns, as for b.
enum Way { ALONG, DOWN };

// For each type the terms of the sum in a stage, the number of stages, and the terms that one instruction takes.
template <class T> struct Unit;
template <> struct Unit<bfloat16> { static constexpr int DEPTH = 64, STAGES = 3, SLICE = 16; };
template <> struct Unit<float> { static constexpr int DEPTH = 32, STAGES = 4, SLICE = 8; };

// No instruction transposes 32-bit numbers on their way to the registers. For the first factor a lane needs pairs of
// neighbors, if 16 columns are taken in the order 0, 2, .., 14, 1, 3, .., 15; so for floats the kernel computes
// c^T = b^T @ a^T.
template <class T> constexpr bool SWAPPED = sizeof(T) == 4;

// The part of a matrix that a stage holds: EXTENT rows or columns of c, DEPTH terms of the sum. In memory it has HEIGHT
// rows of WIDTH; with the pitch the simultaneous reads of a warp begin in different banks.
template <class T, int EXTENT, Way WAY>
struct Tile {
    static constexpr int DEPTH = Unit<T>::DEPTH, HEIGHT = WAY == ALONG ? EXTENT : DEPTH, WIDTH = WAY == ALONG ? DEPTH : EXTENT;
    static constexpr int RUN = 16 / sizeof(T), PITCH = WIDTH + (WAY == ALONG ? RUN : 8), SIZE = HEIGHT * PITCH;
    static constexpr int ACROSS = WIDTH / RUN, STEP = THREADS / ACROSS, RUNS = HEIGHT / STEP;
    struct alignas(16) Run { T at[RUN]; };

    // Starts to copy the tile, with zeros beyond the end of the sum. Where rows begin at multiples of 16 bytes, a thread
    // copies 16 bytes per instruction and repeats the last row or column of c beyond the end: their results are never
    // stored, and this saves a test. Elsewhere it copies elements one by one, synchronously.
    template <bool ALIGNED>
    static __device__ void copy(T* tile, const T* matrix, int first, int start, int rows, int columns) {
        int y = threadIdx.x / ACROSS, x = threadIdx.x % ACROSS * RUN;
        int top = y + (WAY == ALONG ? first : start), column = x + (WAY == ALONG ? start : first);
        tile += y * PITCH + x;
#pragma unroll
        for (int i = 0; i < RUNS; ++i, tile += STEP * PITCH) {
            int row = top + i * STEP;
            if (ALIGNED) {
                bool inside = WAY == ALONG ? column < columns : row < rows;
                const T* from = matrix + (WAY == ALONG ? min(row, rows - 1) : row) * columns;
                from += WAY == ALONG ? column : min(column, columns - RUN);
                copy_async(reinterpret_cast<Run*>(tile), reinterpret_cast<const Run*>(from), inside);
            } else {
                bool inside = row < rows && column < columns;
                const T* from = matrix + (inside ? row * columns + column : 0);
#pragma unroll
                for (int j = 0; j < RUN; ++j) tile[j] = inside && column + j < columns ? from[j] : T(0);
            }
        }
    }
    // The first factor of an mma: 16 rows (or columns) of c and a slice of the sum.
    static __device__ void fetch_tall(unsigned (&own)[4], const T* tile, int extent, int slice) {
        int lane = threadIdx.x % 32, half = lane % 8 + lane / 16 * 8, other = lane / 8 % 2;
        if constexpr (WAY == ALONG && !SWAPPED<T>) {
            load_matrices(own, tile + (extent + lane % 16) * PITCH + slice + lane / 16 * RUN);
        } else if constexpr (WAY == ALONG) {
            load_matrices(own, tile + (extent + lane % 8 * 2 + other) * PITCH + slice + lane / 16 * RUN);
        } else if constexpr (!SWAPPED<T>) {
            load_transposed(own, tile + (slice + half) * PITCH + extent + other * 8);
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const T* at = tile + (slice + lane % 4 + i * 4) * PITCH + extent + lane / 4 * 2;
                float2 two = *reinterpret_cast<const float2*>(at);
                own[i * 2] = __float_as_uint(two.x), own[i * 2 + 1] = __float_as_uint(two.y);
            }
        }
    }
    // The second factors of two mma: a slice of the sum and 8 columns (or rows) of c each.
    static __device__ void fetch_flat(unsigned (&own)[4], const T* tile, int extent, int slice) {
        int lane = threadIdx.x % 32, half = lane % 8 + lane / 16 * 8, other = lane / 8 % 2;
        if constexpr (WAY == ALONG) {
            load_matrices(own, tile + (extent + half) * PITCH + slice + other * RUN);
        } else if constexpr (!SWAPPED<T>) {
            load_transposed(own, tile + (slice + lane % 16) * PITCH + extent + lane / 16 * 8);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                own[i] = __float_as_uint(tile[(slice + lane % 4 + i % 2 * 4) * PITCH + extent + lane / 4 + i / 2 * 8]);
            }
        }
    }
};

__device__ inline void multiply(float (&c)[4], const unsigned (&tall)[4], unsigned flat0, unsigned flat1, bfloat16) {
    mma_bf16(c, tall, flat0, flat1);
}
__device__ inline void multiply(float (&c)[4], const unsigned (&tall)[4], unsigned flat0, unsigned flat1, float) {
    mma_tf32(c, tall, flat0, flat1);
}
__device__ inline bfloat16 result(float x, bfloat16) { return to_bf16(x); }
__device__ inline float result(float x, float) { return x; }

// Writes two neighbors, by one instruction where they are aligned to their size.
template <class T>
__device__ void store(T* c, int row, int column, int rows, int columns, float first, float second) {
    struct alignas(2 * sizeof(T)) Pair { T at[2]; };
    if (row >= rows || column >= columns) return;
    Pair pair = {result(first, T()), result(second, T())};
    c += row * columns + column;
    if (columns % 2 == 0) {
        *reinterpret_cast<Pair*>(c) = pair;
    } else {
        c[0] = pair.at[0];
        if (column + 1 < columns) c[1] = pair.at[1];
    }
}

// c = a @ b, m x n, with a sum of length k. The pipeline is that of matmul_warp_tiled: while a stage is multiplied, the
// next ones are in flight, and within it, while a slice is multiplied, the next one is loaded to registers.
template <class T, Way A_WAY, Way B_WAY, bool ALIGNED>
__device__ void product(const T* a, const T* b, T* c, int m, int n, int k) {
    // [own]
    using A = Tile<T, ROWS, A_WAY>;
    using B = Tile<T, COLUMNS, B_WAY>;
    constexpr int DEPTH = Unit<T>::DEPTH, STAGES = Unit<T>::STAGES, SLICE = Unit<T>::SLICE, SLICES = DEPTH / SLICE;
    constexpr int STAGE = A::SIZE + B::SIZE;
    static_assert(STAGES * STAGE * sizeof(T) <= SHARED, "the launch gives so much shared memory");
    extern __shared__ __align__(16) unsigned char memory[];
    T* tiles = reinterpret_cast<T*>(memory);
    // Eight rows of blocks at a time, column by column: blocks that run at the same time read the same rows and columns.
    int block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (8 * gridDim.x) * 8;
    int height = min((int)gridDim.y - band, 8), place = block - band * gridDim.x;
    int top = (band + place % height) * ROWS, left = place / height * COLUMNS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, across = COLUMNS / WARP;
    int down = warp / across * WARP, right = warp % across * WARP;
    float sum[TALL][FLAT][4] = {};
    unsigned tall[2][TALL][4], flat[2][TALL][4];
    // [copy]
    auto copy = [&](int stage, int start) {
        T* tile = tiles + stage * STAGE;
        // With a branch the compiler would not mix the copies with the multiplications. Zeros fill the stage after the
        // last, which is read but not multiplied.
        if (ALIGNED || start - DEPTH < k) {
            A::template copy<ALIGNED>(tile, a, top, start, A_WAY == ALONG ? m : k, A_WAY == ALONG ? k : m);
            B::template copy<ALIGNED>(tile + A::SIZE, b, left, start, B_WAY == ALONG ? n : k, B_WAY == ALONG ? k : n);
        }
        copy_commit();
    };
    auto fetch = [&](int buffer, int stage, int slice) {
        const T *a_tile = tiles + stage * STAGE, *b_tile = a_tile + A::SIZE;
#pragma unroll
        for (int i = 0; i < TALL; ++i) {
            if constexpr (SWAPPED<T>) {
                A::fetch_flat(flat[buffer][i], a_tile, down + i * 16, slice * SLICE);
                B::fetch_tall(tall[buffer][i], b_tile, right + i * 16, slice * SLICE);
            } else {
                A::fetch_tall(tall[buffer][i], a_tile, down + i * 16, slice * SLICE);
                B::fetch_flat(flat[buffer][i], b_tile, right + i * 16, slice * SLICE);
            }
        }
    };
    auto round = [&](int buffer) {  // when the numbers are used, not when they are loaded
        if constexpr (sizeof(T) == sizeof(float)) {
#pragma unroll
            for (int i = 0; i < TALL * 4; ++i) {
                tall[buffer][i / 4][i % 4] = to_tf32(tall[buffer][i / 4][i % 4]);
                flat[buffer][i / 4][i % 4] = to_tf32(flat[buffer][i / 4][i % 4]);
            }
        }
    };
    // [fill the pipeline]
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * DEPTH);
    copy_wait<STAGES - 2>();
    __syncthreads();
    fetch(0, 0, 0);
    for (int start = 0, reading = 0, writing = STAGES - 1; start < k; start += DEPTH) {
        // [move on]
        copy(writing, start + (STAGES - 1) * DEPTH);
        writing = writing + 1 < STAGES ? writing + 1 : 0;
#pragma unroll
        for (int i = 0; i < SLICES; ++i) {
            if (i == SLICES - 1) {
                copy_wait<STAGES - 2>();
                __syncthreads();
                reading = reading + 1 < STAGES ? reading + 1 : 0;
            }
            fetch((i + 1) % 2, reading, (i + 1) % SLICES);
            round(i % 2);
            // [multiply]
            // The second factor stays in registers for all y: in TF32, 667 us instead of 699 at 4096^3.
#pragma unroll
            for (int x = 0; x < FLAT; ++x) {
#pragma unroll
                for (int y = 0; y < TALL; ++y) {
                    const unsigned* second = &flat[i % 2][x / 2][x % 2 * 2];
                    multiply(sum[y][x], tall[i % 2][y], second[0], second[1], T());
                }
            }
        }
    }
    // [store]
    int group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < TALL * FLAT * 2; ++i) {
        int y = i / (FLAT * 2), x = i / 2 % FLAT, half = i % 2;
        if constexpr (SWAPPED<T>) {
            int row = top + down + x * 8 + pair + half, column = left + right + y * 16 + group * 2;
            store(c, row, column, m, n, sum[y][x][half], sum[y][x][2 + half]);
        } else {
            int row = top + down + y * 16 + group + half * 8, column = left + right + x * 8 + pair;
            store(c, row, column, m, n, sum[y][x][half * 2], sum[y][x][half * 2 + 1]);
        }
    }
}

// The product of one pair of matrices of a batch.
template <class T, Way A_WAY, Way B_WAY>
__device__ void matrix(const T* a, const T* b, T* c, int m, int n, int k, const View& a_at, const View& b_at) {
    int batch = blockIdx.z;
    a += a_at(batch) * m * k, b += b_at(batch) * k * n, c += batch * m * n;
    bool aligned = (A_WAY == ALONG ? k : m) * sizeof(T) % 16 == 0 && (B_WAY == ALONG ? k : n) * sizeof(T) % 16 == 0;
    if (aligned) product<T, A_WAY, B_WAY, true>(a, b, c, m, n, k);
    else product<T, A_WAY, B_WAY, false>(a, b, c, m, n, k);
}
