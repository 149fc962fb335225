// The state of a launch. OS threads run a grid, block after block; the threads of a block are fibers, which switch only
// where they wait for each other. A worker has what runs one block. An OS thread has one worker, its leader; in a
// cooperative launch, one for each block that it has begun, and these take turns where a block waits for others.
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
constexpr unsigned MAX_RESIDENT = 16384;  // threads of a cooperative launch; a process has some 65000 memory mappings
constexpr size_t MAX_SHARED = 48 * 1024;
constexpr size_t MAX_ASKED = 227 * 1024;  // of a launch that asks for more dynamic shared memory; as on sm_90
// In a watched launch each variable has red zones of its own size on both sides, so that an overrun does not reach the
// next. Whole pages, of up to 64 KiB: a page that nobody may touch follows.
constexpr size_t SHARED_ROOM = 704 * 1024;
static_assert(SHARED_ROOM >= 3 * MAX_ASKED, "a variable and its red zones");
constexpr size_t GUARD = 64 * 1024;  // unmapped on either side of memory that may be overrun
// The content of fresh memory and of the gaps around buffers: NaN as double, float, half and bfloat16, an absurd index
// as int, and no NaN that a computation produces.
constexpr uint32_t CANARY = 0x7fff7fff;
// The stack of one CUDA thread; only touched pages cost memory. The number is odd because the TLB is a table of 2^n
// rows: stacks 2^m pages apart would all compete for one row.
constexpr size_t STACK_PAGES = 33;

size_t page_size();
struct Worker;

// A stack, and the CUDA thread that runs on it. When the thread returns, the fiber takes another thread, so a kernel
// without barriers needs one fiber for a block. All that a switch touches is in the first 64 bytes, one cache line.
struct alignas(64) Fiber {
    Context context;
    const Site* site;  // of the last wait; nullptr: no thread
    unsigned first;    // threads from here to the present one ran on this stack and have returned
    bool unsettled;    // the block does not count these, or thread.more, yet
    Thread thread;
    Site own;  // the copy that `site` points to where it is not static
    // state at an earlier poll of memory that has not changed; see barrier.cpp
    uint64_t state, since;  // since: Worker::progress at that time
    unsigned polls;
    bool stuck;

    // The start of the stack, which ends with the page that the Fiber lies in. It is no member: a kernel that wrote past
    // the end of a local array may have changed the Fiber, and all members but this would be set anew.
    char* stack() const {
        uint64_t last = reinterpret_cast<uint64_t>(this) / page_size();
        return reinterpret_cast<char*>((last + 1 - STACK_PAGES) * page_size());
    }
};

// The heights in the last page of its stack at which a Fiber lies, 64 bytes apart.
constexpr size_t HEIGHTS = sizeof(Fiber) <= 1024 ? 48 : (4096 - sizeof(Fiber)) / 64;

// A FIFO queue. An array rather than a list: the processor can prefetch without chasing pointers. It has room for twice
// the fibers of a block, so that entries seldom move, and for two to prefetch beyond the end.
struct Queue {
    Fiber **head, **tail;
    Fiber* at[2 * MAX_THREADS + 2];
    void clear() { head = tail = at; }
    bool empty() const { return head == tail; }
    unsigned size() const { return tail - head; }
    Fiber* pop() { return *head++; }              // of a non-empty queue
    void push(Fiber* fiber) { *tail++ = fiber; }  // at most MAX_THREADS before the next clear()
    void push_often(Fiber* fiber) {               // without that limit
        if (tail == at + 2 * MAX_THREADS) begin_anew();
        push(fiber);
    }
    void begin_anew() {
        unsigned count = size();
        memmove(at, head, count * sizeof *at);
        head = at, tail = at + count;
    }
    // Prefetch the fiber after the next: the stacks of a block together exceed the first-level cache. Past the tail
    // lies nullptr or an old fiber; fetching that is cheaper than a test. Always inlined, as GCC takes a function that
    // only prefetches for one without effect and drops it.
    __attribute__((always_inline)) void prefetch() const {
        __builtin_prefetch(head[1]);
        if (!head[0]) return;
        const char* stack = stack_of(head[0]->context);
        __builtin_prefetch(stack);
        __builtin_prefetch(stack + 64);
    }
};

// The warp operations in progress. A lane is in one at a time, so it has one place for its value.
struct Warp {
    unsigned waiting, absent;  // lanes inside an operation; lanes that have returned or do not exist
    Fiber* lane[WARP];
    Finish* finish[WARP];
    unsigned mask[WARP], argument[WARP];
    uint64_t value[WARP];
};

