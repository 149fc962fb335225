// A barrier of several blocks, over a counter in global memory. A kernel that calls it is launched cooperatively: all its
// blocks run at once, as one without a place on the GPU would never arrive, and the others would wait for ever.
#pragma once

// All threads of `blocks` blocks meet, for the step-th time, from 1: what any of them has written before, all may read
// afterwards. The counter begins at 0 and only grows, to blocks x step: a barrier that set it back could do so before
// a slow block has seen it full. Each block calls this with all its threads.
//
// Each line is needed. Leave one out, and mg.inspect names the two accesses that are no longer in order.
__device__ inline void grid_barrier(unsigned* counter, unsigned blocks, unsigned step) {
    __syncthreads();  // the threads of the block have written: thread 0 speaks for all of them
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned target = blocks * step;
#ifdef MINIGRAD_SIM
        __threadfence();        // release: what the block has written is visible before its arrival is
        atomicAdd(counter, 1);  // arrive
        while (atomicAdd(counter, 0) < target) __nanosleep(0);  // wait, by an atomic: a plain read might stay in a register
        __threadfence();        // acquire: what is read from here on is not older, not left from an earlier step in L1
#else
        // The same with each fence as part of its access, which is faster.
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        unsigned arrived;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(counter) : "memory");
        } while (arrived < target);
#endif
    }
    __syncthreads();  // the other threads wait for thread 0
}
