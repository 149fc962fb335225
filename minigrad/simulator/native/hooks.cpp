// The hooks that the compiler's instrumentation calls. Their names are those of the sanitizers' runtimes, none of which
// is linked: -fsanitize=thread for accesses, =bounds for indices, -fsanitize-coverage=trace-pc for basic blocks.
#include "shadow_memory.h"

#define MINIGRAD_HOOK MINIGRAD_EXPORT __attribute__((noinline))
#define MINIGRAD_CALLER readers_code(__builtin_return_address(0), __builtin_frame_address(0))

using namespace minigrad;

RARE static void misaligned(const void* at, const char* what, unsigned bytes, const void* caller) {
    watch.worker->fault = {reinterpret_cast<uint64_t>(at), 0, reinterpret_cast<uint64_t>(caller) - 1};
    fail(MISALIGNED, nullptr, 0, "%s of %u bytes must begin at a multiple of %u bytes", what, bytes, bytes);
}

// In the frame of the caller, or not far above it. Such an address lies on the thread's stack, as next to that are pages
// of which nobody has any.
#define MINIGRAD_IS_LOCAL(at) (uint64_t(at) - uint64_t(__builtin_frame_address(0)) < 4096)

// The compilers call these for what they take to be aligned. GCC's own check of `*(float*)((char*)p + 1)` is of p alone.
#define MINIGRAD_SIZE(N)                                                                                    \
    MINIGRAD_HOOK void __tsan_read##N(void* at) {                                                           \
        if (__builtin_expect(uint64_t(at) % N, 0)) misaligned(at, "access", N, MINIGRAD_CALLER);            \
        if (!MINIGRAD_IS_LOCAL(at)) on_access<READ>(at, N, MINIGRAD_CALLER);                                \
        else on_local_read(uint64_t(at), N, pc_of(MINIGRAD_CALLER));                                         \
    }                                                                                                       \
    MINIGRAD_HOOK void __tsan_write##N(void* at) {                                                          \
        if (__builtin_expect(uint64_t(at) % N, 0)) misaligned(at, "access", N, MINIGRAD_CALLER);            \
        if (!MINIGRAD_IS_LOCAL(at)) on_access<WRITE>(at, N, MINIGRAD_CALLER);                               \
        else if (__builtin_expect(watch.small_variables, 0)) set_small(uint64_t(at), N);                     \
    }
#define MINIGRAD_UNALIGNED(N)                                                                               \
    MINIGRAD_HOOK void __tsan_unaligned_read##N(void* at) { on_access<READ>(at, N, MINIGRAD_CALLER); }          \
    MINIGRAD_HOOK void __tsan_unaligned_write##N(void* at) { on_access<WRITE>(at, N, MINIGRAD_CALLER); }
MINIGRAD_SIZE(1)
MINIGRAD_SIZE(2)
MINIGRAD_SIZE(4)
MINIGRAD_SIZE(8)
MINIGRAD_UNALIGNED(2)
MINIGRAD_UNALIGNED(4)
MINIGRAD_UNALIGNED(8)

// A thread that polls one address may wait for another thread, so the others run first. They also do at every 64th
// other read, as a thread may poll two addresses.
static void on_volatile_read(uint64_t address) {
    static const Site site = {"a volatile read", "", -1};
    if (watch.last_volatile_read == address || ++watch.volatile_reads % 64 == 0) minigrad_yield(&site, 0);
    watch.last_volatile_read = address;
}

template <Access access, unsigned align>
static inline void on_volatile_access(void* at, unsigned bytes, const void* caller) {
    uint64_t address = reinterpret_cast<uint64_t>(at);
    if (address % align) misaligned(at, "access", align, caller);
    if (access == READ) on_volatile_read(address);
    if (watch.release_state) access == READ ? acquire_at(address, true) : begin_volatile_write();
    on_access<access>(at, bytes, caller, RELAXED);
    if (watch.release_state && access == WRITE) end_volatile_write(address);
}
#define MINIGRAD_VOLATILE(name, N, align)                                                                   \
    MINIGRAD_HOOK void __tsan_##name##_read##N(void* at) {                                                  \
        on_volatile_access<READ, align>(at, N, MINIGRAD_CALLER);                                            \
    }                                                                                                       \
    MINIGRAD_HOOK void __tsan_##name##_write##N(void* at) {                                                 \
        on_volatile_access<WRITE, align>(at, N, MINIGRAD_CALLER);                                           \
    }
