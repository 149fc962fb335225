// Arithmetic with a rounding in its name: _rn to nearest, _rz towards zero, _ru up, _rd down. And conversions.
#pragma once

#include <fenv.h>

namespace minigrad {

// As on the GPU a number out of range converts to the nearest integer, and NaN to the integer of the highest bit alone,
// or to 0 from a float to 32 bits; in C++ both are undefined.
template <class I, class T>
MINIGRAD_INLINE I saturated(double x) {
    constexpr I high = I(1ull << (sizeof(I) * 8 - 1)), least = I(-1) < 0 ? high : 0, most = ~least;
    if (x != x) return sizeof(I) == 4 && sizeof(T) == 4 ? 0 : high;
    if (x <= double(least)) return least;
    return x >= double(most) ? most : I(x);
}

}  // namespace minigrad

// Rounded to nearest, as every operation here; never fused.
MINIGRAD_INLINE float __fadd_rn(float x, float y) { return x + y; }
MINIGRAD_INLINE float __fsub_rn(float x, float y) { return x - y; }
MINIGRAD_INLINE float __fmul_rn(float x, float y) { return x * y; }
MINIGRAD_INLINE float __fdiv_rn(float x, float y) { return x / y; }
MINIGRAD_INLINE float __frcp_rn(float x) { return 1 / x; }
MINIGRAD_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
MINIGRAD_INLINE float __frsqrt_rn(float x) { return 1 / sqrtf(x); }
MINIGRAD_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
MINIGRAD_INLINE double __dadd_rn(double x, double y) { return x + y; }
MINIGRAD_INLINE double __dsub_rn(double x, double y) { return x - y; }
MINIGRAD_INLINE double __dmul_rn(double x, double y) { return x * y; }
MINIGRAD_INLINE double __ddiv_rn(double x, double y) { return x / y; }
MINIGRAD_INLINE double __drcp_rn(double x) { return 1 / x; }
MINIGRAD_INLINE double __dsqrt_rn(double x) { return ::sqrt(x); }
MINIGRAD_INLINE double __fma_rn(double x, double y, double z) { return ::fma(x, y, z); }

// An operation under a rounding mode of the processor. The empty asm keeps it between the two changes of the mode. No
// template: GCC would instantiate it in each kernel, of which few take any.
#define MINIGRAD_ROUNDED(R, mode, expression, ...)                                                        \
    fesetround(mode);                                                                                     \
    asm volatile("" : __VA_ARGS__ : : "memory");                                                          \
    R result = expression;                                                                                \
    asm volatile("" : "+m"(result) : : "memory");                                                         \
    fesetround(FE_TONEAREST);                                                                             \
    return result;
#define MINIGRAD_1(R, name, T, mode, expression)                                                          \
    MINIGRAD_INLINE R name(T x) { MINIGRAD_ROUNDED(R, mode, expression, "+m"(x)) }
#define MINIGRAD_2(R, name, T, mode, expression)                                                          \
    MINIGRAD_INLINE R name(T x, T y) { MINIGRAD_ROUNDED(R, mode, expression, "+m"(x), "+m"(y)) }
#define MINIGRAD_3(R, name, T, mode, expression)                                                          \
    MINIGRAD_INLINE R name(T x, T y, T z) { MINIGRAD_ROUNDED(R, mode, expression, "+m"(x), "+m"(y), "+m"(z)) }
