// The barrier of a block. The last thread to arrive lets all go. Every thread must come, and by the same call: one that
// returned early is missed here, as the CUDA guide has it, though many a GPU would let the others pass.
#include <sched.h>

#include "watch.h"

namespace minigrad {

static Context* open_barrier(Worker& worker);

static inline Context* arrive(Worker& worker, Fiber* self) {
    worker.barrier->push(self);
    return worker.barrier->size() == worker.threads ? open_barrier(worker) : next_to_run(worker);
}

// Everybody is at the barrier, so nobody is in the other queue: the two change places.
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

// The first to come to a barrier, or by another call than those before.
static Context* arrive_first(Worker& worker, Fiber* self) {
    if (self->claims) settle(worker, self);
    if (!worker.call) worker.call = self->site;
    if (worker.call != self->site) worker.diverged = true;
    return arrive(worker, self);
}

MINIGRAD_STEP(minigrad_barrier, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    MINIGRAD_SAVE(self);
    self->site = site;
    return self->claims || site != worker.call ? arrive_first(worker, self) : arrive(worker, self);
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

constexpr unsigned MANY = 1024;  // looks in vain

// The workers, if blocks are left that have not begun, and all that have seem to wait for memory to change. They may
// not: in a build that is not watched nobody sees who writes, and a thread may count its looks and give up.
unsigned count_waiting() {
    unsigned running = 0;
    if (launch.next >= launch.blocks) return 0;
    for (Worker* one : workers) {
        if (!one || !one->running) continue;
        if (__atomic_load_n(&one->looks, __ATOMIC_RELAXED) < MANY) return 0;
        ++running;
    }
    return running;
}

// All that decides what a thread does next, but for memory: its registers, which the switch has pushed, and its stack.
static uint64_t state_of(const Fiber* fiber) {
    const uint64_t* end = reinterpret_cast<const uint64_t*>(fiber);  // the stack lies below
    uint64_t state = 0;
    for (auto at = reinterpret_cast<const uint64_t*>(stack_of(fiber->context)); at < end; ++at) {
        state = (state ^ *at) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
        state ^= state >> 32;
    }
    return state;
}

// Whether the thread has been here before in the same state, and nothing has changed since: it will come here for ever.
// It is compared with its first look, then with its 2nd, 4th, 8th: so it is found however many looks its loop has.
static void compare_state(Worker& worker, Fiber* self) {
    if (self->since != worker.changes) self->since = worker.changes, self->looks = 0, self->repeats = false;
    if (self->repeats) return;
    uint64_t state = state_of(self);
    self->repeats = self->looks && state == self->state;
    worker.repeating += self->repeats;
    if ((++self->looks & (self->looks - 1)) == 0) self->state = state;
}

// In a watch, which sees each change and runs one block at a time: where all threads that can run repeat themselves, and
// blocks are left that have not begun, these never will.
static void look_around(Worker& worker, Fiber* self) {
    if (launch.next >= launch.blocks) return;
    compare_state(worker, self);
    if (worker.repeating <= worker.ready->size() || worker.started < worker.threads || worker.gathered) return;
    worker.fault = {0, 0, watch.base + watch.pc};
    fail(WAITING, self->site->file, self->site->line, "1 of %d blocks", int(launch.blocks));
}

// Let the others go first: called by a thread that waits for another one to change memory.
MINIGRAD_STEP(minigrad_yield, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    if (site->line && ++worker.looks > MANY && watch.on && ALL_ON_STACK) look_around(worker, self);
    bool fresh = worker.started < worker.threads;
    if (!fresh && worker.ready->empty()) sched_yield();  // whom we wait for may be in a block on another core
    worker.ready->push_often(self);
    return fresh ? find_next(worker) : next_to_run(worker);
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_barrier)
MINIGRAD_OPERATION(minigrad_vote)
MINIGRAD_OPERATION(minigrad_yield)
