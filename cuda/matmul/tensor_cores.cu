#include "matmul/mma.cuh"

// block -> ROWS x COLUMNS tile of c, by eight warps; warp -> WARP x WARP of it, in TALL x WIDE pieces of 16 x 8.
constexpr int ROWS = 128, COLUMNS = 256, WARP = 64, THREADS = 256, TALL = WARP / 16, WIDE = WARP / 8;

// What a tensor core takes in bfloat16 and in TF32: the type, how much of k at a time, and what each lane holds of it.
struct Bfloat16 {
    using T = bfloat16;
    static constexpr int DEPTH = 64, STAGES = 3, SLICE = 16, A_PITCH = DEPTH + 8, B_PITCH = COLUMNS + 8, SHARED = 156672;
    unsigned a[TALL][4], b[WIDE / 2][4];

    __device__ void fetch(const T* a_tile, const T* b_tile, int lane) {
#pragma unroll
        for (int y = 0; y < TALL; ++y) load_matrices(a[y], a_tile + (y * 16 + lane % 16) * A_PITCH + lane / 16 * 8);
#pragma unroll
        for (int x = 0; x < WIDE / 2; ++x) load_transposed(b[x], b_tile + lane % 16 * B_PITCH + x * 16 + lane / 16 * 8);
    }
    __device__ void prepare() {}
    __device__ void multiply(float (&c)[4], int y, int x) const {
        mma_bf16(c, a[y], b[x / 2][x % 2 * 2], b[x / 2][x % 2 * 2 + 1]);
    }
    static __device__ T result(float x) { return to_bf16(x); }
};

struct Tf32 {
    using T = float;
    static constexpr int DEPTH = 32, STAGES = 4, SLICE = 8, A_PITCH = DEPTH + 4, B_PITCH = COLUMNS + 8, SHARED = 208896;
    unsigned a[TALL][4], b[WIDE][2];

    __device__ void fetch(const T* a_tile, const T* b_tile, int lane) {
#pragma unroll
        for (int y = 0; y < TALL; ++y) load_matrices(a[y], a_tile + (y * 16 + lane % 16) * A_PITCH + lane / 16 * 4);
#pragma unroll
        for (int x = 0; x < WIDE; ++x) {
            b[x][0] = __float_as_uint(b_tile[lane % 4 * B_PITCH + x * 8 + lane / 4]);
            b[x][1] = __float_as_uint(b_tile[(lane % 4 + 4) * B_PITCH + x * 8 + lane / 4]);
        }
    }
    __device__ void prepare() {  // once the numbers are needed, not when they are asked for
#pragma unroll
        for (int y = 0; y < TALL; ++y) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[y][i] = to_tf32(a[y][i]);
        }
#pragma unroll
        for (int x = 0; x < WIDE; ++x) b[x][0] = to_tf32(b[x][0]), b[x][1] = to_tf32(b[x][1]);
    }
    __device__ void multiply(float (&c)[4], int y, int x) const { mma_tf32(c, a[y], b[x][0], b[x][1]); }
    static __device__ T result(float x) { return x; }
};

// Starts to copy tile[y][x] = matrix[top + y][left + x], zeros outside: 16 bytes at a time where the rows begin at
// multiples of 16 bytes, else, at once, one by one.
template <int HEIGHT, int WIDTH, int PITCH, class T>
__device__ void copy_tile(T* tile, const T* matrix, int top, int left, int rows, int columns) {
    constexpr int RUN = 16 / sizeof(T), RUNS = WIDTH / RUN, STEP = THREADS / RUNS;
    struct alignas(16) Run { T at[RUN]; };
    int y = threadIdx.x / RUNS, x = threadIdx.x % RUNS * RUN, column = left + x;
    tile += y * PITCH + x;
#pragma unroll
    for (int i = 0; i < HEIGHT / STEP; ++i, tile += STEP * PITCH) {
        int row = top + y + i * STEP;
        bool inside = row < rows && column < columns;
        const T* from = matrix + (inside ? row * columns + column : 0);
        if (columns % RUN == 0) {
            copy_async(reinterpret_cast<Run*>(tile), reinterpret_cast<const Run*>(from), inside);
        } else {
            for (int j = 0; j < RUN; ++j) tile[j] = inside && column + j < columns ? from[j] : T(0);
        }
    }
}

