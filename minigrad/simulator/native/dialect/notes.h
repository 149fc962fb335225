// What a kernel that is watched by the microscope says of itself, beyond what the compiler's instrumentation says.
#pragma once

#ifdef MINIGRAD_WATCHED

#ifdef __clang__
#define MINIGRAD_UNSEEN __attribute__((no_sanitize("coverage")))
#else
#define MINIGRAD_UNSEEN __attribute__((no_sanitize_coverage))
#endif
#define MINIGRAD_UNWATCHED MINIGRAD_UNSEEN __attribute__((no_sanitize("thread")))

namespace minigrad {

template <class T> struct Form {
    using Element = T;
    MINIGRAD_UNWATCHED static void extents(uint32_t*) {}
};
template <class T, size_t N> struct Form<T[N]> {
    using Element = typename Form<T>::Element;
    MINIGRAD_UNWATCHED static void extents(uint32_t* at) { *at = N, Form<T>::extents(at + 1); }
};
template <class T> struct Form<T[]> : Form<T> {};

template <class T> struct Size { static constexpr size_t bytes = sizeof(T); };
template <class T> struct Size<T[]> { static constexpr size_t bytes = 0; };

template <class T>
static void describe(const char* name, char* start) {
    uint32_t extent[9] = {};
    Form<T>::extents(extent);
    using Element = typename Form<T>::Element;
    minigrad_describe(name, start, Size<T>::bytes, sizeof(Element), alignof(Element), extent);
}

// A __device__ variable, told of when the file is loaded. Where nothing is optimised, variables of one kind lie in the
// order of the text: with a zone behind each, of as many bytes, no two are neighbours. Those that begin with a value are
// of another kind than those that do not, as this is.
template <class T> struct Noted {
    char zone[sizeof(T)];
    MINIGRAD_UNWATCHED Noted(const char* name, T& variable, char* other) {
        uint32_t extent[9] = {};
        Form<T>::extents(extent);
        using Element = typename Form<T>::Element;
        char* zones[] = {zone, other};
        minigrad_describe_device(name, (char*)&variable, sizeof(T), sizeof(Element), alignof(Element), extent, zones);
    }
};

}  // namespace minigrad

#define MINIGRAD_NOTE_SHARED(T, name, start) minigrad::describe<T>(name, start)
#define MINIGRAD_NOTE_DEVICE(name)                                                                        \
    char minigrad_zone_##name[sizeof name] = {1};                                                         \
    minigrad::Noted<decltype(name)> minigrad_noted_##name{#name, name, minigrad_zone_##name};
#define MINIGRAD_NOTE_ATOMIC(address, device) minigrad_note_atomic((void*)(address), sizeof *(address), device)
#define MINIGRAD_NOTE_CHANGE(address, device) minigrad_note_change((void*)(address), device)
#define MINIGRAD_NOTE_FENCE(device) minigrad_note_fence(device)

#else

#define MINIGRAD_NOTE_SHARED(T, name, start) (void)(name)
#define MINIGRAD_NOTE_DEVICE(name)
#define MINIGRAD_NOTE_ATOMIC(address, device) (void)(device)
#define MINIGRAD_NOTE_CHANGE(address, device) (void)(device)
#define MINIGRAD_NOTE_FENCE(device) (void)(device)
#define MINIGRAD_UNSEEN

#endif
