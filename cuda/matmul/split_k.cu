#include "matmul/tile_copy.cuh"

#ifndef ROWS
#define ROWS 32
#endif
#ifndef WARPS
#define WARPS 8
#endif

// A small c has few large tiles, so few blocks work, each on a whole sum over k. Here the tiles are small, and the WARPS
// of a block split the sum: block -> ROWS x 32 tile of c; warp -> all of it, for runs of LANES steps of the sum;
// thread -> TALL x WIDE elements. At the end the warps' sums are added up, always in the same order.
constexpr int COLUMNS = 32, THREADS = 32 * WARPS, DEPTH = sizeof(real) == 4 ? 64 : 32;  // steps of a stage
constexpr int SHARING = sizeof(real) == 4 ? WARPS : 8;  // warps that multiply; all copy
constexpr int DOWN = 4, ACROSS = 8, TALL = ROWS / DOWN, WIDE = COLUMNS / ACROSS;  // a warp is 4 rows of 8 threads
constexpr int RESIDENT = sizeof(real) == 4 ? 16 / WARPS : 1;  // blocks whose registers fit on a multiprocessor
static_assert(TALL % LANES == 0 && WIDE % LANES == 0, "ROWS is 16 or 32");

// A tile of SIDE lines, rows of a or columns of b, by DEPTH steps of the sum, laid out in shared memory as in the matrix:
// with ALONG, the steps of a line are neighbors, else the lines of a step are. SHARES groups of threads of a warp split
// the lines.
template <bool ALONG, int SIDE, int SHARES>
struct Lines {
    static constexpr int HEIGHT = ALONG ? SIDE : DEPTH, WIDTH = ALONG ? DEPTH : SIDE, COUNT = SIDE / SHARES;
    using Tile = real[HEIGHT][WIDTH + LANES];
    static constexpr int SIZE = HEIGHT * (WIDTH + LANES);

    // Starts to copy RUN neighbors at a time, with zeros beyond the end of the matrix. `matrix` points at the tile.
    template <int RUN, class T>
    static __device__ void copy(Tile& tile, const real* matrix, int rows, int columns, int width) {
#pragma unroll
        for (int i = 0; i < HEIGHT * WIDTH; i += THREADS * RUN) {
            int at = i + threadIdx.x * RUN, y = at / WIDTH, x = at % WIDTH;
            if (HEIGHT * WIDTH % (THREADS * RUN) == 0 || y < HEIGHT) {
                copy_async((T*)&tile[y][x], (const T*)(matrix + y * width + x), y < rows && x < columns);
            }
        }
    }

    // Copies the lines from `first` on and the steps from `start` on, of a matrix of `lines` by k.
    static __device__ void copy(Tile& tile, const real* matrix, int first, int start, int lines, int k) {
        int y = ALONG ? first : start, x = ALONG ? start : first, width = ALONG ? k : lines;
        int rows = (ALONG ? lines : k) - y, columns = width - x;
        matrix += y * width + x;
        if (width % LANES == 0) copy<LANES, Vec>(tile, matrix, rows, columns, width);
        else copy<1, real>(tile, matrix, rows, columns, width);
    }

    // The i-th line of a group.
    static __device__ int line(int share, int i) {
        return ALONG ? share + i * SHARES : (share + i / LANES * SHARES) * LANES + i % LANES;
    }

    // own[i][j] = the i-th line at step start + j; four neighbors are read at a time.
    static __device__ void fetch(real (&own)[COUNT][LANES], const Tile& tile, int share, int start) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int run = i / LANES * LANES, at = i % LANES;
            Vec four = ALONG ? vec(&tile[line(share, i)][start]) : vec(&tile[start + at][line(share, run)]);
#pragma unroll
            for (int j = 0; j < LANES; ++j) (ALONG ? own[i][j] : own[run + j][at]) = four.at[j];
        }
    }
};

