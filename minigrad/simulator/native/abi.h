// What a compiled kernel and the runtime agree on. The kernel's half is in dialect.h, the runtime's in runtime.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

namespace minigrad {

// A line of a kernel that waits.
struct Site {
    const char* what;
    const char* file;
    int line;
};

// Who a CUDA thread is, and where its block's shared memory ends.
struct Thread {
    uint3 threadIdx;
    unsigned index;             // in the block, x fastest: warp index / 32, lane index % 32
    unsigned more;              // threads right after it that this stack may become without asking
    uint64_t result;            // of the last operation that waited
    uint3 blockIdx;
    dim3 blockDim, gridDim;
    unsigned dynamic;           // bytes of dynamic shared memory, rounded up to 16
    unsigned long long launch;  // the number of this launch, from 1
    char* shared_end;           // shared memory is handed out downwards from here
    unsigned vain;              // atomics that changed nothing since it yielded for them
};

// One `__shared__` variable: its distance below shared_end, valid during the launch of that number.
struct Slot {
    const char* name;
    unsigned long long launch;
    unsigned offset;
};

// The last lane to arrive at a warp operation turns what the lanes brought into what each takes away.
using Finish = void(uint64_t* value, const unsigned* argument, unsigned lanes);

// What one lane brings to a warp operation.
struct Offer {
    unsigned mask, argument;
    uint64_t value;
    Finish* finish;
};

}  // namespace minigrad

extern "C" {
// `const` promises one answer for the whole life of a kernel call: threads of a block take turns on one OS thread, each
// on a stack of its own, and a stack keeps its Thread. So the compiler may ask once and keep the pointer.
minigrad::Thread* minigrad_self() __attribute__((const));

// These may run other threads before they return. What they answer is in minigrad_self()->result.
void minigrad_barrier(const minigrad::Site* site, int);  // keeps the pointer: the site must be static
void minigrad_vote(const minigrad::Site* site, int predicate);  // a barrier that counts the true predicates
void minigrad_exchange(const minigrad::Site* site, const minigrad::Offer* offer);
void minigrad_active_mask(const minigrad::Site* site, int);
void minigrad_yield(const minigrad::Site* site, int);

int minigrad_next_thread();  // this thread has returned: become another of the block, or 0
void minigrad_place(minigrad::Slot* slot, size_t bytes);
// Of a kernel that is watched: its shared and __device__ variables by their elements' size and alignment, and their
// extents, which end with a 0; its atomics.
void minigrad_describe(const char* name, char* start, size_t bytes, unsigned element, unsigned align,
                       const uint32_t* extent);
// The zones are bytes behind a __device__ variable, wherever the compiler puts it, that belong to none.
void minigrad_describe_device(const char* name, char* start, size_t bytes, unsigned element, unsigned align,
                              const uint32_t* extent, char* const* zones);
void minigrad_note_atomic(void* address, size_t bytes, int device);  // device: or for its block alone
void minigrad_note_change(void* address, int device);  // after one that changed something
void minigrad_note_fence(int device);
int minigrad_printf(const char* format, ...);
void minigrad_assert_failed(const char* text, const char* file, int line) __attribute__((noreturn));
void minigrad_misaligned(const char* what, uintptr_t address, int alignment) __attribute__((noreturn));
long long minigrad_clock();
}
