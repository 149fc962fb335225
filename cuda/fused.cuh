// What the kernels written by mg.fuse have in common: they say what becomes of one element, this says who owns which.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

// Several numbers made from one element, and the arrays that they go to; a null pointer: that one is not wanted.
template <int K>
struct Reals {
    real at[K];
};

template <int K>
struct Outputs {
    real* at[K];
};

template <class... R>
Reals(R...) -> Reals<sizeof...(R)>;
template <class... R>
Outputs(R*...) -> Outputs<sizeof...(R)>;

template <int K>
__device__ void store(Outputs<K> to, int i, Reals<K> made) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
        if (to.at[k]) to.at[k][i] = made.at[k];
    }
}

// The same for the four elements from i on, made of what was loaded for them.
template <int K, class F, class... Vecs>
__device__ void store_four(Outputs<K> to, int i, F f, const Vecs&... loaded) {
    Vec made[K];
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
        Reals<K> of_one = f(loaded.at[lane]...);
#pragma unroll
        for (int k = 0; k < K; ++k) made[k].at[lane] = of_one.at[k];
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
        if (to.at[k]) vec(&to.at[k][i]) = made[k];
    }
}

// As map of vector.cuh, with several outputs. thread -> four neighbours of each.
template <int K, class F, class... Inputs>
__device__ void map(Outputs<K> to, int n, F f, const Inputs&... inputs) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES, end = n;
    if (i + LANES <= end) {
        store_four(to, i, f, four(inputs, i)...);
    } else {
        for (; i < end; ++i) store(to, i, f(one(inputs, i)...));
    }
}

// Where a sum closes the chain, its inputs are seen as (rows, n), and each row is cut into pieces of `chunk` elements.
// block -> one piece of one row; thread -> every BLOCK-th four elements of it, where it begins at a multiple of four.
struct Stretch {
    int start, count, fours;

    __device__ Stretch(int n, int chunk) {
        int first = blockIdx.y * chunk;
        start = blockIdx.x * n + first;
        count = min(chunk, n - first);
        fours = start % LANES == 0 ? count / LANES : 0;
    }
};

// y = the sum of f(the inputs' elements) over each piece: (rows, pieces), in a fixed order.
template <class F, class... Inputs>
__device__ void sum_pieces(real* y, int n, int chunk, F f, const Inputs&... inputs) {
    Stretch own(n, chunk);
    real sum = 0;
    for (int i = threadIdx.x; i < own.fours; i += blockDim.x) {
        Vec four_of_y = each_lane(f, four(inputs, own.start + i * LANES)...);
        sum += (four_of_y.at[0] + four_of_y.at[1]) + (four_of_y.at[2] + four_of_y.at[3]);
    }
    for (int i = own.fours * LANES + threadIdx.x; i < own.count; i += blockDim.x) {
        sum += f(one(inputs, own.start + i)...);
    }
    sum = block_reduce(sum, Add());
    if (threadIdx.x == 0) y[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// The way back: the outputs of f(the dy of the row, the inputs' elements).
template <int K, class F, class... Inputs>
__device__ void map_pieces(Outputs<K> to, int n, int chunk, F f, const real* dy, const Inputs&... inputs) {
    Stretch own(n, chunk);
    real of_row = dy[blockIdx.x];
    auto g = [&](auto... x) { return f(of_row, x...); };
    for (int i = threadIdx.x; i < own.fours; i += blockDim.x) {
        int at = own.start + i * LANES;
        store_four(to, at, g, four(inputs, at)...);
    }
    for (int i = own.fours * LANES + threadIdx.x; i < own.count; i += blockDim.x) {
        store(to, own.start + i, g(one(inputs, own.start + i)...));
    }
}
