// Floating-point numbers of 16 bits: memory holds them, and each operation is done in float and rounded once.
#pragma once

namespace minigrad {

MINIGRAD_INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
MINIGRAD_INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Of the two floats around a number that is none, the one with an odd last bit: rounded once more to fewer bits, it
// gives what the number itself would.
MINIGRAD_INLINE float odd_float(double x) {
    float near = float(x);
    if (x != x || double(near) == x) return near;
    return float_of((bits_of(near) - (fabs(double(near)) > fabs(x))) | 1);
}

// The bits above the last `shift`, rounded to the nearest, ties to even.
MINIGRAD_INLINE uint32_t nearest_bits(uint32_t bits, unsigned shift) {
    return (bits + (1u << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

struct Bfloat16Format {
    static uint16_t pack(float x) { return x != x ? 0x7fff : nearest_bits(bits_of(x), 16); }
    static float unpack(uint16_t bits) { return float_of(uint32_t(bits) << 16); }
};

struct HalfFormat {
    static uint16_t pack(float x) {
        uint32_t all = bits_of(x), sign = all >> 16 & 0x8000, size = all & 0x7fffffff;
        if (size > 0x7f800000) return 0x7fff;
        if (size >= 0x477ff000) return sign | 0x7c00;                         // 65520 and more
        if (size >= 0x38800000) return sign | nearest_bits(size - 0x38000000, 13);  // the exponent counts from -15
        return sign | uint16_t(bits_of(float_of(size) + 0.5f) - 0x3f000000);   // 0.5f has the steps of a subnormal
    }
    static float unpack(uint16_t bits) {
        uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
        if (size >= 0x7c00) return float_of(sign | 0x7f800000 | size << 13);
        return float_of(sign | bits_of(float_of(size << 13) * 0x1p112f));
    }
};

// Between 0 and 1, and not below 0; NaN becomes 0 in one and stays in the other, as on a GPU.
template <class T> T saturated(T a) { return float(a) > 0 ? float(a) < 1 ? a : T(1.0f) : T(0.0f); }
template <class T> T positive(T a) { return float(a) < 0 ? T(0.0f) : a; }

// The nearest number of 16 bits, or its neighbour where that lies on the wrong side: of 0 (TO_ZERO), below or above x.
enum Side { TO_ZERO, DOWN, UP };
template <class T>
T on_side(float x, Side side) {
    T near = T(x);
    float seen = near;
    bool wrong = side == UP ? seen < x : side == DOWN ? seen > x : fabsf(seen) > fabsf(x);
    bool shrink = (seen > 0) == (side != UP);  // a smaller bit pattern is a number nearer to 0
    if (wrong) near.bits += side == TO_ZERO || shrink ? -1 : 1;
    if (wrong && seen == 0) near.bits = side == UP ? 1 : 0x8001;  // the smallest number
    return near;
}

}  // namespace minigrad

#define MINIGRAD_SMALL_OPERATOR(T, op)                                                          \
    MINIGRAD_INLINE T operator op(T a, T b) { return T(float(a) op float(b)); }                 \
    MINIGRAD_INLINE T& operator op##=(T& a, T b) { return a = a op b; }                         \
    MINIGRAD_INLINE T##2 operator op(T##2 a, T##2 b) { return {a.x op b.x, a.y op b.y}; }       \
    MINIGRAD_INLINE T##2& operator op##=(T##2& a, T##2 b) { return a = a op b; }
#define MINIGRAD_SMALL_COMPARISON(T, op, name)                                                  \
    MINIGRAD_INLINE bool operator op(T a, T b) { return float(a) op float(b); }                 \
    MINIGRAD_INLINE bool name(T a, T b) { return a op b; }
#define MINIGRAD_SMALL_BINARY(T, name, value)                                                   \
    MINIGRAD_INLINE T name(T a, T b) { return value; }                                          \
    MINIGRAD_INLINE T##2 name##2(T##2 a, T##2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define MINIGRAD_SMALL_SATURATED(T, name)                                                       \
    MINIGRAD_INLINE T name##_sat(T a, T b) { return minigrad::saturated(name(a, b)); }          \
    MINIGRAD_INLINE T##2 name##2_sat(T##2 a, T##2 b) { return {name##_sat(a.x, b.x), name##_sat(a.y, b.y)}; }
#define MINIGRAD_SMALL_FMA(T, end, bounded)                                                     \
    MINIGRAD_INLINE T __hfma##end(T a, T b, T c) { return bounded(__hfma(a, b, c)); }           \
    MINIGRAD_INLINE T##2 __hfma2##end(T##2 a, T##2 b, T##2 c) {                                 \
        return {__hfma##end(a.x, b.x, c.x), __hfma##end(a.y, b.y, c.y)};                        \
    }
#define MINIGRAD_SMALL_PAIR(T, name, one)                                                       \
    MINIGRAD_INLINE T##2 name(T##2 a) { return {one(a.x), one(a.y)}; }
#define MINIGRAD_SMALL_COMPARED(T, name)                                                        \
    MINIGRAD_INLINE T##2 __h##name##2(T##2 a, T##2 b) { return {T(__h##name(a.x, b.x)), T(__h##name(a.y, b.y))}; } \
    MINIGRAD_INLINE bool __hb##name##2(T##2 a, T##2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }
#define MINIGRAD_SMALL_UNARY(T, name, value)                                                    \
    MINIGRAD_INLINE T name(T a) { float x = a; return T(value); }

#define MINIGRAD_SMALL_ATOMIC(T)                                                                \
    MINIGRAD_INLINE T atomicAdd(T* address, T value, MINIGRAD_HERE) {                           \
        MINIGRAD_ATOMIC_UPDATE(T, true, old + value)                                            \
    }                                                                                           \
    MINIGRAD_INLINE T##2 atomicAdd(T##2* p, T##2 value, MINIGRAD_HERE) {                        \
        T x = atomicAdd(&p->x, value.x, file, line);                                            \
        return {x, atomicAdd(&p->y, value.y, file, line)};                                      \
    }

#define MINIGRAD_SMALL_FLOAT(T, Format)                                                         \
    struct T {                                                                                  \
        uint16_t bits;                                                                          \
        T() = default;                                                                          \
        T(float x) : bits(minigrad::Format::pack(x)) {}                                         \
        T(double x) : T(minigrad::odd_float(x)) {}                                              \
        T(int x) : T(float(x)) {}                                                               \
        T(unsigned x) : T(float(x)) {}                                                          \
        T(long long x) : T(float(x)) {}                                                         \
        operator float() const { return minigrad::Format::unpack(bits); }                       \
    };                                                                                          \
    struct alignas(4) T##2 {                                                                    \
        T x, y;                                                                                 \
        T##2() = default;                                                                       \
        T##2(T x, T y) : x(x), y(y) {}                                                          \
    };                                                                                          \
    MINIGRAD_SMALL_OPERATOR(T, +) MINIGRAD_SMALL_OPERATOR(T, -)                                 \
    MINIGRAD_SMALL_OPERATOR(T, *) MINIGRAD_SMALL_OPERATOR(T, /)                                 \
    MINIGRAD_INLINE T operator-(T a) { a.bits ^= 0x8000; return a; }                            \
    MINIGRAD_SMALL_COMPARISON(T, ==, __heq) MINIGRAD_SMALL_COMPARISON(T, !=, __hne)             \
    MINIGRAD_SMALL_COMPARISON(T, <, __hlt) MINIGRAD_SMALL_COMPARISON(T, <=, __hle)              \
    MINIGRAD_SMALL_COMPARISON(T, >, __hgt) MINIGRAD_SMALL_COMPARISON(T, >=, __hge)              \
    MINIGRAD_SMALL_BINARY(T, __hadd, a + b) MINIGRAD_SMALL_BINARY(T, __hsub, a - b)             \
    MINIGRAD_SMALL_BINARY(T, __hmul, a * b)                                                     \
    MINIGRAD_SMALL_BINARY(T, __hmin, T(fminf(a, b))) MINIGRAD_SMALL_BINARY(T, __hmax, T(fmaxf(a, b))) \
    MINIGRAD_INLINE T __hdiv(T a, T b) { return a / b; }                                        \
    MINIGRAD_INLINE T##2 __h2div(T##2 a, T##2 b) { return a / b; }                              \
    MINIGRAD_INLINE T __hfma(T a, T b, T c) { return T(fma(double(a), double(b), double(c))); } \
    MINIGRAD_INLINE T##2 __hfma2(T##2 a, T##2 b, T##2 c) {                                      \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                  \
    }                                                                                           \
    MINIGRAD_SMALL_SATURATED(T, __hadd) MINIGRAD_SMALL_SATURATED(T, __hsub) MINIGRAD_SMALL_SATURATED(T, __hmul) \
    MINIGRAD_SMALL_FMA(T, _sat, minigrad::saturated) MINIGRAD_SMALL_FMA(T, _relu, minigrad::positive) \
    MINIGRAD_INLINE T __hneg(T a) { return -a; }                                                \
    MINIGRAD_INLINE bool __hisnan(T a) { return float(a) != float(a); }                         \
    MINIGRAD_INLINE int __hisinf(T a) { return isinf(float(a)) ? (float(a) > 0 ? 1 : -1) : 0; } \
    MINIGRAD_SMALL_UNARY(T, __habs, fabsf(x)) MINIGRAD_SMALL_UNARY(T, hsqrt, sqrtf(x))          \
    MINIGRAD_SMALL_UNARY(T, hrsqrt, 1 / sqrtf(x)) MINIGRAD_SMALL_UNARY(T, hrcp, 1 / x)          \
    MINIGRAD_SMALL_UNARY(T, hexp, expf(x)) MINIGRAD_SMALL_UNARY(T, hlog, logf(x))               \
    MINIGRAD_SMALL_UNARY(T, hsin, sinf(x)) MINIGRAD_SMALL_UNARY(T, hcos, cosf(x))               \
    MINIGRAD_SMALL_UNARY(T, hfloor, floorf(x)) MINIGRAD_SMALL_UNARY(T, hceil, ceilf(x))         \
    MINIGRAD_SMALL_COMPARED(T, eq) MINIGRAD_SMALL_COMPARED(T, ne)                         \
    MINIGRAD_SMALL_COMPARED(T, lt) MINIGRAD_SMALL_COMPARED(T, le)                         \
    MINIGRAD_SMALL_COMPARED(T, gt) MINIGRAD_SMALL_COMPARED(T, ge)                         \
    MINIGRAD_SMALL_PAIR(T, h2sqrt, hsqrt) MINIGRAD_SMALL_PAIR(T, h2exp, hexp)                   \
    MINIGRAD_SMALL_PAIR(T, h2log, hlog) MINIGRAD_SMALL_PAIR(T, h2rcp, hrcp)                     \
    MINIGRAD_SMALL_PAIR(T, __hneg2, __hneg) MINIGRAD_SMALL_PAIR(T, __habs2, __habs)             \
    MINIGRAD_SMALL_ATOMIC(T)                                                                    \
    MINIGRAD_INLINE float __low2float(T##2 a) { return a.x; }                                   \
    MINIGRAD_INLINE float __high2float(T##2 a) { return a.y; }

// The conversions of both headers: S is half or bfloat16 in their names.
#define MINIGRAD_SMALL_CONVERSIONS(T, S)                                                        \
    MINIGRAD_INLINE T __float2##S(float x) { return T(x); }                                     \
    MINIGRAD_INLINE T __float2##S##_rn(float x) { return T(x); }                                \
    MINIGRAD_INLINE T __float2##S##_rz(float x) { return minigrad::on_side<T>(x, minigrad::TO_ZERO); } \
    MINIGRAD_INLINE T __float2##S##_rd(float x) { return minigrad::on_side<T>(x, minigrad::DOWN); } \
    MINIGRAD_INLINE T __float2##S##_ru(float x) { return minigrad::on_side<T>(x, minigrad::UP); } \
    MINIGRAD_INLINE T __double2##S(double x) { return T(x); }                                   \
    MINIGRAD_INLINE T __int2##S##_rn(int x) { return T(x); }                                    \
    MINIGRAD_INLINE float __##S##2float(T a) { return a; }                                      \
    MINIGRAD_INLINE int __##S##2int_rn(T a) { return int(rintf(a)); }                           \
    MINIGRAD_INLINE int __##S##2int_rz(T a) { return int(float(a)); }                           \
    MINIGRAD_INLINE T __ushort_as_##S(unsigned short bits) { T a; a.bits = bits; return a; }    \
    MINIGRAD_INLINE unsigned short __##S##_as_ushort(T a) { return a.bits; }                    \
    MINIGRAD_INLINE T##2 __##S##2##S##2(T a) { return {a, a}; }                                 \
    MINIGRAD_INLINE T##2 __float2##S##2_rn(float x) { return {T(x), T(x)}; }                    \
    MINIGRAD_INLINE T##2 __floats2##S##2_rn(float x, float y) { return {T(x), T(y)}; }          \
    MINIGRAD_INLINE T##2 __float22##S##2_rn(float2 v) { return {T(v.x), T(v.y)}; }              \
    MINIGRAD_INLINE float2 __##S##22float2(T##2 a) { return {a.x, a.y}; }                       \
    MINIGRAD_INLINE T##2 __lows2##S##2(T##2 a, T##2 b) { return {a.x, b.x}; }                   \
    MINIGRAD_INLINE T##2 __highs2##S##2(T##2 a, T##2 b) { return {a.y, b.y}; }                  \
    MINIGRAD_INLINE T##2 __low2##S##2(T##2 a) { return {a.x, a.x}; }                            \
    MINIGRAD_INLINE T##2 __high2##S##2(T##2 a) { return {a.y, a.y}; }                           \
    MINIGRAD_INLINE T __low2##S(T##2 a) { return a.x; }                                         \
    MINIGRAD_INLINE T __high2##S(T##2 a) { return a.y; }
