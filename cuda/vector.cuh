// Four neighbours in memory at a time: one instruction moves them, where they begin at a multiple of their size. A thread
// that asks for four numbers at once waits once for them, and the memory is kept busy by a quarter of the threads.
#pragma once
#include "common.cuh"

constexpr int LANES = 4;

struct alignas(LANES * sizeof(real) < 16 ? LANES * sizeof(real) : 16) Vec {
    real at[LANES];
};

__device__ inline const Vec& vec(const real* first) { return *reinterpret_cast<const Vec*>(first); }
__device__ inline Vec& vec(real* first) { return *reinterpret_cast<Vec*>(first); }

// An input that is found through a view.
struct Viewed {
    const real* x;
    const View& at;

    // Whether four elements, from any multiple of four on, are one run in memory: neighbours or one and the same.
    __device__ bool runs() const {
        if (at.ndim > 1 && at.shape[0] % LANES) return false;
        int steps = at.stride[0] == 1 ? at.offset : 0;
#pragma unroll
        for (int d = 1; d < MAX_DIMS; ++d) {
            if (d < at.ndim && at.stride[0] == 1) steps |= at.stride[d];
        }
        return steps % LANES == 0;
    }
};

// Element i, and the four elements from i on.
__device__ inline real one(const real* x, int i) { return x[i]; }
__device__ inline Vec four(const real* x, int i) { return vec(&x[i]); }
__device__ inline real one(const Viewed& view, int i) { return view.x[view.at(i)]; }
__device__ inline Vec four(const Viewed& view, int i) {
    Vec all;
    if (view.runs()) {
        const real* first = view.x + view.at(i);
        if (view.at.stride[0] == 1) return vec(first);
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) all.at[lane] = first[lane * view.at.stride[0]];
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) all.at[lane] = one(view, i + lane);
    }
    return all;
}

// y[i] = f(the inputs' element i). thread -> four neighbours of y, with the inputs of all loaded before the first f.
template <class F, class... Vecs>
__device__ Vec each_lane(F f, const Vecs&... loaded) {
    Vec y;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) y.at[lane] = f(loaded.at[lane]...);
    return y;
}

template <class F, class... Inputs>
__device__ void map(real* y, int n, F f, const Inputs&... inputs) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES, end = n;
    if (i + LANES <= end) {
        vec(&y[i]) = each_lane(f, four(inputs, i)...);
    } else {
        for (; i < end; ++i) y[i] = f(one(inputs, i)...);
    }
}
