// One block: its threads as fibers. A thread that must wait switches directly to the next that can run. There is no
// scheduler; only when none can run is there a decision to make.
#include <stdio.h>

#include "shadow_memory.h"

namespace minigrad {

thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

// Threads `first` up to `last` (exclusive) have returned.
static void mark_returned(Worker& worker, unsigned first, unsigned last) {
    note_progress(worker);
    for (unsigned i = first; i < last; i = (i / WARP + 1) * WARP) {
        Warp& warp = worker.warps[i / WARP];
        unsigned after = last - i / WARP * WARP;
        warp.absent |= ~0u << i % WARP & (after < WARP ? ~(~0u << after) : ~0u);
        if (warp.waiting) lane_returned(worker, warp);
    }
    worker.living -= last - first;
    if (worker.living && worker.barrier->size() == worker.living) release_barrier(worker);
}

// Take the last thread that has not started, alone.
static void take_last(Worker& worker, Fiber* fiber) {
    const dim3& extent = worker.block.blockDim;
    unsigned index = worker.threads - ++worker.started, row = index / extent.x;
    fiber->thread.threadIdx = {index % extent.x, row % extent.y, row / extent.y};
    fiber->thread.index = fiber->first = index;
    fiber->thread.more = 0;
    fiber->unsettled = true;
}

// Make the fiber the block's next thread, followed by the rest of that thread's row: most kernels without barriers need
// one stack, and their threads cost next to nothing.
static void take_thread(Worker& worker, Fiber* fiber) {
    if (watch.reversed) return take_last(worker, fiber);
    fiber->thread.threadIdx = worker.next;
    fiber->thread.index = fiber->first = worker.started;
    fiber->thread.more = worker.block.blockDim.x - worker.next.x - 1;
    fiber->unsettled = true;
    worker.started += 1 + fiber->thread.more;
    note_progress(worker);
    worker.next.x = 0;
    if (++worker.next.y == worker.block.blockDim.y) worker.next.y = 0, ++worker.next.z;
}

// A thread that waits gives back the threads that were to follow it: they now start on other stacks.
void settle(Worker& worker, Fiber* fiber) {
    Thread& thread = fiber->thread;
    if (thread.more) worker.next = {thread.threadIdx.x + 1, thread.threadIdx.y, thread.threadIdx.z};
    worker.started -= thread.more;
    thread.more = 0;
    mark_returned(worker, fiber->first, thread.index);
    fiber->first = thread.index;
    fiber->unsettled = false;
}

// The entry point of a fiber. It never returns: between threads and blocks the fiber is in the idle list.
static void fiber_life() {
    Worker& worker = *this_worker;  // read once: a later launch may run this fiber on another OS thread
    Fiber* self = worker.current;
    for (;;) {
        launch.kernel(launch.packed);  // runs thread after thread until none is left or another fiber can go on
        self->site = nullptr;
        worker.idle[worker.idles++] = self;
        bool last = worker.started == worker.threads && worker.idles == worker.made;
        if (last) worker.current = nullptr;
        switch_to(self->context, last ? worker.leader->scheduler : *next_to_run(worker));
    }
}

static void prepare_fiber(Worker& worker, unsigned i) {
    Fiber* fiber = worker.fibers[i];
    fiber->site = nullptr;
    prepare(fiber->context, reinterpret_cast<char*>(fiber), STACK_PAGES / 2 * page_size(), fiber_life);
    worker.idle[worker.idles++] = fiber;
}

static Fiber* new_fiber(Worker& worker) {
    size_t size = STACK_PAGES * page_size();
    char* stack = map_guarded(size, GUARD);
    if (!stack)
        fail(SYSTEM, nullptr, 0, "the system has no memory for the stacks of %u threads; choose a smaller block",
             worker.threads);
    // The Fiber lies above its stack, at a different height in the page for each: else all compete for the same cache
    // lines.
    size_t shift = worker.made * 7 % HEIGHTS * 64;
    return reinterpret_cast<Fiber*>(stack + size - sizeof(Fiber) - shift);
}

static void make_fiber(Worker& worker) {
    worker.critical = 1;
    Fiber* spare = take_spare_fiber();
    worker.fibers[worker.made] = spare ? spare : new_fiber(worker);
    prepare_fiber(worker, worker.made++);
    leave_critical(worker);
}

// After a jump out of a kernel its fibers are in any state; all restart.
void reset_fibers(Worker& worker) {
    worker.idles = 0;
    for (unsigned i = worker.made; i-- > 0;) prepare_fiber(worker, i);
}

static const Site nowhere = {"the start", "", 0};

static Fiber* start_fiber(Worker& worker) {
    if (!worker.idles) make_fiber(worker);
    Fiber* fiber = worker.idle[--worker.idles];
    fiber->thread = worker.block;
    fiber->site = &nowhere;
    take_thread(worker, fiber);
    return fiber;
}

// Each thread in a warp operation has a site of its own: sites of one line count as the same call.
static bool same_call(const Site& one, const Site& other, bool own) {
    return &one == &other || (own && one.line == other.line && one.what == other.what);
}

// The fiber of a thread that waits, or null. Fibers are taken again, in any order: their places say nothing of threads.
static Fiber* waiting_as(Worker& worker, unsigned index) {
    for (unsigned i = 0; i < worker.made; ++i)
        if (worker.fibers[i]->site && worker.fibers[i]->thread.index == index) return worker.fibers[i];
    return nullptr;
}

// No thread can run: report which threads wait where, grouped by call, in the order of threads.
void report_deadlock(Worker& worker) {
    struct { const Site* site; unsigned count; } groups[8];
    unsigned known = 0;
    Fiber* waiting = nullptr;
    for (unsigned index = 0; index < worker.threads; ++index) {
        Fiber* fiber = waiting_as(worker, index);
        if (!fiber) continue;
        const Site* site = fiber->site;
        if (!waiting) waiting = fiber;
        unsigned g = 0;
        while (g < known && !same_call(*groups[g].site, *site, site == &fiber->own)) ++g;
        if (g == known && known < 8) groups[known++] = {site, 0};
        if (g < 8) ++groups[g].count;
    }
    char text[400];
    size_t length = 0;
    auto say = [&](const char* format, auto... words) {
        int more = snprintf(text + length, sizeof text - length, format, words...);
        length = more < 0 || length + more >= sizeof text ? sizeof text - 1 : length + more;
    };
    for (unsigned g = 0; g < known; ++g)
        say("%s%u wait at %s in line %d", g ? ", " : "", groups[g].count, groups[g].site->what, groups[g].site->line);
    if (unsigned returned = worker.threads - worker.living) say(", %u have returned", returned);
    worker.current = waiting;
    fail(DIVERGENCE, waiting->site->file, waiting->site->line, "%u threads: %s", worker.threads, text);
}

// The ready queue is empty: start a thread, or complete the __activemask calls.
Context* find_next(Worker& worker) {
    if (worker.started < worker.threads) worker.current = start_fiber(worker);
    else if (release_gathering(worker)) worker.current = worker.ready->pop();
    else report_deadlock(worker);
    return &worker.current->context;
}

// The fiber to switch to when the present one cannot go on.
Context* next_to_run(Worker& worker) {
    if (worker.ready->empty()) return find_next(worker);
    worker.current = worker.ready->pop();
    worker.ready->prefetch();
    return &worker.current->context;
}

// Returns the context of its first thread.
Context* begin_block(Worker& worker, uint64_t place) {
    uint64_t number = number_of(place);
    worker.place = place;
    ++worker.leader->begun;
    uint64_t row = number / launch.grid.x;
    unsigned x = number % launch.grid.x, y = row % launch.grid.y, z = row / launch.grid.y;
    worker.block.blockIdx = {x, y, z};
    if (watch.on) watch_block(worker);
    worker.next = {0, 0, 0};
    worker.started = worker.votes = worker.gathered = worker.in_vain = 0;
    worker.living = worker.threads;
    worker.voting = false;
    worker.call = nullptr;
    worker.diverged = false;
    worker.ready = &worker.queues[0];
    worker.barrier = &worker.queues[1];
    for (Queue& queue : worker.queues) queue.clear();
    for (unsigned i = 0; i * WARP < worker.threads; ++i) {
        unsigned lanes = worker.threads - i * WARP;
        worker.warps[i].waiting = 0;
        worker.warps[i].absent = lanes >= WARP ? 0 : ~0u << lanes;
    }
    worker.current = start_fiber(worker);
    return &worker.current->context;
}

// Returns the context of the block that has the next turn on this OS thread; nullptr if there is none.
Context* end_block(Worker& worker) {
    // Shared memory begins undefined: filled with 0xff, NaN, so that the next block cannot use stale values.
    char* end = worker.block.shared_end;
    if (unsigned used = launch.shared_used) memset(end - used, 0xff, used);
    ++launch.done, --worker.leader->begun;
    if (worker.after == &worker) return nullptr;
    Worker *next = worker.after, *before = next;
    while (before->after != &worker) before = before->after;
    before->after = next, worker.after = &worker;
    return take_turn(*next);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT Thread* minigrad_self() { return &this_worker->current->thread; }

MINIGRAD_EXPORT int minigrad_next_thread() {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    self->site = nullptr;
    mark_returned(worker, self->first, self->thread.index + 1);
    if (!worker.ready->empty() || worker.started == worker.threads) return 0;  // fibers that can go on come first
    self->site = &nowhere;
    take_thread(worker, self);
    return 1;
}
