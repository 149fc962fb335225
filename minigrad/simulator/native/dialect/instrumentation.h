// The reports of a watched kernel about itself, beyond the instrumentation of the compiler.
#pragma once

// The address and the size of a variable, for the host. Constants, as between variables they would be in the way.
#define MINIGRAD_NOTE_CONSTANT(name)                                                                      \
    extern "C" {                                                                                          \
    extern MINIGRAD_VISIBLE void* const minigrad_at_##name;                                               \
    extern MINIGRAD_VISIBLE const size_t minigrad_bytes_##name;                                           \
    void* const minigrad_at_##name = (void*)&name;                                                        \
    const size_t minigrad_bytes_##name = sizeof name;                                                     \
    }

#ifdef MINIGRAD_WATCHED

#ifdef __clang__
#define MINIGRAD_UNSEEN __attribute__((no_sanitize("coverage")))
#else
#define MINIGRAD_UNSEEN __attribute__((no_sanitize_coverage))
#endif
#define MINIGRAD_UNWATCHED MINIGRAD_UNSEEN __attribute__((no_sanitize("thread")))

namespace minigrad {

template <class T> struct ArrayType {
    using Element = T;
    MINIGRAD_UNWATCHED static void extents(uint32_t*) {}
};
template <class T, size_t N> struct ArrayType<T[N]> {
    using Element = typename ArrayType<T>::Element;
    MINIGRAD_UNWATCHED static void extents(uint32_t* at) { *at = N, ArrayType<T>::extents(at + 1); }
};
template <class T> struct ArrayType<T[]> : ArrayType<T> {};

template <class T> struct Size { static constexpr size_t bytes = sizeof(T); };
template <class T> struct Size<T[]> { static constexpr size_t bytes = 0; };

// True for what is copied whole though parts may be unset: a class or a union, with padding or a member without a value;
// and bytes, as anything may lie there. A vector has no such parts.
template <class T, class = T> struct Partial {
    static constexpr bool is = __is_class(T) || __is_union(T) || sizeof(T) == 1;
};
template <class T> struct Partial<T, typename T::minigrad_vector> { static constexpr bool is = false; };

template <class T>
static void describe(const char* name, char* start) {
    uint32_t extent[9] = {};
    ArrayType<T>::extents(extent);
    using Element = typename ArrayType<T>::Element;
    minigrad_describe(name, start, Size<T>::bytes, sizeof(Element), alignof(Element), Partial<Element>::is, extent);
}

// A __device__ variable, reported when its file is loaded. Unoptimised compilers place variables of one section in the
// order of the text: with a red zone of its own size after each, no two are adjacent. Initialised variables are in
// another section than zero-initialised ones, such as this object, so there are two zones.
template <class T> struct DeviceNote {
    char zone[sizeof(T)];
    MINIGRAD_UNWATCHED DeviceNote(const char* name, T& variable, char* other) {
        uint32_t extent[9] = {};
        ArrayType<T>::extents(extent);
        using Element = typename ArrayType<T>::Element;
        char* zones[] = {zone, other};
        minigrad_describe_device(name, (char*)&variable, sizeof(T), sizeof(Element), alignof(Element), extent, zones);
    }
};

// The extent of an array of structs, by a reference to it; 0 of any other type.
template <class T> struct Extent { static constexpr size_t of = 0; };
template <class T, size_t N> struct Extent<T (&)[N]> { static constexpr size_t of = __is_class(T) || __is_union(T) ? N : 0; };

template <class A, class I>
static void check_index(I index, const char* array, const char* file, int line) {
    if (index == I(Extent<A>::of)) minigrad_note_index(Extent<A>::of, array, file, line);
}

// A variable of a type without a constructor, which has just been declared without a value: of an array and, if `read`,
// of a number each read is seen, of others only updates.
template <class T> MINIGRAD_UNWATCHED static void unset(T& place, bool read) {
    constexpr bool array = sizeof(T) > sizeof(typename ArrayType<T>::Element), parts = __is_class(T) || __is_union(T);
    if constexpr (__is_trivially_constructible(T))
        minigrad_note_unset((void*)&place, sizeof place, array, read && !parts);
}

}  // namespace minigrad

// The place itself, with a note that a statement reads and changes it.
#define MINIGRAD_UPDATED(...)                                                                             \
    (minigrad_note_update(&(__VA_ARGS__), sizeof(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__), __VA_ARGS__)
#define MINIGRAD_UNSET(name, read) minigrad::unset(name, read);
#define MINIGRAD_INDEX(...)                                                                               \
    typedef decltype((__VA_ARGS__)) minigrad_array;                                                       \
    if constexpr (minigrad::Extent<minigrad_array>::of)                                                   \
        minigrad::check_index<minigrad_array>(minigrad_index, #__VA_ARGS__, __FILE__, __LINE__);
#define MINIGRAD_CALLED minigrad_note_call(1);
#define MINIGRAD_ENDS minigrad_note_call(-1);
#define MINIGRAD_KERNEL_ENDS minigrad_note_call(0);
#define MINIGRAD_NOTE_SHARED(T, name, start) minigrad::describe<T>(name, start)
#define MINIGRAD_NOTE_DEVICE(name)                                                                        \
    MINIGRAD_NOTE_CONSTANT(name)                                                                          \
    char minigrad_zone_##name[sizeof name] = {1};                                                         \
    minigrad::DeviceNote<decltype(name)> minigrad_noted_##name{#name, name, minigrad_zone_##name};
#define MINIGRAD_NOTE_ATOMIC(address, bytes, device, replaces) minigrad_note_atomic(address, bytes, device, replaces)
#define MINIGRAD_NOTE_CHANGE(address, device) minigrad_note_change(address, device)
#define MINIGRAD_NOTE_FENCE(device) minigrad_note_fence(device)
#define MINIGRAD_NOTE_COPY(to, bytes) minigrad_note_copy(to, bytes)
#define MINIGRAD_NOTE_COMMIT() minigrad_note_commit()
#define MINIGRAD_NOTE_ARRIVAL(pending) minigrad_note_arrival(pending)

#else

#define MINIGRAD_NOTE_SHARED(T, name, start) (void)(name)
#define MINIGRAD_NOTE_DEVICE(name) MINIGRAD_NOTE_CONSTANT(name)
#define MINIGRAD_NOTE_ATOMIC(address, bytes, device, replaces) (void)(device)
#define MINIGRAD_NOTE_CHANGE(address, device) (void)(device)
#define MINIGRAD_NOTE_FENCE(device) (void)(device)
#define MINIGRAD_NOTE_COPY(to, bytes) (void)(to)
#define MINIGRAD_NOTE_COMMIT() (void)0
#define MINIGRAD_NOTE_ARRIVAL(pending) (void)(pending)
#define MINIGRAD_UNSEEN

#endif
