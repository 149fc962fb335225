// A launch from request to report, and the allocation of shared memory for all its blocks.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

Launch launch;

// The address relative to the kernel's file; 0 if it is elsewhere.
static uint64_t place_in_kernel(uint64_t address, void* kernel) {
    Dl_info where, home;
    if (!dladdr(reinterpret_cast<void*>(address), &where) || !dladdr(kernel, &home)) return 0;
    return where.dli_fbase == home.dli_fbase ? address - reinterpret_cast<uint64_t>(home.dli_fbase) : 0;
}

static void complete_report() {
    FaultReport& report = launch.report;
    if (report.cause == NONE) report.cause = launch.stop;
    if (report.cause == TIMEOUT && launch.waiting)
        snprintf(report.text, sizeof report.text, "%u of %d blocks", launch.waiting, int(launch.blocks));
    else if (report.cause == TIMEOUT && launch.cooperative && launch.next < launch.blocks)
        snprintf(report.text, sizeof report.text, "%d of %d blocks have begun", int(launch.next), int(launch.blocks));
    bool unplaced = watch.on && report.cause == TIMEOUT && report.line <= 0;
    if (!report.fault.pc && !unplaced) return;
    report.fault.pc = place_in_kernel(report.fault.pc, reinterpret_cast<void*>(launch.kernel));
    // A watched kernel may time out in a hook, or in the stub that calls one: neither has a line.
    if (watch.on && (!report.fault.pc || report.cause == TIMEOUT)) report.fault.pc = watch.pc;
}

}  // namespace minigrad

using namespace minigrad;

// The request from Python; see runtime.py.
struct LaunchRequest {
    void (*kernel)(const char*);
    const char* packed;
    uint32_t grid[3], block[3], shared, workers, interruptible, cooperative;
    uint32_t printed;  // filled in: the bytes that the kernel printed
    double timeout;
};

MINIGRAD_EXPORT int minigrad_launch(LaunchRequest* request) {
    static char signal_stack[64 * 1024];

    launch.kernel = request->kernel;
    launch.packed = request->packed;
    launch.grid = dim3(request->grid[0], request->grid[1], request->grid[2]);
    launch.block = dim3(request->block[0], request->block[1], request->block[2]);
    launch.blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    launch.waiting = 0;
    launch.cooperative = request->cooperative;
    launch.dynamic = (request->shared + 15) / 16 * 16;
    launch.shared_bytes = launch.dynamic;
    launch.shared_used = launch.dynamic * (watch.on ? 2 : 1);
    launch.next = launch.done = 0;
    launch.stop = launch.reported = NONE;
    memset(&launch.report, 0, offsetof(FaultReport, text) + 1);
    printed = request->printed = 0;
    if (launch.dynamic > MAX_ASKED) {
        launch.report.cause = SHARED;
        launch.report.fault.bytes = launch.dynamic;
        return SHARED;
    }

    stack_t previous_stack;
    use_signal_stack(signal_stack, &previous_stack);
    install_handlers(request->interruptible);
    start_watchdog(request->timeout);
    run_grid(request->workers < launch.blocks ? request->workers : launch.blocks);
    stop_watchdog();
    restore_handlers(request->interruptible);
    sigaltstack(&previous_stack, nullptr);
    request->printed = printed;
    if (launch.done == launch.blocks && launch.stop != INTERRUPT) return NONE;
    complete_report();
    return launch.report.cause;
}

MINIGRAD_EXPORT FaultReport* minigrad_report() { return &launch.report; }

// The first thread of a launch that reaches a __shared__ variable allocates it, for all blocks.
MINIGRAD_EXPORT void minigrad_place(Slot* slot, size_t bytes) {
    static pthread_mutex_t placing = PTHREAD_MUTEX_INITIALIZER;
    Worker& worker = *this_worker;
    worker.critical = 1;
    pthread_mutex_lock(&placing);
    uint64_t size = (uint64_t(bytes) + 15) / 16 * 16, used = launch.shared_bytes + size, gap = watch.on ? size : 0;
    bool fits = used <= (launch.dynamic > MAX_SHARED ? MAX_ASKED : MAX_SHARED);
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
