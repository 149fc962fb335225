// A launch: the blocks of a grid, handed out one by one to the calling thread and to helpers that wait for work.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

namespace minigrad {

Launch launch;
Worker* workers[MAX_WORKERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static unsigned helpers, active, wanted;  // how many there are, take part, and may take part in the launch
static bool open;                         // whether they have been called
static const uint64_t SMALL_GRID = 4096;  // threads

// nullptr where there is no memory.
static Worker* make_worker() {
    Worker* worker = static_cast<Worker*>(calloc(1, sizeof(Worker)));
    if (!worker || !(worker->shared = map_guarded(MAX_SHARED))) return nullptr;
    memset(worker->shared, 0xff, MAX_SHARED);
    return worker;
}

static void begin_launch(Worker& worker) {
    worker.thread = pthread_self();
    worker.threads = launch.block.x * launch.block.y * launch.block.z;
    worker.block.blockDim = launch.block;
    worker.block.gridDim = launch.grid;
    worker.block.launch = launch.number;
    worker.block.dynamic = launch.dynamic;
    worker.block.shared_end = worker.shared + MAX_SHARED;
    worker.fault = {};
    this_worker = &worker;
}

// Run blocks until there are no more, or until something goes wrong in one.
static void run_blocks(Worker& worker) {
    begin_launch(worker);
    char* end = worker.block.shared_end;
    if (_setjmp(worker.escape) == 0) {
        worker.running = 1;  // before `stop` is read: whoever sets it then sees that we are to be signalled
        std::atomic_thread_fence(std::memory_order_seq_cst);
        for (uint64_t number; !launch.stop && (number = launch.next++) < launch.blocks; ++launch.done) {
            run_block(worker, number);
            // Shared memory begins undefined: as bytes 0xff, which read as NaN, the next block cannot use what is left.
            if (unsigned used = launch.shared_used) memset(end - used, 0xff, used);
        }
        worker.running = 0;
    } else {
        reset_fibers(worker);
        memset(worker.shared, 0xff, MAX_SHARED);
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

// Signals for the process go to Python's threads; a helper takes only its own faults and the order to stop.
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
    forget_watchdog();
}

void call_helpers() {
    pthread_mutex_lock(&lock);
    if (wanted && !open) {
        open = true;
        pthread_cond_broadcast(&work);
    }
    pthread_mutex_unlock(&lock);
}

// The calling thread is a worker too: waking another takes longer than many a kernel. So helpers are called at once only
// to a grid of some size; to a small one the watchdog calls them, if it has not ended by then.
static void run_grid(unsigned most) {
    while (helpers + 1 < most && helpers + 1 < MAX_WORKERS && start_helper()) {}
    if (!workers[0] && !(workers[0] = make_worker())) {
        launch.stop = SYSTEM;
        return;
    }
    wanted = most - 1;
    if (launch.blocks * launch.block.x * launch.block.y * launch.block.z >= SMALL_GRID) call_helpers();
    run_blocks(*workers[0]);
    pthread_mutex_lock(&lock);
    open = false, wanted = 0;
    while (active) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

// A bad instruction's place in the kernel's file, if it is in there.
static uint64_t place_in_kernel(uint64_t address, void* kernel) {
    Dl_info where, home;
    if (!dladdr(reinterpret_cast<void*>(address), &where) || !dladdr(kernel, &home)) return 0;
    return where.dli_fbase == home.dli_fbase ? address - reinterpret_cast<uint64_t>(home.dli_fbase) : 0;
}

static void complete_report() {
    Report& report = launch.report;
    if (report.cause == NONE) report.cause = launch.stop;
    if (report.fault.pc) report.fault.pc = place_in_kernel(report.fault.pc, reinterpret_cast<void*>(launch.kernel));
}

}  // namespace minigrad

using namespace minigrad;

// The order that Python gives; see runtime.py.
struct Order {
    void (*kernel)(const char*);
    const char* packed;
    uint32_t grid[3], block[3], shared, workers, interruptible;
    uint32_t printed;  // the answer: bytes that the kernel printed
    double timeout;
};

MINIGRAD_EXPORT int minigrad_launch(Order* order) {
    static char signal_stack[64 * 1024];
    static bool registered;
    if (!registered) registered = pthread_atfork(nullptr, nullptr, after_fork) == 0;

    launch.kernel = order->kernel;
    launch.packed = order->packed;
    launch.grid = dim3(order->grid[0], order->grid[1], order->grid[2]);
    launch.block = dim3(order->block[0], order->block[1], order->block[2]);
    launch.blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    launch.dynamic = (order->shared + 15) / 16 * 16;
    launch.shared_used = launch.dynamic;
    launch.next = launch.done = 0;
    launch.stop = launch.reported = NONE;
    pthread_mutex_lock(&lock);
    ++launch.number;
    pthread_mutex_unlock(&lock);
    memset(&launch.report, 0, offsetof(Report, text) + 1);
    printed = 0;

    stack_t previous_stack;
    use_signal_stack(signal_stack, &previous_stack);
    install_handlers(order->interruptible);
    start_watchdog(order->timeout);
    run_grid(order->workers < launch.blocks ? order->workers : launch.blocks);
    stop_watchdog();
    restore_handlers(order->interruptible);
    sigaltstack(&previous_stack, nullptr);
    order->printed = printed;
    if (launch.done == launch.blocks && launch.stop != INTERRUPT) return NONE;
    complete_report();
    return launch.report.cause;
}

MINIGRAD_EXPORT Report* minigrad_report() { return &launch.report; }

// The first thread of a launch to meet a __shared__ variable gives it its place, for all blocks.
MINIGRAD_EXPORT void minigrad_place(Slot* slot, size_t bytes) {
    static pthread_mutex_t placing = PTHREAD_MUTEX_INITIALIZER;
    Worker& worker = *this_worker;
    worker.critical = 1;
    pthread_mutex_lock(&placing);
    uint64_t used = launch.shared_used + (uint64_t(bytes) + 15) / 16 * 16;
    bool fits = used <= MAX_SHARED;
    if (fits && slot->launch != launch.number) {
        slot->offset = used;
        launch.shared_used = used;
        __atomic_store_n(&slot->launch, launch.number, __ATOMIC_RELEASE);
    }
    fits = fits || slot->launch == launch.number;
    pthread_mutex_unlock(&placing);
    if (!fits) {
        worker.fault.bytes = used;
        fail(SHARED, nullptr, 0, "%s", "");
    }
    leave_critical(worker);
}
