// Arithmetic on the four bytes or the two halves of a word, lane by lane: __vadd4, __vmaxs2 and their family.
#pragma once

namespace minigrad {

template <class T>
MINIGRAD_INLINE int clamped(int x) {
    constexpr int most = T(-1) < 0 ? (1 << (8 * sizeof(T) - 1)) - 1 : (1 << 8 * sizeof(T)) - 1;
    constexpr int least = T(-1) < 0 ? -most - 1 : 0;
    return x < least ? least : x > most ? most : x;
}
template <class T>
MINIGRAD_INLINE unsigned sum_of_differences(unsigned a, unsigned b) {
    unsigned sum = 0;
    for (int i = 0; i < 32; i += 8 * sizeof(T)) sum += abs(int(T(a >> i)) - int(T(b >> i)));
    return sum;
}

}  // namespace minigrad

// The results of an expression for x and y, lanes of type T, packed again. No template: GCC would instantiate it in each
// kernel, of which few take any.
#define MINIGRAD_LANES(name, T, expression)                                                               \
    MINIGRAD_INLINE unsigned name(unsigned a, unsigned b) {                                               \
        unsigned result = 0;                                                                              \
        for (int i = 0; i < 32; i += 8 * sizeof(T)) {                                                     \
            int x = (T)(a >> i), y = (T)(b >> i);                                                         \
            result |= (unsigned(expression) & (sizeof(T) == 1 ? 0xffu : 0xffffu)) << i;                   \
        }                                                                                                 \
        return result;                                                                                    \
    }
#define MINIGRAD_COMPARED(name, N, T, op)                                                                 \
    MINIGRAD_LANES(__vcmp##name##N, T, x op y ? -1 : 0) MINIGRAD_LANES(__vset##name##N, T, x op y ? 1 : 0)
// N lanes of the signed type S and the unsigned type U.
#define MINIGRAD_WORD(N, S, U)                                                                            \
    MINIGRAD_LANES(__vadd##N, S, x + y) MINIGRAD_LANES(__vsub##N, S, x - y)                               \
    MINIGRAD_LANES(__vaddss##N, S, minigrad::clamped<S>(x + y))                                           \
    MINIGRAD_LANES(__vaddus##N, U, minigrad::clamped<U>(x + y))                                           \
    MINIGRAD_LANES(__vsubss##N, S, minigrad::clamped<S>(x - y))                                           \
    MINIGRAD_LANES(__vsubus##N, U, minigrad::clamped<U>(x - y))                                           \
    MINIGRAD_LANES(__vmaxs##N, S, x < y ? y : x) MINIGRAD_LANES(__vmaxu##N, U, x < y ? y : x)             \
    MINIGRAD_LANES(__vmins##N, S, y < x ? y : x) MINIGRAD_LANES(__vminu##N, U, y < x ? y : x)             \
    MINIGRAD_LANES(__vavgs##N, S, (x + y + (x + y >= 0)) >> 1) MINIGRAD_LANES(__vavgu##N, U, (x + y + 1) >> 1) \
    MINIGRAD_LANES(__vhaddu##N, U, (x + y) >> 1)                                                          \
    MINIGRAD_LANES(__vabsdiffs##N, S, x < y ? y - x : x - y)                                              \
    MINIGRAD_LANES(__vabsdiffu##N, U, x < y ? y - x : x - y)                                              \
    MINIGRAD_COMPARED(eq, N, S, ==) MINIGRAD_COMPARED(ne, N, S, !=)                                       \
    MINIGRAD_COMPARED(gts, N, S, >) MINIGRAD_COMPARED(gtu, N, U, >)                                       \
    MINIGRAD_COMPARED(ges, N, S, >=) MINIGRAD_COMPARED(geu, N, U, >=)                                     \
    MINIGRAD_COMPARED(lts, N, S, <) MINIGRAD_COMPARED(ltu, N, U, <)                                       \
    MINIGRAD_COMPARED(les, N, S, <=) MINIGRAD_COMPARED(leu, N, U, <=)                                     \
    MINIGRAD_INLINE unsigned __vabs##N(unsigned a) { return __vabsdiffs##N(a, 0); }                       \
    MINIGRAD_INLINE unsigned __vneg##N(unsigned a) { return __vsub##N(0, a); }                            \
    MINIGRAD_INLINE unsigned __vnegss##N(unsigned a) { return __vsubss##N(0, a); }                        \
    MINIGRAD_INLINE unsigned __vabsss##N(unsigned a) { return __vmaxs##N(a, __vsubss##N(0, a)); }          \
    MINIGRAD_INLINE unsigned __vsads##N(unsigned a, unsigned b) { return minigrad::sum_of_differences<S>(a, b); } \
    MINIGRAD_INLINE unsigned __vsadu##N(unsigned a, unsigned b) { return minigrad::sum_of_differences<U>(a, b); }
MINIGRAD_WORD(4, signed char, unsigned char)
MINIGRAD_WORD(2, short, unsigned short)
#undef MINIGRAD_WORD
#undef MINIGRAD_COMPARED
#undef MINIGRAD_LANES
