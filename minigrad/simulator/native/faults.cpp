// Failures of a kernel. A bad access and the watchdog arrive in a signal handler, a failed assert and a deadlock in
// fail(). Each fills in the report and jumps out of the kernel to the worker's start.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shadow_memory.h"

namespace minigrad {

// Handled on a separate stack: the fiber's own stack may be what overflowed.
static const int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static const int STOP = SIGURG;  // ignored by default, so that a late one does no harm
static struct sigaction before[NSIG];

static void leave_kernel(Worker& worker) __attribute__((noreturn));
static void leave_kernel(Worker& worker) {
    worker.leader->running = 0;
    worker.critical = 0;
    worker.current = nullptr;
    _longjmp(worker.leader->escape, 1);
}

// Stop every worker: those between blocks see `stop`, those inside a kernel get a signal.
void stop_all(Cause cause) {
    int running = NONE;
    launch.stop.compare_exchange_strong(running, cause);
    const Worker* own = this_worker ? this_worker->leader : nullptr;
    for (Worker* worker : workers)
        if (worker && worker != own && worker->running) pthread_kill(worker->thread, STOP);
}

// Returns true for the first failure, which writes the report.
static bool claim_report(Cause cause) {
    if (launch.reported.exchange(1)) return false;
    FaultReport& report = launch.report;
    Fiber* current = this_worker->current;
    report.cause = cause;
    report.fault = this_worker->fault;
    report.has_thread = current != nullptr;
    if (current) report.block = current->thread.blockIdx, report.thread = current->thread.threadIdx;
    return true;
}

static void set_location(const char* file, int line) {
    strncpy(launch.report.file, file ? file : "", sizeof launch.report.file - 1);
    launch.report.line = line;
}

// At a timeout the first thread is reported, where it has waited last.
static void report_timeout(const Worker& worker) {
    const Fiber* current = worker.current;
    if (launch.stop == TIMEOUT && current && claim_report(TIMEOUT) && current->site)
        set_location(current->site->file, current->site->line);  // in case the pc is in the runtime
}

void leave_critical(Worker& worker) {
    worker.critical = 0;
    if (!launch.stop) return;
    report_timeout(worker);  // a stop was requested meanwhile
    leave_kernel(worker);
}

void fail(Cause cause, const char* file, int line, const char* format, ...) {
    Worker& worker = *this_worker;
    worker.critical = 1;
    if (claim_report(cause)) {
        va_list words;
        va_start(words, format);
        vsnprintf(launch.report.text, sizeof launch.report.text, format, words);
        va_end(words);
        set_location(file, line);
    }
    stop_all(cause);
    leave_kernel(worker);
}

static uint64_t program_counter(void* context) {
    ucontext_t* state = static_cast<ucontext_t*>(context);
#if defined(__linux__) && defined(__x86_64__)
    return state->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__) && defined(__aarch64__)
    return state->uc_mcontext.pc;
#elif defined(__APPLE__) && defined(__x86_64__)
    return state->uc_mcontext->__ss.__rip;
#elif defined(__APPLE__) && defined(__aarch64__)
    return state->uc_mcontext->__ss.__pc;
#else
    (void)state;
    return 0;  // the report has no line
#endif
}

// True if the address is in memory of map_guarded, or in its guard pages.
static bool in_or_near(uint64_t address, const char* memory, size_t size, size_t guard) {
    return address - reinterpret_cast<uint64_t>(memory) + guard < size + 2 * guard;
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* worker = this_worker;
    if (!worker || !worker->leader->running || !worker->current) {  // not ours: let it recur under the previous handler
        sigaction(signal, &before[signal], nullptr);
        return;
    }
    Cause cause = signal == SIGFPE ? DIVISION : signal == SIGSEGV || signal == SIGBUS ? ACCESS : ILLEGAL;
    uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
#ifdef SI_KERNEL
    if (info->si_code == SI_KERNEL) address = 1ull << 63;  // x86 does not say which, as no pointer can have it
#endif
    if (cause == ACCESS && in_or_near(address, worker->current->stack(), 0, GUARD)) cause = STACK_OVERFLOW;
    if (cause == ACCESS && in_or_near(address, worker->shared, SHARED_ROOM, wide_guard())) {
        cause = SHARED_ACCESS;
        address -= reinterpret_cast<uint64_t>(worker->shared + SHARED_ROOM);
    }
    worker->fault = {address, launch.shared_bytes, program_counter(context)};
    claim_report(cause);
    stop_all(cause);
    leave_kernel(*worker);
}

