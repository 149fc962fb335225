// A context switch: put the processor's state away on one stack and pick it up on another.
// Only the registers that a called function must preserve are saved, as the compiler has already saved the others at the
// call. The floating-point modes are left alone, as nothing here changes them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if !defined(MINIGRAD_PORTABLE) && (defined(__x86_64__) || defined(__aarch64__))

namespace minigrad {

struct Context {
    void* sp;  // all else lies on the stack, where the switch pushed it
};

}  // namespace minigrad

extern "C" __attribute__((visibility("hidden"))) void minigrad_switch(minigrad::Context* from, minigrad::Context* to);

#define MINIGRAD_TEXT(x) #x
#define MINIGRAD_SYMBOL_(prefix) MINIGRAD_TEXT(prefix) "minigrad_switch"
#define MINIGRAD_SYMBOL(prefix) MINIGRAD_SYMBOL_(prefix)
#ifdef __ELF__
__asm__(".hidden minigrad_switch\n");
#endif
__asm__(".text\n.p2align 4\n.globl " MINIGRAD_SYMBOL(__USER_LABEL_PREFIX__) "\n" MINIGRAD_SYMBOL(__USER_LABEL_PREFIX__) ":\n"
#ifdef __x86_64__
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov (%rsi), %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
        "ret\n"
#else
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nldr x9, [x1]\nmov sp, x9\n"
        "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\n"
        "ret\n"
#endif
);

namespace minigrad {

inline void switch_to(Context& from, Context& to) { minigrad_switch(&from, &to); }

// A context that begins in `entry` when it is first switched to: a stack that looks as if it had switched away there.
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

}  // namespace minigrad

#else  // any other processor: the C library begins a context with makecontext, and _longjmp switches between those begun

#include <setjmp.h>
#include <ucontext.h>

namespace minigrad {

struct Context {
    jmp_buf state;
    bool begun;
    ucontext_t start;
};

inline void switch_to(Context& from, Context& to) {
    from.begun = true;
    if (_setjmp(from.state)) return;
    if (to.begun) _longjmp(to.state, 1);
    to.begun = true;
    setcontext(&to.start);
}

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