MINIGRAD_VOLATILE(volatile, 1, 1)
MINIGRAD_VOLATILE(volatile, 2, 2)
MINIGRAD_VOLATILE(volatile, 4, 4)
MINIGRAD_VOLATILE(volatile, 8, 8)
MINIGRAD_VOLATILE(volatile, 16, 8)
MINIGRAD_VOLATILE(unaligned_volatile, 2, 1)
MINIGRAD_VOLATILE(unaligned_volatile, 4, 1)
MINIGRAD_VOLATILE(unaligned_volatile, 8, 1)
MINIGRAD_VOLATILE(unaligned_volatile, 16, 1)

MINIGRAD_HOOK void __tsan_init() {}
MINIGRAD_HOOK void __tsan_func_entry(void*) {}
MINIGRAD_HOOK void __tsan_func_exit() {}
MINIGRAD_HOOK void __tsan_vptr_read(void**) {}
MINIGRAD_HOOK void __tsan_vptr_update(void**, void*) {}

// True if an access of this size is a vector, in a file that names such vectors. If not, it is a struct.
static inline bool is_vector(size_t bytes) { return (bytes == 8 || bytes == 16) && bytes & watch.vectors; }
template <Access access>
static inline void on_struct_access(const void* at, size_t bytes, const void* caller) {
    on_access<access>(at, bytes, caller, is_vector(bytes) ? PLAIN : COPY);
}
// Of a vector, in files that name such vectors. Clang copies a float4 by memcpy, which some versions do not rename: the
// linker does (--wrap).
static inline void check_vector(const void* at, size_t bytes, const void* caller) {
    uint64_t address = reinterpret_cast<uint64_t>(at);
    bool kernels = in_shared(address) || (address - watch.arena) >> watch.window_bits < watch.buffers;
    if (kernels && is_vector(bytes) && address % bytes) misaligned(at, "vector", bytes, caller);
}
template <Access access>
static inline void on_16_bytes(const void* at, const void* caller) {
    check_vector(at, 16, caller);
    on_struct_access<access>(at, 16, caller);
}
MINIGRAD_HOOK void __tsan_read16(void* at) { on_16_bytes<READ>(at, MINIGRAD_CALLER); }
MINIGRAD_HOOK void __tsan_write16(void* at) { on_16_bytes<WRITE>(at, MINIGRAD_CALLER); }
MINIGRAD_HOOK void __tsan_unaligned_read16(void* at) { on_struct_access<READ>(at, 16, MINIGRAD_CALLER); }
MINIGRAD_HOOK void __tsan_unaligned_write16(void* at) { on_struct_access<WRITE>(at, 16, MINIGRAD_CALLER); }
MINIGRAD_HOOK void __tsan_read_range(void* at, size_t bytes) { on_struct_access<READ>(at, bytes, MINIGRAD_CALLER); }
MINIGRAD_HOOK void __tsan_write_range(void* at, size_t bytes) { on_struct_access<WRITE>(at, bytes, MINIGRAD_CALLER); }

// While a file is loaded there is no watch.
static inline void* copy(void* to, const void* from, size_t bytes, const void* caller) {
    check_vector(from, bytes, caller);
    check_vector(to, bytes, caller);
    if (bytes && watch.worker) on_struct_access<READ>(from, bytes, caller), on_struct_access<WRITE>(to, bytes, caller);
    return memmove(to, from, bytes);
}
static inline void* fill_bytes(void* to, int value, size_t bytes, const void* caller) {
    if (bytes && watch.worker) on_struct_access<WRITE>(to, bytes, caller);
    return memset(to, value, bytes);
}
#define MINIGRAD_BLOCKS(prefix)                                                                             \
    MINIGRAD_HOOK void* prefix##memcpy(void* to, const void* from, size_t bytes) {                          \
        return copy(to, from, bytes, MINIGRAD_CALLER);                                                      \
    }                                                                                                       \
    MINIGRAD_HOOK void* prefix##memmove(void* to, const void* from, size_t bytes) {                         \
        return copy(to, from, bytes, MINIGRAD_CALLER);                                                      \
    }                                                                                                       \
    MINIGRAD_HOOK void* prefix##memset(void* to, int value, size_t bytes) {                                 \
        return fill_bytes(to, value, bytes, MINIGRAD_CALLER);                                               \
    }
