// When a kernel goes wrong. A bad access, a division by zero or the watchdog ends in a signal handler, a failed assert or
// a deadlock in fail(); all of them fill in the one report and jump out of the kernel to where the worker began.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

namespace minigrad {

// What a handler needs on a stack of its own: the fiber's may be the very thing that overflowed.
static const int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static const int STOP = SIGURG;  // ignored by default, so that one that comes late does no harm
static struct sigaction before[NSIG];

static void leave_kernel(Worker& worker) __attribute__((noreturn));
static void leave_kernel(Worker& worker) {
    worker.running = 0;
    worker.critical = 0;
    worker.current = nullptr;
    _longjmp(worker.escape, 1);
}

void leave_critical(Worker& worker) {
    worker.critical = 0;
    if (launch.stop) leave_kernel(worker);  // asked for while we could not
}

// Stop every worker: those between blocks see `stop`, those inside a kernel get a signal.
void stop_all(Kind kind) {
    int running = NONE;
    launch.stop.compare_exchange_strong(running, kind);
    for (Worker* worker : workers)
        if (worker && worker != this_worker && worker->running) pthread_kill(worker->thread, STOP);
}

// The first to come writes the report.
static bool claim(Kind kind) {
    if (launch.reported.exchange(1)) return false;
    Report& report = launch.report;
    Fiber* current = this_worker->current;
    report.kind = kind;
    report.has_thread = current != nullptr;
    if (current) report.block = current->thread.blockIdx, report.thread = current->thread.threadIdx;
    return true;
}

static void name_place(const char* file, int line) {
    strncpy(launch.report.file, file ? file : "", sizeof launch.report.file - 1);
    launch.report.line = line;
}

void fail(Kind kind, const char* file, int line, const char* format, ...) {
    Worker& worker = *this_worker;
    worker.critical = 1;
    if (claim(kind)) {
        va_list words;
        va_start(words, format);
        vsnprintf(launch.report.text, sizeof launch.report.text, format, words);
        va_end(words);
        name_place(file, line);
    }
    stop_all(kind);
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
    return 0;  // then the report has no line
#endif
}

// Whether the address is in the memory that map_guarded gave, or in its guard pages.
static bool near(uint64_t address, const char* memory, size_t size) {
    return address - reinterpret_cast<uint64_t>(memory) + GUARD < size + 2 * GUARD;
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* worker = this_worker;
    if (!worker || !worker->running || !worker->current) {  // not ours: let it happen again under the handler of before
        sigaction(signal, &before[signal], nullptr);
        return;
    }
    Kind kind = signal == SIGFPE ? DIVISION : signal == SIGSEGV || signal == SIGBUS ? ACCESS : ILLEGAL;
    uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    if (kind == ACCESS && near(address, worker->current->stack, 0)) kind = STACK_OVERFLOW;
    if (kind == ACCESS && near(address, worker->shared, MAX_SHARED)) {
        kind = SHARED_ACCESS;
        address -= reinterpret_cast<uint64_t>(worker->shared + MAX_SHARED);
    }
    if (claim(kind)) {
        launch.report.bytes = launch.shared_used;
        launch.report.address = address;
        launch.report.pc = program_counter(context);
    }
    stop_all(kind);
    leave_kernel(*worker);
}

static void on_stop(int, siginfo_t*, void* context) {
    Worker* worker = this_worker;
    if (!worker || !worker->running || !launch.stop || worker->critical) return;
    Fiber* current = worker->current;
    if (launch.stop == TIMEOUT && current && claim(TIMEOUT)) {
        launch.report.pc = program_counter(context);
        if (current->site) name_place(current->site->file, current->site->line);  // in case the pc is in the runtime
    }
    leave_kernel(*worker);
}

// Ctrl-C: Python's own handler notes it, and raises KeyboardInterrupt once the launch has come back.
static void on_interrupt(int signal, siginfo_t* info, void* context) {
    if (before[signal].sa_flags & SA_SIGINFO) before[signal].sa_sigaction(signal, info, context);
    else if (before[signal].sa_handler != SIG_DFL && before[signal].sa_handler != SIG_IGN) before[signal].sa_handler(signal);
    int running = NONE;
    launch.stop.compare_exchange_strong(running, INTERRUPT);
    stop_all(INTERRUPT);
    Worker* worker = this_worker;
    if (worker && worker->running && !worker->critical) leave_kernel(*worker);
}

static void install(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    // NODEFER: the handler leaves by a jump, after which the signal must not stay blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
    sigaction(signal, &action, &before[signal]);
}

// For the time of a launch. Other handlers, such as faulthandler's, are put back after it.
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

MINIGRAD_EXPORT void minigrad_misaligned(uintptr_t address, int alignment) {
    launch.report.address = address;
    launch.report.pc = reinterpret_cast<uint64_t>(__builtin_return_address(0)) - 1;
    fail(MISALIGNED, nullptr, 0, "vector must begin at a multiple of %d bytes", alignment);
}

// The compiler's own checks, asked for by -fsanitize=alignment,integer-divide-by-zero, call these where one fails. The
// layout of what they are given is fixed by the sanitizers of GCC and Clang.
struct Place {
    const char* file;
    unsigned line, column;
};
struct TypeName {
    unsigned short kind, info;
    char name[1];  // of any length, in quotes
};
struct TypeMismatch {
    Place place;
    const TypeName* type;
    unsigned char log_alignment, access;
};

MINIGRAD_EXPORT void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* what, uintptr_t address) {
    launch.report.address = address;
    fail(MISALIGNED, what->place.file, what->place.line, "%s must begin at a multiple of %d bytes", what->type->name,
         1 << what->log_alignment);
}
MINIGRAD_EXPORT void __ubsan_handle_alignment_assumption_abort(Place* place, uintptr_t address, uintptr_t alignment) {
    launch.report.address = address;
    fail(MISALIGNED, place->file, place->line, "pointer said to begin at a multiple of %d bytes", int(alignment));
}
MINIGRAD_EXPORT void __ubsan_handle_divrem_overflow_abort(Place* place, uintptr_t, uintptr_t) {
    fail(DIVISION, place->file, place->line, "integer division by zero");
}