// Writes two neighbours, by one instruction where they begin at a multiple of their size.
template <class Unit, class T = typename Unit::T>
__device__ void store(T* c, int row, int column, int rows, int columns, float first, float second) {
    struct alignas(2 * sizeof(T)) Pair { T at[2]; };
    if (row >= rows || column >= columns) return;
    Pair pair = {Unit::result(first), Unit::result(second)};
    c += row * columns + column;
    if (columns % 2 == 0) {
        *reinterpret_cast<Pair*>(c) = pair;
    } else {
        c[0] = pair.at[0];
        if (column + 1 < columns) c[1] = pair.at[1];
    }
}

// The pipeline of matmul_warp_tiled, with tensor cores in the place of a * b + c.
template <class Unit, class T = typename Unit::T>
__device__ void product(const T* a, const T* b, T* c, int m, int n, int k) {
    // [own]
    constexpr int DEPTH = Unit::DEPTH, STAGES = Unit::STAGES, SLICES = DEPTH / Unit::SLICE;
    constexpr int A_SIZE = ROWS * Unit::A_PITCH, STAGE = A_SIZE + DEPTH * Unit::B_PITCH;
    static_assert(STAGES * STAGE * sizeof(T) == Unit::SHARED, "the launch gives so much shared memory");
    extern __shared__ __align__(16) unsigned char memory[];
    T* tiles = reinterpret_cast<T*>(memory);
    // Eight rows of blocks at a time, column by column: blocks that run together read the same rows and columns.
    int block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (8 * gridDim.x) * 8;
    int height = min((int)gridDim.y - band, 8), place = block - band * gridDim.x;
    int top = (band + place % height) * ROWS, left = place / height * COLUMNS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, across = COLUMNS / WARP;
    int down = warp / across * WARP, right = warp % across * WARP;
    float sum[TALL][WIDE][4] = {};
    Unit own[2];
    // [copy a stage]
    auto copy = [&](int stage, int start) {
        T* tile = tiles + stage * STAGE;
        if (start < k) {
            copy_tile<ROWS, DEPTH, Unit::A_PITCH>(tile, a, top, start, m, k);
            copy_tile<DEPTH, COLUMNS, Unit::B_PITCH>(tile + A_SIZE, b, start, left, k, n);
        }
        copy_commit();
    };
    auto fetch = [&](int buffer, int stage, int slice) {
        const T *tile = tiles + stage * STAGE, *b_tile = tile + A_SIZE + slice * Unit::SLICE * Unit::B_PITCH + right;
        own[buffer].fetch(tile + down * Unit::A_PITCH + slice * Unit::SLICE, b_tile, lane);
    };
    // [fill the pipeline]
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * DEPTH);
    copy_wait<STAGES - 2>();
    __syncthreads();
    fetch(0, 0, 0);
    for (int start = 0, reading = 0, writing = STAGES - 1; start < k; start += DEPTH) {
        // [multiply]
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
            own[i % 2].prepare();
#pragma unroll
            for (int y = 0; y < TALL; ++y) {
#pragma unroll
                for (int x = 0; x < WIDE; ++x) own[i % 2].multiply(sum[y][x], y, x);
            }
        }
    }
    // [store]
    int row = top + down + lane / 4, column = left + right + lane % 4 * 2;  // of the first of the lane's pairs
#pragma unroll
    for (int i = 0; i < TALL * WIDE * 2; ++i) {
        int y = i / (WIDE * 2), x = i / 2 % WIDE, half = i % 2;
        store<Unit>(c, row + y * 16 + half * 8, column + x * 8, m, n, sum[y][x][half * 2], sum[y][x][half * 2 + 1]);
    }
}

// c = a @ b, of floats; each number is rounded to TF32 first, which has a relative error of 2^-11 at most.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_tf32(
    const float* a, const float* b, float* c, int m, int n, int k, View a_at, View b_at) {
    int batch = blockIdx.z;
    product<Tf32>(a + a_at(batch) * m * k, b + b_at(batch) * k * n, c + batch * m * n, m, n, k);
}

// c = a @ b, of bfloat16, added up in float and rounded at the end.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_bf16(
    const bfloat16* a, const bfloat16* b, bfloat16* c, int m, int n, int k, View a_at, View b_at) {
    int batch = blockIdx.z;
    product<Bfloat16>(a + a_at(batch) * m * k, b + b_at(batch) * k * n, c + batch * m * n, m, n, k);
}