MINIGRAD_BLOCKS(__tsan_)
MINIGRAD_BLOCKS(__wrap_)
MINIGRAD_HOOK void* __wrap_malloc(size_t bytes) {
    if (watch.worker) watch.worker->critical = 1;
    void* memory = malloc(bytes);
    uint64_t start = reinterpret_cast<uint64_t>(memory);
    if (memory && start < heap_start) heap_start = start;
    if (memory && start + bytes > heap_stop) heap_stop = start + bytes;
    if (watch.worker) leave_critical(*watch.worker);
    return memory;
}

// GCC instruments atomics too. Those of the dialect have reported themselves before.
#define MINIGRAD_FETCH(N, T, name)                                                                          \
    MINIGRAD_HOOK T __tsan_atomic##N##_fetch_##name(T* at, T value, int) {                                  \
        return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST);                                          \
    }
#define MINIGRAD_COMPARE(N, T, name)                                                                        \
    MINIGRAD_HOOK bool __tsan_atomic##N##_compare_exchange_##name(T* at, T* old, T value, int, int) {       \
        return __atomic_compare_exchange_n(at, old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
    }
#define MINIGRAD_ATOMICS(N, T)                                                                              \
    MINIGRAD_HOOK T __tsan_atomic##N##_load(const T* at, int) {                                             \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                       \
    MINIGRAD_HOOK void __tsan_atomic##N##_store(T* at, T value, int) {                                      \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                      \
    }                                                                                                       \
    MINIGRAD_HOOK T __tsan_atomic##N##_exchange(T* at, T value, int) {                                      \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                            \
    }                                                                                                       \
    MINIGRAD_FETCH(N, T, add) MINIGRAD_FETCH(N, T, sub) MINIGRAD_FETCH(N, T, and)                           \
    MINIGRAD_FETCH(N, T, or) MINIGRAD_FETCH(N, T, xor)                                                      \
    MINIGRAD_COMPARE(N, T, strong) MINIGRAD_COMPARE(N, T, weak)
MINIGRAD_ATOMICS(8, uint8_t)
MINIGRAD_ATOMICS(16, uint16_t)
MINIGRAD_ATOMICS(32, uint32_t)
MINIGRAD_ATOMICS(64, uint64_t)
MINIGRAD_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// The others run first: so updates made of two atomics collide, where the second overwrites what came in between.
MINIGRAD_HOOK void minigrad_note_atomic(void* at, size_t bytes, int device, int replaces) {
    static const Site site = {"an atomic", "", 0};
    minigrad_yield(&site, 0);
    if (watch.release_state) acquire_at(reinterpret_cast<uint64_t>(at), device);
    watch.replaces = replaces;
    on_access<ATOMIC>(at, bytes, MINIGRAD_CALLER, device ? RELAXED : IN_BLOCK);
    watch.replaces = false;
}
MINIGRAD_HOOK void minigrad_note_change(void* at, int device) {
    note_progress(*watch.worker);
    if (watch.release_state) release_at(reinterpret_cast<uint64_t>(at), device);
}
MINIGRAD_HOOK void minigrad_note_unset(void* at, size_t bytes, int array, int each_read) {
    begin_unset(reinterpret_cast<uint64_t>(at), bytes, array ? ARRAY : each_read ? NUMBER : UPDATED);
}
// Called before a statement that reads and changes a variable, or an element of the thread's own array.
MINIGRAD_HOOK void minigrad_note_update(const volatile void* at, size_t bytes, const char* name, const char* file,
                                        int line) {
    uint64_t address = reinterpret_cast<uint64_t>(at);
    if (on_stack(address) && unset_at(address, bytes))
        find_call(UNSET, {name, file, line}, watch.worker->current->thread.index);
}
// A `return` skips the end of its function. So a thread that comes to the kernel's end, with no function begun and not
// ended, has left none early that has a barrier.
MINIGRAD_HOOK void minigrad_note_call(int change) {
    int& calls = watch.calls[watch.worker->current->thread.index];
    calls += change;
    if (!change && !calls) calls = -1;
}
MINIGRAD_HOOK void minigrad_note_fence(int device) { on_fence(device); }

MINIGRAD_HOOK void __sanitizer_cov_trace_pc() {
    uint32_t pc = watch.pc = pc_of(__builtin_return_address(0));
    int64_t frame = reinterpret_cast<int64_t>(__builtin_frame_address(0));
    if (watch.recording && watch.worker->current && !is_foreign(pc)) record(ENTER, MAX_VARIABLES, frame, 0, pc);
}

