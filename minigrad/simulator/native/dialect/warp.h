// Warp operations. Each lane deposits a value and waits; the last to arrive computes the results of all lanes, by a
// function that is inline: an unoptimised build has no others than those that its kernel takes.
#pragma once

namespace minigrad {

MINIGRAD_INLINE uint64_t exchange(unsigned mask, uint64_t value, unsigned argument, Finish* finish, const char* name,
                                  const char* file, int line) {
    WarpOperand operand = {mask, argument, value, finish};
    Site site = {name, file, line};
    minigrad_exchange(&site, &operand);
    return minigrad_self()->result;
}

MINIGRAD_INLINE unsigned lane() { return minigrad_self()->index % 32; }

template <class T>
MINIGRAD_INLINE uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T>
MINIGRAD_INLINE T from_bits(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline void finish_shuffle(uint64_t* value, const unsigned* source, unsigned lanes) {
    uint64_t brought[32];
    for (int i = 0; i < 32; ++i) brought[i] = lanes >> i & 1 ? value[i] : NOBODY;
    for (int i = 0; i < 32; ++i) if (lanes >> i & 1) value[i] = brought[source[i]];
}
inline void finish_ballot(uint64_t* value, const unsigned*, unsigned lanes) {
    uint64_t votes = 0;
    for (int i = 0; i < 32; ++i) if (lanes >> i & 1) votes |= uint64_t(value[i] != 0) << i;
    for (int i = 0; i < 32; ++i) if (lanes >> i & 1) value[i] = votes;
}
inline void finish_match(uint64_t* value, const unsigned*, unsigned lanes) {
    uint64_t same[32] = {};
    for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 32; ++j) same[i] |= uint64_t((lanes >> j & 1) && value[i] == value[j]) << j;
    for (int i = 0; i < 32; ++i) if (lanes >> i & 1) value[i] = same[i];
}
inline void finish_nothing(uint64_t*, const unsigned*, unsigned) {}

template <class T, T combine(T, T)>
inline void finish_reduce(uint64_t* value, const unsigned*, unsigned lanes) {
    int first = __builtin_ctz(lanes);
    T total = from_bits<T>(value[first]);
    for (int i = first + 1; i < 32; ++i) if (lanes >> i & 1) total = combine(total, from_bits<T>(value[i]));
    for (int i = 0; i < 32; ++i) if (lanes >> i & 1) value[i] = to_bits(total);
}
template <class T> inline T add(T a, T b) { return T(unsigned(a) + unsigned(b)); }
template <class T> inline T smaller(T a, T b) { return b < a ? b : a; }
template <class T> inline T larger(T a, T b) { return a < b ? b : a; }
template <class T> inline T all_bits(T a, T b) { return a & b; }
template <class T> inline T any_bits(T a, T b) { return a | b; }
template <class T> inline T odd_bits(T a, T b) { return a ^ b; }

template <class T>
MINIGRAD_INLINE T shuffle(unsigned mask, T value, unsigned source, const char* name, const char* file, int line) {
    return from_bits<T>(exchange(mask, to_bits(value), source, finish_shuffle, name, file, line));
}

}  // namespace minigrad

// A warp is divided into segments of `width` lanes; a source outside the own segment means the own value.
template <class T>
MINIGRAD_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32, MINIGRAD_HERE) {
    unsigned from = (minigrad::lane() & ~(width - 1)) | (source & (width - 1));
    return minigrad::shuffle(mask, value, from, "__shfl_sync", file, line);
}
template <class T>
MINIGRAD_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, MINIGRAD_HERE) {
    unsigned lane = minigrad::lane(), within = lane & (width - 1);
    return minigrad::shuffle(mask, value, delta <= within ? lane - delta : lane, "__shfl_up_sync", file, line);
}
template <class T>
MINIGRAD_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, MINIGRAD_HERE) {
    unsigned lane = minigrad::lane(), within = lane & (width - 1);
    unsigned from = delta < width - within ? lane + delta : lane;
    return minigrad::shuffle(mask, value, from, "__shfl_down_sync", file, line);
}
template <class T>
MINIGRAD_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, MINIGRAD_HERE) {
    unsigned lane = minigrad::lane(), from = (lane ^ bits) % 32;
    if (from > (lane | (width - 1))) from = lane;  // a lower segment may be read, a higher one not
    return minigrad::shuffle(mask, value, from, "__shfl_xor_sync", file, line);
}

MINIGRAD_INLINE unsigned __ballot_sync(unsigned mask, int predicate, MINIGRAD_HERE) {
    return minigrad::exchange(mask, predicate != 0, 0, minigrad::finish_ballot, "__ballot_sync", file, line);
}
MINIGRAD_INLINE int __any_sync(unsigned mask, int predicate, MINIGRAD_HERE) {
    return minigrad::exchange(mask, predicate != 0, 0, minigrad::finish_ballot, "__any_sync", file, line) != 0;
}
MINIGRAD_INLINE int __all_sync(unsigned mask, int predicate, MINIGRAD_HERE) {
    return minigrad::exchange(mask, predicate == 0, 0, minigrad::finish_ballot, "__all_sync", file, line) == 0;
}
MINIGRAD_INLINE void __syncwarp(unsigned mask = 0xffffffff, MINIGRAD_HERE) {
    minigrad::exchange(mask, 0, 0, minigrad::finish_nothing, "__syncwarp", file, line);
}
MINIGRAD_INLINE unsigned __activemask(MINIGRAD_HERE) {
    minigrad::Site site = {"__activemask", file, line};
    minigrad_active_mask(&site, 0);
    return minigrad_self()->result;
}
template <class T>
MINIGRAD_INLINE unsigned __match_any_sync(unsigned mask, T value, MINIGRAD_HERE) {
    uint64_t bits = minigrad::to_bits(value);
    return minigrad::exchange(mask, bits, 0, minigrad::finish_match, "__match_any_sync", file, line);
}
// The mask where all its lanes have this value, else 0.
template <class T>
MINIGRAD_INLINE unsigned __match_all_sync(unsigned mask, T value, int* same, MINIGRAD_HERE) {
    uint64_t bits = minigrad::to_bits(value);
    *same = minigrad::exchange(mask, bits, 0, minigrad::finish_match, "__match_all_sync", file, line) == mask;
    return *same ? mask : 0;
}

#define MINIGRAD_REDUCE(name, T, combine)                                                                 \
    MINIGRAD_INLINE T name(unsigned mask, T value, MINIGRAD_HERE) {                                       \
        return minigrad::from_bits<T>(minigrad::exchange(                                                \
            mask, minigrad::to_bits(value), 0, minigrad::finish_reduce<T, combine>, #name, file, line));  \
    }
MINIGRAD_REDUCE(__reduce_add_sync, int, minigrad::add)
MINIGRAD_REDUCE(__reduce_add_sync, unsigned, minigrad::add)
MINIGRAD_REDUCE(__reduce_min_sync, int, minigrad::smaller)
MINIGRAD_REDUCE(__reduce_min_sync, unsigned, minigrad::smaller)
MINIGRAD_REDUCE(__reduce_max_sync, int, minigrad::larger)
MINIGRAD_REDUCE(__reduce_max_sync, unsigned, minigrad::larger)
MINIGRAD_REDUCE(__reduce_and_sync, unsigned, minigrad::all_bits)
MINIGRAD_REDUCE(__reduce_or_sync, unsigned, minigrad::any_bits)
MINIGRAD_REDUCE(__reduce_xor_sync, unsigned, minigrad::odd_bits)
#undef MINIGRAD_REDUCE