// The product over the steps [first, stop) of the sum; the steps of a stage are within that range, or beyond k.
template <bool A_TRANSPOSED, bool B_TRANSPOSED>
__device__ void product(const real* a, const real* b, real* c, int m, int n, int k, int first, int stop) {
    // [own]
    using A = Lines<!A_TRANSPOSED, ROWS, DOWN>;
    using B = Lines<B_TRANSPOSED, COLUMNS, ACROSS>;
    constexpr int SIZE = A::SIZE + B::SIZE, STAGES = 49152 / sizeof(real) / SIZE;
    __shared__ alignas(16) real memory[STAGES * SIZE];
    auto a_tile = [&](int stage) -> typename A::Tile& { return (typename A::Tile&)memory[stage * SIZE]; };
    auto b_tile = [&](int stage) -> typename B::Tile& { return (typename B::Tile&)memory[stage * SIZE + A::SIZE]; };
    int top = blockIdx.y * ROWS, left = blockIdx.x * COLUMNS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int down = (lane >> 1 & 1) | (lane >> 3 & 2), across = (lane & 1) | (lane >> 1 & 6);  // see warp_tiled.cu
    real sum[TALL][WIDE] = {};
    auto copy = [&](int stage, int start) {
        if (start < stop) {
            A::copy(a_tile(stage), a, top, start, m, k);
            B::copy(b_tile(stage), b, left, start, n, k);
        }
        copy_commit();
    };
    // [fill the pipeline]
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, first + stage * DEPTH);
#pragma unroll 1
    for (int start = first, stage = 0, next = STAGES - 1; start < stop; start += DEPTH) {
        // [copy a stage]
        copy_wait<STAGES - 2>();
        __syncthreads();  // this stage is complete, and the one before has been read by all
        copy(next, start + (STAGES - 1) * DEPTH);
        // [multiply]
#pragma unroll
        for (int step = warp * LANES; step < DEPTH; step += SHARING * LANES) {
            real a_own[TALL][LANES], b_own[WIDE][LANES];
            A::fetch(a_own, a_tile(stage), down, step);
            B::fetch(b_own, b_tile(stage), across, step);
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
#pragma unroll
                for (int y = 0; y < TALL; ++y) {
#pragma unroll
                    for (int x = 0; x < WIDE; ++x) sum[y][x] += a_own[y][i] * b_own[x][i];
                }
            }
        }
        next = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    // [add up the warps' sums]
    auto others = (real(*)[TALL * WIDE][32])memory;
    static_assert(STAGES >= 2 && SHARING / 2 * ROWS * COLUMNS <= STAGES * SIZE, "the sums of half the warps fit");
    #pragma unroll 1
    for (int half = SHARING / 2; half > 0; half /= 2) {
        __syncthreads();
        if (half <= warp && warp < 2 * half) {
#pragma unroll
            for (int i = 0; i < TALL * WIDE; ++i) others[warp - half][i][lane] = sum[i / WIDE][i % WIDE];
        }
        __syncthreads();
        if (warp < half) {
#pragma unroll
            for (int i = 0; i < TALL * WIDE; ++i) sum[i / WIDE][i % WIDE] += others[warp][i][lane];
        }
    }
    // [store]
    if (warp == 0) {
#pragma unroll
        for (int i = 0; i < TALL * WIDE; ++i) {
            int row = top + A::line(down, i / WIDE), column = left + B::line(across, i % WIDE);
            if (row < m && column < n) c[row * n + column] = sum[i / WIDE][i % WIDE];
        }
    }
}

// c = a @ b.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k(
    const real* a, const real* b, real* c, int m, int n, int k, View a_at, View b_at) {
    int batch = blockIdx.z;
    product<false, false>(a + a_at(batch) * m * k, b + b_at(batch) * k * n, c + batch * m * n, m, n, k, 0, k);
}

// da = dy @ b^T: (m, n) @ (n, k). b is read as it is stored.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k_backward_a(
    const real* dy, const real* b, real* da, int m, int n, int k, View dy_at, View b_at) {
    int batch = blockIdx.z;
    product<false, true>(dy + dy_at(batch) * m * n, b + b_at(batch) * k * n, da + batch * m * k, m, k, n, 0, n);
}

// db = a^T @ dy: (k, m) @ (m, n). a is read as it is stored.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k_backward_b(
    const real* a, const real* dy, real* db, int m, int n, int k, View a_at, View dy_at) {
    int batch = blockIdx.z;
    product<true, false>(a + a_at(batch) * m * k, dy + dy_at(batch) * m * n, db + batch * k * n, k, n, m, 0, m);
}

// For a c with fewer tiles than a GPU has multiprocessors, and a long sum: `parts` blocks share a tile, each computes
// `part` steps, a multiple of DEPTH, and writes a partial c, (parts, m, n). sum_strips adds those up, always in the same
// order. first + part may reach 2^31 and more.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k_parts(
    const real* a, const real* b, real* c, int m, int n, int k, int part) {
    unsigned first = blockIdx.z * part;
    product<false, false>(a, b, c + blockIdx.z * m * n, m, n, k, first, min(first + part, (unsigned)k));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k_parts_backward_a(
    const real* dy, const real* b, real* da, int m, int n, int k, int part) {
    unsigned first = blockIdx.z * part;
    product<false, true>(dy, b, da + blockIdx.z * m * k, m, k, n, first, min(first + part, (unsigned)n));
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) matmul_split_k_parts_backward_b(
    const real* a, const real* dy, real* db, int m, int n, int k, int part) {
    unsigned first = blockIdx.z * part;
    product<true, false>(a, dy, db + blockIdx.z * k * n, k, n, m, first, min(first + part, (unsigned)m));
}
