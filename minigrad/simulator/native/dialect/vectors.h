// float4 and its family, aligned as on the GPU: a float4 is one access and must begin at a multiple of 16 bytes.
#pragma once

#if defined(__clang__) && !defined(MINIGRAD_WATCHED)
// GCC checks the alignment of each whole vector access; Clang does not where it copies a vector. For Clang each vector
// has an empty member whose copy makes the check. The microscope checks every access anyway.
namespace minigrad {
template <int BYTES>
struct AlignmentCheck {
    AlignmentCheck() = default;
    AlignmentCheck(const AlignmentCheck& other) { other.check(); }
    AlignmentCheck& operator=(const AlignmentCheck& other) {
        other.check();
        check();
        return *this;
    }
    void check() const {
        uintptr_t address = reinterpret_cast<uintptr_t>(this);
        asm("" : "+r"(address));  // or the compiler would trust the type, and drop the check
        if (address % BYTES) minigrad_misaligned("vector", address, BYTES);
    }
};
}  // namespace minigrad
#define MINIGRAD_CHECKED(bytes) [[no_unique_address]] minigrad::AlignmentCheck<bytes> check;
#else
#define MINIGRAD_CHECKED(bytes)
#endif

#define MINIGRAD_VECTORS(T, name, two, four)                                                              \
    struct name##1 { T x; };                                                                              \
    struct alignas(two) name##2 { using minigrad_vector = name##2; T x, y; MINIGRAD_CHECKED(two) };       \
    MINIGRAD_THREE(T, name)                                                                               \
    struct alignas(four) name##4 { using minigrad_vector = name##4; T x, y, z, w; MINIGRAD_CHECKED(four) }; \
    MINIGRAD_INLINE constexpr name##1 make_##name##1(T x) { return {x}; }                                 \
    MINIGRAD_INLINE constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                         \
    MINIGRAD_INLINE constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                 \
    MINIGRAD_INLINE constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

#define MINIGRAD_THREE(T, name) struct name##3 { T x, y, z; };
MINIGRAD_VECTORS(signed char, char, 2, 4)
MINIGRAD_VECTORS(unsigned char, uchar, 2, 4)
MINIGRAD_VECTORS(short, short, 4, 8)
MINIGRAD_VECTORS(unsigned short, ushort, 4, 8)
MINIGRAD_VECTORS(int, int, 8, 16)
MINIGRAD_VECTORS(long long, longlong, 16, 16)
MINIGRAD_VECTORS(unsigned long long, ulonglong, 16, 16)
MINIGRAD_VECTORS(long, long, 16, 16)
MINIGRAD_VECTORS(unsigned long, ulong, 16, 16)
MINIGRAD_VECTORS(float, float, 8, 16)
MINIGRAD_VECTORS(double, double, 16, 16)
#undef MINIGRAD_THREE
#define MINIGRAD_THREE(T, name)  // uint3 is threadIdx's type and is in abi.h
MINIGRAD_VECTORS(unsigned, uint, 8, 16)
#undef MINIGRAD_THREE
#undef MINIGRAD_VECTORS
