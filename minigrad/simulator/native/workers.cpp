// The OS threads: the calling one, and helpers that wait for launches. Each takes block after block of the grid.
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

namespace minigrad {

Worker* workers[MAX_WORKERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static unsigned helpers, active, wanted;  // existing; running blocks; allowed in the launch
static bool open;                         // to the present launch
static const uint64_t SMALL_GRID = 4096;  // threads
// Of blocks that took turns in an earlier cooperative launch.
static Worker* spare_workers;
static Fiber* spare_fibers[MAX_RESIDENT];
static unsigned spare_count;

// Returns nullptr where the system has no memory.
static Worker* make_worker() {
    Worker* worker = static_cast<Worker*>(calloc(1, sizeof(Worker)));
    if (!worker || !(worker->shared = map_guarded(SHARED_ROOM, wide_guard()))) return nullptr;
    memset(worker->shared, 0xff, SHARED_ROOM);
    return worker;
}

static void begin_launch(Worker& worker, Worker& leader) {
    worker.leader = &leader, worker.after = &worker;
    worker.threads = launch.block.x * launch.block.y * launch.block.z;
    worker.block.blockDim = launch.block;
    worker.block.gridDim = launch.grid;
    worker.block.launch = launch.number;
    worker.block.dynamic = launch.dynamic;
    worker.block.cooperative = launch.cooperative;
    worker.block.shared_end = worker.shared + SHARED_ROOM;
    worker.fault = {};
    worker.current = nullptr;
}

// After a jump out of a kernel its blocks are in any state.
static void reset(Worker& worker) {
    reset_fibers(worker);
    memset(worker.shared, 0xff, SHARED_ROOM);
}

Fiber* take_spare_fiber() {
    pthread_mutex_lock(&lock);
    Fiber* fiber = spare_count ? spare_fibers[--spare_count] : nullptr;
    pthread_mutex_unlock(&lock);
    return fiber;
}

static void spare(Worker& worker) {
    while (worker.made && spare_count < MAX_RESIDENT) spare_fibers[spare_count++] = worker.fibers[--worker.made];
    worker.idles = 0;
    if (worker.made) reset_fibers(worker);
    worker.after = spare_workers, spare_workers = &worker;
}

static Worker* take_worker() {
    pthread_mutex_lock(&lock);
    Worker* worker = spare_workers;
    if (worker) spare_workers = worker->after;
    pthread_mutex_unlock(&lock);
    return worker ? worker : make_worker();
}

// Begin one more block on this OS thread, which has the next turn. Returns nullptr where all have begun.
Context* begin_another(Worker& worker) {
    uint64_t place = launch.next < launch.blocks ? launch.next++ : launch.blocks;
    if (place >= launch.blocks) return nullptr;
    worker.critical = 1;
    Worker* another = take_worker();
    if (!another) fail(SYSTEM, nullptr, 0, "the system has no memory for %d blocks at once", int(launch.blocks));
    begin_launch(*another, *worker.leader);
    another->list = worker.leader->list, worker.leader->list = another;
    another->after = worker.after, worker.after = another;
    leave_critical(worker);
    this_worker = another;
    return begin_block(*another, place);
}

// Run blocks until none is left or one has failed.
static void run_blocks(Worker& leader) {
    begin_launch(leader, leader);
    leader.thread = pthread_self();
    leader.begun = 0, leader.list = nullptr;
    note_progress(leader);
    this_worker = &leader;
    if (_setjmp(leader.escape) == 0) {
        leader.running = 1;  // before `stop` is read: whoever sets it later sees that this thread needs a signal
        std::atomic_thread_fence(std::memory_order_seq_cst);
        for (uint64_t place; !launch.stop && (place = launch.next++) < launch.blocks;) {
            this_worker = &leader;
            for (Context* to = begin_block(leader, place); to; to = end_block(*this_worker))
                switch_to(leader.scheduler, *to);
        }
        leader.running = 0;
    } else {
        fesetround(FE_TONEAREST);  // __fadd_ru may have been stopped; only Linux on x86 resets it for a signal handler
        for (Worker* worker = leader.list; worker; worker = worker->list) reset(*worker);
        reset(leader);
    }
    this_worker = nullptr;
    if (!leader.list) return;
    pthread_mutex_lock(&lock);
    for (Worker* worker = leader.list; worker; worker = worker->list) spare(*worker);
    pthread_mutex_unlock(&lock);
}

static void* helper_life(void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    use_signal_stack(static_cast<char*>(malloc(64 * 1024)), nullptr);
    unsigned long long seen = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!open || seen == launch.number || active == wanted) pthread_cond_wait(&work, &lock);
        seen = launch.number;
        ++active;
        pthread_mutex_unlock(&lock);
        run_blocks(worker);
        pthread_mutex_lock(&lock);
        if (--active == 0) pthread_cond_signal(&done);
    }
    return nullptr;
}

// Signals for the process go to Python's threads; a helper takes only its own faults and the request to stop.
static bool start_helper() {
    sigset_t all, previous;
    sigfillset(&all);
    for (int signal : FATAL) sigdelset(&all, signal);
    sigdelset(&all, STOP);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    Worker* worker = make_worker();
    bool started = worker && pthread_create(&worker->thread, nullptr, helper_life, worker) == 0;
    if (started) pthread_detach(worker->thread), workers[++helpers] = worker;
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    return started;
}

// A forked child has the memory of its parent's helpers, but not the helpers.
static void after_fork() {
    pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    lock = fresh_lock, work = fresh, done = fresh;
    helpers = active = wanted = 0, open = false;
    memset(workers, 0, sizeof workers);
    spare_workers = nullptr, spare_count = 0;
    reset_watchdog();
}

void call_helpers() {
    pthread_mutex_lock(&lock);
    if (wanted && !open) {
        open = true;
        pthread_cond_broadcast(&work);
    }
    pthread_mutex_unlock(&lock);
}

// The calling thread is a worker too, as waking another takes longer than many a kernel. Helpers are woken at once only
// for a large grid; for a small one the watchdog wakes them, if it has not ended by then.
static void run_grid(unsigned most) {
    static bool registered;
    if (!registered) registered = pthread_atfork(nullptr, nullptr, after_fork) == 0;
    while (helpers + 1 < most && helpers + 1 < MAX_WORKERS && start_helper()) {}
    if (!workers[0] && !(workers[0] = make_worker())) {
        launch.stop = SYSTEM;
        return;
    }
    pthread_mutex_lock(&lock);
    ++launch.number;
    wanted = most - 1;
    pthread_mutex_unlock(&lock);
    if (launch.blocks * launch.block.x * launch.block.y * launch.block.z >= SMALL_GRID) call_helpers();
    run_blocks(*workers[0]);
    pthread_mutex_lock(&lock);
    open = false, wanted = 0;
    while (active) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

}  // namespace minigrad
