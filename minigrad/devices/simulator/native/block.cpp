// One block: its threads as fibers, and the barrier. A thread that must wait hands over to the next that can run, without
// going through a scheduler; only when nobody can run is there something to decide.
#include "runtime.h"

namespace minigrad {

thread_local Fiber* current __attribute__((tls_model("initial-exec")));
thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

// Make the fiber the block's next thread.
static void take_thread(Worker& worker, Fiber* fiber) {
    uint3& next = worker.next_index;
    unsigned x = next.x;  // number by number: a copy of two at once would wait for the write of one
    fiber->thread.threadIdx.x = x;
    fiber->thread.threadIdx.y = next.y;
    fiber->thread.threadIdx.z = next.z;
    fiber->thread.index = worker.started++;
    if (++x == worker.block.blockDim.x) {
        x = 0;
        if (++next.y == worker.block.blockDim.y) next.y = 0, ++next.z;
    }
    next.x = x;
}

// Where a new fiber begins. It never ends: between threads, and between blocks, it lies in the idle list.
static void fiber_life() {
    Fiber* self = current;  // read once, here: a later launch may run this fiber on another OS thread
    Worker& worker = *self->worker;
    for (;;) {
        launch.kernel(launch.packed);  // runs thread after thread, while there are some and nobody waits to go on
        self->site.what = nullptr;
        worker.idle[worker.idles++] = self;
        bool last = worker.started == worker.threads && worker.idles == worker.made;
        if (last) current = nullptr;
        switch_to(self->context, last ? worker.scheduler : *next_to_run(worker));
    }
}

static void prepare_fiber(Worker& worker, unsigned i) {
    Fiber* fiber = worker.fibers[i];
    fiber->worker = &worker;
    fiber->site.what = nullptr;
    prepare(fiber->context, reinterpret_cast<char*>(fiber), STACK_PAGES / 2 * page_size(), fiber_life);
    worker.idle[worker.idles++] = fiber;
}

static void make_fiber(Worker& worker) {
    worker.critical = 1;
    size_t size = STACK_PAGES * page_size();
    char* stack = map_guarded(size);
    if (!stack) fail(SYSTEM, nullptr, 0, "no memory for the stacks of a block of %u threads", worker.threads);
    // The Fiber lies above its stack, at another height in the page for each: else all compete for the same cache lines.
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

static Fiber* start_fiber(Worker& worker) {
    if (!worker.idles) make_fiber(worker);
    Fiber* fiber = worker.idle[--worker.idles];
    fiber->thread = worker.block;
    fiber->site.what = "nothing";  // it has a thread
    take_thread(worker, fiber);
    return fiber;
}

// Nobody can run: say who waits where. Threads that wait at the same call are counted together.
static void report_deadlock(Worker& worker) {
    struct { Site site; unsigned count; } groups[8];
    unsigned known = 0;
    Fiber* waiting = nullptr;
    for (unsigned i = 0; i < worker.made; ++i) {
        Fiber* fiber = worker.fibers[i];
        if (!fiber->site.what) continue;
        if (!waiting || fiber->thread.index < waiting->thread.index) waiting = fiber;
        unsigned g = 0;
        while (g < known && (groups[g].site.line != fiber->site.line || groups[g].site.what != fiber->site.what)) ++g;
        if (g == known && known < 8) groups[known++] = {fiber->site, 0};
        if (g < 8) ++groups[g].count;
    }
    char text[400];
    size_t length = 0;
    auto say = [&](const char* format, auto... words) {
        int more = snprintf(text + length, sizeof text - length, format, words...);
        length = more < 0 || length + more >= sizeof text ? sizeof text - 1 : length + more;
    };
    for (unsigned g = 0; g < known; ++g)
        say("%s%u wait at %s in line %d", g ? ", " : "", groups[g].count, groups[g].site.what, groups[g].site.line);
    if (unsigned returned = worker.started - (worker.made - worker.idles)) say(", %u have returned", returned);
    current = waiting;
    fail(DIVERGENCE, waiting->site.file, waiting->site.line, "of %u threads, %s", worker.threads, text);
}

// The fiber to go on with when the present one cannot.
Context* next_to_run(Worker& worker) {
    Fiber* next = worker.ready.pop();
    if (!next && worker.started < worker.threads) next = start_fiber(worker);
    if (!next) {
        if (!release_gathering(worker)) report_deadlock(worker);
        next = worker.ready.pop();
    }
    worker.ready.prefetch();
    current = next;
    return &next->context;
}

void run_block(Worker& worker, uint64_t number) {
    uint64_t row = number / launch.grid.x;
    worker.block.blockIdx = {unsigned(number % launch.grid.x), unsigned(row % launch.grid.y), unsigned(row / launch.grid.y)};
    worker.next_index = {0, 0, 0};
    worker.started = worker.arrived = worker.votes = worker.gathered = 0;
    worker.ready.head = worker.ready.tail = 0;
    for (unsigned i = 0; i * WARP < worker.threads; ++i) {
        unsigned lanes = worker.threads - i * WARP;
        worker.warps[i].waiting = 0;
        worker.warps[i].absent = lanes >= WARP ? 0 : ~0u << lanes;
    }
    current = start_fiber(worker);
    switch_to(worker.scheduler, current->context);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT Thread* minigrad_self() { return &current->thread; }

MINIGRAD_EXPORT int minigrad_next_thread() {
    Fiber* self = current;
    Worker& worker = *this_worker;
    lane_returned(worker, self->thread.index);
    if (!worker.ready.empty() || worker.started == worker.threads) return 0;  // those that can go on first
    take_thread(worker, self);
    return 1;
}

namespace minigrad {

// __syncthreads: the last to arrive lets all go. Every thread of the block must come, and by the same call: a thread that
// returned early is missed here, as the CUDA guide asks, though many GPUs would let it pass.
static inline Context* arrive(Fiber* self, bool voting, int predicate) {
    Worker& worker = *this_worker;
    unsigned before = worker.arrived++;
    if (before == 0) worker.line = self->site.line, worker.diverged = false;
    if (worker.line != self->site.line) worker.diverged = true;
    worker.votes += predicate != 0;
    worker.barrier[before] = self;
    if (before + 1 == worker.threads) {
        if (worker.diverged) report_deadlock(worker);
        for (unsigned i = 0; i <= before; ++i) worker.ready.push(worker.barrier[i]);
        if (voting)
            for (unsigned i = 0; i <= before; ++i) worker.barrier[i]->thread.result = worker.votes;
        worker.arrived = worker.votes = 0;
    }
    return next_to_run(worker);
}

MINIGRAD_STEP(minigrad_barrier, const char*, int) {
    Fiber* self = current;
    MINIGRAD_SAVE(self);
    self->site = {"__syncthreads", first, second};
    return arrive(self, false, 0);
}

MINIGRAD_STEP(minigrad_vote, int, const Site*) {
    Fiber* self = current;
    MINIGRAD_SAVE(self);
    self->site = *second;
    return arrive(self, true, first);
}

// Let the others go first: called by a thread that waits for another one to change memory.
MINIGRAD_STEP(minigrad_yield, const char*, int) {
    Fiber* self = current;
    MINIGRAD_SAVE(self);
    self->site = {"an atomic", first, second};
    Worker& worker = *this_worker;
    bool fresh = worker.started < worker.threads;
    if (!fresh && worker.ready.empty()) sched_yield();  // whom we wait for may be in a block on another core
    worker.ready.push(self);
    if (!fresh) return next_to_run(worker);
    current = start_fiber(worker);
    return &current->context;
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_barrier)
MINIGRAD_OPERATION(minigrad_vote)
MINIGRAD_OPERATION(minigrad_yield)
