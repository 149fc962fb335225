#include "column_sums.cuh"
#include "reduce.cuh"

// Places of x (batch, length, parts, heads, width): of one token the queries of all heads, their keys, their values. Each
// part alone is (batch, heads, length, width), since a head's attention goes over all tokens.
struct Heads {
    int parts, heads, length, width;

    __device__ int columns() const { return parts * heads * width; }
    __device__ int part(int column) const { return column / (heads * width); }
    // The place in its part of a column of a token.
    __device__ int at(int token, int column) const {
        int head = column / width % heads, inside = column % width;
        return ((token / length * heads + head) * length + token % length) * width + inside;
    }
};

// The parts of x + bias; null: no bias. thread -> columns, PER_THREAD neighbors, of some rows
template <int N>
__device__ void split(const real* x, const wide* bias, real* q, real* k, real* v, const Heads& of, int rows) {
    each_column<N>(of.columns(), [&](int column) {
        Neighbors<wide, N> own = {};
        if (bias) own = vec<N>(bias + column);
        real* to = of.part(column) == 0 ? q : of.part(column) == 1 ? k : v;
        each_row(rows, [&](int row) {
            auto sum = each_lane(Add(), as<wide>(some<N>(x, row * of.columns() + column)), own);
            put(to, of.at(row, column), sum);
        });
    });
}

// cleared: a number for the kernels behind this one, which begins as 0.
extern "C" __global__ void __launch_bounds__(32 * ROWS_AT_ONCE) self_attention_split(
    const real* x, const wide* bias, real* q, real* k, real* v, int* cleared, int parts, int heads, int length, int width,
    int rows) {
    Heads of{parts, heads, length, width};
    if (width % PER_THREAD) split<1>(x, bias, q, k, v, of, rows);
    else split<PER_THREAD>(x, bias, q, k, v, of, rows);
    if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y == 0) *cleared = 0;
}

// A row of dy is copied, and its product with that of y returned, of the numbers of this lane; sums begin as 0.
template <int N>
__device__ wide begin_row(const real* dy, const real* y, real* copy, float* sums, int lane, int lanes, int width) {
    wide dot = 0;
    for (int i = lane * N; i < width; i += lanes * N) {
        auto own = as<wide>(vec<N>(dy + i)), other = as<wide>(vec<N>(y + i));
#pragma unroll
        for (int j = 0; j < N; ++j) dot += own.at[j] * other.at[j];
        put(copy, i, own);
        if (sums) vec<N>(sums + i) = {};
    }
    return dot;
}

// What the gradients of attention begin with: the heads of dy, for each query dots = dy y, and zeros in cleared and in sums
// of dq, if there are any. `lanes` lanes of a warp -> a row of dy, that of a token and a head.
extern "C" __global__ void self_attention_upstream(
    const real* dy, const real* y, real* heads_of_dy, wide* dots, float* sums, int* cleared, int lanes, int heads, int length,
    int width, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / lanes, lane = i % lanes, token = row / heads;
    int to = (token / length * heads + row % heads) * length + token % length;
    wide dot = 0;
    if (row < rows) {
        dy += row * width, y += row * width, heads_of_dy += to * width, sums = sums ? sums + to * width : sums;
        dot = width % PER_THREAD ? begin_row<1>(dy, y, heads_of_dy, sums, lane, lanes, width)
                                 : begin_row<PER_THREAD>(dy, y, heads_of_dy, sums, lane, lanes, width);
    }
    for (int step = lanes / 2; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffff, dot, step);
    if (row < rows && lane == 0) dots[to] = dot;
    if (i == 0) *cleared = 0;
}

// A row of x of its parts. Where there are sums, they are the first part, unless some of it was repaired.
struct Together {
    const real *q, *k, *v;
    const float* sums;
    Heads of;

    template <int N>
    __device__ auto at(int column) const {
        int part = of.part(column);
        const real* from = part == 0 ? q : part == 1 ? k : v;
        const float* late = part == 0 ? sums : nullptr;
        return [from, late, of = of, column](int row) {
            int i = of.at(row, column);
            return late ? as<wide>(some<N>(late, i)) : as<wide>(some<N>(from, i));
        };
    }
};

// x of its parts, and of each block the sums of its columns: see column_sums.cuh.
extern "C" __global__ void __launch_bounds__(32 * ROWS_AT_ONCE) self_attention_merge(
    const real* q, const real* k, const real* v, const float* sums, const int* repaired, real* x, wide* column_sums, int parts,
    int heads, int length, int width, int rows) {
    Together all{q, k, v, repaired && *repaired ? nullptr : sums, {parts, heads, length, width}};
    if (width % PER_THREAD) make_rows<1>(x, column_sums, all.of.columns(), rows, all);
    else make_rows<PER_THREAD>(x, column_sums, all.of.columns(), rows, all);
}
