// A value from each thread of a block, combined into one. Blocks are one-dimensional and of any size.
#pragma once
#include "common.cuh"

struct Add {
    __device__ real operator()(real a, real b) const { return a + b; }
};

struct Max {
    __device__ real operator()(real a, real b) const { return a > b || a != a ? a : b; }  // NaN, unequal to itself, wins
};

// Combines the values of a warp by shuffles: lane i reads the register of lane i + step, for half as many lanes each
// time. Lane 0 ends up with all of them. The last warp of a block may have fewer than 32 lanes.
template <class Combine>
__device__ real warp_reduce(real value, Combine combine) {
    int lane = threadIdx.x % 32, lanes = min(32, (int)blockDim.x - (int)threadIdx.x / 32 * 32);
    unsigned present = 0xffffffffu >> (32 - lanes);
    for (int step = 16; step > 0; step /= 2) {
        real other = __shfl_down_sync(present, value, step);
        if (lane + step < lanes) value = combine(value, other);
    }
    return value;
}

// Combines the values of a block: warps by shuffles, then their results through shared memory. Every thread gets it.
template <class Combine>
__device__ real block_reduce(real value, Combine combine) {
    __shared__ real warps[32];
    value = warp_reduce(value, combine);
    __syncthreads();  // the result of an earlier call may still be being read
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int warp = 1; warp * 32 < blockDim.x; ++warp) {
        value = combine(value, warps[warp]);
    }
    return value;
}

__device__ inline real block_sum(real value) { return block_reduce(value, Add()); }
__device__ inline real block_max(real value) { return block_reduce(value, Max()); }
