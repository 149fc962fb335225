// Halves, numbers of 16 bits with 11 digits, as TF32 has: tensor cores multiply them twice as fast, and they are half as
// many bytes. The price is their range: below 2^-14 they have fewer digits, and beyond 65504 they are infinite.
//
// A float as two of them: x = big + small / 2^11, together 22 digits. Both fit into its 4 bytes, so what is split
// once, a weight or h, needs no splitting where it is multiplied.
#pragma once
#include "matmul/mma.cuh"
#include "vector.cuh"

#ifdef MINIGRAD_SIM
__device__ inline unsigned short to_half(float x) {
    unsigned all = __float_as_uint(x), bits = all & 0x7fffffff, sign = all >> 16 & 0x8000;
    if (bits > 0x7f800000) return 0x7fff;              // NaN
    if (bits >= 0x47800000) return sign | 0x7c00;      // from 65536 on infinity
    if (bits < 0x38800000)                             // below 2^-14 all are multiples of 2^-24, as near 1/2
        return sign | __float_as_uint(__uint_as_float(bits) + 0.5f) - __float_as_uint(0.5f);
    return sign | (minigrad::rounded(bits, 13) - 0x38000000) >> 13;
}
__device__ inline float from_half(unsigned half) {
    unsigned bits = (half & 0x7fff) << 13;
    float x = bits < 0xf800000 ? __uint_as_float(bits) * 0x1p112f : __uint_as_float(bits | 0x7f800000);
    return half & 0x8000 ? -x : x;
}
#else
__device__ inline unsigned short to_half(float x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}
__device__ inline float from_half(unsigned half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)half));
    return x;
}
#endif

// c += a @ b: (16, 16) @ (16, 8) of halves, summed in float.
__device__ inline void mma_half(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef MINIGRAD_SIM
    for (int upper = 0; upper < 32; upper += 16) {  // a half is a TF32 as well; any order of the terms will do
        auto one = [=](unsigned pair) { return __float_as_uint(from_half(pair >> upper & 0xffff)); };
        unsigned ones[4] = {one(a[0]), one(a[1]), one(a[2]), one(a[3])};
        minigrad::mma_tf32(c, ones, one(b0), one(b1));
    }
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

struct Half {
    unsigned short bits;

    Half() = default;
    __device__ Half& operator=(float x) {
        bits = to_half(x);
        return *this;
    }
};

// For TF32.
struct Half1 {
    using T = Half;
    static constexpr int PRODUCTS = 1;
    template <int N> static __device__ void round(unsigned (&)[N]) {}
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned* b) { mma_half(c, a, b[0], b[1]); }
};

struct Halves {
    unsigned bits;  // small is the upper one

    Halves() = default;
    __device__ Halves& operator=(float x) {
        unsigned big = to_half(x);
        bits = big | (unsigned)to_half((x - from_half(big)) * 2048) << 16;  // the difference is exact
        return *this;
    }
};

// Float32's accuracy from halves: big big + (big small + small big) / 2^11; small small, 2^-22 of it, is left out. Tensor
// cores round their sums toward zero, so these are added to c by ordinary additions.
struct Half3 {
    using T = Halves;
    static constexpr int PRODUCTS = 3;
    template <int N> static __device__ void round(unsigned (&)[N]) {}
};
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[2][4], const unsigned (&b)[4], Half3) {
    float big[4] = {}, small[4] = {};
    mma_half(small, a[1], b[0], b[1]);
    mma_half(big, a[0], b[0], b[1]);
    mma_half(small, a[0], b[2], b[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) c[i] += big[i] + small[i] * 0x1p-11f;
}
