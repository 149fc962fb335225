#include "common.cuh"

#ifndef BLOCK
#define BLOCK 64
#endif

// y[block] = sum of the block's BLOCK elements of x, squared. Half the threads add in each round.
extern "C" __global__ void block_sum(const real* x, real* y, int n) {
    __shared__ real s[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    s[t] = i < n ? x[i] * x[i] : 0;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride) {
            s[t] += s[t + stride];
        }
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

// y[block] = the largest of the block's elements; of equal ones the first.
extern "C" __global__ void block_max(const real* x, real* y, int n) {
    __shared__ real s[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    s[t] = i < n ? x[i] : -INFINITY;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride) {
            s[t] = max(s[t], s[t + stride]);
        }
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
