// The shared state of the threads of a block: indices, shared memory, barriers; and the entry point of a kernel.
#pragma once

// The default argument __builtin_LINE() is the line of the call, for messages about barriers that never complete.
#define MINIGRAD_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// The compiler makes a Site for each barrier in the text, so that two barriers in one line stay distinct.
#define MINIGRAD_SITE(name)                                              \
    ({                                                                   \
        static const minigrad::Site site = {name, __FILE__, __LINE__};   \
        &site;                                                           \
    })
#define __syncthreads() minigrad_barrier(MINIGRAD_SITE("__syncthreads"), 0)
namespace minigrad {
MINIGRAD_INLINE int vote(const Site* site, int predicate) {
    minigrad_vote(site, predicate);
    return minigrad_self()->result;
}
}  // namespace minigrad
#define __syncthreads_count(predicate) minigrad::vote(MINIGRAD_SITE("__syncthreads_count"), predicate)
#define __syncthreads_or(predicate) (minigrad::vote(MINIGRAD_SITE("__syncthreads_or"), predicate) != 0)
#define __syncthreads_and(predicate) (minigrad::vote(MINIGRAD_SITE("__syncthreads_and"), !(predicate)) == 0)
namespace minigrad {
MINIGRAD_INLINE void fence(bool device) {
    MINIGRAD_NOTE_FENCE(device);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
}  // namespace minigrad
MINIGRAD_INLINE void __threadfence_block() { minigrad::fence(false); }
MINIGRAD_INLINE void __threadfence() { minigrad::fence(true); }
MINIGRAD_INLINE void __threadfence_system() { minigrad::fence(true); }
MINIGRAD_INLINE void __nanosleep(unsigned, MINIGRAD_HERE) {
    minigrad::Site site = {"__nanosleep", file, line};
    minigrad_yield(&site, 0);
}
MINIGRAD_INLINE void __trap(MINIGRAD_HERE) { minigrad_assert_failed("__trap()", file, line); }
MINIGRAD_INLINE void __brkpt() {}
MINIGRAD_INLINE void __prof_trigger(int) {}
MINIGRAD_INLINE long long clock64() { return minigrad_clock(); }
#define clock() minigrad_clock()  // include/time.h keeps it apart from the C library's
#define __builtin_assume(condition) ((void)0)

#define printf minigrad_printf

namespace minigrad {

// `__shared__ float tile[16][16]` becomes a reference into the block's shared memory. The first thread of a launch
// allocates the slot; all blocks of the launch use the same offset.
template <class T>
MINIGRAD_INLINE T& shared(Slot& slot) {
    Thread* self = minigrad_self();
    if (__atomic_load_n(&slot.launch, __ATOMIC_ACQUIRE) != self->launch) {
        minigrad_place(&slot, sizeof(T));
        MINIGRAD_NOTE_SHARED(T, slot.name, self->shared_end - slot.offset);
    }
    return *reinterpret_cast<T*>(self->shared_end - slot.offset);
}

// `extern __shared__ float s[]`: dynamic shared memory ends at the guard page.
template <class T>
MINIGRAD_INLINE T& dynamic_shared(const char* name) {
    Thread* self = minigrad_self();
    MINIGRAD_NOTE_SHARED(T, name, self->shared_end - self->dynamic);
    return *reinterpret_cast<T*>(self->shared_end - self->dynamic);
}

#define MINIGRAD_WEAK __attribute__((weak))
#define MINIGRAD_TWO_NAMES "a lambda takes two variables of one name; give the __shared__ one a name of its own"

// Outside of functions a `__shared__` variable is an object of this type, which is never made: C++ looks the name up, and
// `here` is the block's variable where it is one. slot: of a static one. It has no size, which would be another than T's.
template <class T, Slot* slot> struct Outer;
template <class Seen> struct Place {
    static_assert(sizeof(Seen) < 0, MINIGRAD_TWO_NAMES);
    static Seen& at(const char*);
};
template <class T, Slot* slot> struct Place<Outer<T, slot>> {
    MINIGRAD_INLINE T& at(const char* name) {
        if constexpr (slot != nullptr) return shared<T>(*slot);
        else return dynamic_shared<T>(name);
    }
};
template <class T, Slot* slot>
MINIGRAD_INLINE T& here(Outer<T, slot>&, const char* name) { return Place<Outer<T, slot>>::at(name); }
template <class T>
MINIGRAD_INLINE constexpr T here(T&& other, const char*) { return static_cast<T&&>(other); }
template <class T>
MINIGRAD_INLINE constexpr T&& chosen(T&& one) noexcept { return static_cast<T&&>(one); }  // for g++ 12: see `_choices`

// What decltype says of a name that may be a reference into shared memory.
template <class T> struct Declared { using type = T; };
template <class T> struct Declared<T&> { using type = T; };
template <class T, Slot* slot> struct Declared<Outer<T, slot>> { using type = T; };
template <class T> using declared = typename Declared<T>::type;

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class A> constexpr bool is_reference = false;
template <class A> constexpr bool is_reference<A&> = true;
// The offset of parameter number `which` in CUDA's parameter buffer: the next multiple of its alignment.
template <class... P>
constexpr size_t parameter_offset(size_t which) {
    constexpr size_t size[] = {sizeof(P)..., 0}, alignment[] = {alignof(P)..., 1};
    size_t offset = 0;
    for (size_t i = 0;; offset += size[i++]) {
        offset = (offset + alignment[i] - 1) / alignment[i] * alignment[i];
        if (i == which) return offset;
    }
}

template <size_t... I> struct Indices {};
template <size_t N, size_t... I> struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I> struct Count<0, I...> { using type = Indices<I...>; };

// A thread that returns becomes the next thread on the same stack, mostly without a call: `more` were granted
// beforehand.
MINIGRAD_INLINE bool next_thread() {
    Thread* self = minigrad_self();
    if (!self->more) return minigrad_next_thread();
    --self->more;
    ++self->index;
    ++self->threadIdx.x;
    __asm__ volatile("" ::: "memory");  // written before the thread runs, for the report of a fault
    return true;
}

// A parameter, copied, as Python aligns the buffer less than some types need; it may have no constructor without
// arguments, and constants. The offset is a template argument, so that it is a constant in unoptimised builds too.
template <class P, size_t offset>
MINIGRAD_INLINE P parameter(const char* packed) {
    alignas(P) char copy[sizeof(P)];
    memcpy(copy, packed + offset, sizeof copy);
    return *(P*)copy;
}

template <class... P, size_t... I>
MINIGRAD_INLINE void run(void (*kernel)(P...), const char* packed, Indices<I...>) {
    do kernel(parameter<P, parameter_offset<P...>(I)>(packed)...);
    while (next_thread());
}
template <class... P>
MINIGRAD_INLINE void run(void (*kernel)(P...), const char* packed) {
    run(kernel, packed, typename Count<sizeof...(P)>::type());
}

}  // namespace minigrad

#define threadIdx (minigrad_self()->threadIdx)
#define blockIdx (minigrad_self()->blockIdx)
#define blockDim (minigrad_self()->blockDim)
#define gridDim (minigrad_self()->gridDim)
constexpr int warpSize = 32;

#define MINIGRAD_KERNEL(name)                                                                             \
    extern "C" MINIGRAD_VISIBLE MINIGRAD_UNSEEN                                                           \
    void minigrad_run_##name(const char* packed) {                                                        \
        minigrad::run(name, packed);                                                                      \
    }
