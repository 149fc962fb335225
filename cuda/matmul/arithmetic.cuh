// The arithmetic of a product on tensor cores: in bfloat16, in TF32, or in float32 by three products in TF32.
#pragma once
#include "matmul/mma.cuh"

// The arithmetic of a product: the type in memory, the rounding of what a lane has fetched, when it is used, not when it is
// loaded; and c += tall @ flat.
struct Bf16 {
    using T = bfloat16;
    static constexpr int PRODUCTS = 1;  // instructions for a product
    template <int N> static __device__ void round(unsigned (&)[N]) {}
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned* b) { mma_bf16(c, a, b[0], b[1]); }
};

// Floats rounded to TF32.
struct Tf32 {
    using T = float;
    static constexpr int PRODUCTS = 1;
    template <int N>
    static __device__ void round(unsigned (&x)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) x[i] = to_tf32(x[i]);
    }
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned* b) { mma_tf32(c, a, b[0], b[1]); }
};

// Float32's accuracy from TF32: x = big + small, both TF32, and a b = big big + big small + small big; what is left out,
// small small, is 2^-22 of it. Tensor cores round their sums toward zero, so each sum of three is added to c by an
// ordinary addition. An infinite number becomes NaN, since inf - inf and 0 * inf are.
struct Tf32x3 {
    using T = float;
    static constexpr int PRODUCTS = 3;
    template <int N> static __device__ void round(unsigned (&)[N]) {}
    template <int N>
    static __device__ void split(const unsigned* x, unsigned (&big)[N], unsigned (&small)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            big[i] = to_tf32(x[i]);
            small[i] = __float_as_uint(__uint_as_float(x[i]) - __uint_as_float(big[i]));  // exact; the tensor core truncates it
        }
    }
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned* b) {
        unsigned a_big[4], a_small[4], b_big[2], b_small[2];
        split(a, a_big, a_small);  // the compiler does this once for all products of a
        split(b, b_big, b_small);
        float sum[4] = {};
        mma_tf32(sum, a_small, b_big[0], b_big[1]);
        mma_tf32(sum, a_big, b_small[0], b_small[1]);
        mma_tf32(sum, a_big, b_big[0], b_big[1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] += sum[i];
    }
};
