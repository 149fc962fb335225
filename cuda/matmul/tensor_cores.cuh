// A product on tensor cores: of matrices as they are, with one of them transposed, or of other arrays that a loader reads
// as matrices.
#pragma once
#include "matmul/arithmetic.cuh"
#include "matmul/matrix.cuh"

// block -> ROWS x COLUMNS tile of c; warp -> WARP x WIDE of it, in pieces of 16 x 8.
#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 256
#endif
#ifndef WIDE
#define WIDE 64
#endif
constexpr int WARP = 64, WARPS = ROWS / WARP * (COLUMNS / WIDE), THREADS = 32 * WARPS;
// Bytes of shared memory: what a multiprocessor has is shared by blocks with eight warps in all.
constexpr int SHARED = 27648 * WARPS;

// For each type the terms of the sum in a stage and the terms that one instruction takes.
template <class T> struct Unit;
template <> struct Unit<bfloat16> { static constexpr int DEPTH = 64, SLICE = 16; };
template <> struct Unit<float> { static constexpr int DEPTH = 32, SLICE = 8; };

// No instruction transposes 32-bit numbers on their way to the registers. For the first factor a lane needs pairs of
// neighbors, if 16 columns are taken in the order 0, 2, .., 14, 1, 3, .., 15; so for floats the kernel computes
// c^T = b^T @ a^T: b is the first factor of its instructions.
template <class T> constexpr bool SWAPPED = sizeof(T) == 4;

// The part of a factor that a stage holds: EXTENT rows or columns of c, DEPTH terms of the sum. In memory it has HEIGHT
// rows of WIDTH; with the pitch the simultaneous reads of a warp begin in different banks. FIRST: of the factors of an mma.
template <class Type, int EXTENT, Way WAY, bool FIRST>
struct Tile {
    using T = Type;
    static constexpr int DEPTH = Unit<T>::DEPTH, HEIGHT = WAY == ALONG ? EXTENT : DEPTH, WIDTH = WAY == ALONG ? DEPTH : EXTENT;
    static constexpr int RUN = 16 / sizeof(T), PITCH = WIDTH + (WAY == ALONG ? RUN : 8), SIZE = HEIGHT * PITCH;
    static constexpr int ACROSS = WIDTH / RUN, STEP = THREADS / ACROSS, RUNS = HEIGHT / STEP;
    static_assert(STEP * RUNS == HEIGHT && STEP % 16 * (WAY == ALONG) == 0, "each thread copies as many runs");
    struct alignas(16) Run { T at[RUN]; };

    // The runs of this thread: rows y, y + STEP, ... of the tile, from column x on.
    static __device__ int y() { return threadIdx.x / ACROSS; }
    static __device__ int x() { return threadIdx.x % ACROSS * RUN; }

    // The run number i in the tile. Of a first factor of floats the even rows of each 16 come before the odd ones: the
    // order in which a warp fetches them, so that neighbors in the fetch are neighbors in the tile.
    static __device__ T* run(T* tile, int i) {
        int row = y();
        if (WAY == ALONG && FIRST && SWAPPED<T>) row = row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
        return tile + (row + i * STEP) * PITCH + x();
    }
    // Starts to copy 16 bytes to it, or zeros.
    static __device__ void copy_run(T* tile, int i, const T* from, bool inside) {
        copy_async(reinterpret_cast<Run*>(run(tile, i)), reinterpret_cast<const Run*>(from), inside);
    }
    // What a lane holds of the first factor of an mma, 16 rows (or columns) of c and a slice of the sum; or of the second
    // factors of two mma, a slice of the sum and 8 columns (or rows) of c each.
    static __device__ void fetch(unsigned (&own)[4], const T* tile, int extent, int slice) {
        int lane = threadIdx.x % 32, half = lane % 8 + lane / 16 * 8, other = lane / 8 % 2;
        if constexpr (WAY == ALONG && FIRST) {
            load_matrices(own, tile + (extent + lane % 16) * PITCH + slice + lane / 16 * RUN);
        } else if constexpr (WAY == ALONG) {
            load_matrices(own, tile + (extent + half) * PITCH + slice + other * RUN);
        } else if constexpr (!SWAPPED<T> && FIRST) {
            load_transposed(own, tile + (slice + half) * PITCH + extent + other * 8);
        } else if constexpr (!SWAPPED<T>) {
            load_transposed(own, tile + (slice + lane % 16) * PITCH + extent + lane / 16 * 8);
        } else if constexpr (FIRST) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const T* at = tile + (slice + lane % 4 + i * 4) * PITCH + extent + lane / 4 * 2;
                float2 two = *reinterpret_cast<const float2*>(at);
                own[i * 2] = __float_as_uint(two.x), own[i * 2 + 1] = __float_as_uint(two.y);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                own[i] = __float_as_uint(tile[(slice + lane % 4 + i % 2 * 4) * PITCH + extent + lane / 4 + i / 2 * 8]);
            }
        }
    }
};
template <class T, Way WAY> using LeftTile = Tile<T, ROWS, WAY, !SWAPPED<T>>;
template <class T, Way WAY> using RightTile = Tile<T, COLUMNS, WAY, SWAPPED<T>>;

// Two neighbors in memory, which one instruction writes where they are aligned to their size.
template <class T> struct alignas(2 * sizeof(T)) Pair { T at[2]; };

