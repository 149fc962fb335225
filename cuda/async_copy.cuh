// Asynchronous copies from global to shared memory: they run while the threads compute.
#pragma once
#include "common.cuh"

// Starts to copy *from to *to, bypassing the registers; zeros if *from lies outside the array. GPUs before sm_80 have
// no such copy and copy at once. So does the simulator; where it watches, the copy arrives at the copy_wait.
template <class T>
__device__ void copy_async(T* to, const T* from, bool inside) {
#if __CUDA_ARCH__ >= 800
    constexpr int PIECE = sizeof(T) < 16 ? sizeof(T) : 16;  // 4, 8 or 16 bytes
    unsigned target = __cvta_generic_to_shared(to);
    int bytes = inside ? PIECE : 0;  // the hardware fills the rest with zeros
#pragma unroll
    for (int i = 0; i < sizeof(T); i += PIECE) {
        const char* source = reinterpret_cast<const char*>(from) + i;
        if constexpr (PIECE == 16) {  // cg: through L2 only, not L1
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target + i), "l"(source), "r"(bytes));
        } else {
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target + i), "l"(source), "n"(PIECE),
                         "r"(bytes));
        }
    }
#else
    *to = inside ? *from : T{};
#ifdef MINIGRAD_SIM
    MINIGRAD_NOTE_COPY(to, sizeof(T));
#endif
#endif
}

// Closes a group: the copies that this thread has started since the last one.
__device__ inline void copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#elif defined(MINIGRAD_SIM)
    MINIGRAD_NOTE_COMMIT();
#endif
}

// Waits until all but the last PENDING groups of this thread have arrived. A barrier must follow: only when each thread
// has waited are the copies of all of them complete.
template <int PENDING>
__device__ void copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#elif defined(MINIGRAD_SIM)
    MINIGRAD_NOTE_ARRIVAL(PENDING);
#endif
}
