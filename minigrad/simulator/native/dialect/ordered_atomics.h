// Atomics that name their order and scope, as CUDA has them since 12.8. Each is one of those without, between fences.
#pragma once

enum { __NV_ATOMIC_RELAXED, __NV_ATOMIC_CONSUME, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELEASE, __NV_ATOMIC_ACQ_REL,
       __NV_ATOMIC_SEQ_CST };
enum { __NV_THREAD_SCOPE_THREAD, __NV_THREAD_SCOPE_BLOCK, __NV_THREAD_SCOPE_CLUSTER, __NV_THREAD_SCOPE_DEVICE,
       __NV_THREAD_SCOPE_SYSTEM };

namespace minigrad {

// The fences around an atomic of this order.
struct Ordered {
    int order;
    bool device;
    __forceinline__ Ordered(void* word, size_t bytes, int order, int scope, bool replaces = false)
        : order(order), device(scope > __NV_THREAD_SCOPE_CLUSTER) {
        if (order >= __NV_ATOMIC_RELEASE) fence(device);
        begin_atomic(word, bytes, device, replaces);
    }
    __forceinline__ ~Ordered() {
        if (order != __NV_ATOMIC_RELAXED && order != __NV_ATOMIC_RELEASE) fence(device);
    }
};

template <class T> struct Same { using type = T; };  // of an argument from which T is not deduced

}  // namespace minigrad

#define MINIGRAD_ORDER int order, int scope = __NV_THREAD_SCOPE_SYSTEM, MINIGRAD_HERE
template <class T> MINIGRAD_INLINE T __nv_atomic_load_n(T* address, MINIGRAD_ORDER) {
    minigrad::Ordered ordered(address, sizeof(T), order, scope);
    T value;
    __atomic_load(address, &value, __ATOMIC_RELAXED);
    minigrad::note_update(address, false, ordered.device, file, line);
    return value;
}
template <class T>
MINIGRAD_INLINE T __nv_atomic_exchange_n(T* address, typename minigrad::Same<T>::type value, MINIGRAD_ORDER) {
    minigrad::Ordered ordered(address, sizeof(T), order, scope, true);
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    minigrad::note_swap(address, old != value, ordered.device, file, line);
    return old;
}
template <class T>
MINIGRAD_INLINE void __nv_atomic_store_n(T* address, typename minigrad::Same<T>::type value, MINIGRAD_ORDER) {
    __nv_atomic_exchange_n(address, value, order, scope, file, line);
}
template <class T>
MINIGRAD_INLINE bool __nv_atomic_compare_exchange_n(T* address, T* expected, typename minigrad::Same<T>::type value,
                                                    bool, int order, int, int scope = __NV_THREAD_SCOPE_SYSTEM,
                                                    MINIGRAD_HERE) {
    minigrad::Ordered ordered(address, sizeof(T), order, scope);
    bool done = __atomic_compare_exchange(address, expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    minigrad::note_swap(address, done, ordered.device, file, line);
    return done;
}
#define MINIGRAD_ORDERED_UPDATE(name, expression)                                                         \
    template <class T>                                                                                    \
    MINIGRAD_INLINE T __nv_atomic_fetch_##name(T* address, typename minigrad::Same<T>::type value,        \
                                               MINIGRAD_ORDER) {                                          \
        minigrad::Ordered ordered(address, sizeof(T), order, scope);                                      \
        T old, next;                                                                                      \
        __atomic_load(address, &old, __ATOMIC_RELAXED);                                                   \
        do next = expression;                                                                             \
        while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        minigrad::note_update(address, memcmp(&old, &next, sizeof(T)) != 0, ordered.device, file, line);  \
        return old;                                                                                       \
    }                                                                                                     \
    template <class T>                                                                                    \
    MINIGRAD_INLINE void __nv_atomic_##name(T* address, typename minigrad::Same<T>::type value,           \
                                            MINIGRAD_ORDER) {                                             \
        __nv_atomic_fetch_##name(address, value, order, scope, file, line);                               \
    }
MINIGRAD_ORDERED_UPDATE(add, old + value)
MINIGRAD_ORDERED_UPDATE(sub, old - value)
MINIGRAD_ORDERED_UPDATE(and, old & value)
MINIGRAD_ORDERED_UPDATE(or, old | value)
MINIGRAD_ORDERED_UPDATE(xor, old ^ value)
MINIGRAD_ORDERED_UPDATE(min, value < old ? value : old)
MINIGRAD_ORDERED_UPDATE(max, old < value ? value : old)
#undef MINIGRAD_ORDERED_UPDATE
#undef MINIGRAD_ORDER
