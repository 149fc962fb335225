#include "partial_reduce.cuh"

#ifndef SHARE
#define SHARE 32
#endif
#ifndef HEIGHT
#define HEIGHT 128
#endif

// y = matrix @ x or x @ matrix: each element of the matrix is used once, so these are sums along its rows or down its
// columns, in pieces as in sum.cu, and take as long as reading it. blockIdx.z counts the products of a batch.
constexpr int THREADS = 256;
constexpr int AHEAD = 32 / sizeof(wide);  // rows that a thread loads before it uses the first
static_assert(SHARE <= 32 || SHARE == THREADS, "a row has lanes of one warp, or a block");
static_assert(HEIGHT % 4 == 0 && HEIGHT <= 128, "a row of 32 columns has 8 threads, and a block whole warps");

__device__ inline bool begins_four(const real* x) { return (unsigned long long)x % alignof(Vec) == 0; }

// A sum that one block has made is an element of y; where blocks share it, `sums` gets a part, for matmul_vector_parts.
__device__ inline void put(real* y, wide* sums, int at, wide sum) {
    if (sums) sums[at] = sum;
    else y[at] = real(sum);
}

// y[i] = sum of matrix[i, l] x[l]: SHARE threads -> one piece of a row, four neighbors at a time where those of the
// matrix and of x are aligned to their size.
extern "C" __global__ void __launch_bounds__(THREADS) matmul_vector_rows(
    const real* matrix, const real* x, real* y, wide* sums, int rows, int n, int chunk, View matrix_at, View x_at) {
    // [find the piece]
    int row = blockIdx.x * (THREADS / SHARE) + threadIdx.x / SHARE, share = threadIdx.x % SHARE;
    Piece piece(matrix + matrix_at(blockIdx.z) * rows * n, row, rows, n, 1, chunk);
    x += x_at(blockIdx.z) * n + blockIdx.y * chunk;
    // [multiply and add]
    int whole = begins_four(piece.x) && begins_four(x) ? piece.count / LANES * LANES : 0;
    wide sum = strided_reduce<4>(share, SHARE, whole / LANES, 0, [=](int i) {
        Vec a = vec(&piece.x[i * LANES]), b = vec(&x[i * LANES]);
        return (a.at[0] * b.at[0] + a.at[1] * b.at[1]) + (a.at[2] * b.at[2] + a.at[3] * b.at[3]);
    }, Add());
    sum = strided_reduce(whole + share, SHARE, piece.count, sum, [=](int i) { return piece(i) * x[i]; }, Add());
    // [add up the threads' sums]
    if constexpr (SHARE > 32) sum = block_reduce(sum, Add());
    else sum = lanes_reduce<(SHARE < 32 ? SHARE : 32)>(sum, Add());
    if (share == 0 && row < rows) put(y, sums, blockIdx.z * rows * gridDim.y + piece.to, sum);
}

// Four sums of x[l] row(l), l < count, for this thread's rows: every HEIGHT-th.
template <class Row>
__device__ Four<wide> rows_sum(int count, const real* x, Row row) {
    Four<wide> sum = {};
    for (int i = threadIdx.y; i < count; i += AHEAD * HEIGHT) {
        Vec a[AHEAD];
        wide b[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
            int l = i + j * HEIGHT;
            a[j] = l < count ? row(l) : Vec{};
            b[j] = l < count ? wide(x[l]) : 0;
        }
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) sum.at[lane] += a[j].at[lane] * b[j];
        }
    }
    return sum;
}

// y[j] = sum of x[l] matrix[l, j]: block -> one piece of 32 columns, 8 threads -> rows of it, four columns each:
// neighbors where those are aligned to their size, else every eighth.
extern "C" __global__ void __launch_bounds__(1024) matmul_vector_columns(
    const real* matrix, const real* x, real* y, wide* to, int columns, int n, int chunk, View matrix_at, View x_at) {
    // [find the piece]
    int left = blockIdx.x * 32, width = min(columns - left, 32), first = blockIdx.y * chunk, count = min(chunk, n - first);
    matrix += (matrix_at(blockIdx.z) * n + first) * columns + left;
    x += x_at(blockIdx.z) * n + first;
    // [multiply and add] columns beyond the last repeat the last one; their results are not written
    int apart = columns % LANES == 0 && begins_four(matrix) ? 1 : 8, mine = threadIdx.x * (apart == 1 ? LANES : 1);
    Four<wide> sum;
    if (apart == 1) {
        sum = rows_sum(count, x, [=](int l) { return vec(&matrix[l * columns + min(mine, width - LANES)]); });
    } else {
        sum = rows_sum(count, x, [=](int l) {
            Vec four;
#pragma unroll
            for (int i = 0; i < LANES; ++i) four.at[i] = matrix[l * columns + min(mine + i * 8, width - 1)];
            return four;
        });
    }
    // [add up the threads' sums]
    constexpr int WARPS = HEIGHT / 4;
    __shared__ wide sums[WARPS][33];
    int warp = threadIdx.y / 4, lane = threadIdx.y % 4 * 8 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < LANES; ++i) {
        sum.at[i] += __shfl_xor_sync(0xffffffff, sum.at[i], 8);
        sum.at[i] += __shfl_xor_sync(0xffffffff, sum.at[i], 16);
        if (lane < 8) sums[warp][mine + i * apart] = sum.at[i];
    }
    __syncthreads();
    for (int column = warp; column < width; column += WARPS) {
        wide total = lanes_reduce<32>(lane < WARPS ? sums[lane][column] : 0, Add());
        if (lane == 0) put(y, to, (blockIdx.z * gridDim.y + blockIdx.y) * columns + left + column, total);
    }
}

// y[i] = the sum of its `parts`, `inner` apart: warp -> an element of y.
extern "C" __global__ void matmul_vector_parts(const wide* sums, real* y, int outputs, int parts, int inner) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= outputs) return;
    const wide* own = sums + i / inner * parts * inner + i % inner;
    wide sum = strided_reduce(lane, 32, parts, 0, [=](int part) { return own[part * inner]; }, Add());
    sum = lanes_reduce<32>(sum, Add());
    if (lane == 0) y[i] = real(sum);
}
