// bfloat16, the upper half of a float: its range, and 8 of its 24 digits. It is a type of memory. Reading one gives a float,
// in which all arithmetic is done; writing one rounds, to the nearest and ties to even.
#pragma once

struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;
    __device__ explicit bfloat16(float x) : bits(nearest(x)) {}  // explicit: `real x = a * b;` would round unseen
    // Whole numbers, as y[i] = 0. With this, C++ rejects `c ? x[i] : 0`, of which it would make an int: write real(0).
    template <class Whole, class = decltype(Whole() % Whole())>
    __device__ bfloat16(Whole n) : bfloat16(static_cast<float>(n)) {}

    __device__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
    __device__ bfloat16& operator=(float x) { return *this = bfloat16(x); }

    static __device__ unsigned short nearest(float x) {
#if __CUDA_ARCH__ >= 800
        unsigned short upper;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(upper) : "f"(x));
        return upper;
#else
        unsigned all = __float_as_uint(x);
        if ((all & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN, as the instruction writes it
        return (all + 0x7fff + (all >> 16 & 1)) >> 16;
#endif
    }
};
