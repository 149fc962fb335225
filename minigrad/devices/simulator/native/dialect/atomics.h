// Atomics, for the types that CUDA has them for and no others. Blocks run on several cores, so they are real atomics.
// An atomic that waits for another thread, as in a lock, changes nothing while it waits: then it yields to the others.
#pragma once

namespace minigrad {

// Replace *address by change(*address) and return what was there.
template <class T, class Change>
MINIGRAD_INLINE T atomic_update(T* address, Change change) {
    MINIGRAD_NOTE_ATOMIC(address);
    T old, next;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do next = change(old);
    while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <class T>
MINIGRAD_INLINE T yielding(T old, bool unchanged, const char* file, int line) {
    if (unchanged) {
        Site site = {"an atomic", file, line};
        minigrad_yield(&site, 0);
    }
    return old;
}

}  // namespace minigrad

#define MINIGRAD_ATOMIC(T, name, expression)                                                              \
    MINIGRAD_INLINE T name(T* address, T value) {                                                         \
        return minigrad::atomic_update(address, [=](T old) -> T { return expression; });                  \
    }                                                                                                     \
    MINIGRAD_INLINE T name##_block(T* address, T value) { return name(address, value); }                  \
    MINIGRAD_INLINE T name##_system(T* address, T value) { return name(address, value); }

#define MINIGRAD_FETCH(T, name, operation, nothing)                                                       \
    MINIGRAD_INLINE T name(T* address, T value, MINIGRAD_HERE) {                                          \
        MINIGRAD_NOTE_ATOMIC(address);                                                                    \
        T old = operation(address, value, __ATOMIC_RELAXED);                                              \
        return minigrad::yielding(old, value == (T)(nothing), file, line);                                \
    }                                                                                                     \
    MINIGRAD_INLINE T name##_block(T* address, T value) { return name(address, value); }                  \
    MINIGRAD_INLINE T name##_system(T* address, T value) { return name(address, value); }

#define MINIGRAD_SWAP(T)                                                                                  \
    MINIGRAD_INLINE T atomicExch(T* address, T value, MINIGRAD_HERE) {                                    \
        MINIGRAD_NOTE_ATOMIC(address);                                                                    \
        T old;                                                                                            \
        __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);                                       \
        return minigrad::yielding(old, old == value, file, line);                                         \
    }
// After the exchange `expected` holds what was there.
#define MINIGRAD_CAS(T)                                                                                   \
    MINIGRAD_INLINE T atomicCAS(T* address, T expected, T value, MINIGRAD_HERE) {                         \
        MINIGRAD_NOTE_ATOMIC(address);                                                                    \
        bool done = __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST,       \
                                                __ATOMIC_SEQ_CST);                                        \
        return minigrad::yielding(expected, !done, file, line);                                           \
    }
#define MINIGRAD_INTEGER_ATOMICS(T)                                                                       \
    MINIGRAD_FETCH(T, atomicAdd, __atomic_fetch_add, 0)                                                   \
    MINIGRAD_FETCH(T, atomicAnd, __atomic_fetch_and, -1)                                                  \
    MINIGRAD_FETCH(T, atomicOr, __atomic_fetch_or, 0)                                                     \
    MINIGRAD_FETCH(T, atomicXor, __atomic_fetch_xor, 0)                                                   \
    MINIGRAD_ATOMIC(T, atomicMin, value < old ? value : old)                                              \
    MINIGRAD_ATOMIC(T, atomicMax, old < value ? value : old)                                              \
    MINIGRAD_SWAP(T)                                                                                      \
    MINIGRAD_CAS(T)

MINIGRAD_INTEGER_ATOMICS(int)
MINIGRAD_INTEGER_ATOMICS(unsigned)
MINIGRAD_INTEGER_ATOMICS(unsigned long long)
MINIGRAD_FETCH(int, atomicSub, __atomic_fetch_sub, 0)
MINIGRAD_FETCH(unsigned, atomicSub, __atomic_fetch_sub, 0)
MINIGRAD_ATOMIC(long long, atomicMin, value < old ? value : old)
MINIGRAD_ATOMIC(long long, atomicMax, old < value ? value : old)
MINIGRAD_ATOMIC(unsigned, atomicInc, old >= value ? 0 : old + 1)
MINIGRAD_ATOMIC(unsigned, atomicDec, old == 0 || old > value ? value : old - 1)
MINIGRAD_ATOMIC(float, atomicAdd, old + value)
MINIGRAD_ATOMIC(double, atomicAdd, old + value)
MINIGRAD_SWAP(float)
MINIGRAD_CAS(unsigned short)

#undef MINIGRAD_INTEGER_ATOMICS
#undef MINIGRAD_CAS
#undef MINIGRAD_SWAP
#undef MINIGRAD_FETCH
#undef MINIGRAD_ATOMIC
