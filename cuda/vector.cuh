// Four neighbors in memory at a time, or eight of two bytes: one instruction moves them where they are aligned to their
// size. A thread that loads four numbers at once waits once for them, so a quarter of the threads keeps the memory busy.
#pragma once
#include "common.cuh"

constexpr int LANES = 4;
constexpr int PER_THREAD = sizeof(real) == 2 ? 8 : LANES;  // elements of a thread of `map`: 16 bytes, or 32 of double

template <class T, int N = LANES>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Neighbors {
    T at[N];
};
template <class T>
using Four = Neighbors<T>;
using Vec = Four<real>;

template <int N = LANES, class T>
__device__ const Neighbors<T, N>& vec(const T* first) { return *reinterpret_cast<const Neighbors<T, N>*>(first); }
template <int N = LANES, class T>
__device__ Neighbors<T, N>& vec(T* first) { return *reinterpret_cast<Neighbors<T, N>*>(first); }

// Four that are read once: they leave the cache to what is read again.
template <class T>
__device__ Four<T> once(const T* first) { return vec(first); }
__device__ inline Four<float> once(const float* first) {
    float4 four = __ldcs(reinterpret_cast<const float4*>(first));
    return {four.x, four.y, four.z, four.w};
}

// The same numbers in another type: to and from the one of arithmetic. All of them are loaded at once, hence no reference.
template <class To, class T, int N>
__device__ Neighbors<To, N> as(Neighbors<T, N> all) {
    Neighbors<To, N> y;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) y.at[lane] = all.at[lane];
    return y;
}

// An array read or written through a view.
template <class T>
struct Viewed {
    T* x;
    const View& at;

    // True if the view is contiguous and begins at a multiple of n. The answer is the same for all threads, and this test
    // saves each of them the divisions.
    __device__ bool dense(int n) const { return at.ndim < 2 && at.stride[0] == 1 && at.offset % n == 0; }

    // True if every n neighbors that begin at a multiple of n in the view do so in memory, too.
    __device__ bool runs(int n) const {
        if (at.ndim > 1 && at.shape[0] % n) return false;
        int steps = at.offset;
#pragma unroll
        for (int d = 1; d < MAX_DIMS; ++d) {
            if (d < at.ndim) steps |= at.stride[d];
        }
        return steps % n == 0;
    }

    // True if the n elements from i on have one stride.
    __device__ bool even(int i, int n) const { return at.ndim < 2 || i % at.shape[0] + n <= at.shape[0]; }
};
template <class T>
Viewed(T*, const View&) -> Viewed<T>;

// Element i, and the N elements from i on.
template <class T>
__device__ T one(const T* x, int i) { return x[i]; }
template <int N, class T>
__device__ Neighbors<T, N> some(const T* x, int i) { return vec<N>(&x[i]); }
template <class T>
__device__ T one(const Viewed<const T>& view, int i) { return view.x[view.at(i)]; }
template <int N, class T>
__device__ Neighbors<T, N> some(const Viewed<const T>& view, int i) {
    if (view.dense(N)) return vec<N>(view.x + view.at.offset + i);
    Neighbors<T, N> all;
    if (view.even(i, N)) {
        const T* first = view.x + view.at(i);
        if (view.at.stride[0] == 1 && view.runs(N)) return vec<N>(first);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) all.at[lane] = first[lane * view.at.stride[0]];
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) all.at[lane] = one(view, i + lane);
    }
    return all;
}

// Stores element i, or the N elements from i on; a bfloat16 is rounded here.
template <class T, class Value>
__device__ void put(T* y, int i, Value value) { y[i] = value; }
template <class T, class Value, int N>
__device__ void put(T* y, int i, const Neighbors<Value, N>& all) { vec<N>(&y[i]) = as<T>(all); }
template <class T, class Value>
__device__ void put(const Viewed<T>& view, int i, Value value) { view.x[view.at(i)] = value; }
template <class T, class Value, int N>
__device__ void put(const Viewed<T>& view, int i, const Neighbors<Value, N>& all) {
    if (view.dense(N)) {
        vec<N>(view.x + view.at.offset + i) = as<T>(all);
    } else if (view.even(i, N)) {
        T* first = view.x + view.at(i);
        if (view.at.stride[0] == 1 && view.runs(N)) {
            vec<N>(first) = as<T>(all);
        } else {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) first[lane * view.at.stride[0]] = all.at[lane];
        }
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) put(view, i + lane, all.at[lane]);
    }
}

// f applied to each of the lanes.
template <class F, int N, class... T>
__device__ auto each_lane(F f, Neighbors<T, N>... loaded) -> Neighbors<decltype(f(loaded.at[0]...)), N> {
    Neighbors<decltype(f(loaded.at[0]...)), N> y;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) y.at[lane] = f(loaded.at[lane]...);
    return y;
}

// y[i] = f(the inputs' element i). thread -> PER_THREAD neighbors of y, all inputs are loaded before the first f.
template <class Y, class F, class... Inputs>
__device__ void map(Y y, int n, F f, const Inputs&... inputs) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD, end = n;
    if (i + PER_THREAD <= end) {
        put(y, i, each_lane(f, some<PER_THREAD>(inputs, i)...));
    } else {
        for (; i < end; ++i) put(y, i, f(one(inputs, i)...));
    }
}