// Call the previous handler of this signal.
static void call_previous_handler(int signal, siginfo_t* info, void* context) {
    const struct sigaction& other = before[signal];
    if (other.sa_flags & SA_SIGINFO) other.sa_sigaction(signal, info, context);
    else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) other.sa_handler(signal);
}

static void on_stop(int signal, siginfo_t* info, void* context) {
    Worker* worker = this_worker;
    if (!worker || !worker->leader->running || !launch.stop) return call_previous_handler(signal, info, context);
    if (worker->critical) return;
    Fiber* current = worker->current;
    // A waiting thread is reported at the line of its wait: compilers attribute parts of the loop to other lines.
    bool waits = launch.waiting && current && current->site && current->site->line > 0;
    worker->fault = {0, 0, waits ? 0 : program_counter(context)};
    report_timeout(*worker);
    leave_kernel(*worker);
}

// Ctrl-C: Python's own handler records it and raises KeyboardInterrupt after the launch has returned.
static void on_interrupt(int signal, siginfo_t* info, void* context) {
    call_previous_handler(signal, info, context);
    if (before[signal].sa_handler == SIG_IGN) return;
    stop_all(INTERRUPT);
    Worker* worker = this_worker;
    if (worker && worker->leader->running && !worker->critical) leave_kernel(*worker);
}

static void install(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    // NODEFER: the handler leaves by a jump, after which the signal must not stay blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigaction(signal, &action, &before[signal]);
}

// During a launch. The previous handlers, such as faulthandler's, are restored after it.
static void install_handlers(bool interruptible) {
    for (int signal : FATAL) install(signal, on_fault);
    install(STOP, on_stop);
    if (interruptible) install(SIGINT, on_interrupt);
}
static void restore_handlers(bool interruptible) {
    for (int signal : FATAL) sigaction(signal, &before[signal], nullptr);
    sigaction(STOP, &before[STOP], nullptr);
    if (interruptible) sigaction(SIGINT, &before[SIGINT], nullptr);
}

static void use_signal_stack(char* memory, stack_t* previous) {
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory;
    stack.ss_size = 64 * 1024;
    sigaltstack(&stack, previous);
}

}  // namespace minigrad

using namespace minigrad;

MINIGRAD_EXPORT void minigrad_assert_failed(const char* text, const char* file, int line) {
    fail(ASSERT, file, line, "%s", text);
}

// The fault of an access, in the reader's code.
#define MINIGRAD_FAULT(address) \
    Fault{address, 0, pc_of(readers_code(__builtin_return_address(0), __builtin_frame_address(0))) + watch.base}

MINIGRAD_EXPORT void minigrad_misaligned(const char* what, uintptr_t address, int alignment) {
    this_worker->fault = MINIGRAD_FAULT(address);
    fail(MISALIGNED, nullptr, 0, "%s must begin at a multiple of %d bytes", what, alignment);
}

// Calls of the compiler's checks, -fsanitize=alignment,integer-divide-by-zero, where one fails. GCC and Clang fix the
// layout of the arguments.
struct SourceLocation {
    const char* file;
    unsigned line, column;
};
struct TypeName {
    unsigned short kind, info;
    char name[1];  // of any length, in quotes
};
struct TypeMismatch {
    SourceLocation place;
    const TypeName* type;
    unsigned char log_alignment, access;
};

MINIGRAD_EXPORT void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* what, uintptr_t address) {
    this_worker->fault = MINIGRAD_FAULT(address);
    fail(MISALIGNED, what->place.file, what->place.line, "%s must begin at a multiple of %d bytes", what->type->name,
         1 << what->log_alignment);
}
MINIGRAD_EXPORT void __ubsan_handle_alignment_assumption_abort(SourceLocation* place, uintptr_t address,
                                                               uintptr_t alignment) {
    this_worker->fault = MINIGRAD_FAULT(address);
    fail(MISALIGNED, place->file, place->line, "pointer said to begin at a multiple of %d bytes", int(alignment));
}
MINIGRAD_EXPORT void __ubsan_handle_divrem_overflow_abort(SourceLocation* place, uintptr_t, uintptr_t) {
    this_worker->fault = MINIGRAD_FAULT(0);
    fail(DIVISION, place->file, place->line, "integer division by zero");
}
