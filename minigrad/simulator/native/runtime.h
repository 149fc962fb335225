// The runtime's own picture of a launch. A grid is run by workers, one OS thread each; a worker runs one block at a
// time; a block's threads are fibers, which take turns on the worker and switch only where they wait for each other.
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <atomic>

#include "abi.h"
#include "switch.h"

#define MINIGRAD_EXPORT extern "C" __attribute__((visibility("default")))

namespace minigrad {

constexpr unsigned MAX_THREADS = 1024, WARP = 32, MAX_WORKERS = 64;
constexpr size_t MAX_SHARED = 48 * 1024;
// In a launch that is watched, each variable has as much room before it and behind it as it takes, so that running over
// its end does not look like the next one.
constexpr size_t SHARED_ROOM = 3 * MAX_SHARED;
constexpr size_t GUARD = 64 * 1024;  // unmapped on either side of what may be overrun
// Of one CUDA thread; only the pages that it touches cost memory. The number is odd, for the processor remembers the
// places of pages in a table of 2^n rows: stacks at a distance of 2^m pages would all compete for one row.
constexpr size_t STACK_PAGES = 33;

struct Worker;

// One stack, and the CUDA thread that runs on it at present. When that thread returns, the fiber takes another: a
// kernel without barriers needs one fiber for a block. What every switch touches is in the first 64 bytes, a line of
// the cache.
struct alignas(64) Fiber {
    Context context;
    const Site* site;  // where it waits, or did; nullptr: without a thread
    unsigned first;    // threads from here to the present one have run on this stack, and have returned
    bool claims;       // this, or thread.more, has still to be told to the block
    Thread thread;
    Site own;          // what `site` points to, if it was not static
    char* stack;
    // what it was when it looked at memory in vain; see barrier.cpp
    uint64_t state, since;  // since: Worker::changes of then
    unsigned looks;
    bool repeats;
};

// First in, first out. An array and not a list: the processor can look ahead without chasing pointers. It has room for
// twice as many as there are, so that it seldom begins anew, and for two to look ahead.
struct Queue {
    Fiber **head, **tail;
    Fiber* at[2 * MAX_THREADS + 2];
    void clear() { head = tail = at; }
    bool empty() const { return head == tail; }
    unsigned size() const { return tail - head; }
    Fiber* pop() { return *head++; }              // of a queue that is not empty
    void push(Fiber* fiber) { *tail++ = fiber; }  // at most MAX_THREADS before the next clear()
    void push_often(Fiber* fiber) {               // any number
        if (tail == at + 2 * MAX_THREADS) begin_anew();
        push(fiber);
    }
    void begin_anew() {
        unsigned count = size();
        memmove(at, head, count * sizeof *at);
        head = at, tail = at + count;
    }
    // Fetch what the switch after the next will touch: the stacks of a block together are larger than the first cache.
    // Behind the tail stands nothing, or a fiber of earlier; to fetch that costs less than to ask.
    // Inlined, for a function of its own that only prefetches GCC takes to do nothing, and drops.
    __attribute__((always_inline)) void prefetch() const {
        __builtin_prefetch(head[1]);
        if (!head[0]) return;
        const char* stack = stack_of(head[0]->context);
        __builtin_prefetch(stack);
        __builtin_prefetch(stack + 64);
    }
};

// The warp operation that lanes of one warp are in. A lane is in one at a time, so each has one place for its value.
struct Warp {
    unsigned waiting, absent;  // lanes inside an operation; lanes that have returned or never were
    Fiber* lane[WARP];
    Finish* finish[WARP];
    unsigned mask[WARP], argument[WARP];
    uint64_t value[WARP];
};

// What may be known of a bad access.
struct Fault {
    uint64_t address;  // in shared memory, counted from its end
    uint64_t bytes;    // of shared memory
    uint64_t pc;       // of the instruction; in the report, within the kernel's file; 0 if unknown
};

struct Worker {
    Fiber* current;          // runs at present; nullptr outside kernels
    // the block
    unsigned threads, started;
    uint3 next;              // threadIdx of the next thread to start
    Thread block;            // what its threads have in common
    Queue* ready;            // fibers that can run
    Queue* barrier;          // fibers that wait at the barrier; when all do, the two change places
    Queue queues[2];
    const Site* call;        // by which the first arrived; nullptr: nobody has
    bool diverged;           // another arrived by another call
    unsigned votes;
    uint64_t changes;        // things that have happened that others may wait for
    unsigned looks;          // times that a thread looked at memory in vain, since the last of them
    unsigned repeating;      // threads that will do nothing else until there is another
    // its warps
    Warp warps[MAX_THREADS / WARP];
    Fiber* gathering[MAX_THREADS];  // threads inside __activemask
    unsigned gathered;
    // the worker
    Context scheduler;       // its own stack
    jmp_buf escape;          // the way out of a kernel that has gone wrong
    volatile sig_atomic_t running;   // between escape's setting and the end of its last block
    volatile sig_atomic_t critical;  // holding a lock: a signal may not jump out now
    pthread_t thread;
    char* shared;
    Fault fault;             // if this worker is the first to report one
    Fiber* fibers[MAX_THREADS];
    unsigned made;
    Fiber* idle[MAX_THREADS];  // without a thread; the last used comes first, as its stack is still in the cache
    unsigned idles;
};

enum Cause {  // as in report.py
    NONE, ACCESS, DIVISION, MISALIGNED, DIVERGENCE, TIMEOUT, ASSERT, SHARED, INTERRUPT, ILLEGAL, STACK_OVERFLOW, SYSTEM,
    SHARED_ACCESS, WAITING
};

// What Python is told. ctypes reads it, so the fields are plain; see runtime.py.
struct Report {
    int cause, line;
    Fault fault;
    int has_thread;
    uint3 block, thread;
    char file[256], text[512];
};

// The one launch at a time.
struct Launch {
    void (*kernel)(const char*);
    const char* packed;
    dim3 grid, block;
    uint64_t blocks;
    std::atomic<uint64_t> next, done;
    std::atomic<unsigned> shared_used;  // bytes below shared_end that are in use, or have to stay empty
    unsigned shared_bytes;              // those of variables
    std::atomic<int> stop;              // a Cause: workers end at their next step
    std::atomic<int> reported;
    unsigned waiting;                   // workers, where all looked at memory in vain when time was out
    unsigned dynamic;
    unsigned long long number;
    Report report;
};

extern Launch launch;
extern Worker* workers[MAX_WORKERS];

// The worker that runs blocks on this OS thread; nullptr outside launches.
extern thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

// block.cpp
void run_block(Worker& worker, uint64_t number);
void reset_fibers(Worker& worker);
Context* next_to_run(Worker& worker);
Context* find_next(Worker& worker);
void report_deadlock(Worker& worker);
void settle(Worker& worker, Fiber* fiber);
// warp.cpp
void lane_returned(Worker& worker, Warp& warp);
bool release_gathering(Worker& worker);
// faults.cpp
void fail(Cause cause, const char* file, int line, const char* format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
void stop_all(Cause cause);
void leave_critical(Worker& worker);
// barrier.cpp
unsigned count_waiting();
// workers.cpp
void call_helpers();  // let the other workers join the launch, where it may have some
// memory.cpp
size_t page_size();
char* map_guarded(size_t bytes, size_t guard);
size_t wide_guard();  // of buffers and shared memory

inline uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Something has happened that others may wait for.
inline void note_progress(Worker& worker) { ++worker.changes, worker.looks = worker.repeating = 0; }

// The running fiber comes to wait at a site, of which it keeps a copy.
inline Fiber* wait_at(Worker& worker, const Site* site) {
    Fiber* self = worker.current;
    if (self->claims) settle(worker, self);
    self->own = *site;
    self->site = &self->own;
    return self;
}

}  // namespace minigrad
