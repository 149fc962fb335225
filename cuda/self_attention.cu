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
    // Calls move(part, its place, the place in x, a count) for four neighbors, or for each where rows end between them.
    template <class Move>
    __device__ void neighbors(int n, Move move) const {
        int first = (blockIdx.x * blockDim.x + threadIdx.x) * LANES;
        if (first < n && width % LANES == 0) return move(part(first), at(first), first, true);
        for (int i = first; i < min(n, first + LANES); ++i) move(part(i), at(i), i, false);
    }
};

// The parts of x + bias; null: no bias. thread -> four neighbors
extern "C" __global__ void self_attention_split(
    const real* x, const wide* bias, real* q, real* k, real* v, int parts, int heads, int length, int width, int n) {
    Heads{parts, heads, length, width}.neighbors(n, [&](int part, int at, int i, bool four) {
        real* to = part == 0 ? q : part == 1 ? k : v;
        int column = i % (parts * heads * width);
        if (!bias && four) {
            vec(to + at) = vec(x + i);
        } else if (!bias) {
            to[at] = x[i];
        } else if (four) {
            auto sum = as<wide>(vec(x + i)), own = vec(bias + column);
#pragma unroll
            for (int j = 0; j < LANES; ++j) sum.at[j] += own.at[j];
            put(to, at, sum);
        } else {
            to[at] = x[i] + bias[column];
        }
    });
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
