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

// a * b + c of small floats, whose product is exact, as a double whose last bit is odd where it had to be rounded.
MINIGRAD_INLINE double odd_fma(double a, double b, double c) {
    double product = a * b, sum = product + c, part = sum - product, lost = (product - (sum - part)) + (c - part);
    if (!isfinite(sum) || lost == 0) return sum;
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (!(bits & 1)) bits += (lost > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, sizeof bits);
    return sum;
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

// An integer of 64 bits as a double whose last bit is odd where it had to be rounded, as odd_float.
MINIGRAD_INLINE double odd_double(unsigned long long x) { return x >> 53 ? double(x >> 11 | !!(x & 2047)) * 2048 : x; }
MINIGRAD_INLINE double odd_double(long long x) { return x < 0 ? -odd_double(0ull - x) : odd_double(0ull + x); }

// The nearest small float that is not above (down) or not below x.
template <typename T> MINIGRAD_INLINE T directed(double x, bool down) {
    T near(x);
    double d = float(near);
    if (down ? d <= x || x != x : d >= x || x != x) return near;
    bool away = down == bool(near.bits & 0x8000);  // from zero
    if (!away && !(near.bits & 0x7fff)) near.bits = down ? 0x8001 : 1;
    else near.bits += away ? 1 : -1;
    return near;
}
template <typename T> MINIGRAD_INLINE T truncated(double x) { return directed<T>(x, x > 0); }

// As the GPU converts: what is outside the range becomes its end, NaN 0, or of 64 bits the highest bit.
template <typename I> MINIGRAD_INLINE I saturated(double x) {
    constexpr int bits = 8 * sizeof(I);
    constexpr bool is_signed = I(-1) < I(0);
    constexpr I least = is_signed ? I(1ull << (bits - 1)) : I(0);
    if (x != x) return bits == 64 ? I(1ull << 63) : I(0);
    if (x >= ldexp(1.0, bits - is_signed)) return I(~least);
    return x <= double(least) ? least : I(x);
}

template <typename T> MINIGRAD_INLINE T not_a_number() { T x; x.bits = 0x7fff; return x; }
template <typename T> MINIGRAD_INLINE bool ordered(T a, T b) { return a == a && b == b; }
template <typename T> MINIGRAD_INLINE T unit(T x) { return x > T(0) ? x < T(1) ? x : T(1) : T(0); }
template <typename T> MINIGRAD_INLINE T positive(T x) { return x != x ? not_a_number<T>() : x > T(0) ? x : T(0); }

}  // namespace minigrad

#define MINIGRAD_SMALL_OPERATOR(T, op)                                                          \
    MINIGRAD_INLINE T operator op(T a, T b) { return T(float(a) op float(b)); }                 \
    MINIGRAD_INLINE T& operator op##=(T& a, T b) { return a = a op b; }                         \
    MINIGRAD_INLINE T##2 operator op(T##2 a, T##2 b) { return {a.x op b.x, a.y op b.y}; }       \
    MINIGRAD_INLINE T##2& operator op##=(T##2& a, T##2 b) { return a = a op b; }
