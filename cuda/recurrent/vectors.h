// Vectors of numbers, one register each, by the vector extensions that GCC and Clang share: a + b adds all lanes.
#pragma once

#include <stdint.h>

#if defined(__AVX512F__)
#define REGISTER 64  // bytes
#elif defined(__AVX2__)
#define REGISTER 32
#else
#define REGISTER 16  // SSE2 and NEON
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define ACCUMULATORS 24  // of 32 registers; the others hold weights and inputs
#else
#define ACCUMULATORS 12  // of 16
#endif

constexpr int LANES = REGISTER / sizeof(real);

template <int bytes> struct Integer { using type = int32_t; };
template <> struct Integer<8> { using type = int64_t; };

typedef real vector __attribute__((vector_size(REGISTER)));
typedef Integer<sizeof(real)>::type bits __attribute__((vector_size(REGISTER)));

static inline vector load(const real* from) {
    vector x;
    __builtin_memcpy(&x, from, sizeof x);  // one instruction, at any address
    return x;
}

static inline void store(real* to, vector x) { __builtin_memcpy(to, &x, sizeof x); }

// Only the first `count` lanes: those of the last units, where the hidden size is no multiple of a vector's.
static inline vector load(const real* from, int count) {
    if (count >= LANES) {
        return load(from);
    }
    vector x = {};
    for (int i = 0; i < count; i++) {
        x[i] = from[i];
    }
    return x;
}

static inline void store(real* to, vector x, int count) {
    if (count >= LANES) {
        return store(to, x);
    }
    for (int i = 0; i < count; i++) {
        to[i] = x[i];
    }
}

// [exp] e^x = 2^n e^r, where n is x / log 2 rounded, so that r is at most log(2) / 2: Taylor's series of e^r is short.
static inline vector exponential(vector x) {
    constexpr bool single = sizeof(real) == 4;
    constexpr real limit = single ? 80 : 700;  // beyond it a sigmoid is 0 or 1; NaN passes both comparisons
    constexpr real magic = single ? 0x1.8p23 : 0x1.8p52;  // added to n, it leaves n in the lowest bits of the sum
    constexpr real log2_high = single ? 0x1.62e4p-1 : 0x1.62e42feep-1;  // n * log2_high is exact
    constexpr real log2_low = single ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33;
    constexpr double term[] = {1, 1, 1 / 2., 1 / 6., 1 / 24., 1 / 120., 1 / 720., 1 / 5040., 1 / 40320., 1 / 362880.,
                               1 / 3628800., 1 / 39916800., 1 / 479001600., 1 / 6227020800.};
    constexpr int degree = single ? 7 : 13;
    x = x > limit ? vector{} + limit : x;
    x = x < -limit ? vector{} - limit : x;
    vector shifted = x * real(0x1.71547652b82fep0) + magic;
    vector n = shifted - magic;
    vector r = x - n * log2_high - n * log2_low;
    vector y = vector{} + real(term[degree]);
#pragma GCC unroll 16
    for (int i = degree - 1; i >= 0; i--) {
        y = y * r + real(term[i]);
    }
    return (vector)((bits)y + ((bits)shifted << (single ? 23 : 52)));  // n more in the exponent: times 2^n
}

static inline vector sigmoid(vector x) { return 1 / (1 + exponential(-x)); }

static inline vector hyperbolic(vector x) { return 1 - 2 / (1 + exponential(2 * x)); }  // tanh x
