// Atomics, for the types that CUDA supports and no others. Blocks run on several cores, so they are real atomics. A
// thread that waits by atomics, as at a lock, changes nothing while it waits, so it yields to the others: at once by
// exchange and compare-and-swap, by the other atomics at each 16th without effect, as many kernels call these without
// waiting.
#pragma once

namespace minigrad {

MINIGRAD_INLINE void yield_after_nothing(const char* file, int line) {
    Site site = {"an atomic", file, line};
    minigrad_yield(&site, 0);
}
// After an update of *address; changed: to another value.
MINIGRAD_INLINE void note_update(void* address, bool changed, bool device, const char* file, int line) {
    if (changed) MINIGRAD_NOTE_CHANGE(address, device);
    else if (++minigrad_self()->failed_atomics == 16) {
        minigrad_self()->failed_atomics = 0;
        yield_after_nothing(file, line);
    }
}
// After a swap.
MINIGRAD_INLINE void note_swap(void* address, bool changed, bool device, const char* file, int line) {
    if (changed) MINIGRAD_NOTE_CHANGE(address, device);
    else yield_after_nothing(file, line);
}

// As on the GPU, a misaligned word is a fault.
MINIGRAD_INLINE void begin_atomic(void* word, size_t bytes, bool device, bool replaces = false) {
    uintptr_t address = reinterpret_cast<uintptr_t>(word);
    asm("" : "+r"(address));  // or the compiler would trust the type
    if (address % bytes) minigrad_misaligned("word of an atomic", address, bytes);
    MINIGRAD_NOTE_ATOMIC(word, bytes, device, replaces);
}

}  // namespace minigrad

// The body of an atomic that replaces `old` at the address by an expression and returns it. device: device scope, else
// block scope. Macros, as GCC would instantiate templates in each kernel, of which few take any.
#define MINIGRAD_ATOMIC_UPDATE(T, device, expression)                                                     \
    minigrad::begin_atomic(address, sizeof(T), device);                                                   \
    T old, next;                                                                                          \
    __atomic_load(address, &old, __ATOMIC_RELAXED);                                                       \
    do next = expression;                                                                                 \
    while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));   \
    minigrad::note_update(address, memcmp(&old, &next, sizeof(T)) != 0, device, file, line);              \
    return old;

// Each atomic in three scopes: device, block, and system.
#define MINIGRAD_SCOPES(one, ...)                                                                         \
    one(, true, __VA_ARGS__) one(_block, false, __VA_ARGS__) one(_system, true, __VA_ARGS__)

#define MINIGRAD_UPDATE(suffix, device, T, name, expression)                                              \
    MINIGRAD_INLINE T name##suffix(T* address, T value, MINIGRAD_HERE) {                                  \
        MINIGRAD_ATOMIC_UPDATE(T, device, expression)                                                     \
    }
#define MINIGRAD_FETCH(suffix, device, T, name, operation, sign)                                          \
    MINIGRAD_INLINE T name##suffix(T* address, T value, MINIGRAD_HERE) {                                  \
        minigrad::begin_atomic(address, sizeof(T), device);                                               \
        T old = operation(address, value, __ATOMIC_RELAXED);                                              \
        minigrad::note_update(address, (T)(old sign value) != old, device, file, line);                     \
        return old;                                                                                       \
    }
#define MINIGRAD_SWAP(suffix, device, T)                                                                  \
    MINIGRAD_INLINE T atomicExch##suffix(T* address, T value, MINIGRAD_HERE) {                            \
        minigrad::begin_atomic(address, sizeof(T), device, true);                                         \
        T old;                                                                                            \
        __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);                                       \
        minigrad::note_swap(address, old != value, device, file, line);                                   \
        return old;                                                                                       \
    }
// After the exchange `expected` holds the old value.
#define MINIGRAD_CAS(suffix, device, T)                                                                   \
    MINIGRAD_INLINE T atomicCAS##suffix(T* address, T expected, T value, MINIGRAD_HERE) {                 \
        minigrad::begin_atomic(address, sizeof(T), device);                                               \
        constexpr int order = __ATOMIC_SEQ_CST;                                                           \
        bool done = __atomic_compare_exchange_n(address, &expected, value, false, order, order);          \
        minigrad::note_swap(address, done, device, file, line);                                           \
        return expected;                                                                                  \
    }
#define MINIGRAD_INTEGER_ATOMICS(T)                                                                       \
    MINIGRAD_SCOPES(MINIGRAD_FETCH, T, atomicAdd, __atomic_fetch_add, +)                                  \
    MINIGRAD_SCOPES(MINIGRAD_FETCH, T, atomicAnd, __atomic_fetch_and, &)                                 \
    MINIGRAD_SCOPES(MINIGRAD_FETCH, T, atomicOr, __atomic_fetch_or, |)                                    \
    MINIGRAD_SCOPES(MINIGRAD_FETCH, T, atomicXor, __atomic_fetch_xor, ^)                                  \
    MINIGRAD_SCOPES(MINIGRAD_UPDATE, T, atomicMin, value < old ? value : old)                             \
    MINIGRAD_SCOPES(MINIGRAD_UPDATE, T, atomicMax, old < value ? value : old)                             \
    MINIGRAD_SCOPES(MINIGRAD_SWAP, T)                                                                     \
    MINIGRAD_SCOPES(MINIGRAD_CAS, T)

MINIGRAD_INTEGER_ATOMICS(int)
MINIGRAD_INTEGER_ATOMICS(unsigned)
MINIGRAD_INTEGER_ATOMICS(unsigned long long)
MINIGRAD_SCOPES(MINIGRAD_FETCH, int, atomicSub, __atomic_fetch_sub, -)
MINIGRAD_SCOPES(MINIGRAD_FETCH, unsigned, atomicSub, __atomic_fetch_sub, -)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, long long, atomicMin, value < old ? value : old)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, long long, atomicMax, old < value ? value : old)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, unsigned, atomicInc, old >= value ? 0 : old + 1)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, unsigned, atomicDec, old == 0 || old > value ? value : old - 1)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, float, atomicAdd, old + value)
MINIGRAD_SCOPES(MINIGRAD_UPDATE, double, atomicAdd, old + value)
MINIGRAD_SCOPES(MINIGRAD_SWAP, float)
MINIGRAD_SCOPES(MINIGRAD_CAS, unsigned short)
// Each number of a vector is added by itself.
#define MINIGRAD_ADD_VECTOR(suffix, device, _)                                                            \
    MINIGRAD_INLINE float2 atomicAdd##suffix(float2* address, float2 value, MINIGRAD_HERE) {              \
        float x = atomicAdd##suffix(&address->x, value.x, file, line);                                    \
        return {x, atomicAdd##suffix(&address->y, value.y, file, line)};                                  \
    }                                                                                                     \
    MINIGRAD_INLINE float4 atomicAdd##suffix(float4* address, float4 value, MINIGRAD_HERE) {              \
        float2 low = atomicAdd##suffix((float2*)address, float2{value.x, value.y}, file, line);           \
        float2 high = atomicAdd##suffix((float2*)address + 1, float2{value.z, value.w}, file, line);      \
        return {low.x, low.y, high.x, high.y};                                                            \
    }
MINIGRAD_SCOPES(MINIGRAD_ADD_VECTOR, )

#undef MINIGRAD_ADD_VECTOR
#undef MINIGRAD_INTEGER_ATOMICS
#undef MINIGRAD_CAS
#undef MINIGRAD_SWAP
#undef MINIGRAD_FETCH
#undef MINIGRAD_UPDATE
#undef MINIGRAD_SCOPES
