// The functions of cuda/matmul/mma.cuh in CUDA C++, so that the kernels that call them run on the simulator: the lanes of
// a warp tell each other what they hold, in the layout that NVIDIA's PTX manual gives for each instruction.
#pragma once
#include "async.cuh"

typedef unsigned short bfloat16;
typedef unsigned long long Address;

__device__ inline void load_matrices(unsigned (&own)[4], const void* row) {
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        Address from = __shfl_sync(~0u, (Address)row, 8 * i + lane / 4);
        own[i] = ((const unsigned*)from)[lane % 4];
    }
}

__device__ inline void load_transposed(unsigned (&own)[4], const void* row) {
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        unsigned both = 0;
        for (int j = 0; j < 2; ++j) {
            Address from = __shfl_sync(~0u, (Address)row, 8 * i + lane % 4 * 2 + j);
            both |= (unsigned)((const bfloat16*)from)[lane / 4] << 16 * j;
        }
        own[i] = both;
    }
}

__device__ inline float number(unsigned pair, int half) { return __uint_as_float((half ? pair >> 16 : pair) << 16); }

__device__ inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    int lane = threadIdx.x % 32, group = lane / 4;
    for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 16; ++k) {
            unsigned x = __shfl_sync(~0u, a[i / 2 + k / 8 * 2], group * 4 + k % 8 / 2);
            unsigned y = __shfl_sync(~0u, k < 8 ? b0 : b1, (lane % 4 * 2 + i % 2) * 4 + k % 8 / 2);
            c[i] += number(x, k % 2) * number(y, k % 2);
        }
    }
}

__device__ inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    int lane = threadIdx.x % 32, group = lane / 4;
    for (int i = 0; i < 4; ++i) {
        for (int k = 0; k < 8; ++k) {
            unsigned x = __shfl_sync(~0u, a[i / 2 + k / 4 * 2], group * 4 + k % 4);
            unsigned y = __shfl_sync(~0u, k < 4 ? b0 : b1, (lane % 4 * 2 + i % 2) * 4 + k % 4);
            c[i] += __uint_as_float(x) * __uint_as_float(y);
        }
    }
}

// Rounded to nearest, halves to even, with `bits` bits cut off.
__device__ inline unsigned cut(unsigned x, int bits) {
    return (x + (1u << (bits - 1)) - 1 + (x >> bits & 1)) >> bits << bits;
}
__device__ inline unsigned to_tf32(unsigned x) { return cut(x, 13); }
__device__ inline bfloat16 to_bf16(float x) { return cut(__float_as_uint(x), 16) >> 16; }
