#include "philox.cuh"
#include "vector.cuh"

// Both kernels: thread -> four neighbors, to which the four words of one counter belong. A number is kept, times scale,
// where its word is at least `threshold`, of 2^32 that a word can be.
__device__ inline void drop(
    const real* x, real* y, const unsigned long long* state, unsigned long long threshold, wide scale, int n) {
    int group = blockIdx.x * blockDim.x + threadIdx.x, i = group * LANES;
    if (i >= n) return;
    Words random = philox(state[0], group, state[1]);
    if (i + LANES <= n) {
        Vec all = vec(&x[i]);
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) all.at[lane] = random.at[lane] < threshold ? 0 : all.at[lane] * scale;
        vec(&y[i]) = all;
    } else {
        for (int lane = 0; i + lane < n; ++lane) y[i + lane] = random.at[lane] < threshold ? 0 : x[i + lane] * scale;
    }
}

// y = x * scale or 0. state is the seed and the number of the mask; used gets a copy of both for the gradient, and next
// those of the mask after this one.
extern "C" __global__ void dropout_forward(
    const real* x, const unsigned long long* state, real* y, unsigned long long* used, unsigned long long* next,
    unsigned long long threshold, wide scale, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        used[0] = next[0] = state[0];
        used[1] = state[1], next[1] = state[1] + 1;
    }
    drop(x, y, state, threshold, scale, n);
}

// dx = dy * scale or 0, by the same mask, which is made again.
extern "C" __global__ void dropout_backward(
    const real* dy, const unsigned long long* used, real* dx, unsigned long long threshold, wide scale, int n) {
    drop(dy, dx, used, threshold, scale, n);
}
