// Integer and bit intrinsics.
#pragma once

MINIGRAD_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
MINIGRAD_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
MINIGRAD_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
MINIGRAD_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
MINIGRAD_INLINE int __ffs(int x) { return __builtin_ffs(x); }
MINIGRAD_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
MINIGRAD_INLINE unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
// The position of the |offset|-th set bit from bit `base` on, upwards or, below 0, downwards; ~0 if there is none. With
// offset 0, base if it is set.
MINIGRAD_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
    int step = offset < 0 ? -1 : 1, left = offset ? offset * step : 1;
    for (unsigned i = base; i < 32 && (offset || i == base); i += step)
        if (mask >> i & 1 && --left == 0) return i;
    return ~0u;
}
MINIGRAD_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
MINIGRAD_INLINE long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
MINIGRAD_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
// The mean of two numbers, rounded down or, with r, up; without overflow on the way.
MINIGRAD_INLINE int __hadd(int x, int y) { return int((long long)x + y >> 1); }
MINIGRAD_INLINE int __rhadd(int x, int y) { return int((long long)x + y + 1 >> 1); }
MINIGRAD_INLINE unsigned __uhadd(unsigned x, unsigned y) { return unsigned((unsigned long long)x + y >> 1); }
MINIGRAD_INLINE unsigned __urhadd(unsigned x, unsigned y) { return unsigned((unsigned long long)x + y + 1 >> 1); }
MINIGRAD_INLINE int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
MINIGRAD_INLINE unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
// Of the lowest 24 bits of each factor.
MINIGRAD_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
MINIGRAD_INLINE int __mul24(int x, int y) { return int(unsigned(x << 8 >> 8) * unsigned(y << 8 >> 8)); }
// |x - y| + z
MINIGRAD_INLINE unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x < y ? y - x : x - y) + z; }
MINIGRAD_INLINE unsigned __sad(int x, int y, unsigned z) {
    return (x < y ? unsigned(y) - unsigned(x) : unsigned(x) - unsigned(y)) + z;
}
MINIGRAD_INLINE unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
MINIGRAD_INLINE unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
MINIGRAD_INLINE long long llmin(long long a, long long b) { return b < a ? b : a; }
MINIGRAD_INLINE long long llmax(long long a, long long b) { return a < b ? b : a; }
MINIGRAD_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
MINIGRAD_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }

// Of the eight bytes of y and x the four that the lower hexadecimal digits of s name; their highest bits are not used.
MINIGRAD_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
// The upper half of high:low shifted left, the lower half of it shifted right, by the shift modulo 32 or at most 32.
MINIGRAD_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) << umin(shift, 32) >> 32;
}
MINIGRAD_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) >> umin(shift, 32);
}
MINIGRAD_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return __funnelshift_lc(low, high, shift & 31);
}
MINIGRAD_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return __funnelshift_rc(low, high, shift & 31);
}
// The dot product of four bytes, added to c; a sum that is too large wraps around.
MINIGRAD_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
    return c;
}
MINIGRAD_INLINE int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c = int(unsigned(c) + unsigned((signed char)(a >> i) * (signed char)(b >> i)));
    return c;
}
MINIGRAD_INLINE int __dp4a(char4 a, char4 b, int c) {
    return int(unsigned(c) + unsigned(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w));
}
MINIGRAD_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
    return c + unsigned(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
}
// Of two 16-bit numbers and the lower or the upper two bytes of b.
MINIGRAD_INLINE int __dp2a_lo(int a, int b, int c) {
    return int(unsigned(c) + unsigned(short(a) * (signed char)b + short(a >> 16) * (signed char)(b >> 8)));
}
MINIGRAD_INLINE int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
MINIGRAD_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
    return c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
MINIGRAD_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return __dp2a_lo(a, b >> 16, c); }
