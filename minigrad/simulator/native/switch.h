// Context switches: save the processor's state on one stack and restore it from another.
//
// A thread that must wait calls an operation, e.g. minigrad_barrier. That saves the registers, asks a step function in
// C++ which context runs next, and continues there. Only callee-saved registers are saved, as the compiler has saved
// the others at the call. The floating-point modes are left alone, as nothing here changes them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if !defined(MINIGRAD_PORTABLE) && (defined(__x86_64__) || defined(__aarch64__))

namespace minigrad {

struct Context {
    void* sp;  // the rest lies on the stack, where the switch pushed it
};
constexpr bool ALL_ON_STACK = true;

// A step stores the caller's stack pointer in its context, and returns the context to continue with.
#define MINIGRAD_STEP(name, T, first, U, second) \
    extern "C" __attribute__((visibility("hidden"), used)) Context* name##_step(T first, U second, void* sp)
#define MINIGRAD_SAVE(fiber) (fiber)->context.sp = sp

extern "C" __attribute__((visibility("hidden"))) void minigrad_switch(Context* from, Context* to);
inline void switch_to(Context& from, Context& to) { minigrad_switch(&from, &to); }

}  // namespace minigrad

#define MINIGRAD_TEXT(x) #x
#define MINIGRAD_JOIN(prefix, name) MINIGRAD_TEXT(prefix) name
#define MINIGRAD_SYMBOL_(prefix, name) MINIGRAD_JOIN(prefix, name)
#define MINIGRAD_SYMBOL(name) MINIGRAD_SYMBOL_(__USER_LABEL_PREFIX__, name)

// The end is a jump to the return address, and no `ret`: the processor's return predictor expects the latest call,
// which was another fiber's, while its indirect-branch predictor expects the last target of this jump.
#ifdef __x86_64__
#define MINIGRAD_OPERATION(name)                                                                           \
    __asm__(".text\n.p2align 4\n.globl " MINIGRAD_SYMBOL(#name) "\n" MINIGRAD_SYMBOL(#name) ":\n"          \
            "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"                           \
            "mov %rsp, %rdx\n"                                                                             \
            "sub $8, %rsp\n"                                                                               \
            "call " MINIGRAD_SYMBOL(#name) "_step\n"                                                       \
            "mov (%rax), %rsp\n"                                                                           \
            "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"                                 \
            "pop %rdx\njmp *%rdx\n");
#else
#define MINIGRAD_OPERATION(name)                                                                           \
    __asm__(".text\n.p2align 4\n.globl " MINIGRAD_SYMBOL(#name) "\n" MINIGRAD_SYMBOL(#name) ":\n"          \
            "sub sp, sp, #160\n"                                                                           \
            "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"                   \
            "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"                  \
            "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"                  \
            "stp d14, d15, [sp, #144]\n"                                                                   \
            "mov x2, sp\n"                                                                                 \
            "bl " MINIGRAD_SYMBOL(#name) "_step\n"                                                         \
            "ldr x9, [x0]\nmov sp, x9\n"                                                                   \
            "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"                   \
            "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"                  \
            "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"                  \
            "ldp d14, d15, [sp, #144]\n"                                                                   \
            "add sp, sp, #160\n"                                                                           \
            "br x30\n");
#endif

namespace minigrad {

inline const char* stack_of(const Context& context) { return static_cast<const char*>(context.sp); }

// Make a context that starts in `entry` at the first switch to it: its stack looks as if it had switched away there.
inline void prepare(Context& context, char* top, size_t, void (*entry)()) {
    void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(63));
#ifdef __x86_64__
    *--sp = nullptr;  // the return address of `entry`, which never returns
    *--sp = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
#else
    sp -= 20;
    for (int i = 0; i < 20; ++i) sp[i] = nullptr;
    sp[11] = reinterpret_cast<void*>(entry);  // x30
#endif
    context.sp = sp;
}

MINIGRAD_STEP(minigrad_switch, Context*, from, Context*, to) {
    from->sp = sp;
    return to;
}

}  // namespace minigrad

MINIGRAD_OPERATION(minigrad_switch)

#else  // any other processor: makecontext starts a context, and _longjmp goes to one that has started

#include <setjmp.h>
#include <ucontext.h>

namespace minigrad {

struct Context {
    jmp_buf state;
    bool begun;
    ucontext_t start;
};
constexpr bool ALL_ON_STACK = false;

inline void switch_to(Context& from, Context& to);

#define MINIGRAD_STEP(name, T, first, U, second)                                                           \
    static Context* name##_step(T first, U second, Context** from);                                        \
    extern "C" __attribute__((visibility("default"))) void name(T a, U b) {                                \
        Context* from;                                                                                     \
        Context* to = name##_step(a, b, &from);                                                            \
        if (to != from) switch_to(*from, *to);                                                             \
    }                                                                                                      \
    static Context* name##_step(T first, U second, Context** from)
#define MINIGRAD_SAVE(fiber) *from = &(fiber)->context
#define MINIGRAD_OPERATION(name)

inline void switch_to(Context& from, Context& to) {
    from.begun = true;
    if (_setjmp(from.state)) return;
    if (to.begun) _longjmp(to.state, 1);
    to.begun = true;
    setcontext(&to.start);
}

inline const char* stack_of(const Context& context) { return reinterpret_cast<const char*>(&context); }

inline void prepare(Context& context, char* top, size_t size, void (*entry)()) {
    getcontext(&context.start);
    context.start.uc_stack.ss_sp = top - size;
    context.start.uc_stack.ss_size = size;
    context.start.uc_link = nullptr;
    makecontext(&context.start, entry, 0);
    context.begun = false;
}

}  // namespace minigrad

#endif