// The sum over `terms` of a's tiles times b's: c's ROWS x COLUMNS tile of this block. store(row, column, first, second)
// takes two neighbors of a row, counted from the tile's corner. The pipeline is that of matmul_warp_tiled: while a stage is
// multiplied, the next ones are in flight, and within it, while a slice is multiplied, the next one is loaded to registers.
template <class Arithmetic, class A, class B, class Store>
__device__ void product(A a, B b, int terms, Store store) {
    // [own]
    using T = typename Arithmetic::T;
    constexpr int DEPTH = Unit<T>::DEPTH, SLICE = Unit<T>::SLICE, SLICES = DEPTH / SLICE;
    constexpr int STAGE = A::SIZE + B::SIZE, FIT = SHARED / (STAGE * sizeof(T)), STAGES = FIT < 4 ? FIT : 4;
    static_assert(STAGES >= 2, "a stage is copied while another is multiplied: take a tile with more warps");
    constexpr int TALL = (SWAPPED<T> ? WIDE : WARP) / 16, FLAT = (SWAPPED<T> ? WARP : WIDE) / 8;
    extern __shared__ __align__(16) unsigned char memory[];
    T* tiles = reinterpret_cast<T*>(memory);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, across = COLUMNS / WIDE;
    int down = warp / across * WARP, right = warp % across * WIDE;
    float sum[TALL][FLAT][4] = {};
    unsigned tall[2][TALL][4], flat[2][FLAT / 2][4];
    // [copy]
    auto copy = [&](int stage, int start) {
        T* tile = tiles + stage * STAGE;
        a.copy(tile, start);
        b.copy(tile + A::SIZE, start);
        copy_commit();
    };
    auto fetch = [&](int buffer, int stage, int slice) {
        const T *a_tile = tiles + stage * STAGE, *b_tile = a_tile + A::SIZE;
#pragma unroll
        for (int i = 0; i < WARP / 16; ++i) {  // of both in turn, as the multiplications will use them
            A::fetch(SWAPPED<T> ? flat[buffer][i] : tall[buffer][i], a_tile, down + i * 16, slice * SLICE);
            if (i >= WIDE / 16) continue;
            B::fetch(SWAPPED<T> ? tall[buffer][i] : flat[buffer][i], b_tile, right + i * 16, slice * SLICE);
        }
    };
    // [fill the pipeline]
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * DEPTH);
    copy_wait<STAGES - 2>();
    __syncthreads();
    fetch(0, 0, 0);
    for (int start = 0, reading = 0, writing = STAGES - 1; start < terms; start += DEPTH) {
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
            // [multiply]
#pragma unroll
            for (int j = 0; j < WARP / 16; ++j) {
                if (j < TALL) Arithmetic::round(tall[i % 2][j]);
                if (j < FLAT / 2) Arithmetic::round(flat[i % 2][j]);
            }
            // The second factor stays in registers for all y: in TF32, 667 us instead of 699 at 4096^3.
#pragma unroll
            for (int x = 0; x < FLAT; ++x) {
#pragma unroll
                for (int y = 0; y < TALL; ++y) Arithmetic::multiply(sum[y][x], tall[i % 2][y], &flat[i % 2][x / 2][x % 2 * 2]);
            }
        }
    }
    // [store]
    int group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < TALL * FLAT * 2; ++i) {
        int y = i / (FLAT * 2), x = i / 2 % FLAT, half = i % 2;
        if constexpr (SWAPPED<T>) {
            store(down + x * 8 + pair + half, right + y * 16 + group * 2, sum[y][x][half], sum[y][x][2 + half]);
        } else {
            store(down + y * 16 + group + half * 8, right + x * 8 + pair, sum[y][x][half * 2], sum[y][x][half * 2 + 1]);
        }
    }
}

// The product of one pair of matrices of a batch. Eight rows of blocks at a time, column by column: blocks that run at the
// same time read the same rows and columns.
template <class Arithmetic, Way A_WAY, Way B_WAY, class C>
__device__ void matrices(
    const typename Arithmetic::T* a, const typename Arithmetic::T* b, C* c, int m, int n, int k,
    const View& a_at, const View& b_at) {
    using T = typename Arithmetic::T;
    int batch = blockIdx.z, block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (8 * gridDim.x) * 8;
    int height = min((int)gridDim.y - band, 8), place = block - band * gridDim.x;
    int top = (band + place % height) * ROWS, left = place / height * COLUMNS;
    a += a_at(batch) * m * k, b += b_at(batch) * k * n, c += batch * m * n;
    auto store = [=](int row, int column, float first, float second) {
        row += top, column += left;
        if (row >= m || column >= n) return;
        Pair<C> pair = {C(first), C(second)};
        C* to = c + row * n + column;
        if (n % 2 == 0) {
            *reinterpret_cast<Pair<C>*>(to) = pair;
        } else {
            to[0] = pair.at[0];
            if (column + 1 < n) to[1] = pair.at[1];
        }
    };
    int a_rows = A_WAY == ALONG ? m : k, a_columns = A_WAY == ALONG ? k : m;
    int b_rows = B_WAY == ALONG ? n : k, b_columns = B_WAY == ALONG ? k : n;
    if (a_columns * sizeof(T) % 16 == 0 && b_columns * sizeof(T) % 16 == 0) {
        Matrix<LeftTile<T, A_WAY>, A_WAY> left_factor(a, top, a_rows, a_columns);
        Matrix<RightTile<T, B_WAY>, B_WAY> right_factor(b, left, b_rows, b_columns);
        product<Arithmetic>(left_factor, right_factor, k, store);
    } else {
        Matrix<LeftTile<T, A_WAY>, A_WAY, false> left_factor(a, top, a_rows, a_columns);
        Matrix<RightTile<T, B_WAY>, B_WAY, false> right_factor(b, left, b_rows, b_columns);
        product<Arithmetic>(left_factor, right_factor, k, store);
    }
}
