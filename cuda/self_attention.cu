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
__device__ void split(const real* x, const wide* bias, real* const (&to)[3], const Heads& of, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    for (int i = first; i < min(n, first + PER_THREAD); i += N) {
        auto some = as<wide>(vec<N>(x + i));
        if (bias) {
            auto own = vec<N>(bias + i % (of.parts * of.heads * of.width));
#pragma unroll
            for (int j = 0; j < N; ++j) some.at[j] += own.at[j];
        }
        put(to[of.part(i)], of.at(i), some);
    }
}

extern "C" __global__ void self_attention_split(
    const real* x, const wide* bias, real* q, real* k, real* v, int parts, int heads, int length, int width, int n) {
    real* to[] = {q, k, v};
    Heads of{parts, heads, length, width};
    if (width % PER_THREAD) split<1>(x, bias, to, of, n);
    else split<PER_THREAD>(x, bias, to, of, n);
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
