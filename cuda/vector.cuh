// Four neighbors in memory at a time: one instruction moves them where they are aligned to their size. A thread that
// loads four numbers at once waits once for them, so a quarter of the threads keeps the memory busy.
#pragma once
#include "common.cuh"

constexpr int LANES = 4;

template <class T>
struct alignas(LANES * sizeof(T) < 16 ? LANES * sizeof(T) : 16) Four {
    T at[LANES];
};
using Vec = Four<real>;

template <class T>
__device__ const Four<T>& vec(const T* first) { return *reinterpret_cast<const Four<T>*>(first); }
template <class T>
__device__ Four<T>& vec(T* first) { return *reinterpret_cast<Four<T>*>(first); }

// An array read or written through a view.
template <class T>
struct Viewed {
    T* x;
    const View& at;

    // True if the view is contiguous and begins at a multiple of four. The answer is the same for all threads, and this
    // test saves each of them the divisions.
    __device__ bool dense() const { return at.ndim < 2 && at.stride[0] == 1 && at.offset % LANES == 0; }

    // True if every four neighbors that begin at a multiple of four in the view do so in memory, too.
    __device__ bool runs() const {
        if (at.ndim > 1 && at.shape[0] % LANES) return false;
        int steps = at.offset;
#pragma unroll
        for (int d = 1; d < MAX_DIMS; ++d) {
            if (d < at.ndim) steps |= at.stride[d];
        }
        return steps % LANES == 0;
    }

    // True if the four elements from i on have one stride.
    __device__ bool even(int i) const { return at.ndim < 2 || i % at.shape[0] + LANES <= at.shape[0]; }
};
template <class T>
Viewed(T*, const View&) -> Viewed<T>;

// Element i, and the four elements from i on.
template <class T>
__device__ T one(const T* x, int i) { return x[i]; }
template <class T>
__device__ Four<T> four(const T* x, int i) { return vec(&x[i]); }
template <class T>
__device__ T one(const Viewed<const T>& view, int i) { return view.x[view.at(i)]; }
template <class T>
__device__ Four<T> four(const Viewed<const T>& view, int i) {
    if (view.dense()) return vec(view.x + view.at.offset + i);
    Four<T> all;
    if (view.even(i)) {
        const T* first = view.x + view.at(i);
        if (view.at.stride[0] == 1 && view.runs()) return vec(first);
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) all.at[lane] = first[lane * view.at.stride[0]];
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) all.at[lane] = one(view, i + lane);
    }
    return all;
}

// Stores element i, or the four elements from i on.
template <class T>
__device__ void put(T* y, int i, T value) { y[i] = value; }
template <class T>
__device__ void put(T* y, int i, const Four<T>& all) { vec(&y[i]) = all; }
template <class T>
__device__ void put(const Viewed<T>& view, int i, T value) { view.x[view.at(i)] = value; }
template <class T>
__device__ void put(const Viewed<T>& view, int i, const Four<T>& all) {
    if (view.dense()) {
        vec(view.x + view.at.offset + i) = all;
    } else if (view.even(i)) {
        T* first = view.x + view.at(i);
        if (view.at.stride[0] == 1 && view.runs()) {
            vec(first) = all;
        } else {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) first[lane * view.at.stride[0]] = all.at[lane];
        }
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) put(view, i + lane, all.at[lane]);
    }
}

// f applied to each of the four lanes.
template <class F, class... Fours>
__device__ auto each_lane(F f, const Fours&... loaded) -> Four<decltype(f(loaded.at[0]...))> {
    Four<decltype(f(loaded.at[0]...))> y;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) y.at[lane] = f(loaded.at[lane]...);
    return y;
}

// y[i] = f(the inputs' element i). thread -> four neighbors of y, all inputs are loaded before the first f.
template <class Y, class F, class... Inputs>
__device__ void map(Y y, int n, F f, const Inputs&... inputs) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES, end = n;
    if (i + LANES <= end) {
        put(y, i, each_lane(f, four(inputs, i)...));
    } else {
        for (; i < end; ++i) put(y, i, f(one(inputs, i)...));
    }
}
