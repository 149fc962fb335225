// A row in the registers of a block, so that it is read only once. A thread has four runs of four neighbors.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

constexpr int HELD = 4 * LANES;  // elements per thread: a row is at most HELD * 1024 long, and a multiple of four
#if __CUDA_ARCH__ >= 800
constexpr int RESIDENT = sizeof(wide) == 4 ? 2 : 1;  // blocks of 1024 threads that fit on a multiprocessor
#else
constexpr int RESIDENT = 1;
#endif

// own = this thread's elements of the row, `beyond` past its end. All loads are issued before the first is used.
__device__ inline void hold(wide (&own)[HELD], const real* row, int count, wide beyond) {
#pragma unroll
    for (int j = 0; j < HELD; j += LANES) {
        int i = threadIdx.x * LANES + j * blockDim.x;
        Four<wide> four = {beyond, beyond, beyond, beyond};
        if (i < count) {
            Vec loaded = vec(&row[i]);
            four = as<wide>(loaded);
        }
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) own[j + lane] = four.at[lane];
    }
}

// Stores the row again.
__device__ inline void release(const wide (&own)[HELD], real* row, int count) {
#pragma unroll
    for (int j = 0; j < HELD; j += LANES) {
        int i = threadIdx.x * LANES + j * blockDim.x;
        if (i < count) put(row, i, Four<wide>{own[j], own[j + 1], own[j + 2], own[j + 3]});
    }
}

// Reduces the row; all threads get the result.
template <class Combine>
__device__ wide held_reduce(const wide (&own)[HELD], Combine combine) {
    wide value = own[0];
#pragma unroll
    for (int j = 1; j < HELD; ++j) value = combine(value, own[j]);
    return block_reduce(value, combine);
}

// own = exp(own - most); returns their sum.
__device__ inline wide held_exp(wide (&own)[HELD], wide most) {
#pragma unroll
    for (int j = 0; j < HELD; ++j) own[j] = exp(own[j] - most);
    return held_reduce(own, Add());
}
