// One block: its threads as fibers. A thread that must wait hands over to the next that can run, without going through
// a scheduler; only when nobody can run is there something to decide.
#include <stdio.h>

#include "watch.h"

namespace minigrad {

thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

// Threads `first` up to `last` have returned.
static void mark_returned(Worker& worker, unsigned first, unsigned last) {
    note_progress(worker);
    for (unsigned i = first; i < last; i = (i / WARP + 1) * WARP) {
        Warp& warp = worker.warps[i / WARP];
        unsigned after = last - i / WARP * WARP;
        warp.absent |= ~0u << i % WARP & (after < WARP ? ~(~0u << after) : ~0u);
        if (warp.waiting) lane_returned(worker, warp);
    }
}

// The last thread that has not begun, alone.
static void take_last(Worker& worker, Fiber* fiber) {
    const dim3& extent = worker.block.blockDim;
    unsigned index = worker.threads - ++worker.started, row = index / extent.x;
    fiber->thread.threadIdx = {index % extent.x, row % extent.y, row / extent.y};
    fiber->thread.index = fiber->first = index;
    fiber->thread.more = 0;
    fiber->claims = true;
}

// Make the fiber the block's next thread, and let it run those of the same row after it: nearly every kernel without
// barriers gets by on one stack, and its threads cost next to nothing.
static void take_thread(Worker& worker, Fiber* fiber) {
    if (watch.reversed) return take_last(worker, fiber);
    fiber->thread.threadIdx = worker.next;
    fiber->thread.index = fiber->first = worker.started;
    fiber->thread.more = worker.block.blockDim.x - worker.next.x - 1;
    fiber->claims = true;
    worker.started += 1 + fiber->thread.more;
    note_progress(worker);
    worker.next.x = 0;
    if (++worker.next.y == worker.block.blockDim.y) worker.next.y = 0, ++worker.next.z;
}

// A thread that waits gives back those that it was to be followed by: they must run now, on other stacks.
void settle(Worker& worker, Fiber* fiber) {
    Thread& thread = fiber->thread;
    if (thread.more) worker.next = {thread.threadIdx.x + 1, thread.threadIdx.y, thread.threadIdx.z};
    worker.started -= thread.more;
    thread.more = 0;
    mark_returned(worker, fiber->first, thread.index);
    fiber->first = thread.index;
    fiber->claims = false;
}

// Where a new fiber begins. It never ends: between threads, and between blocks, it lies in the idle list.
static void fiber_life() {
    Worker& worker = *this_worker;  // read once, here: a later launch may run this fiber on another OS thread
    Fiber* self = worker.current;
    for (;;) {
        launch.kernel(launch.packed);  // runs thread after thread, while there are some and nobody waits to go on
        self->site = nullptr;
        worker.idle[worker.idles++] = self;
        bool last = worker.started == worker.threads && worker.idles == worker.made;
        if (last) worker.current = nullptr;
        switch_to(self->context, last ? worker.scheduler : *next_to_run(worker));
    }
}

static void prepare_fiber(Worker& worker, unsigned i) {
    Fiber* fiber = worker.fibers[i];
    fiber->site = nullptr;
    prepare(fiber->context, reinterpret_cast<char*>(fiber), STACK_PAGES / 2 * page_size(), fiber_life);
    worker.idle[worker.idles++] = fiber;
}

static void make_fiber(Worker& worker) {
    worker.critical = 1;
    size_t size = STACK_PAGES * page_size();
    char* stack = map_guarded(size, GUARD);
    if (!stack)
        fail(SYSTEM, nullptr, 0, "the system has no memory for the stacks of %u threads; choose a smaller block",
             worker.threads);
    // The Fiber lies above its stack, for each at another height in the page: else all want the same cache lines.
    size_t shift = worker.made * 7 % 48 * 64;
    Fiber* fiber = reinterpret_cast<Fiber*>(stack + size - sizeof(Fiber) - shift);
    fiber->stack = stack;
    worker.fibers[worker.made] = fiber;
    prepare_fiber(worker, worker.made++);
    leave_critical(worker);
}

// After a kernel was left by a jump, its fibers stand anywhere; let them all begin anew.
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

// A warp operation has a site for each thread, its own: there, those of one line are taken for the same.
static bool same_call(const Site& one, const Site& other, bool own) {
    return &one == &other || (own && one.line == other.line && one.what == other.what);
}

// Nobody can run: say who waits where. Threads that wait at the same call are counted together.
void report_deadlock(Worker& worker) {
    struct { const Site* site; unsigned count; } groups[8];
    unsigned known = 0;
    Fiber* waiting = nullptr;
    for (unsigned i = 0; i < worker.made; ++i) {
        Fiber* fiber = worker.fibers[i];
        const Site* site = fiber->site;
        if (!site) continue;
        if (!waiting || fiber->thread.index < waiting->thread.index) waiting = fiber;
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
    if (unsigned returned = worker.started - (worker.made - worker.idles)) say(", %u have returned", returned);
    worker.current = waiting;
    fail(DIVERGENCE, waiting->site->file, waiting->site->line, "%u threads: %s", worker.threads, text);
}

// Nobody is in the queue: start a thread, or let those go on who wait for all others to have waited.
Context* find_next(Worker& worker) {
    if (worker.started < worker.threads) worker.current = start_fiber(worker);
    else if (release_gathering(worker)) worker.current = worker.ready->pop();
    else report_deadlock(worker);
    return &worker.current->context;
}

// The fiber to go on with when the present one cannot.
Context* next_to_run(Worker& worker) {
    if (worker.ready->empty()) return find_next(worker);
    worker.current = worker.ready->pop();
    worker.ready->prefetch();
    return &worker.current->context;
}

void run_block(Worker& worker, uint64_t place) {
    uint64_t number = number_of(place);
    uint64_t row = number / launch.grid.x;
    unsigned x = number % launch.grid.x, y = row % launch.grid.y, z = row / launch.grid.y;
    worker.block.blockIdx = {x, y, z};
    if (watch.on) watch_block(worker, number);
    worker.next = {0, 0, 0};
    worker.started = worker.votes = worker.gathered = 0;
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
    switch_to(worker.scheduler, worker.current->context);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT Thread* minigrad_self() { return &this_worker->current->thread; }

MINIGRAD_EXPORT int minigrad_next_thread() {
    Worker& worker = *this_worker;
    Fiber* self = worker.current;
    mark_returned(worker, self->first, self->thread.index + 1);
    if (!worker.ready->empty() || worker.started == worker.threads) return 0;  // those that can go on first
    take_thread(worker, self);
    return 1;
}