// One that is true only for numbers, one that is also true where there is a NaN, and of pairs both, each and masks.
#define MINIGRAD_SMALL_COMPARISON(T, op, name)                                                  \
    MINIGRAD_INLINE bool operator op(T a, T b) { return float(a) op float(b); }                 \
    MINIGRAD_INLINE bool operator op(T##2 a, T##2 b) { return a.x op b.x && a.y op b.y; }       \
    MINIGRAD_INLINE bool __h##name(T a, T b) { return minigrad::ordered(a, b) && a op b; }      \
    MINIGRAD_INLINE bool __h##name##u(T a, T b) { return !minigrad::ordered(a, b) || a op b; }  \
    MINIGRAD_SMALL_COMPARED(T, name, 2) MINIGRAD_SMALL_COMPARED(T, name##u, 2)
#define MINIGRAD_SMALL_COMPARED(T, name, two)                                                   \
    MINIGRAD_INLINE bool __hb##name##two(T##2 a, T##2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); } \
    MINIGRAD_INLINE T##2 __h##name##two(T##2 a, T##2 b) {                                       \
        return {T(__h##name(a.x, b.x)), T(__h##name(a.y, b.y))};                                \
    }                                                                                           \
    MINIGRAD_INLINE unsigned __h##name##two##_mask(T##2 a, T##2 b) {                            \
        return __h##name(a.x, b.x) * 0xffffu | __h##name(a.y, b.y) * 0xffff0000u;               \
    }
#define MINIGRAD_SMALL_BINARY(T, name, suffix, value)                                           \
    MINIGRAD_INLINE T name##suffix(T a, T b) { return value; }                                  \
    MINIGRAD_INLINE T##2 name##2##suffix(T##2 a, T##2 b) { return {name##suffix(a.x, b.x), name##suffix(a.y, b.y)}; }
#define MINIGRAD_SMALL_ARITHMETIC(T, name, op)                                                  \
    MINIGRAD_SMALL_BINARY(T, name, , a op b) MINIGRAD_SMALL_BINARY(T, name, _rn, a op b)        \
    MINIGRAD_SMALL_BINARY(T, name, _sat, minigrad::unit(a op b))
#define MINIGRAD_SMALL_FMA(T, suffix, after)                                                    \
    MINIGRAD_INLINE T __hfma##suffix(T a, T b, T c) {                                           \
        return after(T(minigrad::odd_fma(a, b, c)));                                            \
    }                                                                                           \
    MINIGRAD_INLINE T##2 __hfma2##suffix(T##2 a, T##2 b, T##2 c) {                              \
        return {__hfma##suffix(a.x, b.x, c.x), __hfma##suffix(a.y, b.y, c.y)};                  \
    }
// h##name and h2##name.
#define MINIGRAD_SMALL_UNARY(T, name, value)                                                    \
    MINIGRAD_INLINE T h##name(T a) { float x = a; return T(value); }                            \
    MINIGRAD_INLINE T##2 h2##name(T##2 a) { return {h##name(a.x), h##name(a.y)}; }

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
        T(int x) : T(double(x)) {}                                                              \
        T(unsigned x) : T(double(x)) {}                                                         \
        T(long x) : T(minigrad::odd_double((long long)x)) {}                                    \
        T(long long x) : T(minigrad::odd_double(x)) {}                                          \
        T(unsigned long x) : T(minigrad::odd_double((unsigned long long)x)) {}                  \
        T(unsigned long long x) : T(minigrad::odd_double(x)) {}                                 \
        operator float() const { return minigrad::Format::unpack(bits); }                       \
    };                                                                                          \
    struct alignas(4) T##2 {                                                                    \
        T x, y;                                                                                 \
        T##2() = default;                                                                       \
        T##2(T x, T y) : x(x), y(y) {}                                                          \
    };                                                                                          \
    MINIGRAD_SMALL_OPERATOR(T, +) MINIGRAD_SMALL_OPERATOR(T, -)                                 \
    MINIGRAD_SMALL_OPERATOR(T, *) MINIGRAD_SMALL_OPERATOR(T, /)                                 \
    MINIGRAD_INLINE T operator+(T a) { return a; }                                              \
    MINIGRAD_INLINE T operator-(T a) { a.bits ^= 0x8000; return a; }                            \
    MINIGRAD_INLINE T##2 operator+(T##2 a) { return a; }                                        \
    MINIGRAD_INLINE T##2 operator-(T##2 a) { return {-a.x, -a.y}; }                             \
    MINIGRAD_SMALL_COMPARISON(T, ==, eq) MINIGRAD_SMALL_COMPARISON(T, !=, ne)                   \
    MINIGRAD_SMALL_COMPARISON(T, <, lt) MINIGRAD_SMALL_COMPARISON(T, <=, le)                    \
    MINIGRAD_SMALL_COMPARISON(T, >, gt) MINIGRAD_SMALL_COMPARISON(T, >=, ge)                    \
    MINIGRAD_SMALL_ARITHMETIC(T, __hadd, +) MINIGRAD_SMALL_ARITHMETIC(T, __hsub, -)             \
    MINIGRAD_SMALL_ARITHMETIC(T, __hmul, *)                                                     \
    MINIGRAD_SMALL_BINARY(T, __hmin, , a != a || b < a || (b == a && b.bits >> 15) ? b : a)     \
    MINIGRAD_SMALL_BINARY(T, __hmax, , a != a || b > a || (b == a && a.bits >> 15) ? b : a)     \
    MINIGRAD_SMALL_BINARY(T, __hmin, _nan, minigrad::ordered(a, b) ? __hmin(a, b) : minigrad::not_a_number<T>()) \
    MINIGRAD_SMALL_BINARY(T, __hmax, _nan, minigrad::ordered(a, b) ? __hmax(a, b) : minigrad::not_a_number<T>()) \
    MINIGRAD_INLINE T __hdiv(T a, T b) { return a / b; }                                        \
    MINIGRAD_INLINE T##2 __h2div(T##2 a, T##2 b) { return a / b; }                              \
    MINIGRAD_SMALL_FMA(T, , ) MINIGRAD_SMALL_FMA(T, _sat, minigrad::unit)                       \
    MINIGRAD_SMALL_FMA(T, _relu, minigrad::positive)                                            \
    MINIGRAD_INLINE T##2 __hcmadd(T##2 a, T##2 b, T##2 c) { /* complex numbers */               \
        return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))}; \
    }                                                                                           \
    MINIGRAD_INLINE T __hneg(T a) { return -a; }                                                \
    MINIGRAD_INLINE T##2 __hneg2(T##2 a) { return -a; }                                         \
    MINIGRAD_INLINE T __habs(T a) { a.bits &= 0x7fff; return a; }                               \
    MINIGRAD_INLINE T##2 __habs2(T##2 a) { return {__habs(a.x), __habs(a.y)}; }                 \
    MINIGRAD_INLINE bool __hisnan(T a) { return a != a; }                                       \
    MINIGRAD_INLINE T##2 __hisnan2(T##2 a) { return {T(a.x != a.x), T(a.y != a.y)}; }           \
    MINIGRAD_INLINE int __hisinf(T a) { return isinf(float(a)) ? (float(a) > 0 ? 1 : -1) : 0; } \
    MINIGRAD_SMALL_UNARY(T, sqrt, sqrtf(x)) MINIGRAD_SMALL_UNARY(T, rsqrt, 1 / sqrtf(x))        \
    MINIGRAD_SMALL_UNARY(T, rcp, 1 / x) MINIGRAD_SMALL_UNARY(T, sin, sinf(x))                   \
    MINIGRAD_SMALL_UNARY(T, cos, cosf(x)) MINIGRAD_SMALL_UNARY(T, tanh, tanhf(x))               \
    MINIGRAD_SMALL_UNARY(T, tanh_approx, tanhf(x)) MINIGRAD_SMALL_UNARY(T, exp, expf(x))        \
    MINIGRAD_SMALL_UNARY(T, exp2, exp2f(x)) MINIGRAD_SMALL_UNARY(T, exp10, exp10f(x))           \
    MINIGRAD_SMALL_UNARY(T, log, logf(x)) MINIGRAD_SMALL_UNARY(T, log2, log2f(x))               \
    MINIGRAD_SMALL_UNARY(T, log10, log10f(x)) MINIGRAD_SMALL_UNARY(T, floor, floorf(x))         \
    MINIGRAD_SMALL_UNARY(T, ceil, ceilf(x)) MINIGRAD_SMALL_UNARY(T, rint, rintf(x))             \
    MINIGRAD_SMALL_UNARY(T, trunc, truncf(x))                                                   \
    MINIGRAD_SMALL_ATOMIC(T)                                                                    \
    MINIGRAD_INLINE T##2 __lowhigh2highlow(T##2 a) { return {a.y, a.x}; }                       \
    MINIGRAD_INLINE float __low2float(T##2 a) { return a.x; }                                   \
    MINIGRAD_INLINE float __high2float(T##2 a) { return a.y; }

// Integers of type I, which the names call `name`.
#define MINIGRAD_SMALL_INTEGER(T, S, I, name, exact)                                            \
    MINIGRAD_INLINE I __##S##2##name##_rn(T a) { return minigrad::saturated<I>(rintf(a)); }     \
    MINIGRAD_INLINE I __##S##2##name##_rz(T a) { return minigrad::saturated<I>(float(a)); }     \
    MINIGRAD_INLINE I __##S##2##name##_ru(T a) { return minigrad::saturated<I>(ceilf(a)); }     \
    MINIGRAD_INLINE I __##S##2##name##_rd(T a) { return minigrad::saturated<I>(floorf(a)); }    \
    MINIGRAD_INLINE T __##name##2##S##_rn(I x) { return T(x); }                                 \
    MINIGRAD_INLINE T __##name##2##S##_rz(I x) { return minigrad::truncated<T>(exact(x)); }     \
    MINIGRAD_INLINE T __##name##2##S##_ru(I x) { return minigrad::directed<T>(exact(x), false); } \
    MINIGRAD_INLINE T __##name##2##S##_rd(I x) { return minigrad::directed<T>(exact(x), true); }

// The conversions of both headers: S is half or bfloat16 in their names.
#define MINIGRAD_SMALL_CONVERSIONS(T, S)                                                        \
    MINIGRAD_INLINE T __float2##S(float x) { return T(x); }                                     \
    MINIGRAD_INLINE T __float2##S##_rn(float x) { return T(x); }                                \
    MINIGRAD_INLINE T __float2##S##_rz(float x) { return minigrad::truncated<T>(x); }           \
    MINIGRAD_INLINE T __float2##S##_ru(float x) { return minigrad::directed<T>(x, false); }     \
    MINIGRAD_INLINE T __float2##S##_rd(float x) { return minigrad::directed<T>(x, true); }      \
    MINIGRAD_INLINE T __double2##S(double x) { return T(x); }                                   \
    MINIGRAD_INLINE float __##S##2float(T a) { return a; }                                      \
    MINIGRAD_SMALL_INTEGER(T, S, short, short, ) MINIGRAD_SMALL_INTEGER(T, S, unsigned short, ushort, ) \
    MINIGRAD_SMALL_INTEGER(T, S, int, int, ) MINIGRAD_SMALL_INTEGER(T, S, unsigned, uint, )     \
    MINIGRAD_SMALL_INTEGER(T, S, long long, ll, minigrad::odd_double)                           \
    MINIGRAD_SMALL_INTEGER(T, S, unsigned long long, ull, minigrad::odd_double)                 \
    MINIGRAD_INLINE signed char __##S##2char_rz(T a) { return minigrad::saturated<signed char>(float(a)); } \
    MINIGRAD_INLINE unsigned char __##S##2uchar_rz(T a) { return minigrad::saturated<unsigned char>(float(a)); } \
    MINIGRAD_INLINE T __ushort_as_##S(unsigned short bits) { T a; a.bits = bits; return a; }    \
    MINIGRAD_INLINE T __short_as_##S(short bits) { T a; a.bits = bits; return a; }              \
    MINIGRAD_INLINE unsigned short __##S##_as_ushort(T a) { return a.bits; }                    \
    MINIGRAD_INLINE short __##S##_as_short(T a) { return a.bits; }                              \
    MINIGRAD_INLINE T##2 __halves2##S##2(T x, T y) { return {x, y}; }                           \
    MINIGRAD_INLINE T##2 make_##S##2(T x, T y) { return {x, y}; }                               \
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
