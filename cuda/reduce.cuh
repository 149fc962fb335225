// Reductions by a thread, by a warp, and by a one-dimensional block of any size.
#pragma once
#include "common.cuh"

struct Add {
    __device__ wide operator()(wide a, wide b) const { return a + b; }
};

struct Max {
    __device__ wide operator()(wide a, wide b) const { return a > b || a != a ? a : b; }  // a != a: NaN wins
};

// Reduces at(i) for i, i + step, ... below count.
// Eight loads are issued before the first is used: threads that wait for one at a time leave the memory idle.
template <int AHEAD = 8, class At, class Combine>
__device__ wide strided_reduce(int i, int step, int count, wide start, At at, Combine combine) {
    for (; i < count - (AHEAD - 1) * step; i += AHEAD * step) {
        wide loaded[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) loaded[j] = at(i + j * step);
#pragma unroll
        for (int j = 0; j < AHEAD; ++j) start = combine(start, loaded[j]);
    }
    for (; i < count; i += step) start = combine(start, at(i));
    return start;
}

// The same for this thread's share of 0 <= i < count: every blockDim.x-th, so that reads are coalesced.
template <class At, class Combine>
__device__ wide thread_reduce(int count, wide start, At at, Combine combine) {
    return strided_reduce(threadIdx.x, blockDim.x, count, start, at, combine);
}

// Reduces the values of a warp's first lanes by shuffles: lane i reads the register of lane i + step, with
// half as many lanes in each step. Lane 0 gets the result.
template <class Combine>
__device__ wide warp_reduce(wide value, int lanes, Combine combine) {
    int lane = threadIdx.x % 32;
    unsigned present = 0xffffffffu >> (32 - lanes);
    for (int step = 16; step > 0; step /= 2) {
        wide other = __shfl_down_sync(present, value, step);
        if (lane + step < lanes) value = combine(value, other);
    }
    return value;
}

// Reduces the values of WIDTH neighboring lanes of a warp; all of them get the result.
template <int WIDTH, class Combine>
__device__ wide lanes_reduce(wide value, Combine combine) {
    static_assert(32 % WIDTH == 0, "lanes share a warp evenly: 1, 2, 4, 8, 16 or 32 of them");
#pragma unroll
    for (int step = WIDTH / 2; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, step));
    return value;
}

// Reduces the values of a block: each warp by shuffles, then the first warp reduces the warps' results. All threads get
// the result. The last warp of a block may have fewer than 32 lanes.
template <class Combine>
__device__ wide block_reduce(wide value, Combine combine) {
    __shared__ wide warps[32];
    int warp = threadIdx.x / 32, count = (blockDim.x + 31) / 32;
    value = warp_reduce(value, min(32, (int)blockDim.x - warp * 32), combine);
    __syncthreads();  // another thread may still be reading the result of an earlier call
    if (threadIdx.x % 32 == 0) warps[warp] = value;
    __syncthreads();
    if (threadIdx.x < count) {
        value = warp_reduce(warps[threadIdx.x], count, combine);
        if (threadIdx.x == 0) warps[0] = value;
    }
    __syncthreads();
    return warps[0];
}

// The sum and the maximum of at(i), 0 <= i < count; every thread of the block gets them.
template <class At>
__device__ wide block_sum(int count, At at) {
    return block_reduce(thread_reduce(count, 0, at, Add()), Add());
}

template <class At>
__device__ wide block_max(int count, At at) {
    return block_reduce(thread_reduce(count, -INFINITY, at, Max()), Max());
}
