#include "reduce.cuh"
#include "vector.cuh"

// A layer for few rows, such as those that a text gets word by word: y = x @ weight + bias, where x may be normalized before
// and a residual added, or gelu_tanh be made, after it. A weight is used once for each row, so reading weights is what takes
// time, and nothing in between is written. Both kernels: a block has a row of x, of `terms` numbers, in shared memory.
#ifndef WARPS
#define WARPS 8
#endif
#ifndef OUTPUTS
#define OUTPUTS 8
#endif

// All of a layer besides the product. Null: no norm, bias or residual.
struct Layer {
    const wide *scale, *shift;
    const real *bias, *residual;
    wide eps;
    int gelu;

    // x, or (x - mean) / sqrt(var + eps) * scale + shift
    __device__ void take(wide* row, const real* x, int terms) const {
        wide sum = 0, squares = 0;
        for (int i = threadIdx.x; i < terms; i += 32 * WARPS) sum += row[i] = x[i];
        if (scale) {
            wide mean = block_reduce(sum, Add()) / terms;
            for (int i = threadIdx.x; i < terms; i += 32 * WARPS) squares += (row[i] - mean) * (row[i] - mean);
            wide inverse = 1 / sqrt(block_reduce(squares, Add()) / terms + eps);
            for (int i = threadIdx.x; i < terms; i += 32 * WARPS) row[i] = (row[i] - mean) * inverse * scale[i] + shift[i];
        }
        __syncthreads();
    }
    // Of a sum what is written for this column, in row blockIdx.y of `columns` numbers.
    __device__ void put(real* y, wide sum, int column, int columns) const {
        if (bias) sum += bias[column];
        if (gelu) sum *= (1 + tanh(wide(0.79788456080286536) * (sum + wide(0.044715) * sum * sum * sum))) * wide(0.5);
        int at = blockIdx.y * columns + column;
        y[at] = residual ? sum + residual[at] : sum;
    }
};

// weight (terms, columns). block -> OUTPUTS neighboring columns; thread -> four of them and every (32 WARPS / SPREAD)-th term
extern "C" __global__ void __launch_bounds__(32 * WARPS) norm_linear_columns(
    const real* x, const wide* scale, const wide* shift, const real* weight, const real* bias, const real* residual, real* y,
    wide eps, int gelu, int terms, int columns) {
    constexpr int SPREAD = OUTPUTS / LANES;  // threads side by side
    extern __shared__ wide row[];
    __shared__ wide sums[WARPS][OUTPUTS];
    Layer layer{scale, shift, bias, residual, eps, gelu};
    layer.take(row, x + blockIdx.y * terms, terms);
    int own = threadIdx.x % SPREAD * LANES, column = blockIdx.x * OUTPUTS + own;
    bool whole = columns % LANES == 0;
    wide sum[LANES] = {};
#pragma unroll 4
    for (int i = threadIdx.x / SPREAD; i < terms; i += 32 * WARPS / SPREAD) {
        const real* from = weight + i * columns + column;
        Vec four = {};
        if (whole && column < columns) {
            four = vec(from);
        } else {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) four.at[lane] = column + lane < columns ? from[lane] : real(0);
        }
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) sum[lane] += row[i] * four.at[lane];
    }
    // [sums of the block] lanes SPREAD apart have the same columns
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
#pragma unroll
        for (int step = 16; step >= SPREAD; step /= 2) sum[lane] += __shfl_xor_sync(0xffffffff, sum[lane], step);
        if (threadIdx.x % 32 < SPREAD) sums[threadIdx.x / 32][own + lane] = sum[lane];
    }
    __syncthreads();
    column = blockIdx.x * OUTPUTS + threadIdx.x;
    if (threadIdx.x >= OUTPUTS || column >= columns) return;
    wide total = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) total += sums[warp][threadIdx.x];
    layer.put(y, total, column, columns);
}

// weight (columns, terms), as a table of words has it. warp -> a column
extern "C" __global__ void __launch_bounds__(32 * WARPS) norm_linear_rows(
    const real* x, const wide* scale, const wide* shift, const real* weight, const real* bias, const real* residual, real* y,
    wide eps, int gelu, int columns, int terms) {
    extern __shared__ wide row[];
    Layer layer{scale, shift, bias, residual, eps, gelu};
    layer.take(row, x + blockIdx.y * terms, terms);
    int column = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (column >= columns) return;
    const real* from = weight + column * terms;
    wide sum = 0;
    if (terms % LANES == 0) {
#pragma unroll 4
        for (int i = lane * LANES; i < terms; i += 32 * LANES) {
            Vec four = vec(from + i);
#pragma unroll
            for (int j = 0; j < LANES; ++j) sum += row[i + j] * four.at[j];
        }
    } else {
        for (int i = lane; i < terms; i += 32) sum += row[i] * from[i];
    }
    sum = lanes_reduce<32>(sum, Add());
    if (lane == 0) layer.put(y, sum, column, columns);
}
