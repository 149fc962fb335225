#include "common.cuh"

#ifndef BLOCK
#define BLOCK 32
#endif

// x, and no gradient. The softmax is the same whatever number is subtracted, so the largest needs none.
__device__ real detach(real x) {
    return x;
}

// y = exp(x - max) / sum(exp(x - max)) along rows of m. block -> one row; thread -> every BLOCK-th element of it.
extern "C" __global__ void softmax(const real* x, real* y, int m) {
    __shared__ real tops[BLOCK], s[BLOCK];
    int t = threadIdx.x, row = blockIdx.x * m;
    // [largest]
    real top = -INFINITY;
    for (int j = t; j < m; j += BLOCK) {
        top = max(top, x[row + j]);
    }
    tops[t] = top;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride) tops[t] = max(tops[t], tops[t + stride]);
        __syncthreads();
    }
    real largest = detach(tops[0]);
    // [sum]
    real sum = 0;
    for (int j = t; j < m; j += BLOCK) {
        sum += exp(x[row + j] - largest);
    }
    s[t] = sum;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride) s[t] += s[t + stride];
        __syncthreads();
    }
    sum = s[0];
    // [divide]
    for (int j = t; j < m; j += BLOCK) {
        y[row + j] = exp(x[row + j] - largest) / sum;
    }
}
