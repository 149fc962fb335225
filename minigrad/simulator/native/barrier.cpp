// The barrier of a block. The last thread to arrive releases all. Every thread must arrive, and by the same call: a
// thread that returned early is an error here, as the CUDA guide says, although many a GPU lets the others pass.
#include <sched.h>

#include "shadow_memory.h"

namespace minigrad {

static Context* open_barrier(Worker& worker);

static inline Context* arrive(Worker& worker, Fiber* self) {
    worker.barrier->push(self);
    return worker.barrier->size() == worker.threads ? open_barrier(worker) : next_to_run(worker);
}

// All threads are at the barrier, so the ready queue is empty: swap the two.
static Context* open_barrier(Worker& worker) {
    if (worker.diverged) report_deadlock(worker);
    Queue* all = worker.barrier;
    worker.barrier = worker.ready;
    worker.barrier->clear();
    worker.ready = all;
    worker.call = nullptr;
    note_progress(worker);
    if (watch.on) watch_barrier();
    return next_to_run(worker);
}

// The first thread at a barrier, or one that arrives by another call than those before.
static Context* arrive_first(Worker& worker, Fiber* self) {
    if (self->unsettled) settle(worker, self);
    if (!worker.call) worker.call = self->site;
    if (worker.call != self->site) worker.diverged = true;
    return arrive(worker, self);
}

MINIGRAD_STEP(minigrad_barrier, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    MINIGRAD_SAVE(self);
    self->site = site;
    return self->unsettled || site != worker.call ? arrive_first(worker, self) : arrive(worker, self);
}

MINIGRAD_STEP(minigrad_vote, const Site*, site, int, predicate) {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    MINIGRAD_SAVE(self);
    self->site = site;
    Queue& others = *worker.barrier;
    worker.votes += predicate != 0;
    if (others.size() + 1 == worker.threads) {
        for (Fiber** other = others.head; other != others.tail; ++other) (*other)->thread.result = worker.votes;
        self->thread.result = worker.votes;
        worker.votes = 0;
    }
    return arrive_first(worker, self);
}

constexpr unsigned MANY_POLLS = 1024;  // of memory that does not change

// The number of running blocks if all of them seem to wait for memory to change and further blocks have not started,
// else 0. "Seem": without a watch nobody sees writes, and a thread may count its polls and give up.
unsigned count_waiting() {
    unsigned running = 0;
    if (launch.next >= launch.blocks) return 0;
    for (Worker* one : workers) {
        if (!one || !one->running) continue;
        if (__atomic_load_n(&one->polls, __ATOMIC_RELAXED) < MANY_POLLS) return 0;
        ++running;
    }
    return running;
}

// A hash of all that determines a thread's future except memory: its registers, pushed by the switch, and its stack.
static uint64_t state_of(const Fiber* fiber) {
    const uint64_t* end = reinterpret_cast<const uint64_t*>(fiber);  // the stack lies below
    uint64_t state = 0;
    for (auto at = reinterpret_cast<const uint64_t*>(stack_of(fiber->context)); at < end; ++at) {
        state = (state ^ *at) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
        state ^= state >> 32;
    }
    return state;
}

// A thread that polls in the same state as before, without progress in between, will poll forever. The state is
// compared with that of poll 1, 2, 4, 8 ... (Brent's cycle detection): a loop with any number of polls is found.
static void check_stuck(Worker& worker, Fiber* self) {
    if (self->since != worker.progress) self->since = worker.progress, self->polls = 0, self->stuck = false;
    if (self->stuck) return;
    uint64_t state = state_of(self);
    self->stuck = self->polls && state == self->state;
    worker.stuck += self->stuck;
    if ((++self->polls & (self->polls - 1)) == 0) self->state = state;
}

// In a watch, which sees each change and runs one block at a time: if all threads that can run are stuck and some
// blocks have not started, these never will.
static void check_livelock(Worker& worker, Fiber* self) {
    if (launch.next >= launch.blocks) return;
    check_stuck(worker, self);
    if (worker.stuck <= worker.ready->size() || worker.started < worker.threads || worker.gathered) return;
    worker.fault = {0, 0, watch.base + watch.pc};
    fail(WAITING, self->site->file, self->site->line, "1 of %d blocks", int(launch.blocks));
}

// Called by a thread that waits for another thread to change memory: the others run first.
MINIGRAD_STEP(minigrad_yield, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    if (site->line && ++worker.polls > MANY_POLLS && watch.on && ALL_ON_STACK) check_livelock(worker, self);
    bool fresh = worker.started < worker.threads;
    if (!fresh && worker.ready->empty()) sched_yield();  // the awaited block may be on another core
    worker.ready->push_often(self);
    return fresh ? find_next(worker) : next_to_run(worker);
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_barrier)
MINIGRAD_OPERATION(minigrad_vote)
MINIGRAD_OPERATION(minigrad_yield)
