#include "common.cuh"

#ifndef BLOCK
#define BLOCK 32
#endif

// y = exp(x - max) / sum(exp(x - max)) along rows of m. block -> one row; thread -> every BLOCK-th element of it.
extern "C" __global__ void softmax(const real* x, real* y, int m) {
    __shared__ real s[BLOCK];
    int t = threadIdx.x, row = blockIdx.x * m;
    // [largest]
    real top = -INFINITY;
    for (int j = t; j < m; j += BLOCK) {
        top = max(top, x[row + j]);
    }
    s[t] = top;
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride) s[t] = max(s[t], s[t + stride]);
        __syncthreads();
    }
    top = s[0];
    __syncthreads();
    // [sum]
    real sum = 0;
    for (int j = t; j < m; j += BLOCK) {
        sum += exp(x[row + j] - top);
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
        y[row + j] = exp(x[row + j] - top) / sum;
    }
}
