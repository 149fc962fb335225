// The workers: the calling thread, and helper threads that wait for launches. Each takes block after block of the grid.
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

// Returns nullptr where the system has no memory.
static Worker* make_worker() {
    Worker* worker = static_cast<Worker*>(calloc(1, sizeof(Worker)));
    if (!worker || !(worker->shared = map_guarded(SHARED_ROOM, wide_guard()))) return nullptr;
    memset(worker->shared, 0xff, SHARED_ROOM);
    return worker;
}

static void begin_launch(Worker& worker) {
    worker.thread = pthread_self();
    worker.threads = launch.block.x * launch.block.y * launch.block.z;
    worker.block.blockDim = launch.block;
    worker.block.gridDim = launch.grid;
    worker.block.launch = launch.number;
    worker.block.dynamic = launch.dynamic;
    worker.block.shared_end = worker.shared + SHARED_ROOM;
    worker.fault = {};
    note_progress(worker);
    this_worker = &worker;
}

// Run blocks until none is left or one has failed.
static void run_blocks(Worker& worker) {
    begin_launch(worker);
    char* end = worker.block.shared_end;
    if (_setjmp(worker.escape) == 0) {
        worker.running = 1;  // before `stop` is read: whoever sets it later sees that this worker needs a signal
        std::atomic_thread_fence(std::memory_order_seq_cst);
        for (uint64_t number; !launch.stop && (number = launch.next++) < launch.blocks; ++launch.done) {
            run_block(worker, number);
            // Shared memory begins undefined: filled with 0xff, NaN, so that the next block cannot use stale values.
            if (unsigned used = launch.shared_used) memset(end - used, 0xff, used);
        }
        worker.running = 0;
    } else {
        reset_fibers(worker);
        memset(worker.shared, 0xff, SHARED_ROOM);
    }
    this_worker = nullptr;
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