// An index outside the extents of its array's type.
struct Index {
    SourceLocation place;
    const TypeName *array, *index;
};
MINIGRAD_HOOK void minigrad_note_index(unsigned extent, const char* array, const char* file, int line) {
    Finding* finding = find(INDEX, READ, -1, pc_of(MINIGRAD_CALLER), 0);
    if (!finding) return;
    finding->offset = finding->extent = extent;
    finding->file = file, finding->line = line, finding->type = array;
}
MINIGRAD_HOOK void __ubsan_handle_out_of_bounds(const Index* what, uintptr_t value) {
    uint32_t pc = pc_of(MINIGRAD_CALLER);
    Finding* finding = find(INDEX, READ, -1, pc, 0);
    if (!finding) return;
    unsigned bits = 1u << (what->index->info >> 1);
    bool negative = (what->index->info & 1) && bits < 64 && value >> (bits - 1) & 1;
    finding->offset = negative ? int64_t(value | ~uint64_t(0) << bits) : int64_t(value);
    finding->file = what->place.file;
    finding->line = what->place.line;
    finding->column = what->place.column;
    finding->type = what->array->name;
}

// A conversion of a number out of range, and a shift by all bits or more: C++ leaves the result open, and a GPU's is
// another than this processor's.
struct Unlike {
    SourceLocation place;
    const TypeName *from, *to;  // of a shift: of what is shifted, and of the number of bits
};
static unsigned bits_of(const TypeName* type) { return 1u << (type->info >> 1); }
static bool is_signed(const TypeName* type) { return type->info & 1; }

static void on_unlike(const Unlike* what, const TypeName* type, double value, int64_t gpu, bool shift,
                      const void* caller) {
    uint32_t pc = reinterpret_cast<uint64_t>(caller) - 1 - watch.base;
    Finding* finding = find(UNLIKE, READ, -1, pc, 0);
    if (!finding) return;
    finding->file = what->place.file, finding->line = what->place.line, finding->column = what->place.column;
    finding->type = type->name, finding->offset = gpu, finding->value = value, finding->differs = shift;
}

// To 32 or 64 bits, of which a smaller type takes the lowest. `cvt` of the GPU converts to the nearest number that there
// is, and NaN to the highest bit, or to 0 from a float to 32 bits.
template <class I, class F>
static bool converts_alike(F value, uint64_t& gpu) {
    constexpr I high = I(1ull << (8 * sizeof(I) - 1)), least = I(-1) < 0 ? high : 0, most = I(~least);
    I result = value <= F(least) ? least : value >= F(most) ? most : I(value);
    if (value != value) result = sizeof(I) == 4 && sizeof(F) == 4 ? 0 : high;
    gpu = uint64_t(result);
    return I(value) == result;
}

template <class F>
static void on_conversion(const Unlike* what, F value, const void* caller) {
    unsigned bits = bits_of(what->to);
    uint64_t gpu = 0;
    bool alike = bits == 64 && is_signed(what->to) ? converts_alike<int64_t>(value, gpu)
                 : bits == 64                      ? converts_alike<uint64_t>(value, gpu)
                 : is_signed(what->to)             ? converts_alike<int32_t>(value, gpu)
                                                   : converts_alike<uint32_t>(value, gpu);
    if (bits < 32) {  // x86 takes the lowest bits of an int
        uint64_t mask = (1ull << bits) - 1, sign = is_signed(what->to) ? 1ull << (bits - 1) : 0;
        alike = (uint64_t(int32_t(value)) & mask) == (gpu & mask);
        gpu = ((gpu & mask) ^ sign) - sign;
    }
    if (!alike) on_unlike(what, what->to, value, int64_t(gpu), false, caller);
}

MINIGRAD_HOOK void __ubsan_handle_float_cast_overflow(const Unlike* what, uintptr_t value) {
    float single;
    double both;
    memcpy(&single, &value, sizeof single), memcpy(&both, &value, sizeof both);
    if (what->from->info == 32) on_conversion(what, single, MINIGRAD_CALLER);
    if (what->from->info == 64) on_conversion(what, both, MINIGRAD_CALLER);
}

MINIGRAD_HOOK void __ubsan_handle_shift_out_of_bounds(const Unlike* what, uintptr_t value, uintptr_t amount) {
    unsigned bits = bits_of(what->to);
    int64_t by = is_signed(what->to) && bits < 64 ? int64_t(amount << (64 - bits)) >> (64 - bits) : int64_t(amount);
    if (value) on_unlike(what, what->from, by, 0, true, MINIGRAD_CALLER);
}