// The known facts of a bad access.
struct Fault {
    uint64_t address;  // of shared memory: relative to its end
    uint64_t bytes;    // of shared memory
    uint64_t pc;       // of the instruction; in the report, within the kernel's file; 0 if unknown
};

struct Worker {
    Fiber* current;  // running now; nullptr outside kernels
    // the block
    unsigned threads, started;
    unsigned living;  // threads that have not returned; a barrier waits for these
    uint3 next;      // threadIdx of the next thread to start
    Thread block;    // common to all threads
    Queue* ready;    // fibers that can run
    Queue* barrier;  // fibers that wait at the barrier; once all do, the two queues are swapped
    Queue queues[2];
    const Site* call;  // of the first arrival at the barrier; nullptr: none yet
    bool diverged;     // another thread arrived at another call
    unsigned votes;
    bool voting;         // the barrier counts predicates
    uint64_t place;      // of the block in the order in which blocks begin
    unsigned in_vain;    // reads and atomics without effect in this turn of the block
    Worker *leader, *after;  // that of the OS thread; that of the block which has the next turn
    Worker* list;           // the other workers of the OS thread
    // of a leader, for all blocks of its OS thread
    uint64_t progress;  // counts events that other threads may wait for
    unsigned polls;     // reads and atomics without effect since the last progress
    unsigned stuck;     // threads that poll forever unless there is progress
    unsigned begun;     // blocks that have begun and not ended
    Context scheduler;               // of the OS thread's own stack
    jmp_buf escape;                  // the way out of a kernel that failed
    volatile sig_atomic_t running;   // from setting `escape` to the end of the last block
    pthread_t thread;
    // its warps
    Warp warps[MAX_THREADS / WARP];
    Fiber* gathering[MAX_THREADS];  // threads inside __activemask
    unsigned gathered;
    // the worker
    volatile sig_atomic_t critical;  // holds a lock: a signal must not jump out now
    char* shared;
    Fault fault;  // if this worker is the first to report one
    Fiber* fibers[MAX_THREADS];
    unsigned made;
    Fiber* idle[MAX_THREADS];  // without a thread; last in, first out, as the last stack is still in the cache
    unsigned idles;
};

enum Cause {  // as in faults.py
    NONE, ACCESS, DIVISION, MISALIGNED, DIVERGENCE, TIMEOUT, ASSERT, SHARED, INTERRUPT, ILLEGAL, STACK_OVERFLOW, SYSTEM,
    SHARED_ACCESS, WAITING
};

// The report to Python. ctypes reads it, so the fields are plain; see runtime.py.
struct FaultReport {
    int cause, line;
    Fault fault;
    int has_thread;
    uint3 block, thread;
    char file[256], text[512];
};

// There is one launch at a time.
struct Launch {
    void (*kernel)(const char*);
    const char* packed;
    dim3 grid, block;
    uint64_t blocks;
    std::atomic<uint64_t> next, done;
    std::atomic<unsigned> shared_used;  // bytes below shared_end in use or in red zones
    unsigned shared_bytes;              // bytes of variables
    std::atomic<int> stop;              // a Cause: workers end at their next step
    std::atomic<int> reported;
    unsigned waiting;  // blocks in which all threads were polling memory at the timeout
    unsigned dynamic;
    bool cooperative;  // all blocks run at once
    unsigned long long number;
    FaultReport report;
};

extern Launch launch;
extern Worker* workers[MAX_WORKERS];  // the leaders

// The worker of the block that has its turn on this OS thread; nullptr outside launches.
extern thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

// block.cpp
Context* begin_block(Worker& worker, uint64_t place);
Context* end_block(Worker& worker);
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
void release_barrier(Worker& worker);
unsigned count_waiting();
// workers.cpp
void call_helpers();  // wake the other workers for the launch
Context* take_turn(Worker& worker);
Context* begin_another(Worker& worker);
Fiber* take_spare_fiber();
// memory.cpp
char* map_guarded(size_t bytes, size_t guard);
size_t wide_guard();  // of buffers and shared memory

inline uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// Something has happened that other threads may wait for.
inline void note_progress(Worker& worker) {
    Worker& all = *worker.leader;
    ++all.progress, all.polls = all.stuck = 0;
}

// The running fiber is about to wait at a site, of which it keeps a copy.
inline Fiber* wait_at(Worker& worker, const Site* site) {
    Fiber* self = worker.current;
    if (self->unsettled) settle(worker, self);
    self->own = *site;
    self->site = &self->own;
    return self;
}

}  // namespace minigrad
