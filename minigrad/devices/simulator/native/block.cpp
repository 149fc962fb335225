// One block: its threads as fibers, and the barrier. A thread that must wait hands over to the next that can run, without
// going through a scheduler; only when nobody can run is there something to decide.
#include "runtime.h"

namespace minigrad {

thread_local Fiber* current __attribute__((tls_model("initial-exec")));
thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

static void resume(Context& from, Fiber* next) {
    current = next;
    switch_to(from, next->context);
}

// Make the fiber the block's next thread.
static void take_thread(Worker& worker, Fiber* fiber) {
    fiber->threadIdx = worker.next_index;
    fiber->index = worker.started++;
    if (++worker.next_index.x == worker.block.blockDim.x) {
        worker.next_index.x = 0;
        if (++worker.next_index.y == worker.block.blockDim.y) worker.next_index.y = 0, ++worker.next_index.z;
    }
}

static Fiber* next_to_run(Worker& worker);

static void finish_block(Worker& worker, Fiber* last) {
    current = nullptr;
    switch_to(last->context, worker.scheduler);
}

// Where a new fiber begins. It never ends: between threads, and between blocks, it lies in the idle list.
static void fiber_life() {
    Fiber* self = current;  // read once, here: a later launch may run this fiber on another OS thread
    Worker& worker = *self->worker;
    for (;;) {
        launch.kernel(launch.packed);  // runs thread after thread, while there are some and nobody waits to go on
        worker.idle[worker.idles++] = self;
        if (worker.finished == worker.threads) finish_block(worker, self);
        else resume(self->context, next_to_run(worker));
    }
}

// Stacks lie at multiples of 128 KB, which all compete for the same few lines of the cache; so each begins elsewhere in
// its page, its Fiber above it.
static void prepare_fiber(Worker& worker, unsigned i) {
    Fiber* fiber = worker.fibers[i];
    fiber->worker = &worker;
    fiber->wait.what = nullptr;
    prepare(fiber->context, reinterpret_cast<char*>(fiber), STACK / 2, fiber_life);
    worker.idle[worker.idles++] = fiber;
}

static void make_fiber(Worker& worker) {
    worker.critical = 1;
    char* stack = map_guarded(STACK);
    if (!stack) fail(SYSTEM, nullptr, 0, "no memory for the stacks of a block of %u threads", worker.threads);
    size_t shift = worker.made * 7 % 48 * 64;
    Fiber* fiber = reinterpret_cast<Fiber*>(stack + STACK - sizeof(Fiber) / 64 * 64 - 64 - shift);
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
    static_cast<Thread&>(*fiber) = worker.block;
    take_thread(worker, fiber);
    return fiber;
}

// Nobody can run: say who waits where. Threads that wait at the same call are counted together.
static void report_deadlock(Worker& worker) {
    struct { Wait wait; unsigned count; } groups[8];
    unsigned known = 0;
    Fiber* waiting = nullptr;
    for (unsigned i = 0; i < worker.made; ++i) {
        Fiber* fiber = worker.fibers[i];
        if (!fiber->wait.what) continue;
        if (!waiting || fiber->index < waiting->index) waiting = fiber;
        unsigned g = 0;
        while (g < known && (groups[g].wait.line != fiber->wait.line || groups[g].wait.what != fiber->wait.what)) ++g;
        if (g == known && known < 8) groups[known++] = {fiber->wait, 0};
        if (g < 8) ++groups[g].count;
    }
    char text[400];
    size_t length = 0;
    auto say = [&](auto... words) {
        int more = snprintf(text + length, sizeof text - length, words...);
        length = more < 0 || length + more >= sizeof text ? sizeof text - 1 : length + more;
    };
    for (unsigned g = 0; g < known; ++g)
        say("%s%u at %s in line %d", g ? ", " : "", groups[g].count, groups[g].wait.what, groups[g].wait.line);
    if (worker.finished) say("; %u have returned", worker.finished);
    current = waiting;
    fail(DIVERGENCE, waiting->wait.file, waiting->wait.line, "%u threads: %s", worker.threads, text);
}

// The fiber to go on with when the present one cannot.
static Fiber* next_to_run(Worker& worker) {
    if (Fiber* fiber = worker.ready.pop()) return fiber;
    if (worker.started < worker.threads) return start_fiber(worker);
    if (!release_gathering(worker)) report_deadlock(worker);
    return worker.ready.pop();
}

// Let others run until somebody puts this fiber into the ready queue.
void suspend(Fiber* fiber) {
    Fiber* next = next_to_run(*fiber->worker);
    if (next != fiber) resume(fiber->context, next);
    fiber->wait.what = nullptr;
}

void run_block(Worker& worker, uint64_t number) {
    uint64_t row = number / launch.grid.x;
    worker.block.blockIdx = {unsigned(number % launch.grid.x), unsigned(row % launch.grid.y), unsigned(row / launch.grid.y)};
    worker.next_index = {0, 0, 0};
    worker.started = worker.finished = worker.arrived = worker.votes = worker.gathered = 0;
    worker.ready.head = worker.ready.tail = 0;
    for (unsigned i = 0; i * WARP < worker.threads; ++i) {
        unsigned lanes = worker.threads - i * WARP;
        worker.warps[i].waiting = 0;
        worker.warps[i].absent = lanes >= WARP ? 0 : ~0u << lanes;
    }
    resume(worker.scheduler, start_fiber(worker));
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT Thread* minigrad_self() { return current; }

MINIGRAD_EXPORT int minigrad_next_thread() {
    Fiber* self = current;
    Worker& worker = *self->worker;
    ++worker.finished;
    lane_returned(worker, self);
    if (!worker.ready.empty() || worker.started == worker.threads) return 0;  // those that can go on first
    take_thread(worker, self);
    return 1;
}

// __syncthreads: the last to arrive lets all go. Every thread of the block must come, and by the same call: a thread that
// returned early is missed here, as the CUDA guide asks, though many GPUs would let it pass.
MINIGRAD_EXPORT unsigned minigrad_barrier(int predicate, const char* file, int line) {
    Fiber* self = current;
    Worker& worker = *self->worker;
    self->wait = {"__syncthreads", file, line};
    worker.votes += predicate != 0;
    unsigned before = worker.arrived++;
    if (before == 0) worker.line = line, worker.diverged = false;
    if (worker.line != line) worker.diverged = true;
    if (before + 1 < worker.threads) {
        worker.barrier[before] = self;
        suspend(self);
        return worker.decided;
    }
    if (worker.diverged) report_deadlock(worker);
    for (unsigned i = 0; i < before; ++i) worker.ready.push(worker.barrier[i]);
    worker.decided = worker.votes;
    worker.arrived = worker.votes = 0;
    self->wait.what = nullptr;
    return worker.decided;
}

// Let the others go first: called by a thread that waits for another one to change memory.
MINIGRAD_EXPORT void minigrad_yield() {
    Fiber* self = current;
    Worker& worker = *self->worker;
    self->caller = __builtin_return_address(0);
    worker.ready.push(self);
    Fiber* next = worker.started < worker.threads ? start_fiber(worker) : worker.ready.pop();
    if (next != self) resume(self->context, next);
    else sched_yield();  // the other one may be in a block on another core
}
