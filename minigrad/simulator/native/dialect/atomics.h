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
// After an update of *address from old to next.
template <class T>
MINIGRAD_INLINE void note_update(T* address, T old, T next, bool device, const char* file, int line) {
    if (memcmp(&old, &next, sizeof(T))) MINIGRAD_NOTE_CHANGE(address, device);
    else if (++minigrad_self()->failed_atomics == 16) {
        minigrad_self()->failed_atomics = 0;
        yield_after_nothing(file, line);
    }
}

// As on the GPU, a misaligned word is a fault.
template <class T>
MINIGRAD_INLINE void begin_atomic(T* word, bool device, bool replaces = false) {
    uintptr_t address = reinterpret_cast<uintptr_t>(word);
    asm("" : "+r"(address));  // or the compiler would trust the type
    if (address % sizeof(T)) minigrad_misaligned("word of an atomic", address, sizeof(T));
    MINIGRAD_NOTE_ATOMIC(word, device, replaces);
}

// Replace *address by change(*address) and return the old value. device: device scope, else block scope.
template <class T, class Change>
MINIGRAD_INLINE T atomic_update(T* address, bool device, const char* file, int line, Change change) {
    begin_atomic(address, device);
    T old, next;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do next = change(old);
    while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    note_update(address, old, next, device, file, line);
    return old;
}
template <class T>
MINIGRAD_INLINE T exchange(T* address, T value, bool device, const char* file, int line) {
    begin_atomic(address, device, true);
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);
    if (old != value) MINIGRAD_NOTE_CHANGE(address, device);
    else yield_after_nothing(file, line);
    return old;
}
// After the exchange `expected` holds the old value.
template <class T>
MINIGRAD_INLINE T compare_and_swap(T* address, T expected, T value, bool device, const char* file, int line) {
    begin_atomic(address, device);
    bool done = __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (done) MINIGRAD_NOTE_CHANGE(address, device);
    else yield_after_nothing(file, line);
    return expected;
}

}  // namespace minigrad

// Each atomic in three scopes: device, block, and system.
#define MINIGRAD_SCOPES(one, ...)                                                                         \
    one(, true, __VA_ARGS__) one(_block, false, __VA_ARGS__) one(_system, true, __VA_ARGS__)

#define MINIGRAD_UPDATE(suffix, device, T, name, expression)                                              \
    MINIGRAD_INLINE T name##suffix(T* address, T value, MINIGRAD_HERE) {                                  \
        auto change = [=](T old) -> T { return expression; };                                             \
        return minigrad::atomic_update(address, device, file, line, change);                              \
    }
#define MINIGRAD_FETCH(suffix, device, T, name, operation, sign)                                          \
    MINIGRAD_INLINE T name##suffix(T* address, T value, MINIGRAD_HERE) {                                  \
        minigrad::begin_atomic(address, device);                                                          \
        T old = operation(address, value, __ATOMIC_RELAXED);                                              \
        minigrad::note_update(address, old, (T)(old sign value), device, file, line);                     \
        return old;                                                                                       \
    }
#define MINIGRAD_SWAP(suffix, device, T)                                                                  \
    MINIGRAD_INLINE T atomicExch##suffix(T* address, T value, MINIGRAD_HERE) {                            \
        return minigrad::exchange(address, value, device, file, line);                                    \
    }
#define MINIGRAD_CAS(suffix, device, T)                                                                   \
    MINIGRAD_INLINE T atomicCAS##suffix(T* address, T expected, T value, MINIGRAD_HERE) {                 \
        return minigrad::compare_and_swap(address, expected, value, device, file, line);                  \
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

#undef MINIGRAD_INTEGER_ATOMICS
#undef MINIGRAD_CAS
#undef MINIGRAD_SWAP
#undef MINIGRAD_FETCH
#undef MINIGRAD_UPDATE
#undef MINIGRAD_SCOPES
