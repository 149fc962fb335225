// A launch from its beginning to its report, and what the threads of a grid have in common.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "watch.h"

namespace minigrad {

Launch launch;

// A bad instruction's place in the kernel's file, if it is in there.
static uint64_t place_in_kernel(uint64_t address, void* kernel) {
    Dl_info where, home;
    if (!dladdr(reinterpret_cast<void*>(address), &where) || !dladdr(kernel, &home)) return 0;
    return where.dli_fbase == home.dli_fbase ? address - reinterpret_cast<uint64_t>(home.dli_fbase) : 0;
}

static void complete_report() {
    Report& report = launch.report;
    if (report.cause == NONE) report.cause = launch.stop;
    if (report.cause == TIMEOUT && launch.waiting)
        snprintf(report.text, sizeof report.text, "%u of %d blocks", launch.waiting, int(launch.blocks));
    if (!report.fault.pc) return;
    report.fault.pc = place_in_kernel(report.fault.pc, reinterpret_cast<void*>(launch.kernel));
    if (!report.fault.pc && watch.on) report.fault.pc = watch.pc;  // stopped in a hook
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

    launch.kernel = order->kernel;
    launch.packed = order->packed;
    launch.grid = dim3(order->grid[0], order->grid[1], order->grid[2]);
    launch.block = dim3(order->block[0], order->block[1], order->block[2]);
    launch.blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    launch.waiting = 0;
    launch.dynamic = (order->shared + 15) / 16 * 16;
    launch.shared_bytes = launch.dynamic;
    launch.shared_used = launch.dynamic * (watch.on ? 2 : 1);
    launch.next = launch.done = 0;
    launch.stop = launch.reported = NONE;
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
    uint64_t size = (uint64_t(bytes) + 15) / 16 * 16, used = launch.shared_bytes + size, gap = watch.on ? size : 0;
    bool fits = used <= MAX_SHARED;
    if (fits && slot->launch != launch.number) {
        launch.shared_bytes = used;
        slot->offset = launch.shared_used + gap + size;
        launch.shared_used = slot->offset + gap;
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
