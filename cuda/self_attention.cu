#include "column_sums.cuh"

// Places of x (batch, length, parts, heads, width): of one token the queries of all heads, their keys, their values. Each
// part alone is (batch, heads, length, width), since a head's attention goes over all tokens.
struct Heads {
    int parts, heads, length, width;

    __device__ int part(int i) const { return i / width / heads % parts; }
    __device__ int at(int i) const {
        int row = i / width, head = row % heads, token = row / heads / parts;
        return ((token / length * heads + head) * length + token % length) * width + i % width;
    }
};

// The parts of x + bias; null: no bias. thread -> PER_THREAD neighbors, N at a time.
template <int N>
__device__ void split(const real* x, const wide* bias, real* q, real* k, real* v, const Heads& of, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    for (int i = first; i < min(n, first + PER_THREAD); i += N) {
        auto some = as<wide>(vec<N>(x + i));
        int part = of.part(i), column = i % (of.parts * of.heads * of.width);
        if (bias) some = each_lane([](wide x, wide bias) { return x + bias; }, some, vec<N>(bias + column));
        put(part == 0 ? q : part == 1 ? k : v, of.at(i), some);
    }
}

// cleared: a number for the kernels behind this one, which begins as 0.
extern "C" __global__ void self_attention_split(
    const real* x, const wide* bias, real* q, real* k, real* v, int* cleared, int parts, int heads, int length, int width,
    int n) {
    Heads of{parts, heads, length, width};
    if (width % PER_THREAD) split<1>(x, bias, q, k, v, of, n);
    else split<PER_THREAD>(x, bias, q, k, v, of, n);
    if (blockIdx.x + threadIdx.x == 0) *cleared = 0;
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
        dy += row * width, y += to * width, heads_of_dy += to * width, sums = sums ? sums + to * width : sums;
        dot = width % PER_THREAD ? begin_row<1>(dy, y, heads_of_dy, sums, lane, lanes, width)
                                 : begin_row<PER_THREAD>(dy, y, heads_of_dy, sums, lane, lanes, width);
    }
    for (int step = lanes / 2; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffff, dot, step);
    if (row < rows && lane == 0) dots[to] = dot;
    if (i == 0) *cleared = 0;
}

// A row of x of its parts.
struct Together {
    const real *q, *k, *v;
    Heads of;

    template <int N>
    __device__ Neighbors<wide, N> at(int row, int column) const {
        int i = row * of.parts * of.heads * of.width + column, part = of.part(i);
        return as<wide>(vec<N>((part == 0 ? q : part == 1 ? k : v) + of.at(i)));
    }
};

// x of its parts, and of each block the sums of its columns: see column_sums.cuh.
extern "C" __global__ void __launch_bounds__(32 * HEIGHT) self_attention_merge(
    const real* q, const real* k, const real* v, real* x, wide* sums, int parts, int heads, int length, int width, int rows) {
    Together all{q, k, v, {parts, heads, length, width}};
    int columns = parts * heads * width;
    if (width % PER_THREAD) make_rows<1>(x, sums, columns, rows, all);
    else make_rows<PER_THREAD>(x, sums, columns, rows, all);
}
