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

// Where blocks are left that have not begun, and all that have wait for memory to change: it will not.
static void look_around(Worker& worker, const Site* site) {
    uint64_t time = now(), running = 0;
    if (!worker.vain) worker.vain = time;
    if (launch.next >= launch.blocks) return;
    for (Worker* one : workers) {
        if (!one || !one->running) continue;
        if (!one->vain || time < one->vain + launch.patience) return;
        ++running;
    }
    if (watch.on) worker.fault = {0, 0, watch.base + watch.pc};
    fail(WAITING, site->file, site->line, "%d of %d blocks", int(running), int(launch.blocks));
}

// Let the others go first: called by a thread that waits for another one to change memory.
MINIGRAD_STEP(minigrad_yield, const Site*, site, int, ) {
    Worker& worker = *this_worker;
    Fiber* self = wait_at(worker, site);
    MINIGRAD_SAVE(self);
    if (site->line && ++worker.looks % 1024 == 0) look_around(worker, site);
    bool fresh = worker.started < worker.threads;
    if (!fresh && worker.ready->empty()) sched_yield();  // whom we wait for may be in a block on another core
    worker.ready->push_often(self);
    return fresh ? find_next(worker) : next_to_run(worker);
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_barrier)
MINIGRAD_OPERATION(minigrad_vote)
MINIGRAD_OPERATION(minigrad_yield)
