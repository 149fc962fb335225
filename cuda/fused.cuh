// What the kernels written by mg.fuse have in common: they say what becomes of one element, and this says who owns which.
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

template <int K, class F, class... Vecs>
__device__ void store_lanes(Outputs<K> to, int i, F f, const Vecs&... loaded) {
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

// As map of vector.cuh, where f makes several numbers. thread -> four neighbours of each output.
template <int K, class F, class... Inputs>
__device__ void map(Outputs<K> to, int n, F f, const Inputs&... inputs) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES, end = n;
    if (i + LANES <= end) {
        store_lanes(to, i, f, four(inputs, i)...);
    } else {
        for (; i < end; ++i) {
            Reals<K> of_one = f(one(inputs, i)...);
#pragma unroll
            for (int k = 0; k < K; ++k) {
                if (to.at[k]) to.at[k][i] = of_one.at[k];
            }
        }
    }
}

// y = the sums of f(the inputs' elements), seen as (rows, n), over pieces of `chunk`: (rows, pieces), in a fixed order.
// block -> one piece of a row; thread -> every BLOCK-th four elements of it, where it begins at a multiple of four.
template <class F, class... Inputs>
__device__ void sum_pieces(real* y, int n, int chunk, F f, const Inputs&... inputs) {
    int first = blockIdx.y * chunk, count = min(chunk, n - first), start = blockIdx.x * n + first;
    int fours = start % LANES == 0 ? count / LANES : 0, left = start + fours * LANES;
    real sum = thread_reduce<2>(fours, 0, [&](int i) {
        Vec y = each_lane(f, four(inputs, start + i * LANES)...);
        return (y.at[0] + y.at[1]) + (y.at[2] + y.at[3]);
    }, Add());
    sum = thread_reduce<2>(start + count - left, sum, [&](int i) { return f(one(inputs, left + i)...); }, Add());
    sum = block_reduce(sum, Add());
    if (threadIdx.x == 0) y[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}