#define MINIGRAD_DIRECTED(arity, R, name, T, expression)                                                  \
    arity(R, name##_rz, T, FE_TOWARDZERO, expression)                                                     \
    arity(R, name##_ru, T, FE_UPWARD, expression)                                                         \
    arity(R, name##_rd, T, FE_DOWNWARD, expression)
MINIGRAD_DIRECTED(MINIGRAD_2, float, __fadd, float, x + y)
MINIGRAD_DIRECTED(MINIGRAD_2, float, __fsub, float, x - y)
MINIGRAD_DIRECTED(MINIGRAD_2, float, __fmul, float, x * y)
MINIGRAD_DIRECTED(MINIGRAD_2, float, __fdiv, float, x / y)
MINIGRAD_DIRECTED(MINIGRAD_1, float, __frcp, float, 1 / x)
MINIGRAD_DIRECTED(MINIGRAD_1, float, __fsqrt, float, sqrtf(x))
MINIGRAD_DIRECTED(MINIGRAD_3, float, __fmaf, float, fmaf(x, y, z))
MINIGRAD_DIRECTED(MINIGRAD_2, double, __dadd, double, x + y)
MINIGRAD_DIRECTED(MINIGRAD_2, double, __dsub, double, x - y)
MINIGRAD_DIRECTED(MINIGRAD_2, double, __dmul, double, x * y)
MINIGRAD_DIRECTED(MINIGRAD_2, double, __ddiv, double, x / y)
MINIGRAD_DIRECTED(MINIGRAD_1, double, __drcp, double, 1 / x)
MINIGRAD_DIRECTED(MINIGRAD_1, double, __dsqrt, double, ::sqrt(x))
MINIGRAD_DIRECTED(MINIGRAD_3, double, __fma, double, ::fma(x, y, z))
MINIGRAD_DIRECTED(MINIGRAD_1, float, __double2float, double, float(x))
MINIGRAD_DIRECTED(MINIGRAD_1, float, __int2float, int, float(x))
MINIGRAD_DIRECTED(MINIGRAD_1, float, __uint2float, unsigned, float(x))
MINIGRAD_DIRECTED(MINIGRAD_1, float, __ll2float, long long, float(x))
MINIGRAD_DIRECTED(MINIGRAD_1, float, __ull2float, unsigned long long, float(x))
MINIGRAD_DIRECTED(MINIGRAD_1, double, __ll2double, long long, double(x))
MINIGRAD_DIRECTED(MINIGRAD_1, double, __ull2double, unsigned long long, double(x))
#undef MINIGRAD_DIRECTED
#undef MINIGRAD_3
#undef MINIGRAD_2
#undef MINIGRAD_1
#undef MINIGRAD_ROUNDED

MINIGRAD_INLINE float __int2float_rn(int x) { return float(x); }
MINIGRAD_INLINE float __uint2float_rn(unsigned x) { return float(x); }
MINIGRAD_INLINE float __ll2float_rn(long long x) { return float(x); }
MINIGRAD_INLINE float __ull2float_rn(unsigned long long x) { return float(x); }
MINIGRAD_INLINE float __double2float_rn(double x) { return float(x); }
MINIGRAD_INLINE double __int2double_rn(int x) { return x; }
MINIGRAD_INLINE double __ll2double_rn(long long x) { return double(x); }
MINIGRAD_INLINE double __ull2double_rn(unsigned long long x) { return double(x); }
MINIGRAD_INLINE double __uint2double_rn(unsigned x) { return x; }

#define MINIGRAD_TO(I, name, T)                                                                           \
    MINIGRAD_INLINE I name##_rn(T x) { return minigrad::saturated<I, T>(::rint(double(x))); }                \
    MINIGRAD_INLINE I name##_rz(T x) { return minigrad::saturated<I, T>(x); }                                \
    MINIGRAD_INLINE I name##_ru(T x) { return minigrad::saturated<I, T>(::ceil(double(x))); }                \
    MINIGRAD_INLINE I name##_rd(T x) { return minigrad::saturated<I, T>(::floor(double(x))); }
MINIGRAD_TO(int, __float2int, float)
MINIGRAD_TO(unsigned, __float2uint, float)
MINIGRAD_TO(long long, __float2ll, float)
MINIGRAD_TO(unsigned long long, __float2ull, float)
MINIGRAD_TO(int, __double2int, double)
MINIGRAD_TO(unsigned, __double2uint, double)
MINIGRAD_TO(long long, __double2ll, double)
MINIGRAD_TO(unsigned long long, __double2ull, double)
#undef MINIGRAD_TO
