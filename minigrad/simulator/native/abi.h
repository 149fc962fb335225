// The interface between a compiled kernel and the runtime. dialect.h is the kernel's half, runtime.h the runtime's.
#pragma once

#include <stddef.h>
#include <cstdint>  // with the names of std, as nvcc gives them

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

// Read from an absent lane: NaN in every floating type, and not that of fresh memory.
constexpr uint64_t NOBODY = 0x7ffe7ffe7ffe7ffe;

// A place in a kernel's text where threads wait.
struct Site {
    const char* what;
    const char* file;
    int line;
};

// The identity of a CUDA thread, and the end of its block's shared memory.
struct Thread {
    uint3 threadIdx;
    unsigned index;   // in the block, x fastest: warp index / 32, lane index % 32
    unsigned more;    // threads of its row that follow on this stack without a call of the runtime
    uint64_t result;  // of the last operation that waited
    uint3 blockIdx;
    dim3 blockDim, gridDim;
    unsigned dynamic;           // bytes of dynamic shared memory, rounded up to 16
    unsigned long long launch;  // the number of this launch, from 1
    char* shared_end;           // shared memory is allocated downwards from here
    unsigned failed_atomics;    // that changed nothing since the last yield
    bool cooperative;           // all blocks of the launch run at once
};

// The offset of a `__shared__` variable below shared_end, valid in the launch of that number.
struct Slot {
    const char* name;
    unsigned long long launch;
    unsigned offset;
};

// Run by the last lane that arrives at a warp operation: replaces the inputs of the lanes by their results.
using Finish = void(uint64_t* value, const unsigned* argument, unsigned lanes);

// The input of one lane to a warp operation.
struct WarpOperand {
    unsigned mask, argument;
    uint64_t value;
    Finish* finish;
};

// The registers of one lane in an operation on tensor cores. The value of its WarpOperand is the address of this.
struct Fragments {
    const Site* site;
    const unsigned* first;  // four: of the first factor, or the row that the lane has read for all
    unsigned second[2];
    void* result;  // four
};

}  // namespace minigrad

extern "C" {
// `const`: the result never changes during a call of a kernel, so the compiler may keep the pointer. Threads of a block
// share one OS thread, but each runs on its own stack, and a stack keeps its Thread.
minigrad::Thread* minigrad_self() __attribute__((const));

// These may run other threads before they return. Their result is in minigrad_self()->result.
void minigrad_barrier(const minigrad::Site* site, int);         // the pointer is kept: the site must be static
void minigrad_meet(const minigrad::Site* site, int);            // a barrier that keeps a copy of the site
void minigrad_vote(const minigrad::Site* site, int predicate);  // a barrier that counts the true predicates
void minigrad_exchange(const minigrad::Site* site, const minigrad::WarpOperand* operand);
void minigrad_active_mask(const minigrad::Site* site, int);
void minigrad_yield(const minigrad::Site* site, int);
// For fragments; see tensor_cores.cpp.
minigrad::Finish minigrad_load_matrices, minigrad_load_transposed, minigrad_mma_bf16, minigrad_mma_tf32;

int minigrad_next_thread();  // the thread has returned: become another of the block, or return 0
void minigrad_place(minigrad::Slot* slot, size_t bytes);
// Of a watched kernel: its shared and __device__ variables, with the size and alignment of an element and the extents,
// which end with a 0; and its atomics. partial: an element may be copied with parts that nobody has set.
void minigrad_describe(const char* name, char* start, size_t bytes, unsigned element, unsigned align, int partial,
                       const uint32_t* extent);
// zones: red zones next to a __device__ variable, as large as the variable.
void minigrad_describe_device(const char* name, char* start, size_t bytes, unsigned element, unsigned align,
                              const uint32_t* extent, char* const* zones);
void minigrad_note_atomic(void* address, size_t bytes, int device, int replaces);  // device: 0 for block scope
void minigrad_note_change(void* address, int device);                // after an atomic that changed the value
void minigrad_note_fence(int device);
// A variable begins without a value; each_read: each read of it is seen, else only updates. And before an update of one.
void minigrad_note_unset(void* at, size_t bytes, int array, int each_read);
void minigrad_note_update(const volatile void* at, size_t bytes, const char* name, const char* file, int line);
void minigrad_note_call(int change);  // 1 at the start of a function with a barrier, -1 at its end; 0 at the kernel's
void minigrad_note_index(unsigned extent, const char* array, const char* file, int line);  // that is the extent
void minigrad_note_copy(void* to, size_t bytes);  // an asynchronous copy, of which the value has just been written
void minigrad_note_commit();                      // the copies since the last one are a group
void minigrad_note_arrival(unsigned pending);     // all groups of the thread but the last ones have arrived
int minigrad_printf(const char* format, ...);
void minigrad_assert_failed(const char* text, const char* file, int line) __attribute__((noreturn));
void minigrad_misaligned(const char* what, uintptr_t address, int alignment) __attribute__((noreturn));
long long minigrad_clock();
}
