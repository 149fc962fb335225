// The barrier of a block. The last thread to arrive releases all, or the last to return before it: threads that have
// returned are not waited for. All others must arrive, and by the same call.
#include <sched.h>

#include "shadow_memory.h"

namespace minigrad {

static inline Context* arrive(Worker& worker, Fiber* self) {
    worker.barrier->push(self);
    if (worker.barrier->size() == worker.living) release_barrier(worker);
    return next_to_run(worker);
}

static void count_votes(Worker& worker) {
    const Queue& all = *worker.barrier;
    for (Fiber** one = all.head; one != all.tail; ++one) (*one)->thread.result = worker.votes;
    worker.votes = worker.voting = 0;
}

// All threads that have not returned are at the barrier, so the ready queue is empty: swap the two.
void release_barrier(Worker& worker) {
    if (worker.diverged) report_deadlock(worker);
    if (worker.voting) count_votes(worker);
    if (watch.on && worker.living < worker.threads) watch_missed_barrier(worker);
    Queue* all = worker.barrier;
    worker.barrier = worker.ready;
    worker.barrier->clear();
    worker.ready = all;
    worker.call = nullptr;
    note_progress(worker);
    if (watch.on) watch_barrier();
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

// By a function of a header, whose callers have no static site: calls in one line count as the same.
MINIGRAD_STEP(minigrad_meet, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    if (worker.call && worker.call->line == site->line && worker.call->what == site->what) self->site = worker.call;
    return arrive_first(worker, self);
}

MINIGRAD_STEP(minigrad_vote, const Site*, site, int, predicate) {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    MINIGRAD_SAVE(self);
    self->site = site;
    worker.votes += predicate != 0;
    worker.voting = true;
    return arrive_first(worker, self);
}

// Of memory that does not change: after these the core is left to others; and all who wait seem to wait for ever.
constexpr unsigned POLLS = 64, MANY_POLLS = 1024;

// The number of running blocks if all of them seem to wait for memory to change and there is no other, or it has not
// started; else 0. "Seem": without a watch nobody sees writes, and a thread may count its polls and give up.
unsigned count_waiting() {
    unsigned running = 0;
    if (launch.next >= launch.blocks && !launch.cooperative) return 0;
    for (Worker* one : workers) {
        if (!one || !one->running) continue;
        if (__atomic_load_n(&one->polls, __ATOMIC_RELAXED) < MANY_POLLS) return 0;
        running += one->begun;
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
static void check_stuck(Worker& all, Fiber* self) {
    if (self->since != all.progress) self->since = all.progress, self->polls = 0, self->stuck = false;
    if (self->stuck) return;
    uint64_t state = state_of(self);
    self->stuck = self->polls && state == self->state;
    all.stuck += self->stuck;
    if ((++self->polls & (self->polls - 1)) == 0) self->state = state;
}

// In a watch, which sees each change and has one OS thread: if all threads that can run are stuck, they stay so, and
// blocks that have not started never will.
static void check_livelock(Worker& worker, Fiber* self) {
    if (launch.next >= launch.blocks && !launch.cooperative) return;
    Worker &all = *worker.leader, *one = &worker;
    check_stuck(all, self);
    unsigned others = 0;
    do {
        if (one->started < one->threads || one->gathered) return;
        others += one->ready->size();
    } while ((one = one->after) != &worker);
    if (all.stuck <= others) return;
    worker.fault = {0, 0, watch.base + watch.pc};
    fail(WAITING, self->site->file, self->site->line, "%u of %d blocks", all.begun, int(launch.blocks));
}

// The block goes on where it had yielded. Returns the context of a thread that can run.
Context* take_turn(Worker& worker) {
    Worker& before = *this_worker;
    before.critical = worker.critical = 1;
    this_worker = &worker;
    worker.in_vain = 0;
    if (watch.on) watch_turn(worker);
    before.critical = 0;
    leave_critical(worker);
    return next_to_run(worker);
}

// All threads of the block that can run wait for others: in a cooperative launch, other blocks have their turns.
static Context* let_others_run(Worker& worker) {
    worker.in_vain = 0;
    if (launch.cooperative)
        if (Context* begun = begin_another(worker)) return begun;
    if (worker.leader->polls % POLLS == POLLS - 1 && !watch.on) sched_yield();  // for a block on another core
    return worker.after == &worker ? next_to_run(worker) : take_turn(*worker.after);
}

// Called by a thread that waits for another thread to change memory: the others run first.
MINIGRAD_STEP(minigrad_yield, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    bool in_vain = site->line != 0;
    if (in_vain && ++worker.leader->polls > MANY_POLLS && watch.on && ALL_ON_STACK) check_livelock(worker, self);
    worker.ready->push_often(self);
    if (worker.started < worker.threads) return find_next(worker);
    return in_vain && ++worker.in_vain >= worker.ready->size() ? let_others_run(worker) : next_to_run(worker);
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_barrier)
MINIGRAD_OPERATION(minigrad_meet)
MINIGRAD_OPERATION(minigrad_vote)
MINIGRAD_OPERATION(minigrad_yield)
